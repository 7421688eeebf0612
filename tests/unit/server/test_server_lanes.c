/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server with two lanes: the same memory over both, with keys of their own, and fences that reach both.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "lib/server/server_cluster.h"
#include "server/data/congestion.h"
#include "unit/group.h"

/* A second client, which goes by the second lane. */
static struct key_of connect_second(struct cluster *cluster, struct data_client *client,
				    uint64_t session, uint64_t extent)
{
	struct rpc_ticket ticket;
	struct key_of key;

	data_client_open(client);
	connect_control(cluster, session);
	cluster->lane = 1;
	assert_int_equal(get_keys(cluster, NAMESPACE, &extent, 1, &key), 0);
	cluster->lane = 0;
	assert_int_equal(ask_ticket(cluster, session, NAMESPACE, RIGHT_ALL, &ticket), 0);
	assert_int_equal(
		data_client_connect(client, cluster->manager.data[1], &ticket, sizeof(ticket)), 0);
	return key;
}

static void test_same_memory_over_both(void **state)
{
	struct key_of first, second;
	struct data_client other;
	struct fake_extent extent;
	struct cluster cluster;
	char back[6] = {0};

	(void)state;
	cluster_open_lanes(&cluster, 2, 1);
	assert_int_equal(cluster.manager.nr_lanes, 2);
	assert_string_not_equal(cluster.manager.data[0], cluster.manager.data[1]);
	extent = reserve_one(&cluster, &first);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	second = connect_second(&cluster, &other, SESSION + 1, extent.extent);
	fake_manager_await(&cluster.manager, cluster.manager.report.nr_connections == 2);

	assert_int_equal(data_client_write(&cluster.data, "there", 6, first.origin, first.key), 0);
	assert_int_equal(data_client_read(&other, back, 6, second.origin, second.key), 0);
	assert_string_equal(back, "there");
	assert_int_equal(data_client_write(&other, "again", 6, second.origin, second.key), 0);
	assert_int_equal(data_client_read(&cluster.data, back, 6, first.origin, first.key), 0);
	assert_string_equal(back, "again");
	data_client_close(&other);
	cluster_close(&cluster);
}

static void test_fences_reach_both(void **state)
{
	struct data_client other, third;
	struct key_of first, second;
	struct fake_extent extent, kept;
	struct cluster cluster;

	(void)state;
	cluster_open_lanes(&cluster, 2, 2);
	kept = reserve_one(&cluster, &first);
	extent = reserve_one(&cluster, &first);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	connect_second(&cluster, &other, SESSION + 1, extent.extent);
	second = connect_second(&cluster, &third, SESSION + 2, kept.extent);
	fake_manager_await(&cluster.manager, cluster.manager.report.nr_connections == 3);

	/* A session's end closes what is its own, on whichever lane. */
	assert_int_equal(fake_manager_end_session(&cluster.manager, SESSION + 1), 0);
	data_client_await_closed(&other);
	fake_manager_await(&cluster.manager, cluster.manager.report.nr_connections == 2);
	assert_int_equal(data_client_write(&third, "on", 3, second.origin, second.key), 0);

	/* Memory that goes closes all of its namespace, on all. */
	assert_int_equal(fake_manager_release(&cluster.manager, extent.extent), 0);
	data_client_await_closed(&cluster.data);
	data_client_await_closed(&third);
	fake_manager_await(&cluster.manager, cluster.manager.report.nr_connections == 0);
	data_client_close(&other);
	data_client_close(&third);
	cluster_close(&cluster);
}

/* Connections come and go; some have none. */
static void test_lists_congestion_control_in_use(void **state)
{
	static const char *const more[] = {"c", "d", "e", "f", "g", "h", "i"};
	char list[FABRIC_CONGESTIONS_MAX];
	struct congestion congestion;

	(void)state;
	congestion_init(&congestion);
	congestion_list(&congestion, list);
	assert_string_equal(list, "");
	congestion_enter(&congestion, "bbr");
	congestion_enter(&congestion, "");
	congestion_enter(&congestion, "cubic");
	congestion_enter(&congestion, "bbr");
	congestion_leave(&congestion, "bbr");
	congestion_list(&congestion, list);
	assert_true(strcmp(list, "bbr,cubic") == 0 || strcmp(list, "cubic,bbr") == 0);
	congestion_leave(&congestion, "bbr");
	congestion_leave(&congestion, "");
	congestion_list(&congestion, list);
	assert_string_equal(list, "cubic");

	/* More than it has places for: those are left out, and do not take others' when they go. */
	for (unsigned i = 0; i < 7; i++)
		congestion_enter(&congestion, more[i]);
	congestion_enter(&congestion, "beyond");
	congestion_leave(&congestion, "beyond");
	for (unsigned i = 0; i < 7; i++)
		congestion_leave(&congestion, more[i]);
	congestion_list(&congestion, list);
	assert_string_equal(list, "cubic");
	congestion_destroy(&congestion);
}

static void test_merges_lists(void **state)
{
	char list[16] = "";

	(void)state;
	text_merge(list, sizeof(list), "");
	assert_string_equal(list, "");
	text_merge(list, sizeof(list), "bbr2");
	text_merge(list, sizeof(list), "bbr,bbr2,,bbr");
	assert_string_equal(list, "bbr2,bbr");
	text_merge(list, sizeof(list), "too-long-a-name,cubic");
	assert_string_equal(list, "bbr2,bbr,cubic");
	text_merge(list, sizeof(list), "x");
	assert_string_equal(list, "bbr2,bbr,cubic");
}

TEST_GROUP(server_lanes)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_memory_over_both),
		cmocka_unit_test(test_fences_reach_both),
		cmocka_unit_test(test_lists_congestion_control_in_use),
		cmocka_unit_test(test_merges_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
