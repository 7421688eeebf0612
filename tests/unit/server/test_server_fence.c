/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Taking back: before memory goes on, nobody is connected who may have begun to use it. Moves that were half
 * through do not land. Clients that can have had nothing to do with it are left alone. And a server does not
 * start over a transport that does not keep to its keys.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "lib/base/child.h"
#include "lib/base/transport.h"
#include "lib/rpc/control.h"
#include "lib/server/moment.h"
#include "lib/server/server_cluster.h"
#include "server/control/tickets.h"
#include "server/data/selfcheck.h"
#include "unit/group.h"

/* ---- Releases */

/* Another client of the cluster, with a connection for a session. */
static void connect_other(struct cluster *cluster, struct data_client *client, uint64_t session,
			  uint64_t namespace)
{
	struct rpc_ticket ticket;

	data_client_open(client);
	assert_int_equal(get_ticket_for(cluster, session, namespace, RIGHT_ALL, &ticket), 0);
	assert_int_equal(
		data_client_connect(client, cluster->manager.data[0], &ticket, sizeof(ticket)), 0);
}

static void test_release_closes_connections(void **state)
{
	struct data_client writer, neighbour, stranger;
	struct fake_extent released, unused, kept, foreign;
	struct key_of key, key_of_kept, key_of_foreign = {0};
	struct rpc_ticket ticket;
	struct cluster cluster;
	size_t nr_extents = 1;
	char byte = 1;

	(void)state;
	cluster_open(&cluster, 3);
	kept = reserve_one(&cluster, &key_of_kept);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	connect_other(&cluster, &writer, SESSION + 1, NAMESPACE);
	released = reserve_one(&cluster, &key);
	connect_other(&cluster, &neighbour, SESSION + 2, NAMESPACE);
	connect_other(&cluster, &stranger, SESSION + 2, NAMESPACE + 1);
	assert_int_equal(fake_manager_reserve(&cluster.manager, NAMESPACE + 1, 2 * MIB, &foreign,
					      &nr_extents),
			 0);
	assert_int_equal(get_keys(&cluster, NAMESPACE + 1, &foreign.extent, 1, &key_of_foreign), 0);
	fake_manager_await(&cluster.manager, cluster.manager.report.nr_connections == 4);

	/* An extent that nobody had a key of costs nobody anything. */
	assert_int_equal(
		fake_manager_reserve(&cluster.manager, NAMESPACE, 2 * MIB, &unused, &nr_extents),
		0);
	assert_int_equal(fake_manager_release(&cluster.manager, unused.extent), 0);
	assert_int_equal(data_client_write(&writer, &byte, 1, key.origin, key.key), 0);
	assert_int_equal(
		data_client_write(&cluster.data, &byte, 1, key_of_kept.origin, key_of_kept.key), 0);

	/* Else anybody of the namespace may be at it: who was told the key, too. Nobody else can. */
	assert_int_equal(fake_manager_release(&cluster.manager, released.extent), 0);
	data_client_await_closed(&writer);
	data_client_await_closed(&neighbour);
	data_client_await_closed(&cluster.data);
	fake_manager_await(&cluster.manager, cluster.manager.report.nr_connections == 1);
	assert_int_equal(
		data_client_write(&stranger, &byte, 1, key_of_foreign.origin, key_of_foreign.key),
		0);
	/* They come again, and have what they had. */
	data_client_close(&writer);
	connect_other(&cluster, &writer, SESSION, NAMESPACE);
	assert_int_equal(data_client_read(&writer, &byte, 1, key_of_kept.origin, key_of_kept.key),
			 0);
	assert_int_equal(byte, 1);
	data_client_close(&neighbour);
	connect_other(&cluster, &neighbour, SESSION, NAMESPACE);
	assert_true(data_client_read(&neighbour, &byte, 1, key.origin, key.key) < 0);
	/* A release that has been done is not done again. */
	assert_int_equal(fake_manager_release(&cluster.manager, released.extent), 0);
	assert_int_equal(data_client_read(&writer, &byte, 1, key_of_kept.origin, key_of_kept.key),
			 0);
	assert_int_equal(ask_ticket(&cluster, SESSION, NAMESPACE, RIGHT_ALL, &ticket), 0);
	assert_int_equal(fake_manager_release(&cluster.manager, kept.extent), 0);
	data_client_await_closed(&writer);
	/* The namespace has nothing here any more: nor has anybody anything to connect for. */
	assert_int_equal(ask_ticket(&cluster, SESSION, NAMESPACE, RIGHT_ALL, &ticket), -EACCES);
	assert_int_equal(get_keys(&cluster, NAMESPACE, &kept.extent, 1, &key_of_kept), -AFAR_ELOST);
	assert_int_equal(ask_ticket(&cluster, SESSION, NAMESPACE, RIGHT_ALL, &ticket), -EACCES);
	assert_int_equal(
		data_client_read(&stranger, &byte, 1, key_of_foreign.origin, key_of_foreign.key),
		0);
	data_client_close(&writer);
	data_client_close(&neighbour);
	data_client_close(&stranger);
	cluster_close(&cluster);
}

static void test_report_tells_of_scrubbing(void **state)
{
	struct fake_extent extent;
	struct cluster cluster;
	struct key_of key;

	(void)state;
	cluster_open(&cluster, 0);
	extent = reserve_one(&cluster, &key);
	fake_manager_await(&cluster.manager, cluster.manager.nr_reports > 0 &&
						     cluster.manager.report.scrubbed_bytes == 0);
	assert_int_equal(fake_manager_release(&cluster.manager, extent.extent), 0);
	fake_manager_await(&cluster.manager, cluster.manager.report.scrubbed_bytes == 2 * MIB &&
						     cluster.manager.report.scrub_bytes_per_s > 0 &&
						     cluster.manager.report.draining_bytes == 0);
	cluster_close(&cluster);
}

/* Starts a write of `value` everywhere. True: some of it has arrived, and the rest waits for the client. When
 * the server was so fast that all went at once, the write is through. */
static bool write_half(struct data_client *writer, struct data_client *witness,
		       const struct fabric_piece *piece, const struct key_of *key, uint8_t value)
{
	struct fabric_completion completion = {0};
	struct fabric_event event;
	uint8_t byte = 0;

	memset(piece->addr, value, piece->length);
	assert_int_equal(fabric_write(writer->endpoint, piece, 1, key->origin, key->key, 99), 0);
	while (byte != value)
		assert_int_equal(data_client_read(witness, &byte, 1, key->origin, key->key), 0);
	assert_int_equal(
		data_client_read(witness, &byte, 1, key->origin + piece->length - 1, key->key), 0);
	if (byte != value)
		return true;
	while (data_client_step(writer, &completion, &event) != 1)
		;
	assert_int_equal(completion.status, 0);
	return false;
}

/* Has a write half through on the cluster's data connection, as when a client is stopped. */
static void stop_in_mid_write(struct cluster *cluster, uint64_t writer,
			      const struct fabric_piece *piece, const struct key_of *key)
{
	uint64_t deadline = clock_deadline_ms(FAKE_PATIENCE_MS);
	struct data_client witness;
	uint8_t value = 1;

	connect_other(cluster, &witness, SESSION, NAMESPACE);
	assert_int_equal(connect_data(cluster, writer), 0);
	while (!write_half(&cluster->data, &witness, piece, key, value)) {
		value = value % 100 + 1;
		assert_true(clock_ns() < deadline);
	}
	data_client_close(&witness);
}

static void assert_all_zero(struct data_client *client, const struct key_of *key, uint8_t *buffer)
{
	memset(buffer, 1, key->length);
	assert_int_equal(data_client_read(client, buffer, key->length, key->origin, key->key), 0);
	assert_true(buffer[0] == 0 && memcmp(buffer, buffer + 1, key->length - 1) == 0);
}

static void half_a_write_does_not_land(uint64_t writer)
{
	uint8_t *source = malloc(CAPACITY), *buffer = malloc(CAPACITY);
	struct fabric_piece piece = {.addr = source, .length = CAPACITY};
	struct fake_extent extent, next;
	struct data_client heir;
	struct cluster cluster;
	size_t nr_extents = 1;
	struct key_of key;

	assert_true(source && buffer);
	/* On one thread: what orders the witness and the writer is beyond a race detector's sight. */
	cluster_open(&cluster, 1);
	assert_int_equal(
		fake_manager_reserve(&cluster.manager, NAMESPACE, CAPACITY, &extent, &nr_extents),
		0);
	assert_int_equal(get_keys(&cluster, NAMESPACE, &extent.extent, 1, &key), 0);
	stop_in_mid_write(&cluster, writer, &piece, &key);

	/* All the memory there is goes to somebody else. */
	assert_int_equal(fake_manager_release(&cluster.manager, extent.extent), 0);
	assert_int_equal(
		fake_manager_reserve(&cluster.manager, NAMESPACE + 1, CAPACITY, &next, &nr_extents),
		0);
	connect_other(&cluster, &heir, SESSION + 2, NAMESPACE + 1);
	assert_int_equal(get_keys(&cluster, NAMESPACE + 1, &next.extent, 1, &key), 0);
	assert_all_zero(&heir, &key, buffer);
	/* The writer goes on where it was. */
	data_client_await_closed(&cluster.data);
	assert_all_zero(&heir, &key, buffer);
	data_client_close(&heir);
	cluster_close(&cluster);
	free(buffer);
	free(source);
}

static void test_half_a_write_does_not_land(void **state)
{
	(void)state;
	if (!is_on_tcp()) /* a NIC's write does not wait for the server in the middle */
		skip();
	half_a_write_does_not_land(SESSION);
}

/* By somebody who never asked for the key: it was told. */
static void test_half_a_write_of_an_accomplice(void **state)
{
	(void)state;
	if (!is_on_tcp())
		skip();
	half_a_write_does_not_land(SESSION + 1);
}

/* ---- The manager has older records */

/* All sessions end before the server is taken in, also those that have only a pass yet. */
static void test_all_sessions_end_first(void **state)
{
	uint8_t *source = malloc(CAPACITY);
	struct fabric_piece piece = {.addr = source, .length = CAPACITY};
	struct rpc_connection *connection;
	struct key late, pass;
	struct fake_extent extent;
	struct cluster cluster;
	char address[FAKE_ADDRESS_MAX];
	size_t nr_extents = 1;
	unsigned nr_joins;
	struct key_of key;

	(void)state;
	assert_non_null(source);
	cluster_open(&cluster, 1);
	assert_int_equal(
		fake_manager_reserve(&cluster.manager, NAMESPACE, CAPACITY, &extent, &nr_extents),
		0);
	assert_int_equal(get_keys(&cluster, NAMESPACE, &extent.extent, 1, &key), 0);
	if (is_on_tcp())
		stop_in_mid_write(&cluster, SESSION, &piece, &key);
	else
		assert_int_equal(connect_data(&cluster, SESSION), 0);
	late = fake_manager_pass(&cluster.manager, SESSION + 1);
	nr_joins = cluster.manager.nr_joins;
	strcpy(address, cluster.manager.address);
	fake_manager_vanish(&cluster.manager);
	cluster.manager.ends_sessions = true;
	fake_manager_listen(&cluster.manager, address);
	fake_manager_await(&cluster.manager, cluster.manager.nr_joins == nr_joins + 1);
	assert_true(cluster.manager.nr_refused > 0);
	data_client_await_closed(&cluster.data);
	/* A pass from before is good for nothing, and neither is one of the ended session. A new
	 * one of the other is. */
	assert_int_not_equal(try_control(&cluster, &late, &connection), 0);
	pass = fake_manager_pass(&cluster.manager, SESSION);
	assert_int_not_equal(try_control(&cluster, &pass, &connection), 0);
	pass = fake_manager_pass(&cluster.manager, SESSION + 1);
	assert_int_equal(try_control(&cluster, &pass, &connection), 0);
	control_close(connection);
	cluster_close(&cluster);
	free(source);
}

/* ---- Connecting again */

/* A client gives up on a write, connects again and writes anew: the server must not go on with the old one. */
static void test_a_replaced_connection_is_closed_first(void **state)
{
	uint8_t *source = malloc(CAPACITY), *buffer = malloc(CAPACITY);
	struct fabric_piece piece = {.addr = source, .length = CAPACITY};
	struct data_client again;
	struct fake_extent extent;
	struct cluster cluster;
	size_t nr_extents = 1;
	struct key_of key;
	uint64_t stopped;

	(void)state;
	assert_true(source && buffer);
	cluster_open(&cluster, 1);
	assert_int_equal(
		fake_manager_reserve(&cluster.manager, NAMESPACE, CAPACITY, &extent, &nr_extents),
		0);
	assert_int_equal(get_keys(&cluster, NAMESPACE, &extent.extent, 1, &key), 0);
	if (is_on_tcp())
		stop_in_mid_write(&cluster, SESSION, &piece, &key);
	else
		assert_int_equal(connect_data(&cluster, SESSION), 0);
	stopped = cluster.connection;

	/* Not another session's. */
	cluster.replaces = stopped;
	connect_other(&cluster, &again, SESSION + 1, NAMESPACE);
	fake_manager_await(&cluster.manager, cluster.manager.report.nr_connections == 2);
	data_client_close(&again);

	cluster.replaces = stopped;
	connect_other(&cluster, &again, SESSION, NAMESPACE);
	memset(buffer, 0xee, CAPACITY);
	assert_int_equal(data_client_write(&again, buffer, CAPACITY, key.origin, key.key), 0);
	data_client_await_closed(&cluster.data);
	memset(buffer, 0, CAPACITY);
	assert_int_equal(data_client_read(&again, buffer, CAPACITY, key.origin, key.key), 0);
	assert_true(buffer[0] == 0xee && memcmp(buffer, buffer + 1, CAPACITY - 1) == 0);
	data_client_close(&again);
	/* One that is not there any more. */
	cluster.replaces = stopped;
	connect_other(&cluster, &again, SESSION, NAMESPACE);
	data_client_close(&again);
	cluster_close(&cluster);
	free(buffer);
	free(source);
}

/* ---- Sessions */

int __real_tickets_revoke(struct tickets *tickets, uint64_t session);
int __wrap_tickets_revoke(struct tickets *tickets, uint64_t session);

int __wrap_tickets_revoke(struct tickets *tickets, uint64_t session)
{
	moment_pass();
	return __real_tickets_revoke(tickets, session);
}

static void *end_session(void *argument)
{
	return fake_manager_end_session(argument, SESSION) == 0 ? NULL
								: argument; /* it has failed */
}

/* A client that redeems its ticket before it is revoked is put out with the rest: nothing has been closed
 * until then. */
static void test_a_ticket_redeemed_at_the_last_moment(void **state)
{
	struct rpc_ticket ticket, late;
	struct data_client client;
	struct cluster cluster;
	void *failed;
	pthread_t thread;

	(void)state;
	cluster_open(&cluster, 1);
	data_client_open(&client);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	assert_int_equal(get_ticket(&cluster, SESSION, &ticket), 0);
	assert_int_equal(get_ticket(&cluster, SESSION, &late), 0);
	moment_open();
	assert_int_equal(pthread_create(&thread, NULL, end_session, &cluster.manager), 0);
	moment_await();
	assert_int_equal(
		data_client_connect(&client, cluster.manager.data[0], &ticket, sizeof(ticket)), 0);
	moment_close();
	pthread_join(thread, &failed);
	assert_null(failed);
	data_client_await_closed(&cluster.data);
	data_client_await_closed(&client);
	assert_int_not_equal(
		data_client_connect(&client, cluster.manager.data[0], &late, sizeof(late)), 0);
	data_client_close(&client);
	cluster_close(&cluster);
}

/* ---- Transports that do not keep to their keys */

#define NR_CLOSED_MAX 8

static const struct fabric_ops *honest;
static struct fabric_memory not_closed[NR_CLOSED_MAX];
static size_t nr_not_closed;

static int register_with_more(struct fabric_domain *domain, void *addr, size_t length,
			      unsigned access, struct fabric_memory *out)
{
	return honest->memory_register(domain, addr, length, access | FABRIC_REMOTE_WRITE, out);
}

static bool keep_registered(struct fabric_memory *memory)
{
	if (!memory->handle)
		return true;
	assert_true(nr_not_closed < NR_CLOSED_MAX);
	not_closed[nr_not_closed++] = *memory;
	return true;
}

/* One domain for all. */
static int open_none(struct fabric *fabric, struct fabric_domain **out)
{
	*out = fabric->domain;
	return 0;
}

static void close_none(struct fabric_domain *domain)
{
	(void)domain;
}

static void test_start_checks_the_transport(void **state)
{
	struct fabric_ops greedy, lazy, open;
	struct fabric *fabric;

	(void)state;
	assert_int_equal(fabric_open_at(test_transport(), any_port(), &fabric), 0);
	assert_int_equal(selfcheck(fabric, any_port()), 0);
	honest = fabric->ops;
	greedy = lazy = open = *honest;
	greedy.memory_register = register_with_more;
	lazy.memory_deregister = keep_registered;
	/* Memory that stays registered keeps its domain. */
	lazy.domain_open = open.domain_open = open_none;
	lazy.domain_close = open.domain_close = close_none;

	fabric->ops = &greedy;
	assert_int_equal(selfcheck(fabric, any_port()), -EPERM);
	assert_non_null(strstr(afar_last_error(), "read-only key"));
	fabric->ops = &lazy;
	assert_int_equal(selfcheck(fabric, any_port()), -EPERM);
	assert_non_null(strstr(afar_last_error(), "closed key"));
	fabric->ops = &open;
	assert_int_equal(selfcheck(fabric, any_port()), -EPERM);
	assert_non_null(strstr(afar_last_error(), "another protection domain"));
	fabric->ops = honest;
	while (nr_not_closed > 0)
		fabric_memory_deregister(&not_closed[--nr_not_closed]);
	assert_int_not_equal(selfcheck(fabric, "192.0.2.1:0"), 0);
	fabric_close(fabric);
}

#define CACHED_ARG "--with-registration-cache"

/* The child checks the transport, which has been told to cache registrations. */
static int check_cached(void)
{
	struct fabric *fabric;

	if (fabric_open_at(test_transport(), any_port(), &fabric) != 0)
		return 2;
	return selfcheck(fabric, any_port()) == -EPERM &&
			       strstr(afar_last_error(), "key goes through")
		       ? 0
		       : 1;
}

/* libfabric reads the setting once in a process. */
static void test_start_refuses_cached_registrations(void **state)
{
	int status = -1;
	pid_t child;

	(void)state;
	if (is_on_tcp()) /* it has no such cache */
		skip();
	child = fork_child();
	assert_true(child >= 0);
	if (child == 0) {
		setenv("FI_MR_CACHE_MAX_COUNT", "1000", 1);
		execl("/proc/self/exe", "unit_server", "server_fence", CACHED_ARG, NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

TEST_GROUP(server_fence)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_release_closes_connections),
		cmocka_unit_test(test_report_tells_of_scrubbing),
		cmocka_unit_test(test_half_a_write_does_not_land),
		cmocka_unit_test(test_half_a_write_of_an_accomplice),
		cmocka_unit_test(test_all_sessions_end_first),
		cmocka_unit_test(test_a_replaced_connection_is_closed_first),
		cmocka_unit_test(test_a_ticket_redeemed_at_the_last_moment),
		cmocka_unit_test(test_start_checks_the_transport),
		cmocka_unit_test(test_start_refuses_cached_registrations),
	};

	if (argc == 2 && strcmp(argv[1], CACHED_ARG) == 0)
		return check_cached();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
