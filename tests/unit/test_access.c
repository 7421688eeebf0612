/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a client gets at a server: what it shows there, what it keeps, and when it asks the manager anew.
 * Manager and server are fakes in this process, which do what a test tells them and count what they are
 * asked. Nobody listens at the server's data address, so a connect ends with -AFAR_ESERVER once the
 * client has keys and a ticket.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/region.h"

#define SESSION	      9
#define SERVER	      4
#define ADDRESS	      0x1000
#define EXTENTS_MAX   8
#define LIFETIME_MS   60000
#define CHUNK	      ((uint64_t)1 << 20)
#define DATA_NOWHERE  "127.0.0.1:1"
#define EXTENT_LENGTH (8 * CHUNK)

static const uint64_t chunk_extents[] = {5, 3, 5, 9};
#define NR_CHUNKS (sizeof(chunk_extents) / sizeof(chunk_extents[0]))

/* How the fakes behave. */
struct behaviour {
	uint32_t rights;
	uint64_t incarnation; /* of the server, as the manager knows it */
	uint32_t lifetime_ms;
	uint8_t pass; /* the manager gives, and the server knows: a digit of its identity */
	uint8_t known_pass;
	bool is_lost;		/* a server of the region has restarted, says the manager */
	bool has_no_access;	/* the server is not connected to the manager */
	unsigned refuse_grants; /* so many, with -EACCES */
	bool hang_up; /* the server closes the connection instead of giving the next ticket */
	uint64_t first_key;
	uint64_t namespace;
};

static struct {
	struct rpc_loop *loop;
	struct rpc_listener *manager, *server;
	char folder[64], key_file[96], uri[256];

	pthread_mutex_t lock; /* guards the rest */
	struct behaviour is;
	struct behaviour anew; /* what it is once RegionAccess was called, if `is_anew` */
	bool is_anew;
	unsigned nr_opens, nr_accesses, nr_grants, nr_tickets, nr_connections;
	uint64_t granted[EXTENTS_MAX];
	size_t nr_granted;
	uint8_t shown_capability;
	uint64_t shown_session;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct afar_session *session;
static struct afar_namespace *ns;

/* ---- The manager */

static bool find_client(void *context, const char *identity, uint8_t secret[KEY_BYTES])
{
	(void)context;
	memset(secret, 0x11, KEY_BYTES);
	return strcmp(identity, "alice") == 0;
}

struct access_message {
	Afar__Access access;
	char identity[16];
	uint8_t key[KEY_BYTES];
	uint8_t capability[sizeof(struct rpc_capability)];
	Afar__Access *list[1];
};

static size_t make_access(struct access_message *message)
{
	afar__access__init(&message->access);
	snprintf(message->identity, sizeof(message->identity), "pass/%u", fake.is.pass);
	memset(message->key, fake.is.pass, sizeof(message->key));
	memset(message->capability, fake.is.pass, sizeof(message->capability));
	message->access.server = SERVER;
	message->access.incarnation = fake.is.incarnation;
	message->access.pass = message->identity;
	message->access.pass_key.data = message->key;
	message->access.pass_key.len = sizeof(message->key);
	message->access.capability.data = message->capability;
	message->access.capability.len = sizeof(message->capability);
	message->access.lifetime_ms = fake.is.lifetime_ms;
	message->list[0] = &message->access;
	return fake.is.has_no_access ? 0 : 1;
}

static void reply_region(struct rpc_call *call)
{
	Afar__Lane lane = AFAR__LANE__INIT, *lanes[] = {&lane};
	Afar__Server server = AFAR__SERVER__INIT, *servers[] = {&server};
	Afar__Chunk chunks[NR_CHUNKS], *chunk_lists[NR_CHUNKS];
	Afar__Group groups[NR_CHUNKS], *group_list[NR_CHUNKS];
	Afar__Layout layout = AFAR__LAYOUT__INIT;
	Afar__RegionInfo info = AFAR__REGION_INFO__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;
	struct access_message access;

	lane.transport = (char *)"tcp";
	lane.address = (char *)DATA_NOWHERE;
	server.server = SERVER;
	server.name = (char *)"fake";
	server.incarnation = fake.is.incarnation;
	server.control_address = (char *)rpc_listener_address(fake.server);
	server.lanes = lanes;
	server.n_lanes = 1;
	for (size_t i = 0; i < NR_CHUNKS; i++) {
		afar__chunk__init(&chunks[i]);
		chunks[i].server = SERVER;
		chunks[i].extent = chunk_extents[i];
		chunks[i].offset = i * CHUNK;
		chunks[i].length = CHUNK;
		chunk_lists[i] = &chunks[i];
		afar__group__init(&groups[i]);
		groups[i].length = CHUNK;
		groups[i].stripe_bytes = 4096;
		groups[i].chunks = &chunk_lists[i];
		groups[i].n_chunks = 1;
		group_list[i] = &groups[i];
	}
	layout.groups = group_list;
	layout.n_groups = NR_CHUNKS;
	layout.servers = servers;
	layout.n_servers = 1;
	layout.n_accesses = make_access(&access);
	layout.accesses = access.list;
	info.namespace_ = fake.is.namespace;
	info.address = ADDRESS;
	info.length = NR_CHUNKS * CHUNK;
	info.generation = ++fake.nr_opens;
	info.rights = fake.is.rights;
	info.layout = &layout;
	reply.result_case = AFAR__REPLY__RESULT_REGION_INFO;
	reply.region_info = &info;
	rpc_reply(call, 1, &reply);
}

static void reply_accesses(struct rpc_call *call)
{
	struct access_message access;
	Afar__Accesses accesses = AFAR__ACCESSES__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;

	fake.nr_accesses++;
	if (fake.is_anew)
		fake.is = fake.anew;
	accesses.n_entries = make_access(&access);
	accesses.entries = access.list;
	reply.result_case = AFAR__REPLY__RESULT_ACCESSES;
	reply.accesses = &accesses;
	rpc_reply(call, 1, &reply);
}

static void reply_list(struct rpc_call *call)
{
	Afar__RegionInfo info = AFAR__REGION_INFO__INIT, *list[] = {&info};
	Afar__RegionInfos infos = AFAR__REGION_INFOS__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;

	info.address = ADDRESS;
	info.generation = fake.nr_opens;
	info.is_lost = fake.is.is_lost;
	infos.entries = list;
	infos.n_entries = 1;
	reply.result_case = AFAR__REPLY__RESULT_REGION_INFOS;
	reply.region_infos = &infos;
	rpc_reply(call, 1, &reply);
}

static void reply_opened(struct rpc_call *call)
{
	uint8_t secret[16] = {1};
	Afar__SessionOpened opened = AFAR__SESSION_OPENED__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;

	opened.session = SESSION;
	opened.secret.data = secret;
	opened.secret.len = sizeof(secret);
	opened.principal = (char *)"alice";
	reply.result_case = AFAR__REPLY__RESULT_SESSION_OPENED;
	reply.session_opened = &opened;
	rpc_reply(call, 1, &reply);
}

static void reply_namespace(struct rpc_call *call)
{
	Afar__NamespaceInfo info = AFAR__NAMESPACE_INFO__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;

	info.namespace_ = fake.is.namespace;
	info.name = (char *)"ns";
	reply.result_case = AFAR__REPLY__RESULT_NAMESPACE_INFO;
	reply.namespace_info = &info;
	rpc_reply(call, 1, &reply);
}

static void ask_manager(struct rpc_connection *connection, const Afar__Frame *frame,
			struct rpc_call *call)
{
	(void)connection;
	pthread_mutex_lock(&fake.lock);
	switch (frame->request->call_case) {
	case AFAR__REQUEST__CALL_SESSION_OPEN:
		reply_opened(call);
		break;
	case AFAR__REQUEST__CALL_NAMESPACE_OPEN:
		reply_namespace(call);
		break;
	case AFAR__REQUEST__CALL_REGION_OPEN:
		reply_region(call);
		break;
	case AFAR__REQUEST__CALL_REGION_ACCESS:
		reply_accesses(call);
		break;
	case AFAR__REQUEST__CALL_REGION_LIST:
		reply_list(call);
		break;
	default:
		rpc_reply_status(call, 1, 0);
	}
	pthread_mutex_unlock(&fake.lock);
}

/* ---- The server */

static bool find_pass(void *context, const char *identity, uint8_t secret[KEY_BYTES])
{
	char known[16];

	(void)context;
	pthread_mutex_lock(&fake.lock);
	snprintf(known, sizeof(known), "pass/%u", fake.is.known_pass);
	memset(secret, fake.is.known_pass, KEY_BYTES);
	pthread_mutex_unlock(&fake.lock);
	return strcmp(identity, known) == 0;
}

static void count_connection(struct rpc_connection *connection)
{
	(void)connection;
	pthread_mutex_lock(&fake.lock);
	fake.nr_connections++;
	pthread_mutex_unlock(&fake.lock);
}

static void reply_keys(const Afar__Grant *grant, struct rpc_call *call)
{
	Afar__Key keys[EXTENTS_MAX], *list[EXTENTS_MAX];
	Afar__Keys message = AFAR__KEYS__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;

	fake.nr_grants++;
	fake.shown_session = grant->session;
	fake.shown_capability = grant->capability.len == sizeof(struct rpc_capability)
					? grant->capability.data[0]
					: 0;
	fake.nr_granted = grant->n_extents < EXTENTS_MAX ? grant->n_extents : EXTENTS_MAX;
	for (size_t i = 0; i < fake.nr_granted; i++) {
		fake.granted[i] = grant->extents[i];
		afar__key__init(&keys[i]);
		keys[i].extent = grant->extents[i];
		keys[i].length = EXTENT_LENGTH;
		keys[i].transport = (char *)"tcp";
		keys[i].key = fake.is.first_key + grant->extents[i];
		list[i] = &keys[i];
	}
	if (fake.is.refuse_grants) {
		fake.is.refuse_grants--;
		reply.status = -EACCES;
		reply.message = (char *)"get keys: the capability has expired";
	} else {
		message.keys = list;
		message.n_keys = fake.nr_granted;
		message.incarnation = fake.is.incarnation;
		reply.result_case = AFAR__REPLY__RESULT_KEYS;
		reply.keys = &message;
	}
	rpc_reply(call, 1, &reply);
}

static void reply_ticket(struct rpc_connection *connection, struct rpc_call *call)
{
	uint8_t bytes[sizeof(struct rpc_ticket)] = {0};
	Afar__Ticket ticket = AFAR__TICKET__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;

	if (fake.is.hang_up) {
		fake.is.hang_up = false;
		rpc_connection_close(connection);
	} else {
		fake.nr_tickets++;
	}
	ticket.ticket.data = bytes;
	ticket.ticket.len = sizeof(bytes);
	ticket.incarnation = fake.is.incarnation;
	reply.result_case = AFAR__REPLY__RESULT_TICKET;
	reply.ticket = &ticket;
	rpc_reply(call, 1, &reply);
}

static void ask_server(struct rpc_connection *connection, const Afar__Frame *frame,
		       struct rpc_call *call)
{
	pthread_mutex_lock(&fake.lock);
	if (frame->request->call_case == AFAR__REQUEST__CALL_GRANT)
		reply_keys(frame->request->grant, call);
	else if (frame->request->call_case == AFAR__REQUEST__CALL_CONNECT)
		reply_ticket(connection, call);
	else
		rpc_reply_status(call, 1, -EOPNOTSUPP);
	pthread_mutex_unlock(&fake.lock);
}

/* ---- The scene */

static const struct behaviour usual = {
	.rights = RIGHT_ALL,
	.incarnation = 1,
	.lifetime_ms = LIFETIME_MS,
	.pass = 1,
	.known_pass = 1,
	.first_key = 100,
	.namespace = 1,
};

static void write_key(void)
{
	FILE *file;

	strcpy(fake.folder, "/tmp/test_access.XXXXXX");
	assert_non_null(mkdtemp(fake.folder));
	snprintf(fake.key_file, sizeof(fake.key_file), "%s/key", fake.folder);
	umask(077);
	file = fopen(fake.key_file, "w");
	assert_non_null(file);
	fputs("alice:", file);
	for (int i = 0; i < KEY_BYTES; i++)
		fputs("11", file);
	fputs("\n", file);
	fclose(file);
}

static int start_fakes(void **state)
{
	static const struct rpc_handlers manager = {.request = ask_manager};
	static const struct rpc_handlers server = {.request = ask_server,
						   .opened = count_connection};
	static const struct rpc_keyring clients = {.find = find_client};
	static const struct rpc_keyring passes = {.find = find_pass};

	(void)state;
	write_key();
	assert_int_equal(rpc_loop_start("fakes", &fake.loop), 0);
	assert_int_equal(
		rpc_listen(fake.loop, "127.0.0.1:0", &clients, &manager, NULL, &fake.manager), 0);
	assert_int_equal(rpc_listen(fake.loop, "127.0.0.1:0", &passes, &server, NULL, &fake.server),
			 0);
	snprintf(fake.uri, sizeof(fake.uri), "afar://%s?key=%s", rpc_listener_address(fake.manager),
		 fake.key_file);
	return 0;
}

static int stop_fakes(void **state)
{
	(void)state;
	rpc_listener_close(fake.manager);
	rpc_listener_close(fake.server);
	rpc_loop_stop(fake.loop);
	unlink(fake.key_file);
	rmdir(fake.folder);
	return 0;
}

static int open_session(void **state)
{
	(void)state;
	pthread_mutex_lock(&fake.lock);
	fake.is = usual;
	fake.is_anew = false;
	fake.nr_accesses = fake.nr_grants = fake.nr_tickets = fake.nr_connections = 0;
	pthread_mutex_unlock(&fake.lock);
	assert_int_equal(afar_session_open(fake.uri, NULL, &session), 0);
	assert_int_equal(afar_namespace_open(session, "ns", &ns), 0);
	return 0;
}

static int close_session(void **state)
{
	(void)state;
	assert_int_equal(afar_namespace_close(ns), 0);
	assert_int_equal(afar_session_close(session), 0);
	return 0;
}

static struct afar_region *open_region(void)
{
	struct afar_region *region;

	assert_int_equal(afar_region_open(ns, "r", &region), 0);
	return region;
}

/* The fakes live on another thread. */
#define fakes(...)                                \
	do {                                      \
		pthread_mutex_lock(&fake.lock);   \
		__VA_ARGS__;                      \
		pthread_mutex_unlock(&fake.lock); \
	} while (0)

#define expect_fake(field, value)                         \
	do {                                              \
		uint64_t expect_fake_got;                 \
		fakes(expect_fake_got = fake.field);      \
		assert_int_equal(expect_fake_got, value); \
	} while (0)

/* What a connect ends with. */
static int connect_region(struct afar_region *region)
{
	struct afar_queue *queue;
	int ret;

	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	ret = afar_queue_connect(queue, afar_region_target(region));
	assert_true(ret < 0 && afar_last_error()[0]);
	assert_int_equal(afar_queue_close(queue), 0);
	return ret;
}

static uint64_t key_of(const struct afar_region *region)
{
	return region->target.layout->chunks[0].on[0].key;
}

/* A connection that is refused is tried twice. */
static void expect_counts(unsigned nr_accesses, unsigned nr_grants, unsigned nr_connects)
{
	expect_fake(nr_accesses, nr_accesses);
	expect_fake(nr_grants, nr_grants);
	expect_fake(nr_tickets, 2 * nr_connects);
}

/* ---- Tests */

static void test_shows_what_it_was_given(void **state)
{
	struct afar_region *region = open_region();

	(void)state;
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_counts(0, 1, 1);
	expect_fake(nr_granted, 3); /* all of the layout, ascending, each once */
	expect_fake(granted[0], 3);
	expect_fake(granted[1], 5);
	expect_fake(granted[2], 9);
	expect_fake(shown_session, SESSION);
	expect_fake(shown_capability, 1);
	expect_fake(nr_connections, 1);
	assert_int_equal(key_of(region), 100 + chunk_extents[0]);
	/* It keeps its keys, and takes a ticket for each connection. */
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_counts(0, 1, 2);
	assert_int_equal(afar_region_close(region), 0);
}

static void test_expired_access_is_asked_anew(void **state)
{
	struct afar_region *region;

	(void)state;
	fakes(fake.is.lifetime_ms = 0; fake.anew = usual; fake.is_anew = true;);
	region = open_region();
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_counts(1, 1, 1);
	assert_int_equal(afar_region_close(region), 0);
}

/* With the control connection open, it is the capability that has expired. */
static void test_expired_capability_is_asked_anew(void **state)
{
	struct afar_region *first = open_region(), *second;

	(void)state;
	assert_int_equal(connect_region(first), -AFAR_ESERVER);
	fakes(fake.is.lifetime_ms = 0; fake.is.rights = RIGHT_READ; fake.anew = usual;
	      fake.is_anew = true);
	second = open_region();
	assert_int_equal(connect_region(second), -AFAR_ESERVER);
	expect_counts(1, 2, 2);
	expect_fake(nr_connections, 1);
	assert_int_equal(afar_region_close(first), 0);
	assert_int_equal(afar_region_close(second), 0);
}

/* With all keys known and the control connection lost, it is the pass that has expired. */
static void test_expired_pass_is_asked_anew(void **state)
{
	struct afar_region *first = open_region(), *second;

	(void)state;
	assert_int_equal(connect_region(first), -AFAR_ESERVER);
	fakes(fake.is.lifetime_ms = 0; fake.is.hang_up = true; fake.anew = usual;
	      fake.is_anew = true);
	second = open_region();
	assert_int_equal(connect_region(second), -AFAR_ESERVER);
	expect_counts(1, 1, 2);
	expect_fake(nr_connections, 2);
	assert_int_equal(afar_region_close(first), 0);
	assert_int_equal(afar_region_close(second), 0);
}

/* Open regions share the pass and the keys: one that comes later needs nothing but its own layout. */
static void test_regions_share(void **state)
{
	struct afar_region *first = open_region(), *second;

	(void)state;
	assert_int_equal(connect_region(first), -AFAR_ESERVER);
	fakes(fake.is.has_no_access = true);
	second = open_region();
	assert_int_equal(connect_region(second), -AFAR_ESERVER);
	expect_counts(0, 1, 2);
	assert_int_equal(key_of(second), key_of(first));
	assert_int_equal(afar_region_close(first), 0);
	assert_int_equal(afar_region_close(second), 0);
}

static void test_refused_pass_is_asked_anew(void **state)
{
	struct afar_region *region = open_region();

	(void)state;
	fakes(fake.is.known_pass = 2; fake.anew = usual; fake.anew.pass = fake.anew.known_pass = 2;
	      fake.is_anew = true;);
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_counts(1, 1, 1);
	expect_fake(shown_capability, 2);
	assert_int_equal(afar_region_close(region), 0);
}

static void test_unknown_to_the_server_for_good(void **state)
{
	struct afar_region *region = open_region();

	(void)state;
	fakes(fake.is.known_pass = 2);
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	assert_non_null(strstr(afar_last_error(), "joined"));
	expect_counts(1, 0, 0);
	assert_int_equal(afar_region_close(region), 0);
}

static void test_refused_capability_is_asked_anew(void **state)
{
	struct afar_region *region = open_region();

	(void)state;
	fakes(fake.is.refuse_grants = 1; fake.anew = usual;
	      fake.anew.pass = fake.anew.known_pass = 2; fake.is_anew = true;);
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_counts(1, 2, 1);
	expect_fake(shown_capability, 2);
	expect_fake(nr_connections, 2); /* with the new pass */
	assert_int_equal(afar_region_close(region), 0);
}

static void test_refused_twice_is_refused(void **state)
{
	struct afar_region *region = open_region();

	(void)state;
	fakes(fake.is.refuse_grants = 5);
	assert_int_equal(connect_region(region), -EACCES);
	assert_non_null(strstr(afar_last_error(), "the capability has expired"));
	expect_counts(1, 2, 0);
	assert_int_equal(afar_region_close(region), 0);
}

static void test_server_without_manager(void **state)
{
	struct afar_region *region;

	(void)state;
	fakes(fake.is.has_no_access = true);
	region = open_region();
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_counts(1, 0, 0);
	expect_fake(nr_connections, 0);
	assert_int_equal(afar_region_close(region), 0);
}

/* The server has restarted: what was there is lost, for every region, and new ones are reached. */
static void test_new_incarnation(void **state)
{
	struct afar_region *before = open_region(), *beside = open_region(), *after;
	uint8_t byte;

	(void)state;
	assert_int_equal(connect_region(beside), -AFAR_ESERVER); /* it has its keys */
	fakes(fake.is.known_pass = 2; fake.anew = usual; fake.anew.pass = fake.anew.known_pass = 2;
	      fake.anew.incarnation = 2; fake.anew.first_key = 200; fake.is_anew = true;
	      fake.is.hang_up = true;);
	assert_int_equal(connect_region(before), -AFAR_ELOST);
	expect_counts(1, 1, 1);
	assert_int_equal(connect_region(beside), -AFAR_ELOST);
	assert_int_equal(afar_region_pread(beside, &byte, 1, 0), -AFAR_ELOST);
	expect_counts(1, 1, 1);
	after = open_region();
	assert_int_equal(connect_region(after), -AFAR_ESERVER);
	expect_counts(1, 2, 2);
	assert_int_equal(key_of(after), 200 + chunk_extents[0]);
	assert_int_equal(afar_region_close(before), 0);
	assert_int_equal(afar_region_close(beside), 0);
	assert_int_equal(afar_region_close(after), 0);
}

/* The manager gives no access to a server that has restarted, but says of the region that it is lost. */
static void test_lost_region(void **state)
{
	struct afar_region *region = open_region();
	struct afar_completion done;
	struct afar_queue *queue;
	uint8_t byte;
	struct afar_iov iov = {.addr = &byte, .length = 1};
	struct afar_op op = {.opcode = AFAR_OP_READ, .nr_iov = 1, .iov = &iov};

	(void)state;
	fakes(fake.is.known_pass = 2; fake.anew = fake.is; fake.anew.has_no_access = true;
	      fake.anew.is_lost = true; fake.is_anew = true);
	assert_int_equal(afar_region_pread(region, &byte, 1, 0), -AFAR_ELOST);
	assert_int_equal(afar_region_pwrite(region, &byte, 1, 0), -AFAR_ELOST);
	assert_int_equal(connect_region(region), -AFAR_ELOST);
	expect_counts(1, 0, 0);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	op.target = afar_region_target(region);
	assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
	assert_int_equal(afar_queue_wait(queue, &done, 1, 1, -1), 1);
	assert_int_equal(done.result, -AFAR_ELOST);
	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_region_close(region), 0);
}

/* A key for reading is no key for writing, nor the other way round. */
static void test_keys_go_with_rights(void **state)
{
	struct afar_region *reader, *writer, *again;

	(void)state;
	fakes(fake.is.rights = RIGHT_READ);
	reader = open_region();
	assert_int_equal(connect_region(reader), -AFAR_ESERVER);
	fakes(fake.is.rights = RIGHT_ALL; fake.is.first_key = 200;);
	writer = open_region();
	assert_int_equal(connect_region(writer), -AFAR_ESERVER);
	expect_counts(0, 2, 2);
	fakes(fake.is.rights = RIGHT_READ; fake.is.first_key = 300;);
	again = open_region();
	assert_int_equal(connect_region(again), -AFAR_ESERVER);
	expect_counts(0, 2, 3);
	assert_int_equal(key_of(reader), 100 + chunk_extents[0]);
	assert_int_equal(key_of(writer), 200 + chunk_extents[0]);
	assert_int_equal(key_of(again), 100 + chunk_extents[0]);
	assert_int_equal(afar_region_close(reader), 0);
	assert_int_equal(afar_region_close(writer), 0);
	assert_int_equal(afar_region_close(again), 0);
}

static void test_writes_need_the_right(void **state)
{
	uint8_t byte = 0;
	struct iovec piece = {.iov_base = &byte, .iov_len = 1};
	struct afar_iov iov = {.addr = &byte, .length = 1};
	struct afar_op op = {.opcode = AFAR_OP_WRITE, .nr_iov = 1, .iov = &iov};
	struct afar_region *region;
	struct afar_queue *queue;

	(void)state;
	fakes(fake.is.rights = RIGHT_READ);
	region = open_region();
	op.target = afar_region_target(region);
	assert_int_equal(afar_region_pwrite(region, &byte, 1, 0), -EACCES);
	assert_non_null(strstr(afar_last_error(), "alice"));
	assert_int_equal(afar_region_writev(region, &piece, 1, 0), -EACCES);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_submit(queue, &op, 1), -EACCES);
	expect_counts(0, 0, 0);
	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_region_close(region), 0);
}

/* A control connection that ends under a call is made again. */
static void test_server_hangs_up(void **state)
{
	struct afar_region *region = open_region();

	(void)state;
	fakes(fake.is.hang_up = true);
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_fake(nr_connections, 2);
	expect_counts(0, 1, 1);
	assert_int_equal(afar_region_close(region), 0);
}

#define with_session(test) cmocka_unit_test_setup_teardown(test, open_session, close_session)

/* A session that has to do with many namespaces, one after another, keeps nothing of those it is done with
 * but a few connections. */
static void test_many_namespaces(void **state)
{
	struct afar_region *first = open_region(), *region;
	struct afar_namespace *another;
	struct afar_queue *queue;

	(void)state;
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	for (uint64_t i = 2; i < 100; i++) {
		fakes(fake.is.namespace = i);
		assert_int_equal(afar_namespace_open(session, "ns", &another), 0);
		assert_int_equal(afar_region_open(another, "r", &region), 0);
		assert_int_equal(afar_queue_connect(queue, afar_region_target(region)),
				 -AFAR_ESERVER);
		expect_fake(nr_grants, i - 1);
		assert_int_equal(afar_region_close(region), 0);
		assert_int_equal(afar_namespace_close(another), 0);
	}
	assert_in_range(session->nr_reaches, 1, 12);
	assert_in_range(queue->nr_paths, 1, 12);
	/* What it had just now it still has. */
	assert_int_equal(afar_namespace_open(session, "ns", &another), 0);
	assert_int_equal(afar_region_open(another, "r", &region), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), -AFAR_ESERVER);
	expect_fake(nr_grants, 98);
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_namespace_close(another), 0);
	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_region_close(first), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_session(test_shows_what_it_was_given),
		with_session(test_expired_access_is_asked_anew),
		with_session(test_expired_capability_is_asked_anew),
		with_session(test_expired_pass_is_asked_anew),
		with_session(test_regions_share),
		with_session(test_refused_pass_is_asked_anew),
		with_session(test_unknown_to_the_server_for_good),
		with_session(test_refused_capability_is_asked_anew),
		with_session(test_refused_twice_is_refused),
		with_session(test_server_without_manager),
		with_session(test_new_incarnation),
		with_session(test_lost_region),
		with_session(test_keys_go_with_rights),
		with_session(test_writes_need_the_right),
		with_session(test_server_hangs_up),
		with_session(test_many_namespaces),
	};

	return cmocka_run_group_tests(tests, start_fakes, stop_fakes);
}
