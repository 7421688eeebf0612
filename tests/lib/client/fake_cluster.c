/* SPDX-License-Identifier: BSD-3-Clause */
/* A manager and a server that are fakes, and a session with them; see fake_cluster.h. */
#include "lib/client/fake_cluster.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/bytes.h"

#define ADDRESS	      0x1000
#define LIFETIME_MS   60000
#define CHUNK	      MIB
#define EXTENT_LENGTH (8 * CHUNK)

const uint64_t chunk_extents[NR_CHUNKS + 1] = {5, 3, 5, 9, 7};

struct fake_cluster fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

static size_t nr_chunks(void)
{
	return fake.is.is_longer ? NR_CHUNKS + 1 : NR_CHUNKS;
}

static uint64_t layout_number(void)
{
	return fake.is.nr_changes + fake.is.is_longer;
}

static void reply_region(struct rpc_call *call)
{
	Afar__Lane lanes[LANES_MAX], *lane_list[LANES_MAX];
	Afar__Server server = AFAR__SERVER__INIT, *servers[] = {&server, &server};
	const struct layout_home home = {.server = SERVER, .life = fake.is.incarnation};
	struct layout *form = layout_new();
	Afar__LayoutInfo layout = AFAR__LAYOUT_INFO__INIT;
	Afar__RegionInfo info = AFAR__REGION_INFO__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;
	struct access_message access;

	for (unsigned i = 0; i < fake.is.nr_lanes; i++) {
		afar__lane__init(&lanes[i]);
		lanes[i].transport = (char *)fake.is.lanes[i].transport;
		lanes[i].address = (char *)fake.is.lanes[i].address;
		lane_list[i] = &lanes[i];
	}
	server.server = SERVER;
	server.name = (char *)"fake";
	server.incarnation = fake.is.incarnation;
	server.control_address = (char *)rpc_listener_address(fake.server);
	server.lanes = lane_list;
	server.n_lanes = fake.is.nr_lanes;
	for (size_t i = 0; i < nr_chunks(); i++) {
		assert_int_equal(layout_add_group(form, CHUNK, 4096), 0);
		assert_int_equal(layout_add_chunk(form, &home, chunk_extents[i], i * CHUNK), 0);
	}
	if (fake.is.is_cut)
		layout_set_last(form, CHUNK / 2);
	layout.form = layout_pack(form);
	assert_non_null(layout.form);
	layout_free(form);
	layout.servers = servers;
	layout.n_servers = 1 + fake.is.nr_strangers;
	layout.n_accesses = make_access(&access);
	layout.accesses = access.list;
	info.namespace_ = fake.is.namespace;
	info.address = ADDRESS;
	info.length = nr_chunks() * CHUNK;
	info.layout_number = layout_number();
	info.generation = fake.nr_opens;
	info.rights = fake.is.rights;
	info.layout = &layout;
	reply.result_case = AFAR__REPLY__RESULT_REGION_INFO;
	reply.region_info = &info;
	rpc_reply(call, 1, &reply);
	layout__layout__free_unpacked(layout.form, NULL);
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
	if (fake.is.gives_up)
		accesses.n_entries = 0;
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
	info.length = nr_chunks() * CHUNK;
	info.layout_number = layout_number();
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
	opened.features = fake.is.features;
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
	pthread_mutex_lock(&fake.lock);
	switch (frame->request->call_case) {
	case AFAR__REQUEST__CALL_SESSION_OPEN:
		if (fake.is.fail_openings) {
			fake.is.fail_openings--;
			rpc_reply_status(call, 1, -EIO);
			break;
		}
		if (fake.is.hang_up_openings) {
			fake.is.hang_up_openings--;
			rpc_connection_close(connection);
		}
		reply_opened(call);
		break;
	case AFAR__REQUEST__CALL_NAMESPACE_OPEN:
		if (fake.is.hang_up_namespace) {
			fake.is.hang_up_namespace = false;
			rpc_connection_close(connection);
		}
		reply_namespace(call);
		break;
	case AFAR__REQUEST__CALL_REGION_OPEN:
		fake.nr_opens++;
		reply_region(call);
		break;
	case AFAR__REQUEST__CALL_REGION_LOOK:
		fake.nr_looks++;
		reply_region(call);
		break;
	case AFAR__REQUEST__CALL_REGION_ACCESS:
		reply_accesses(call);
		break;
	case AFAR__REQUEST__CALL_REGION_LIST:
		reply_list(call);
		break;
	case AFAR__REQUEST__CALL_VOLUME_TAKE_OVER:
		fake.nr_take_overs++;
		rpc_reply_status(call, 1, 0);
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

/* The capability covers exactly the extents that the region has: 3, 5, 9, and 7 once it is longer. */
static bool is_covered(const Afar__Grant *grant)
{
	return grant->n_extents == (fake.is.is_longer ? 4 : 3);
}

static void reply_keys(const Afar__Grant *grant, struct rpc_call *call)
{
	Afar__Key keys[EXTENTS_MAX * LANES_MAX], *list[EXTENTS_MAX * LANES_MAX];
	Afar__Keys message = AFAR__KEYS__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;

	fake.nr_grants++;
	fake.shown_session = grant->session;
	fake.shown_capability = grant->capability.len == sizeof(struct rpc_capability)
					? grant->capability.data[0]
					: 0;
	fake.nr_granted = grant->n_extents < EXTENTS_MAX ? grant->n_extents : EXTENTS_MAX;
	for (size_t i = 0; i < fake.nr_granted * fake.is.nr_lanes; i++) {
		uint64_t extent = grant->extents[i / fake.is.nr_lanes];

		fake.granted[i / fake.is.nr_lanes] = extent;
		afar__key__init(&keys[i]);
		keys[i].lane = (uint32_t)(i % fake.is.nr_lanes);
		keys[i].extent = extent;
		keys[i].length = EXTENT_LENGTH;
		keys[i].transport = (char *)fake.is.lanes[keys[i].lane].transport;
		keys[i].key = fake.is.first_key + extent;
		list[i] = &keys[i];
	}
	if (fake.is.refuse_grants) {
		fake.is.refuse_grants--;
		reply.status = -EACCES;
		reply.message = (char *)"get keys: the capability has expired";
	} else if (!is_covered(grant)) {
		reply.status = -EACCES;
		reply.message = (char *)"get keys: the capability is for others";
	} else {
		message.keys = list;
		message.n_keys = fake.nr_granted * fake.is.nr_lanes;
		message.incarnation = fake.is.incarnation;
		reply.result_case = AFAR__REPLY__RESULT_KEYS;
		reply.keys = &message;
	}
	rpc_reply(call, 1, &reply);
}

/* The n-th ticket is for connection n. */
static void reply_ticket(struct rpc_connection *connection, const Afar__Connect *connect,
			 struct rpc_call *call)
{
	uint8_t bytes[sizeof(struct rpc_ticket)] = {0};
	Afar__Ticket ticket = AFAR__TICKET__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;

	if (fake.is.refuse_tickets) {
		fake.is.refuse_tickets--;
		rpc_reply_status(call, 1, -EACCES);
		return;
	}
	poll(NULL, 0, (int)fake.is.ticket_ms);
	if (fake.is.hang_up) {
		fake.is.hang_up = false;
		rpc_connection_close(connection);
	} else {
		fake.replaced[fake.nr_tickets++ % TICKETS_MAX] = connect->replaces;
	}
	ticket.connection = fake.nr_tickets;
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
		reply_ticket(connection, frame->request->connect, call);
	else
		rpc_reply_status(call, 1, -EOPNOTSUPP);
	pthread_mutex_unlock(&fake.lock);
}

/* ---- The scene */

const struct behaviour usual = {
	.rights = RIGHT_ALL,
	.incarnation = 1,
	.lifetime_ms = LIFETIME_MS,
	.pass = 1,
	.known_pass = 1,
	.first_key = 100,
	.namespace = 1,
	.lanes = {{"tcp", DATA_NOWHERE}},
	.nr_lanes = 1,
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

int start_fakes(void **state)
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

int stop_fakes(void **state)
{
	(void)state;
	rpc_listener_close(fake.manager);
	rpc_listener_close(fake.server);
	rpc_loop_stop(fake.loop);
	unlink(fake.key_file);
	rmdir(fake.folder);
	return 0;
}

int open_session(void **state)
{
	(void)state;
	pthread_mutex_lock(&fake.lock);
	fake.is = usual;
	fake.is_anew = false;
	fake.nr_accesses = fake.nr_grants = fake.nr_tickets = fake.nr_connections = 0;
	fake.nr_take_overs = fake.nr_looks = 0;
	pthread_mutex_unlock(&fake.lock);
	assert_int_equal(afar_session_open(fake.uri, NULL, &fake.session), 0);
	assert_int_equal(afar_namespace_open(fake.session, "ns", &fake.ns), 0);
	return 0;
}

int close_session(void **state)
{
	(void)state;
	assert_int_equal(afar_namespace_close(fake.ns), 0);
	assert_int_equal(afar_session_close(fake.session), 0);
	return 0;
}

struct afar_region *open_region(void)
{
	struct afar_region *region;

	assert_int_equal(afar_region_open(fake.ns, "r", &region), 0);
	return region;
}
