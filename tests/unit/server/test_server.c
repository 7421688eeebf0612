/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A whole server between a fake manager and real clients: joining, reserving, granting, tickets,
 * one-sided transfers, ends of sessions, outages of the manager, stopping.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/log.h"
#include "lib/base/transport.h"
#include "lib/rpc/control.h"
#include "lib/server/server_cluster.h"
#include "server/control/identity.h"
#include "server/control/tickets.h"
#include "server/data/advertise.h"
#include "unit/group.h"

static void test_write_and_read(void **state)
{
	char data[4096], back[4096];
	struct cluster cluster;
	struct key_of key;

	(void)state;
	cluster_open(&cluster, 0);
	assert_int_equal(cluster.manager.server, 0);
	assert_string_equal(cluster.manager.name, "lender");
	assert_int_equal(cluster.manager.capacity_bytes, CAPACITY);
	/* It listens for data everywhere, and says where the manager's side can find it. */
	assert_memory_equal(cluster.manager.data[0], test_host(), strlen(test_host()));

	reserve_one(&cluster, &key);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	memset(data, 0x42, sizeof(data));
	assert_int_equal(data_client_read(&cluster.data, back, sizeof(back), key.origin, key.key),
			 0);
	assert_true(back[0] == 0 && memcmp(back, back + 1, sizeof(back) - 1) == 0);
	assert_int_equal(
		data_client_write(&cluster.data, data, sizeof(data), key.origin + 8192, key.key),
		0);
	assert_int_equal(
		data_client_read(&cluster.data, back, sizeof(back), key.origin + 8192, key.key), 0);
	assert_memory_equal(data, back, sizeof(data));
	fake_manager_await(&cluster.manager,
			   cluster.manager.report.granted_bytes == 2 * MIB &&
				   cluster.manager.report.nr_connections == 1 &&
				   cluster.manager.report.capacity_bytes == CAPACITY &&
				   cluster.manager.report.resident_bytes > 0);
	cluster_close(&cluster);
}

static void test_reserve_all_or_nothing(void **state)
{
	struct fake_extent extents[32];
	struct cluster cluster;
	size_t nr_extents = 32;

	(void)state;
	cluster_open(&cluster, 0);
	assert_int_equal(fake_manager_reserve(&cluster.manager, 0, 2 * MIB, extents, &nr_extents),
			 -EINVAL);
	assert_int_equal(fake_manager_reserve(&cluster.manager, 1, 0, extents, &nr_extents),
			 -EINVAL);
	assert_int_equal(
		fake_manager_reserve(&cluster.manager, 1, UINT64_MAX, extents, &nr_extents),
		-EINVAL);
	assert_int_equal(fake_manager_reserve(&cluster.manager, 1, UINT64_MAX - 4 * MIB, extents,
					      &nr_extents),
			 -ENOSPC);
	assert_int_equal(
		fake_manager_reserve(&cluster.manager, 1, CAPACITY + 1, extents, &nr_extents),
		-ENOSPC);
	assert_non_null(strstr(afar_last_error(), "32 MiB of capacity, 0 MiB granted"));
	/* Odd sizes are rounded up. */
	assert_int_equal(
		fake_manager_reserve(&cluster.manager, 1, CAPACITY - 1, extents, &nr_extents), 0);
	assert_int_equal(nr_extents, 1);
	assert_int_equal(extents[0].length, CAPACITY);

	/* Released memory is waited for; a second release of the same is no failure. */
	assert_int_equal(fake_manager_release(&cluster.manager, extents[0].extent), 0);
	assert_int_equal(fake_manager_release(&cluster.manager, extents[0].extent), 0);
	nr_extents = 32;
	assert_int_equal(fake_manager_reserve(&cluster.manager, 2, CAPACITY, extents, &nr_extents),
			 0);
	cluster_close(&cluster);
}

static void test_keys_of_others(void **state)
{
	uint64_t many[16] = {0};
	struct fake_extent extent;
	struct cluster cluster;
	struct key_of key, keys[16];

	(void)state;
	cluster_open(&cluster, 0);
	extent = reserve_one(&cluster, &key);
	assert_int_equal(get_keys(&cluster, NAMESPACE + 1, &extent.extent, 1, &key), -AFAR_ELOST);
	assert_int_equal(get_keys(&cluster, 0, &extent.extent, 1, &key), -EACCES);
	for (size_t i = 0; i < 16; i++)
		many[i] = extent.extent + i;
	assert_int_equal(get_keys(&cluster, NAMESPACE, many, 16, keys), -AFAR_ELOST);
	assert_int_equal(get_keys(&cluster, NAMESPACE, many, 0, keys), 0);
	extent.extent++;
	assert_int_equal(get_keys(&cluster, NAMESPACE, &extent.extent, 1, &key), -AFAR_ELOST);

	/* A released extent has no key any more, and the one that was given is worth nothing. */
	extent.extent--;
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	assert_int_equal(data_client_write(&cluster.data, "once", 4, key.origin, key.key), 0);
	assert_int_equal(fake_manager_release(&cluster.manager, extent.extent), 0);
	assert_int_equal(get_keys(&cluster, NAMESPACE, &extent.extent, 1, &key), -AFAR_ELOST);
	assert_int_not_equal(data_client_write(&cluster.data, "late", 4, key.origin, key.key), 0);
	cluster_close(&cluster);
}

static void test_calls_that_are_not_for_servers(void **state)
{
	Afar__ExtentsReserve reserve = AFAR__EXTENTS_RESERVE__INIT;
	Afar__SessionEnd end = AFAR__SESSION_END__INIT;
	Afar__Request request = AFAR__REQUEST__INIT;
	Afar__Connect connect = AFAR__CONNECT__INIT;
	struct cluster cluster;
	struct rpc_ticket ticket;

	(void)state;
	cluster_open(&cluster, 0);
	/* A client may not ask what the manager may; nor the other way round. */
	reserve.namespace_ = 1;
	reserve.bytes = 2 * MIB;
	request.call_case = AFAR__REQUEST__CALL_EXTENTS_RESERVE;
	request.extents_reserve = &reserve;
	assert_int_equal(control_call(cluster.control, &request, NULL), -EOPNOTSUPP);
	request.call_case = AFAR__REQUEST__CALL_SESSION_END;
	request.session_end = &end;
	assert_int_equal(control_call(cluster.control, &request, NULL), -EOPNOTSUPP);
	request.call_case = AFAR__REQUEST__CALL_CONNECT;
	request.connect = &connect;
	assert_int_equal(fake_manager_call(&cluster.manager, &request, NULL), -EOPNOTSUPP);
	assert_int_equal(get_ticket(&cluster, 0, &ticket), -EINVAL);
	cluster_close(&cluster);
}

static void test_tickets_at_the_door(void **state)
{
	uint8_t forged[sizeof(struct rpc_ticket)];
	struct rpc_ticket ticket, unused;
	struct cluster cluster;
	size_t i;

	(void)state;
	cluster_open(&cluster, 0);
	/* None, too short, too long. */
	assert_int_equal(get_ticket(&cluster, SESSION, &ticket), 0);
	assert_int_not_equal(data_client_connect(&cluster.data, cluster.manager.data[0], NULL, 0),
			     0);
	assert_int_not_equal(
		data_client_connect(&cluster.data, cluster.manager.data[0], &ticket, 43), 0);
	/* Every part of it counts. */
	for (i = 0; i < sizeof(forged); i += 3) {
		memcpy(forged, &ticket, sizeof(forged));
		forged[i] ^= 1;
		assert_int_not_equal(data_client_connect(&cluster.data, cluster.manager.data[0],
							 forged, sizeof(forged)),
				     0);
	}
	/* Those did not use it up; once shown, it is. */
	assert_int_equal(data_client_connect(&cluster.data, cluster.manager.data[0], &ticket,
					     sizeof(ticket)),
			 0);
	data_client_disconnect(&cluster.data);
	assert_int_not_equal(data_client_connect(&cluster.data, cluster.manager.data[0], &ticket,
						 sizeof(ticket)),
			     0);
	/* The end of its session takes an unused one with it. */
	data_client_disconnect(&cluster.data);
	assert_int_equal(get_ticket(&cluster, SESSION, &unused), 0);
	assert_int_equal(fake_manager_end_session(&cluster.manager, SESSION), 0);
	assert_int_not_equal(data_client_connect(&cluster.data, cluster.manager.data[0], &unused,
						 sizeof(unused)),
			     0);
	cluster_close(&cluster);
}

static void test_session_end(void **state)
{
	struct data_client other;
	struct cluster cluster;
	struct rpc_ticket ticket;
	struct key_of key, key_of_other = {0};
	struct fake_extent extent;
	char byte = 1;

	(void)state;
	cluster_open(&cluster, 3);
	extent = reserve_one(&cluster, &key);
	data_client_open(&other);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	assert_int_equal(get_ticket(&cluster, SESSION + 1, &ticket), 0);
	assert_int_equal(
		data_client_connect(&other, cluster.manager.data[0], &ticket, sizeof(ticket)), 0);
	assert_int_equal(get_keys(&cluster, NAMESPACE, &extent.extent, 1, &key_of_other), 0);
	assert_int_equal(data_client_write(&cluster.data, &byte, 1, key.origin, key.key), 0);
	fake_manager_await(&cluster.manager, cluster.manager.report.nr_connections == 2);

	assert_int_equal(fake_manager_end_session(&cluster.manager, SESSION), 0);
	byte = 2;
	assert_int_not_equal(data_client_write(&cluster.data, &byte, 1, key.origin, key.key), 0);
	/* Nothing of it has landed, and nobody else was hurt. */
	byte = 0;
	assert_int_equal(data_client_read(&other, &byte, 1, key_of_other.origin, key_of_other.key),
			 0);
	assert_int_equal(byte, 1);
	fake_manager_await(&cluster.manager, cluster.manager.report.nr_connections == 1);
	assert_int_equal(fake_manager_end_session(&cluster.manager, 12345), 0);
	data_client_close(&other);
	cluster_close(&cluster);
}

#define NR_CLIENTS 100

static void test_many_connections(void **state)
{
	static struct data_client clients[NR_CLIENTS];
	struct cluster cluster;
	struct rpc_ticket ticket;
	struct key_of key;
	unsigned i, back;

	(void)state;
	cluster_open(&cluster, 2);
	connect_control(&cluster, SESSION + 1);
	reserve_one(&cluster, &key);
	for (i = 0; i < NR_CLIENTS; i++) {
		data_client_open(&clients[i]);
		assert_int_equal(get_ticket(&cluster, SESSION + i % 2, &ticket), 0);
		assert_int_equal(data_client_connect(&clients[i], cluster.manager.data[0], &ticket,
						     sizeof(ticket)),
				 0);
		assert_int_equal(data_client_write(&clients[i], &i, sizeof(i),
						   key.origin + i * sizeof(i), key.key),
				 0);
	}
	fake_manager_await(&cluster.manager, cluster.manager.report.nr_connections == NR_CLIENTS);
	assert_int_equal(fake_manager_end_session(&cluster.manager, SESSION), 0);
	for (i = 0; i < NR_CLIENTS; i++) {
		if (i % 2 == 0) {
			data_client_await_closed(&clients[i]);
		} else {
			assert_int_equal(data_client_read(&clients[i], &back, sizeof(back),
							  key.origin + i * sizeof(i), key.key),
					 0);
			assert_int_equal(back, i);
		}
		data_client_close(&clients[i]);
	}
	fake_manager_await(&cluster.manager, cluster.manager.report.nr_connections == 0);
	cluster_close(&cluster);
}

static void test_manager_comes_back(void **state)
{
	struct fake_extent kept, dropped;
	struct key_of key, key_of_dropped;
	struct cluster cluster;
	uint64_t incarnation;
	size_t nr_extents = 1;
	char address[FAKE_ADDRESS_MAX], byte = 9;

	(void)state;
	cluster_open(&cluster, 0);
	incarnation = cluster.manager.incarnation;
	/* Nobody has asked for a key of the one that will be dropped: that costs nobody a connection. */
	kept = reserve_one(&cluster, &key);
	assert_int_equal(
		fake_manager_reserve(&cluster.manager, NAMESPACE, 2 * MIB, &dropped, &nr_extents),
		0);
	assert_int_equal(connect_data(&cluster, SESSION), 0);

	strcpy(address, cluster.manager.address);
	fake_manager_vanish(&cluster.manager);
	/* Life goes on without it. */
	assert_int_equal(data_client_write(&cluster.data, &byte, 1, key.origin, key.key), 0);
	cluster.manager.release[0] = dropped.extent;
	cluster.manager.release[1] = dropped.extent;
	cluster.manager.release[2] = 999;
	cluster.manager.nr_release = 3;
	fake_manager_listen(&cluster.manager, address);
	fake_manager_await(&cluster.manager, cluster.manager.nr_joins == 2);
	assert_int_equal(cluster.manager.incarnation, incarnation);
	assert_int_equal(cluster.manager.server, FAKE_SERVER);
	assert_int_equal(cluster.manager.nr_joined, 2);
	assert_int_equal(cluster.manager.joined[0].extent, kept.extent);
	assert_int_equal(cluster.manager.joined[1].extent, dropped.extent);
	assert_int_equal(cluster.manager.joined[1].namespace, NAMESPACE);
	assert_int_equal(cluster.manager.joined[1].length, 2 * MIB);

	/* The extent that it does not know of is gone, the rest is there. */
	fake_manager_await(&cluster.manager, cluster.manager.report.granted_bytes == 2 * MIB);
	assert_int_equal(get_keys(&cluster, NAMESPACE, &dropped.extent, 1, &key_of_dropped),
			 -AFAR_ELOST);
	byte = 0;
	assert_int_equal(data_client_read(&cluster.data, &byte, 1, key.origin, key.key), 0);
	assert_int_equal(byte, 9);
	cluster_close(&cluster);
}

/* How often the log says that, from here to there. */
static unsigned count_lines(FILE *log, const char *what)
{
	char line[512];
	unsigned nr = 0;

	rewind(log);
	while (fgets(line, sizeof(line), log))
		nr += strstr(line, what) != NULL;
	return nr;
}

static void test_refused_until_it_is_not(void **state)
{
	int real_stderr = dup(STDERR_FILENO);
	FILE *log = tmpfile();
	struct cluster cluster;

	(void)state;
	assert_non_null(log);
	cluster_open(&cluster, 0);
	log_set_level(LOG_LEVEL_WARN);
	dup2(fileno(log), STDERR_FILENO);
	pthread_mutex_lock(&cluster.manager.lock);
	cluster.manager.refuse_joins_with = -EEXIST;
	rpc_connection_close(cluster.manager.connection);
	pthread_mutex_unlock(&cluster.manager.lock);
	fake_manager_await(&cluster.manager, cluster.manager.nr_refused >= 3);
	assert_false(server_is_joined(cluster.server));
	pthread_mutex_lock(&cluster.manager.lock);
	cluster.manager.refuse_joins_with = 0;
	pthread_mutex_unlock(&cluster.manager.lock);
	fake_manager_await(&cluster.manager, cluster.manager.nr_joins == 2);
	log_set_level(LOG_LEVEL_NONE);
	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	/* It tells of the end of its connection, and of the refusal once, however often. */
	assert_int_equal(count_lines(log, "not today"), 1);
	assert_int_equal(count_lines(log, "trying again"), 2);
	fclose(log);
	cluster_close(&cluster);
}

static void test_restart_keeps_number_not_incarnation(void **state)
{
	struct cluster cluster;
	uint64_t incarnation;
	struct key_of key;

	(void)state;
	cluster_open(&cluster, 0);
	incarnation = cluster.manager.incarnation;
	reserve_one(&cluster, &key);
	/* Its first report follows the joining, and with it the writing of the number. */
	fake_manager_await(&cluster.manager, cluster.manager.nr_reports > 0);
	cluster_close_client(&cluster);
	stop_server(&cluster);

	start_server(&cluster, 0);
	assert_int_equal(cluster.manager.server, FAKE_SERVER);
	assert_int_not_equal(cluster.manager.incarnation, incarnation);
	assert_int_equal(cluster.manager.nr_joined, 0);
	stop_server(&cluster);
	fake_manager_close(&cluster.manager);
	cluster_remove_folder(cluster.folder);
}

static void test_stop_with_clients_and_without_manager(void **state)
{
	struct cluster cluster;
	struct key_of key;

	(void)state;
	cluster_open(&cluster, 2);
	reserve_one(&cluster, &key);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	fake_manager_close(&cluster.manager);
	stop_server(&cluster);
	data_client_await_closed(&cluster.data);
	cluster_close_client(&cluster);
	cluster_remove_folder(cluster.folder);
}

static void test_start_fails_with_a_sentence(void **state)
{
	struct fake_manager manager;
	struct server_options options;
	struct rpc_loop *loop;
	struct server *server;
	struct server_lane lane = {test_transport(), any_port()};
	char folder[] = "/tmp/afar-server-XXXXXX", path[64];
	FILE *file;

	(void)state;
	fake_manager_open(&manager);
	assert_int_equal(rpc_loop_start("server", &loop), 0);
	assert_non_null(mkdtemp(folder));
	options = (struct server_options){
		.manager_host = "127.0.0.1",
		.manager_port = 1, /* nobody is there: that is no reason not to start */
		.key = &manager.key,
		.control_address = manager.address,
		.lanes = &lane,
		.nr_lanes = 1,
		.folder = folder,
	};
	assert_int_equal(server_start(loop, &options, &server), -EADDRINUSE);
	options.control_address = "127.0.0.1:0";
	lane.transport = "pigeon";
	assert_int_equal(server_start(loop, &options, &server), -EINVAL);
	lane.transport = test_transport();
	lane.address = manager.address;
	if (is_on_tcp()) /* others have port numbers of their own */
		assert_int_equal(server_start(loop, &options, &server), -EADDRINUSE);
	lane.address = any_port();
	options.nr_lanes = 0;
	assert_int_equal(server_start(loop, &options, &server), -EINVAL);
	options.nr_lanes = 1;
	options.capacity_bytes = 1;
	assert_int_equal(server_start(loop, &options, &server), -EINVAL);
	options.capacity_bytes = 0;
	options.nr_progress = 1000;
	assert_int_equal(server_start(loop, &options, &server), -EINVAL);
	options.nr_progress = 0;

	snprintf(path, sizeof(path), "%s/server.id", folder);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("seven\n", file);
	fclose(file);
	assert_int_equal(server_start(loop, &options, &server), -EINVAL);
	assert_non_null(strstr(afar_last_error(), "server.id"));
	unlink(path);

	assert_int_equal(server_start(loop, &options, &server), 0);
	assert_false(server_is_joined(server));
	server_stop(server);
	rpc_loop_stop(loop);
	fake_manager_close(&manager);
	cluster_remove_folder(folder);
}

static void test_ticket_book(void **state)
{
	struct rpc_ticket ticket, other;
	struct tickets *tickets, *instant;
	struct rpc_ticket oldest;
	struct admission eight = {8, {5, true}, 0}, nine = {9, {5, true}, 0},
			 one = {1, {5, true}, 0};
	struct admission reader = {8, {5, false}, 0}, foreign = {8, {6, true}, 0}, out;

	(void)state;
	assert_int_equal(tickets_open(3, TICKET_LIFETIME_S, PASS_LIFETIME_MAX_S, &tickets), 0);
	assert_int_equal(tickets_open(3, 0, 0, &instant), 0);
	assert_int_equal(tickets_issue(tickets, &eight, &ticket), -EACCES);
	assert_int_equal(tickets_entitle(tickets, &eight), 0);
	assert_int_equal(tickets_entitle(tickets, &eight), 0);
	assert_int_equal(tickets_entitle(tickets, &nine), 0);
	assert_int_equal(tickets_entitle(tickets, &one), 0);
	assert_int_equal(tickets_entitle(instant, &eight), 0);
	/* For just what it is entitled to. */
	assert_int_equal(tickets_issue(tickets, &reader, &ticket), -EACCES);
	assert_int_equal(tickets_issue(tickets, &foreign, &ticket), -EACCES);
	assert_int_equal(tickets_issue(tickets, &eight, &ticket), 0);
	/* Another server's key is another. */
	assert_int_equal(tickets_redeem(instant, &ticket, sizeof(ticket), &out), -EACCES);
	assert_int_equal(tickets_redeem(tickets, &ticket, sizeof(ticket), &out), 0);
	assert_int_equal(out.session, 8);
	assert_int_equal(out.reach.namespace, 5);
	assert_true(out.reach.may_write);
	assert_true(out.connection == eight.connection && out.connection != 0);
	assert_int_equal(tickets_redeem(tickets, &ticket, sizeof(ticket), &out), -EACCES);
	/* Too late. */
	assert_int_equal(tickets_issue(instant, &eight, &other), 0);
	assert_int_equal(tickets_redeem(instant, &other, sizeof(other), &out), -EACCES);
	/* Cancelled: by its own session only. */
	assert_int_equal(tickets_issue(tickets, &eight, &ticket), 0);
	tickets_cancel(tickets, 9, eight.connection);
	assert_int_equal(tickets_redeem(tickets, &ticket, sizeof(ticket), &out), 0);
	assert_int_equal(tickets_issue(tickets, &eight, &ticket), 0);
	tickets_cancel(tickets, 8, eight.connection);
	assert_int_equal(tickets_redeem(tickets, &ticket, sizeof(ticket), &out), -EACCES);
	/* Revoked: that session's only. */
	assert_int_equal(tickets_issue(tickets, &eight, &ticket), 0);
	assert_int_equal(tickets_issue(tickets, &nine, &other), 0);
	assert_int_equal(tickets_revoke(tickets, 8), 0);
	assert_int_equal(tickets_redeem(tickets, &ticket, sizeof(ticket), &out), -EACCES);
	/* It does not come back. */
	assert_int_equal(tickets_issue(tickets, &eight, &ticket), -AFAR_ESESSION);
	assert_int_equal(tickets_check_session(tickets, 8), -AFAR_ESESSION);
	assert_int_equal(tickets_check_session(tickets, 9), 0);
	assert_int_equal(tickets_redeem(tickets, &other, sizeof(other), &out), 0);
	/* Bounded, and who takes all there are keeps nobody else out. */
	assert_int_equal(tickets_issue(tickets, &one, &oldest), 0);
	for (unsigned i = 0; i < 20000; i++)
		assert_int_equal(tickets_issue(tickets, &one, &ticket), 0);
	assert_int_equal(tickets_issue(tickets, &nine, &other), 0);
	assert_int_equal(tickets_redeem(tickets, &oldest, sizeof(oldest), &out), -EACCES);
	assert_int_equal(tickets_redeem(tickets, &ticket, sizeof(ticket), &out), 0);
	assert_int_equal(tickets_redeem(tickets, &other, sizeof(other), &out), 0);
	tickets_close(instant);
	tickets_close(tickets);
}

/* Sessions that ended are remembered for as long as that matters, and no longer. */
static void test_ended_sessions(void **state)
{
	struct tickets *tickets, *instant;
	struct tickets_stat stat;

	(void)state;
	assert_int_equal(tickets_open(3, TICKET_LIFETIME_S, PASS_LIFETIME_MAX_S, &tickets), 0);
	assert_int_equal(tickets_open(3, TICKET_LIFETIME_S, 0, &instant), 0);
	for (uint64_t session = 1; session <= 1000; session++) {
		const struct admission admission = {session, {5, true}, 0};

		assert_int_equal(tickets_entitle(tickets, &admission), 0);
		assert_int_equal(tickets_entitle(instant, &admission), 0);
		assert_int_equal(tickets_revoke(tickets, session), 0);
		assert_int_equal(tickets_revoke(tickets, session), 0);
		assert_int_equal(tickets_revoke(instant, session), 0);
		assert_int_equal(tickets_check_session(tickets, session), -AFAR_ESESSION);
	}
	assert_int_equal(tickets_check_session(tickets, 1), -AFAR_ESESSION);
	tickets_stat(tickets, &stat);
	assert_int_equal(stat.nr_ended, 1000);
	assert_int_equal(stat.nr_sessions, 0);
	tickets_stat(instant, &stat);
	assert_int_equal(stat.nr_ended, 1);
	assert_int_equal(stat.nr_sessions, 0);
	assert_int_equal(stat.nr_reaches, 0);
	tickets_close(instant);
	tickets_close(tickets);
}

/* A session is entitled to a namespace as long as that has memory here. */
static void test_entitled_to_namespaces(void **state)
{
	const struct extent_pool_options options = {.capacity_bytes = CAPACITY};
	struct extent_pool *pool;
	struct tickets_stat stat;
	struct tickets *tickets;
	struct rpc_ticket ticket;

	(void)state;
	assert_int_equal(extent_pool_open(&options, &pool), 0);
	assert_int_equal(tickets_open(3, TICKET_LIFETIME_S, PASS_LIFETIME_MAX_S, &tickets), 0);
	for (uint64_t namespace = 1; namespace <= 100; namespace ++) {
		struct extent_info *extents;
		size_t nr_extents;

		assert_int_equal(extent_pool_reserve(pool, namespace, 4 * MIB,
						     clock_deadline_ms(FAKE_PATIENCE_MS), &extents,
						     &nr_extents),
				 0);
		for (uint64_t session = 1; session <= 3; session++) {
			struct admission writer = {session, {namespace, true}, 0};
			struct admission reader = {session, {namespace, false}, 0};

			assert_int_equal(tickets_entitle(tickets, &writer), 0);
			assert_int_equal(tickets_entitle(tickets, &reader), 0);
			tickets_forget_namespace(tickets, pool, NULL, namespace);
			assert_int_equal(tickets_issue(tickets, &writer, &ticket), 0);
			assert_int_equal(tickets_issue(tickets, &reader, &ticket), 0);
		}
		for (size_t i = 0; i < nr_extents; i++)
			extent_pool_release(pool, &extents[i].extent, 1);
		free(extents);
		tickets_forget_namespace(tickets, pool, NULL, namespace);
		for (uint64_t session = 1; session <= 3; session++) {
			struct admission writer = {session, {namespace, true}, 0};

			assert_int_equal(tickets_issue(tickets, &writer, &ticket), -EACCES);
		}
	}
	tickets_stat(tickets, &stat);
	assert_int_equal(stat.nr_reaches, 0);
	tickets_close(tickets);
	extent_pool_close(pool);
}

static void test_identity_file(void **state)
{
	struct server_identity first = {.number = 1, .cluster = "here"};
	struct server_identity last = {.number = UINT64_MAX, .cluster = "there"};
	char folder[] = "/tmp/afar-identity-XXXXXX";
	struct server_identity found;

	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(identity_load(folder, &found), 0);
	assert_int_equal(found.number, 0);
	assert_int_equal(identity_save(folder, &first), 0);
	assert_int_equal(identity_save(folder, &last), 0);
	assert_int_equal(identity_load(folder, &found), 0);
	assert_true(found.number == UINT64_MAX);
	assert_string_equal(found.cluster, "there");
	cluster_remove_folder(folder);
	assert_int_equal(identity_save(folder, &first), -ENOENT);
}

static void test_advertise(void **state)
{
	char out[ADVERTISE_MAX];

	(void)state;
	advertise("192.0.2.1:77", "127.0.0.1", 1, out);
	assert_string_equal(out, "192.0.2.1:77");
	advertise("0.0.0.0:77", "127.0.0.1", 1, out);
	assert_string_equal(out, "127.0.0.1:77");
	advertise("[::]:77", "127.0.0.1", 1, out);
	assert_string_equal(out, "127.0.0.1:77");
}

TEST_GROUP(server)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_write_and_read),
		cmocka_unit_test(test_reserve_all_or_nothing),
		cmocka_unit_test(test_keys_of_others),
		cmocka_unit_test(test_calls_that_are_not_for_servers),
		cmocka_unit_test(test_tickets_at_the_door),
		cmocka_unit_test(test_session_end),
		cmocka_unit_test(test_many_connections),
		cmocka_unit_test(test_manager_comes_back),
		cmocka_unit_test(test_refused_until_it_is_not),
		cmocka_unit_test(test_restart_keeps_number_not_incarnation),
		cmocka_unit_test(test_stop_with_clients_and_without_manager),
		cmocka_unit_test(test_start_fails_with_a_sentence),
		cmocka_unit_test(test_ticket_book),
		cmocka_unit_test(test_ended_sessions),
		cmocka_unit_test(test_entitled_to_namespaces),
		cmocka_unit_test(test_identity_file),
		cmocka_unit_test(test_advertise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
