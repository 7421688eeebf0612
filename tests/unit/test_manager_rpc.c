/* SPDX-License-Identifier: BSD-3-Clause */
/* The whole manager on a port of this host, with its LMDB store: real connections, one fake server, many
 * clients at once, restarts. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <afar/afar.h>

#include "base/clock.h"
#include "base/error.h"
#include "manager/manager.h"

#define MIB	   ((uint64_t)1 << 20)
#define NR_THREADS 8
#define NR_ROUNDS  25

static char folder[] = "/tmp/afar-test-manager-XXXXXX";
static struct key key = {.identity = "admin", .secret = {1, 2, 3}};
static struct rpc_loop *loop;
static struct manager *manager;
static uint16_t port;

/* ---- A fake server: grants what it is asked for */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct rpc_connection *connection;
	bool is_open, is_closed;
	uint64_t number, incarnation, next_extent, granted;
	uint64_t lengths[4096]; /* by the extent's number; 0: not granted */
	uint64_t namespaces[4096];
	unsigned nr_session_ends;
	bool does_hold;	       /* keeps a reservation for server_let_go() */
	struct rpc_call *held; /* with the bytes and the namespace asked for */
	uint64_t held_bytes, held_namespace;
} server = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void server_grant(const Afar__ExtentsReserve *ask, struct rpc_call *call)
{
	Afar__Reply reply = AFAR__REPLY__INIT;
	Afar__Extents extents = AFAR__EXTENTS__INIT;
	Afar__Extent extent = AFAR__EXTENT__INIT, *pointer = &extent;

	pthread_mutex_lock(&server.lock);
	extent.extent = ++server.next_extent;
	extent.namespace_ = ask->namespace_;
	extent.length = ask->bytes;
	server.lengths[extent.extent] = ask->bytes;
	server.namespaces[extent.extent] = ask->namespace_;
	server.granted += ask->bytes;
	pthread_mutex_unlock(&server.lock);
	extents.extents = &pointer;
	extents.n_extents = 1;
	reply.extents = &extents;
	reply.result_case = AFAR__REPLY__RESULT_EXTENTS;
	rpc_reply(call, server.incarnation, &reply);
}

static bool server_hold(const Afar__Request *request, struct rpc_call *call)
{
	bool is_held;

	pthread_mutex_lock(&server.lock);
	is_held = server.does_hold;
	if (is_held) {
		server.held = call;
		server.held_bytes = request->extents_reserve->bytes;
		server.held_namespace = request->extents_reserve->namespace_;
		pthread_cond_broadcast(&server.changed);
	}
	pthread_mutex_unlock(&server.lock);
	return is_held;
}

static void server_let_go(void)
{
	Afar__ExtentsReserve ask = AFAR__EXTENTS_RESERVE__INIT;
	struct rpc_call *call;

	pthread_mutex_lock(&server.lock);
	server.does_hold = false;
	call = server.held;
	server.held = NULL;
	ask.bytes = server.held_bytes;
	ask.namespace_ = server.held_namespace;
	pthread_mutex_unlock(&server.lock);
	server_grant(&ask, call);
}

static void server_request(struct rpc_connection *connection, const Afar__Frame *frame,
			   struct rpc_call *call)
{
	const Afar__Request *request = frame->request;

	(void)connection;
	if (request->call_case == AFAR__REQUEST__CALL_EXTENTS_RESERVE && server_hold(request, call))
		return;
	if (request->call_case == AFAR__REQUEST__CALL_EXTENTS_RESERVE) {
		server_grant(request->extents_reserve, call);
		return;
	}
	pthread_mutex_lock(&server.lock);
	if (request->call_case == AFAR__REQUEST__CALL_EXTENTS_RELEASE) {
		for (size_t i = 0; i < request->extents_release->n_extents; i++) {
			uint64_t number = request->extents_release->extents[i];

			server.granted -= server.lengths[number];
			server.lengths[number] = 0;
		}
	}
	if (request->call_case == AFAR__REQUEST__CALL_SESSION_END)
		server.nr_session_ends++;
	pthread_cond_broadcast(&server.changed);
	pthread_mutex_unlock(&server.lock);
	rpc_reply_status(call, server.incarnation, 0);
}

static void server_opened(struct rpc_connection *connection)
{
	(void)connection;
	pthread_mutex_lock(&server.lock);
	server.is_open = true;
	pthread_cond_broadcast(&server.changed);
	pthread_mutex_unlock(&server.lock);
}

static void server_closed(struct rpc_connection *connection, int status)
{
	(void)connection;
	(void)status;
	pthread_mutex_lock(&server.lock);
	server.is_closed = true;
	pthread_cond_broadcast(&server.changed);
	pthread_mutex_unlock(&server.lock);
}

static void server_leave(void)
{
	if (server.connection == NULL)
		return;
	rpc_connection_close(server.connection);
	pthread_mutex_lock(&server.lock);
	while (!server.is_closed)
		pthread_cond_wait(&server.changed, &server.lock);
	pthread_mutex_unlock(&server.lock);
	rpc_connection_unref(server.connection);
	server.connection = NULL;
}

static void server_join(void)
{
	static const struct rpc_handlers handlers = {
		.request = server_request,
		.opened = server_opened,
		.closed = server_closed,
	};
	struct rpc_envelope envelope = {.deadline = clock_deadline_ms(10000)};
	Afar__Request request = AFAR__REQUEST__INIT;
	Afar__ServerJoin join = AFAR__SERVER_JOIN__INIT;
	Afar__Server self = AFAR__SERVER__INIT;
	Afar__Lane lane = AFAR__LANE__INIT, *lanes = &lane;
	Afar__Extent extents[64], *pointers[64];
	Afar__Frame *frame;

	server.is_open = server.is_closed = false;
	assert_int_equal(
		rpc_connect(loop, "127.0.0.1", port, &key, &handlers, NULL, &server.connection), 0);
	request.call_case = AFAR__REQUEST__CALL_SERVER_JOIN;
	request.server_join = &join;
	join.self = &self;
	join.capacity_bytes = 1024 * MIB;
	self.server = server.number;
	self.incarnation = server.incarnation;
	self.name = (char *)"fake";
	self.control_address = (char *)"127.0.0.1:1";
	self.lanes = &lanes;
	self.n_lanes = 1;
	lane.transport = (char *)"tcp";
	lane.address = (char *)"127.0.0.1:2";
	for (uint64_t i = 1; i <= server.next_extent && join.n_extents < 64; i++) {
		if (server.lengths[i] == 0)
			continue;
		afar__extent__init(&extents[join.n_extents]);
		extents[join.n_extents].extent = i;
		extents[join.n_extents].namespace_ = server.namespaces[i];
		extents[join.n_extents].length = server.lengths[i];
		pointers[join.n_extents] = &extents[join.n_extents];
		join.n_extents++;
	}
	join.extents = pointers;
	assert_int_equal(rpc_call(server.connection, &envelope, &request, &frame), 0);
	server.number = frame->reply->server_joined->server;
	assert_int_equal(frame->reply->server_joined->n_release, 0);
	afar__frame__free_unpacked(frame, NULL);
}

/* ---- Clients */

struct client {
	struct rpc_connection *connection;
	uint64_t session;
	uint8_t secret[16];
	uint64_t next_id;
};

static Afar__Reply *ask(struct client *client, Afar__Request *request, Afar__Frame **frame)
{
	struct rpc_envelope envelope = {.request_id = ++client->next_id,
					.session = client->session,
					.settled_below = client->next_id,
					.deadline = clock_deadline_ms(20000)};

	*frame = NULL;
	if (rpc_call(client->connection, &envelope, request, frame) < 0)
		return NULL;
	return (*frame)->reply;
}

static int simple(struct client *client, Afar__Request *request)
{
	struct rpc_envelope envelope = {.request_id = ++client->next_id,
					.session = client->session,
					.settled_below = client->next_id,
					.deadline = clock_deadline_ms(20000)};

	return rpc_call(client->connection, &envelope, request, NULL);
}

static int client_connect(struct client *client)
{
	static const struct rpc_handlers handlers = {0};
	Afar__Request request = AFAR__REQUEST__INIT;
	Afar__SessionOpen open = AFAR__SESSION_OPEN__INIT;
	uint64_t session = client->session;
	Afar__Frame *frame;
	int rc = rpc_connect(loop, "127.0.0.1", port, &key, &handlers, NULL, &client->connection);

	if (rc < 0)
		return rc;
	request.call_case = AFAR__REQUEST__CALL_SESSION_OPEN;
	request.session_open = &open;
	open.resume = session;
	open.secret = (ProtobufCBinaryData){sizeof(client->secret), client->secret};
	client->session = 0;
	if (ask(client, &request, &frame) == NULL)
		return -1;
	client->session = frame->reply->session_opened->session;
	memcpy(client->secret, frame->reply->session_opened->secret.data, 16);
	afar__frame__free_unpacked(frame, NULL);
	return 0;
}

static void client_disconnect(struct client *client)
{
	rpc_connection_close(client->connection);
	rpc_connection_unref(client->connection);
	client->connection = NULL;
}

static int client_close(struct client *client)
{
	Afar__Request request = AFAR__REQUEST__INIT;
	Afar__SessionClose close = AFAR__SESSION_CLOSE__INIT;
	int rc;

	request.call_case = AFAR__REQUEST__CALL_SESSION_CLOSE;
	request.session_close = &close;
	rc = simple(client, &request);
	client_disconnect(client);
	return rc;
}

static uint64_t create(struct client *client, const char *name)
{
	Afar__Request request = AFAR__REQUEST__INIT;
	Afar__NamespaceCreate create = AFAR__NAMESPACE_CREATE__INIT;
	Afar__Frame *frame;
	uint64_t number = 0;

	request.call_case = AFAR__REQUEST__CALL_NAMESPACE_CREATE;
	request.namespace_create = &create;
	create.name = (char *)(uintptr_t)name;
	if (ask(client, &request, &frame) != NULL)
		number = frame->reply->namespace_info->namespace_;
	if (frame != NULL)
		afar__frame__free_unpacked(frame, NULL);
	return number;
}

static int destroy(struct client *client, const char *name)
{
	Afar__Request request = AFAR__REQUEST__INIT;
	Afar__NamespaceDelete delete = AFAR__NAMESPACE_DELETE__INIT;

	request.call_case = AFAR__REQUEST__CALL_NAMESPACE_DELETE;
	request.namespace_delete = &delete;
	delete.name = (char *)(uintptr_t)name;
	delete.with_regions = true;
	return simple(client, &request);
}

static int reserve(struct client *client, uint64_t ns, uint64_t bytes)
{
	Afar__Request request = AFAR__REQUEST__INIT;
	Afar__NamespaceReserve reserve = AFAR__NAMESPACE_RESERVE__INIT;

	request.call_case = AFAR__REQUEST__CALL_NAMESPACE_RESERVE;
	request.namespace_reserve = &reserve;
	reserve.namespace_ = ns;
	reserve.bytes = bytes;
	return simple(client, &request);
}

/* Returns the generation, 0 for a failure. */
static uint64_t alloc(struct client *client, uint64_t ns, const char *name, uint64_t bytes,
		      uint64_t *address)
{
	Afar__Request request = AFAR__REQUEST__INIT;
	Afar__RegionAlloc alloc = AFAR__REGION_ALLOC__INIT;
	Afar__Frame *frame;
	uint64_t generation = 0;

	request.call_case = AFAR__REQUEST__CALL_REGION_ALLOC;
	request.region_alloc = &alloc;
	alloc.namespace_ = ns;
	alloc.name = (char *)(uintptr_t)name;
	alloc.bytes = bytes;
	if (ask(client, &request, &frame) != NULL) {
		generation = frame->reply->region_info->generation;
		*address = frame->reply->region_info->address;
	}
	if (frame != NULL)
		afar__frame__free_unpacked(frame, NULL);
	return generation;
}

static int free_region(struct client *client, uint64_t ns, uint64_t address, uint64_t generation)
{
	Afar__Request request = AFAR__REQUEST__INIT;
	Afar__RegionFree free_one = AFAR__REGION_FREE__INIT;

	request.call_case = AFAR__REQUEST__CALL_REGION_FREE;
	request.region_free = &free_one;
	free_one.namespace_ = ns;
	free_one.address = address;
	free_one.generation = generation;
	return simple(client, &request);
}

static int open_region(struct client *client, uint64_t ns, const char *name)
{
	Afar__Request request = AFAR__REQUEST__INIT;
	Afar__RegionOpen open = AFAR__REGION_OPEN__INIT;

	request.call_case = AFAR__REQUEST__CALL_REGION_OPEN;
	request.region_open = &open;
	open.namespace_ = ns;
	open.name = (char *)(uintptr_t)name;
	return simple(client, &request);
}

/* ---- The manager */

static int start(const char *address)
{
	struct manager_options options = {
		.address = address,
		.folder = folder,
		.keys = &key,
		.nr_keys = 1,
		.lease_ms = 300000,
		.store_bytes_max = 64 * MIB,
	};
	int rc = manager_start(loop, &options, &manager);

	if (rc == 0)
		port = (uint16_t)atoi(strrchr(manager_address(manager), ':') + 1);
	return rc;
}

static void remove_files(void)
{
	DIR *directory = opendir(folder);
	struct dirent *entry;
	char name[512];

	while (directory != NULL && (entry = readdir(directory)) != NULL) {
		snprintf(name, sizeof(name), "%s/%s", folder, entry->d_name);
		unlink(name);
	}
	if (directory != NULL)
		closedir(directory);
}

static int setup(void **state)
{
	(void)state;
	server.number = server.next_extent = server.granted = 0;
	server.incarnation = 4711;
	server.nr_session_ends = 0;
	memset(server.lengths, 0, sizeof(server.lengths));
	if (rpc_loop_start("test", &loop) < 0 || start("127.0.0.1:0") < 0)
		return -1;
	server_join();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	server_leave();
	manager_stop(manager);
	rpc_loop_stop(loop);
	remove_files();
	return 0;
}

static void restart_manager(void)
{
	manager_stop(manager);
	assert_int_equal(start("127.0.0.1:0"), 0);
}

/* ---- Tests */

static void test_a_namespace_from_end_to_end(void **state)
{
	struct client client = {0};
	uint64_t ns, address, generation;

	(void)state;
	assert_int_equal(client_connect(&client), 0);
	ns = create(&client, "a");
	assert_true(ns != 0);
	assert_int_equal(create(&client, "a"), 0);
	assert_non_null(strstr(afar_last_error(), "it exists"));
	assert_int_equal(reserve(&client, ns, 8 * MIB), 0);
	assert_int_equal(server.granted, 8 * MIB);
	generation = alloc(&client, ns, "r", 8 * MIB, &address);
	assert_true(generation != 0);
	assert_int_equal(open_region(&client, ns, "r"), 0);
	assert_int_equal(free_region(&client, ns, address, generation), 0);
	assert_int_equal(free_region(&client, ns, address, generation), -AFAR_EFREED);
	assert_int_equal(destroy(&client, "a"), -EBUSY);
	/* Its end drops what it has open. */
	assert_int_equal(client_close(&client), 0);
	pthread_mutex_lock(&server.lock);
	while (server.nr_session_ends == 0)
		pthread_cond_wait(&server.changed, &server.lock);
	pthread_mutex_unlock(&server.lock);
	client = (struct client){0};
	assert_int_equal(client_connect(&client), 0);
	assert_int_equal(destroy(&client, "a"), 0);
	pthread_mutex_lock(&server.lock);
	while (server.granted != 0)
		pthread_cond_wait(&server.changed, &server.lock);
	pthread_mutex_unlock(&server.lock);
	assert_int_equal(client_close(&client), 0);
}

static void test_restart_keeps_everything(void **state)
{
	struct client client = {0};
	uint64_t ns, address, generation;

	(void)state;
	assert_int_equal(client_connect(&client), 0);
	ns = create(&client, "a");
	assert_int_equal(reserve(&client, ns, 8 * MIB), 0);
	generation = alloc(&client, ns, "r", 5 * MIB, &address);
	restart_manager();
	server_leave();
	server_join();
	assert_int_equal(server.number, 1);
	client_disconnect(&client);
	assert_int_equal(client_connect(&client), 0); /* resumes */
	assert_int_equal(open_region(&client, ns, "r"), 0);
	assert_int_equal(alloc(&client, ns, "", 5 * MIB, &address), 0);
	assert_non_null(strstr(afar_last_error(), "3145728"));
	assert_true(alloc(&client, ns, "", 3 * MIB, &address) > generation);
	assert_int_equal(client_close(&client), 0);
}

static void test_second_manager_is_refused(void **state)
{
	struct manager *second;
	struct manager_options options = {
		.address = "127.0.0.1:0", .folder = folder, .keys = &key, .nr_keys = 1};
	char other[] = "/tmp/afar-test-manager-other-XXXXXX", address[64], name[128];

	(void)state;
	assert_int_equal(manager_start(loop, &options, &second), -EBUSY);
	assert_non_null(mkdtemp(other));
	snprintf(address, sizeof(address), "127.0.0.1:%u", port);
	options.address = address;
	options.folder = other;
	assert_int_equal(manager_start(loop, &options, &second), -EADDRINUSE);
	snprintf(name, sizeof(name), "rm -r %s", other);
	assert_int_equal(system(name), 0);
}

static void *live(void *argument)
{
	struct client client = {0};
	uint64_t ns = *(uint64_t *)argument, address, generation;
	intptr_t failed = client_connect(&client) != 0;

	for (int i = 0; i < NR_ROUNDS && !failed; i++) {
		generation = alloc(&client, ns, "", 300000, &address);
		failed = generation == 0 || free_region(&client, ns, address, generation) != 0;
		/* Some leave their connection, some close; what they hold is dropped in the end. */
		if (i % 10 == 9) {
			client_disconnect(&client);
			failed |= client_connect(&client) != 0;
		}
	}
	failed |= client_close(&client) != 0;
	return (void *)failed;
}

static void test_many_clients_at_once(void **state)
{
	struct client client = {0};
	pthread_t threads[NR_THREADS];
	void *failed;
	uint64_t ns;

	(void)state;
	assert_int_equal(client_connect(&client), 0);
	ns = create(&client, "a");
	assert_int_equal(reserve(&client, ns, 128 * MIB), 0);
	for (size_t i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, live, &ns), 0);
	for (size_t i = 0; i < NR_THREADS; i++) {
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	pthread_mutex_lock(&server.lock);
	while (server.nr_session_ends < NR_THREADS)
		pthread_cond_wait(&server.changed, &server.lock);
	pthread_mutex_unlock(&server.lock);
	assert_int_equal(destroy(&client, "a"), 0);
	assert_int_equal(client_close(&client), 0);
}

/* Stops while calls come in: each is answered or its connection ends; nothing hangs or leaks. */
static void *hammer(void *argument)
{
	struct client client = {0};
	uint64_t address;

	(void)argument;
	if (client_connect(&client) != 0) {
		if (client.connection != NULL)
			client_disconnect(&client);
		return NULL;
	}
	while (alloc(&client, 1, "", 4096, &address) != 0)
		;
	client_disconnect(&client);
	return NULL;
}

static void test_stop_under_load(void **state)
{
	struct client client = {0};
	pthread_t threads[NR_THREADS];
	uint64_t ns;

	(void)state;
	assert_int_equal(client_connect(&client), 0);
	ns = create(&client, "a");
	assert_int_equal(ns, 1);
	assert_int_equal(reserve(&client, ns, 512 * MIB), 0);
	for (size_t i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hammer, NULL), 0);
	for (int i = 0; i < 20; i++) {
		uint64_t address;

		assert_true(alloc(&client, ns, "", 4096, &address) != 0);
	}
	restart_manager();
	for (size_t i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	client_disconnect(&client);
	server_leave();
	server_join();
	assert_int_equal(server.granted, 512 * MIB);
}

static void ignore_reply(void *argument, const Afar__Frame *reply, int status)
{
	(void)reply;
	(void)status;
	*(bool *)argument = true;
}

/* A client that dies in the middle of a reservation: its connection is long gone when the servers have
 * answered. The reservation is done, for its session may come back and ask for it. */
static void test_client_dies_in_a_reservation(void **state)
{
	struct rpc_envelope envelope = {.request_id = 100, .deadline = CLOCK_NEVER};
	Afar__NamespaceReserve reserve_one = AFAR__NAMESPACE_RESERVE__INIT;
	Afar__Request request = AFAR__REQUEST__INIT;
	struct client client = {0}, other = {0};
	bool is_answered = false;
	uint64_t ns, address;

	(void)state;
	assert_int_equal(client_connect(&client), 0);
	assert_int_equal(client_connect(&other), 0);
	ns = create(&client, "a");
	server.does_hold = true;
	envelope.session = client.session;
	request.call_case = AFAR__REQUEST__CALL_NAMESPACE_RESERVE;
	request.namespace_reserve = &reserve_one;
	reserve_one.namespace_ = ns;
	reserve_one.bytes = 4 * MIB;
	assert_int_equal(
		rpc_send(client.connection, &envelope, &request, ignore_reply, &is_answered), 0);
	pthread_mutex_lock(&server.lock);
	while (server.held == NULL)
		pthread_cond_wait(&server.changed, &server.lock);
	pthread_mutex_unlock(&server.lock);
	client_disconnect(&client);
	/* The manager has seen it go when it lets the session be resumed and closes the old one. */
	assert_int_equal(client_connect(&client), 0);
	assert_int_equal(alloc(&other, ns, "", 1, &address), 0);
	server_let_go();
	client.next_id = 99;
	assert_int_equal(reserve(&client, ns, 4 * MIB), 0); /* the same id: the same reservation */
	assert_int_equal(server.granted, 4 * MIB);
	assert_int_equal(client_close(&client), 0);
	assert_int_equal(client_close(&other), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_namespace_from_end_to_end),	 TEST(test_restart_keeps_everything),
		TEST(test_client_dies_in_a_reservation), TEST(test_second_manager_is_refused),
		TEST(test_many_clients_at_once),	 TEST(test_stop_under_load),
	};
	int failed;

	if (mkdtemp(folder) == NULL)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(folder);
	return failed;
}
