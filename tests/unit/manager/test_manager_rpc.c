/* SPDX-License-Identifier: BSD-3-Clause */
/* The whole manager on a port of this host, with its LMDB store: real connections, one fake server, many
 * clients at once, restarts. */
#include <dirent.h>
#include <errno.h>
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
#include "lib/base/bytes.h"
#include "lib/manager/manager_peers.h"
#include "manager/manager.h"
#include "unit/group.h"

#define NR_THREADS 8
#define NR_ROUNDS  25

static char folder[] = "/tmp/afar-test-manager-XXXXXX";
static struct manager *manager;

/* ---- The manager */

static int start(const char *address)
{
	struct manager_options options = {
		.address = address,
		.folder = folder,
		.operators = &key,
		.nr_operators = 1,
		.servers = &join_key,
		.nr_servers = 1,
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
	fake_join();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_leave();
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
	fake_leave();
	fake_join();
	assert_int_equal(server.number, 1);
	client_disconnect(&client);
	assert_int_equal(client_connect(&client), 0); /* resumes */
	assert_int_equal(open_region(&client, ns, "r"), 0);
	assert_int_equal(alloc(&client, ns, "", 5 * MIB, &address), 0);
	assert_non_null(strstr(afar_last_error(), "3145728"));
	assert_true(alloc(&client, ns, "", 3 * MIB, &address) > generation);
	assert_int_equal(client_close(&client), 0);
}

/* Returns why. */
static int await_end(struct end *end)
{
	int status;

	pthread_mutex_lock(&end->lock);
	while (!end->is_closed)
		pthread_cond_wait(&end->changed, &end->lock);
	end->is_closed = false;
	status = end->status;
	pthread_mutex_unlock(&end->lock);
	return status;
}

/* From the operator's "add" to the last byte that the principal may send. */
static void test_life_of_a_key(void **state)
{
	static struct end end = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0};
	struct client admin = {0}, alice = {.end = &end};
	struct key alice_key = {.identity = "alice"}, other;
	uint64_t ns, address;

	(void)state;
	assert_int_equal(client_connect(&admin), 0);
	alice.key = &alice_key; /* not hers yet: 32 zeros */
	assert_true(client_connect(&alice) < 0);
	assert_int_equal(await_end(&end), -AFAR_EAUTH);
	client_disconnect(&alice);
	assert_int_equal(add_key(&admin, "alice", false, &alice_key), 0);
	assert_int_equal(client_connect(&alice), 0);
	assert_int_equal(add_key(&alice, "bob", false, &other), -EACCES);
	ns = create(&admin, "a");
	assert_int_equal(reserve(&admin, ns, 8 * MIB), 0);
	assert_int_equal(alloc(&alice, ns, "r", MIB, &address), 0);
	assert_int_equal(grant(&admin, ns, "alice", 3), 0);
	assert_true(alloc(&alice, ns, "r", MIB, &address) != 0);
	/* The right goes, and with it the session; the connection tells. */
	assert_int_equal(grant(&admin, ns, "alice", 1), 0);
	await_end(&end);
	client_disconnect(&alice);
	assert_int_equal(client_connect(&alice), -AFAR_ESESSION);
	client_disconnect(&alice);
	await_end(&end);
	assert_int_equal(client_connect(&alice), 0);
	assert_int_equal(open_region(&alice, ns, "r"), 0);
	/* Over a restart of the manager. */
	restart_manager();
	await_end(&end);
	client_disconnect(&alice);
	client_disconnect(&admin);
	fake_leave();
	fake_join();
	assert_int_equal(client_connect(&admin), 0);
	assert_int_equal(client_connect(&alice), 0);
	assert_int_equal(open_region(&alice, ns, "r"), 0);
	/* The key goes. */
	assert_int_equal(revoke_key(&admin, "alice"), 0);
	await_end(&end);
	client_disconnect(&alice);
	assert_true(client_connect(&alice) < 0);
	assert_int_equal(await_end(&end), -AFAR_EAUTH);
	client_disconnect(&alice);
	pthread_mutex_lock(&server.lock);
	while (server.nr_session_ends < 2)
		pthread_cond_wait(&server.changed, &server.lock);
	pthread_mutex_unlock(&server.lock);
	assert_int_equal(destroy(&admin, "a"), 0);
	assert_int_equal(client_close(&admin), 0);
}

static void test_life_of_a_join_key(void **state)
{
	struct client admin = {0}, thief = {0};
	struct key rack;

	(void)state;
	assert_int_equal(client_connect(&admin), 0);
	assert_int_equal(add_key(&admin, "rack", true, &rack), 0);
	fake_leave();
	server_key = &rack;
	fake_join();
	thief.key = &rack;
	assert_int_equal(client_connect(&thief), -EACCES);
	client_disconnect(&thief);
	assert_int_equal(revoke_key(&admin, "rack"), 0);
	pthread_mutex_lock(&server.lock);
	while (!server.is_closed)
		pthread_cond_wait(&server.changed, &server.lock);
	pthread_mutex_unlock(&server.lock);
	fake_leave();
	server_key = &join_key;
	fake_join();
	assert_int_equal(client_close(&admin), 0);
}

static void test_second_manager_is_refused(void **state)
{
	struct manager *second;
	struct manager_options options = {
		.address = "127.0.0.1:0", .folder = folder, .operators = &key, .nr_operators = 1};
	char other[] = "/tmp/afar-test-manager-other-XXXXXX", address[64], name[128];

	(void)state;
	assert_int_equal(manager_start(loop, &options, &second), -EBUSY);
	options.servers = &key;
	options.nr_servers = 1;
	assert_int_equal(manager_start(loop, &options, &second), -EINVAL);
	options.nr_servers = 0;
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
	fake_leave();
	fake_join();
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
	struct client client = {0}, other = {0};
	bool is_answered = false;
	uint64_t ns, address;

	(void)state;
	assert_int_equal(client_connect(&client), 0);
	assert_int_equal(client_connect(&other), 0);
	ns = create(&client, "a");
	server.does_hold = true;
	envelope.session = client.session;
	reserve_one.namespace_ = ns;
	reserve_one.bytes = 4 * MIB;
	assert_int_equal(rpc_send(client.connection, &envelope,
				  RPC_REQUEST(NAMESPACE_RESERVE, namespace_reserve, &reserve_one),
				  ignore_reply, &is_answered),
			 0);
	pthread_mutex_lock(&server.lock);
	while (server.held == NULL)
		pthread_cond_wait(&server.changed, &server.lock);
	pthread_mutex_unlock(&server.lock);
	client_disconnect(&client);
	/* The manager has seen it go when it lets the session be resumed and closes the old one. */
	assert_int_equal(client_connect(&client), 0);
	assert_int_equal(alloc(&other, ns, "", 1, &address), 0);
	fake_let_go();
	client.next_id = 99;
	assert_int_equal(reserve(&client, ns, 4 * MIB), 0); /* the same id: the same reservation */
	assert_int_equal(server.granted, 4 * MIB);
	assert_int_equal(client_close(&client), 0);
	assert_int_equal(client_close(&other), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

TEST_GROUP(manager_rpc)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_namespace_from_end_to_end),
		TEST(test_restart_keeps_everything),
		TEST(test_client_dies_in_a_reservation),
		TEST(test_second_manager_is_refused),
		TEST(test_life_of_a_key),
		TEST(test_life_of_a_join_key),
		TEST(test_many_clients_at_once),
		TEST(test_stop_under_load),
	};
	int failed;

	if (mkdtemp(folder) == NULL)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(folder);
	return failed;
}
