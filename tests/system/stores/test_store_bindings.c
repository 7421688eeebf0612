/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions on flash under live clients, while servers are killed and started again. Calls fail
 * while a store is away and work when it is back. Durable bytes are there. A sync says once
 * that writes may be lost.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/namespace/region.h"
#include "lib/api/api.h"

#define NR_SERVERS 2U
#define LENGTH	   (3 * MIB)

static struct afar_namespace *ns;
static uint8_t wanted[LENGTH], got[LENGTH];
static char moved_path[PATH_MAX];

static int setup(void **state)
{
	const struct afar_policy policy = {
		.size = sizeof(policy), .tier = AFAR_TIER_FLASH, .stripe_bytes = 64 * KIB};

	(void)state;
	if (cluster_start_flash(NR_SERVERS, 64 * MIB, 128 * MIB, &cluster) ||
	    afar_session_open(cluster_uri(cluster), NULL, &session))
		return -1;
	if (afar_namespace_create(session, "flash", &policy, &ns))
		return -1;
	return afar_namespace_reserve(ns, 64 * MIB);
}

static int teardown(void **state)
{
	return afar_namespace_close(ns) || stop(state) ? -1 : 0;
}

/* ---- Helpers */

static struct afar_region *make_region(const char *name, unsigned seed)
{
	struct afar_region *region;

	assert_int_equal(afar_region_create(ns, name, LENGTH, 0, &region), 0);
	fill(wanted, LENGTH, seed);
	assert_int_equal(afar_region_pwrite(region, wanted, LENGTH, 0), LENGTH);
	return region;
}

/* Writes that ended, well or not, are no longer counted as in flight. */
static void expect_no_writes(struct afar_region *region)
{
	const struct binding *binding = region->target.binding;

	for (uint32_t i = 0; i < binding->layout->nr_homes; i++)
		assert_int_equal(binding->servers[i].peer->nr_writing, 0);
}

static void expect_bytes(struct afar_region *region, unsigned seed)
{
	expect_no_writes(region);
	fill(wanted, LENGTH, seed);
	assert_int_equal(afar_region_pread(region, got, LENGTH, 0), LENGTH);
	assert_memory_equal(got, wanted, LENGTH);
}

static void crash(unsigned i)
{
	cluster_kill_server(cluster, i);
	assert_int_equal(cluster_restart_server(cluster, i), 0);
}

static void end_well(unsigned i)
{
	cluster_stop_server(cluster, i);
	assert_int_equal(cluster_restart_server(cluster, i), 0);
}

/* Looks at the region, so that no connection to a server that is gone is left. */
static void look_around(struct afar_region *region)
{
	int attempts = 0;

	while (afar_region_pread(region, got, LENGTH, 0) != LENGTH)
		if (attempts++ == 3)
			fail_msg("still: %s", afar_last_error());
}

static void expect_unsynced_once(struct afar_region *region)
{
	look_around(region);
	expect_error(afar_region_sync(region), -AFAR_EUNSYNCED);
	assert_int_equal(afar_region_sync(region), 0);
	assert_int_equal(afar_region_sync(region), 0);
}

static void expect_synced(struct afar_region *region)
{
	look_around(region);
	assert_int_equal(afar_region_sync(region), 0);
}

/* A server that was killed leaves its ports to its own cluster: no other test's server listens there, and is taken for it. */
static void test_ports_of_its_own(void **state)
{
	char *status;

	(void)state;
	assert_int_equal(afar_session_status(session, &status), 0);
	assert_non_null(strstr(status, "\"control_address\": \"127."));
	assert_null(strstr(status, "\"control_address\": \"127.0.0.1:"));
	if (!getenv("AFAR_TEST_HOST"))
		assert_null(strstr(status, "\"address\": \"127.0.0.1:"));
	free(status);
}

/* Runs one operation on a queue, and returns its result. */
static int64_t run(struct afar_queue *queue, struct afar_region *region, uint16_t opcode,
		   uint32_t flags, void *data)
{
	const bool is_transfer = opcode == AFAR_OP_READ || opcode == AFAR_OP_WRITE;
	const struct afar_iov iov = {NULL, data, LENGTH};
	const struct afar_op op = {.opcode = opcode,
				   .flags = flags,
				   .target = afar_region_target(region),
				   .iov = is_transfer ? &iov : NULL,
				   .nr_iov = is_transfer};
	struct afar_completion done;

	assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
	assert_int_equal(afar_queue_wait(queue, &done, 1, 1, -1), 1);
	return done.result;
}

/* ---- Live clients */

static void test_blocking_calls(void **state)
{
	struct afar_region *region = make_region("blocking", 1);

	(void)state;
	assert_int_equal(afar_region_sync(region), 0);
	for (unsigned i = 0; i < NR_SERVERS; i++) {
		cluster_kill_server(cluster, i);
		expect_error(afar_region_pread(region, got, LENGTH, 0), -AFAR_ESERVER);
		expect_error(afar_region_pwrite(region, wanted, LENGTH, 0), -AFAR_ESERVER);
		expect_error(afar_region_sync(region), -AFAR_ESERVER);
		assert_int_equal(cluster_restart_server(cluster, i), 0);
		expect_bytes(region, 1);
		expect_unsynced_once(region);
		assert_int_equal(afar_region_pwrite(region, wanted, LENGTH, 0), LENGTH);
		assert_int_equal(afar_region_sync(region), 0);
	}
	drop_region(region);
}

static void test_queues(void **state)
{
	struct afar_region *region = make_region("queues", 2);
	struct afar_queue *queue;
	int64_t ret;

	(void)state;
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	assert_int_equal(run(queue, region, AFAR_OP_SYNC, 0, NULL), 0);
	fill(wanted, LENGTH, 3);
	assert_int_equal(run(queue, region, AFAR_OP_WRITE, AFAR_OP_DURABLE, wanted), LENGTH);
	cluster_kill_server(cluster, 0);
	ret = run(queue, region, AFAR_OP_READ, 0, got);
	assert_true(ret == -AFAR_ESERVER || ret == -ENOTCONN);
	expect_error(afar_queue_connect(queue, afar_region_target(region)), -AFAR_ESERVER);
	assert_int_equal(cluster_restart_server(cluster, 0), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	assert_int_equal(run(queue, region, AFAR_OP_READ, 0, got), LENGTH);
	assert_memory_equal(got, wanted, LENGTH);
	assert_int_equal(run(queue, region, AFAR_OP_SYNC, 0, NULL), -AFAR_EUNSYNCED);
	assert_int_equal(run(queue, region, AFAR_OP_SYNC, 0, NULL), 0);
	assert_int_equal(afar_queue_close(queue), 0);
	drop_region(region);
}

/* Zeros and trims that were durable are there after a kill, and others may be; blocking ones go on over a
 * new connection. */
static void test_zeros(void **state)
{
	struct afar_region *region = make_region("zeros", 21);
	struct afar_target *target = afar_region_target(region);

	(void)state;
	assert_int_equal(afar_region_sync(region), 0);
	for (unsigned i = 0; i < NR_SERVERS; i++) {
		const uint64_t offset = i * MIB + 4095, length = 300 * KIB + 2 * i;

		crash(i);
		assert_int_equal(target_zero(target, AFAR_OP_ZERO, AFAR_OP_DURABLE, offset, length),
				 0);
		memset(wanted + offset, 0, length);
		crash(i);
		assert_int_equal(target_zero(target, AFAR_OP_TRIM, 0, offset, length), 0);
		assert_int_equal(target_zero(target, AFAR_OP_ZERO, 0, offset, 1), 0);
		assert_int_equal(afar_region_pread(region, got, LENGTH, 0), LENGTH);
		assert_memory_equal(got, wanted, LENGTH);
		expect_error(afar_region_sync(region), -AFAR_EUNSYNCED);
		assert_int_equal(target_zero(target, AFAR_OP_ZERO, 0, offset + length, 5), 0);
		memset(wanted + offset + length, 0, 5);
		assert_int_equal(afar_region_sync(region), 0);
	}
	cluster_kill_server(cluster, 0);
	assert_int_equal(target_zero(target, AFAR_OP_ZERO, 0, 0, LENGTH), -AFAR_ESERVER);
	assert_int_equal(cluster_restart_server(cluster, 0), 0);
	assert_int_equal(target_zero(target, AFAR_OP_ZERO, 0, 0, LENGTH), 0);
	assert_int_equal(afar_region_pread(region, got, LENGTH, 0), LENGTH);
	assert_int_equal(count_bytes(got, LENGTH, 0), LENGTH);
	drop_region(region);
}

static void test_mappings(void **state)
{
	struct afar_region *region = make_region("mapped", 4);
	struct afar_mapping *mapping;

	(void)state;
	assert_int_equal(afar_region_sync(region), 0);
	assert_int_equal(afar_region_map(region, 0, LENGTH, 0, &mapping), 0);
	crash(0);
	look_around(region);
	assert_int_equal(afar_mapping_read(mapping, 0, LENGTH), 0);
	assert_memory_equal(afar_mapping_data(mapping), wanted, LENGTH);
	fill(afar_mapping_data(mapping), LENGTH, 5);
	assert_int_equal(afar_mapping_write(mapping, 0, LENGTH), 0);
	assert_int_equal(afar_mapping_unmap(mapping), 0);
	expect_bytes(region, 5);
	drop_region(region);
}

/* Regions are opened, listed and freed while a server is away. Its store hears of that when it is
 * back: a new region in the same place begins as zeros. */
static void test_while_away(void **state)
{
	struct afar_region_stat stats[4] = {{.size = sizeof(*stats)}};
	struct afar_region *kept = make_region("kept", 16), *freed = make_region("freed", 17),
			   *opened = NULL, *made;
	int ret;

	(void)state;
	assert_int_equal(afar_region_sync(kept), 0);
	cluster_kill_server(cluster, 0);
	assert_int_equal(afar_region_list(ns, 0, stats, 4), 2);
	assert_int_equal(stats[0].is_lost, 0);
	ret = afar_region_open(ns, "kept", &opened);
	assert_true(ret == 0 || ret == -AFAR_ESERVER);
	drop_region(freed);
	assert_int_equal(cluster_restart_server(cluster, 0), 0);
	if (!opened)
		assert_int_equal(afar_region_open(ns, "kept", &opened), 0);
	expect_bytes(opened, 16);
	assert_int_equal(afar_region_close(opened), 0);
	expect_bytes(kept, 16);
	/* All that is reserved and free, so that what was freed is part of it. */
	for (int i = 0; i < 16; i++) {
		assert_int_equal(afar_region_alloc(ns, LENGTH, 0, &made), 0);
		assert_int_equal(afar_region_pread(made, got, LENGTH, 0), LENGTH);
		assert_int_equal(count_bytes(got, LENGTH, 0), LENGTH);
		fill(got, LENGTH, 18);
		assert_int_equal(afar_region_pwrite(made, got, LENGTH, 0), LENGTH);
		assert_int_equal(afar_region_sync(made), 0);
		drop_region(made);
	}
	drop_region(kept);
}

/* Server and manager restart at once, and the session finds both again. */
static void test_with_the_manager(void **state)
{
	struct afar_region *region = make_region("both", 6);

	(void)state;
	assert_int_equal(afar_region_sync(region), 0);
	cluster_kill_server(cluster, 0);
	cluster_kill_manager(cluster);
	assert_int_equal(cluster_restart_manager(cluster), 0);
	assert_int_equal(cluster_restart_server(cluster, 0), 0);
	expect_unsynced_once(region);
	expect_bytes(region, 6);
	drop_region(region);
}

/* A store closes connections when memory that they could reach goes. Calls that meet that are done
 * again over new ones, syncs too. */
static void test_closed_connections(void **state)
{
	struct afar_region *region = make_region("closed", 15);
	uint64_t released;

	(void)state;
	for (int i = 0; i < 20; i++) {
		assert_int_equal(afar_region_pwrite(region, wanted, LENGTH, 0), LENGTH);
		assert_int_equal(afar_namespace_reserve(ns, 8 * MIB), 0);
		assert_int_equal(afar_namespace_release(ns, 8 * MIB, &released), 0);
		assert_true(released > 0);
		assert_int_equal(afar_region_sync(region), 0);
	}
	drop_region(region);
}

/* A read of blocks that were written one by one, backwards, is many reads of the device. */
static void test_many_parts(void **state)
{
	const struct afar_policy policy = {
		.size = sizeof(policy), .tier = AFAR_TIER_FLASH, .stripe_bytes = MIB, .width = 1};
	const size_t block = 4096;
	struct afar_namespace *parts;
	struct afar_region *region;

	(void)state;
	assert_int_equal(afar_namespace_create(session, "parts", &policy, &parts), 0);
	assert_int_equal(afar_namespace_reserve(parts, 4 * MIB), 0);
	assert_int_equal(afar_region_alloc(parts, LENGTH, 0, &region), 0);
	fill(wanted, LENGTH, 13);
	for (size_t at = LENGTH; at > 0; at -= block)
		assert_int_equal(afar_region_pwrite(region, wanted + at - block, block, at - block),
				 block);
	for (int i = 0; i < 20; i++)
		expect_bytes(region, 13);
	drop_region(region);
	drop_namespace(parts, "parts");
}

/* ---- Syncs after a crash */

static void test_clean_ends(void **state)
{
	struct afar_region *region = make_region("clean", 7);

	(void)state;
	end_well(0);
	end_well(1);
	expect_synced(region);
	expect_bytes(region, 7);
	crash(0);
	end_well(0);
	end_well(0);
	expect_unsynced_once(region);
	end_well(0);
	expect_synced(region);
	drop_region(region);
}

static void test_by_proxy(void **state)
{
	struct afar_region *region = make_region("proxy", 8), *late;
	struct view writer;

	(void)state;
	assert_int_equal(afar_region_sync(region), 0);
	open_view(&writer, "flash", "proxy");
	assert_int_equal(afar_region_pwrite(writer.region, wanted, LENGTH, 0), LENGTH);
	crash(1);
	expect_unsynced_once(region);
	assert_int_equal(afar_region_open(ns, "proxy", &late), 0);
	expect_synced(late);
	expect_unsynced_once(writer.region);
	expect_synced(region);
	assert_int_equal(afar_region_close(late), 0);
	close_view(&writer);
	drop_region(region);
}

/* A sync that fails for another reason has not said that writes may be lost: the next one does. */
static void test_failed_sync(void **state)
{
	struct afar_region *region = make_region("failed", 14);
	struct afar_queue *queue;
	int64_t ret;

	(void)state;
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	for (unsigned i = 0; i < NR_SERVERS; i++) {
		crash(i);
		assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
		cluster_stop_server(cluster, 1 - i);
		ret = run(queue, region, AFAR_OP_SYNC, 0, NULL);
		assert_int_equal(cluster_restart_server(cluster, 1 - i), 0);
		if (ret == -AFAR_EUNSYNCED) { /* the other store's answer came first */
			expect_synced(region);
			continue;
		}
		assert_int_equal(ret, -AFAR_ESERVER);
		expect_unsynced_once(region);
	}
	assert_int_equal(afar_queue_close(queue), 0);
	drop_region(region);
}

/* Syncs that are under way together all hear of it. */
static void test_syncs_together(void **state)
{
	const unsigned nr = 8;
	struct afar_region *region = make_region("together", 9);
	const struct afar_op sync = {.opcode = AFAR_OP_SYNC, .target = afar_region_target(region)};
	struct afar_completion done[8];
	struct afar_queue *queue;

	(void)state;
	crash(0);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	for (unsigned i = 0; i < nr; i++)
		assert_int_equal(afar_queue_submit(queue, &sync, 1), 1);
	assert_int_equal(afar_queue_wait(queue, done, nr, nr, -1), nr);
	for (unsigned i = 0; i < nr; i++)
		assert_int_equal(done[i].result, -AFAR_EUNSYNCED);
	assert_int_equal(run(queue, region, AFAR_OP_SYNC, 0, NULL), 0);
	assert_int_equal(afar_queue_close(queue), 0);
	drop_region(region);
}

/* ---- Layouts */

/* Gives a handle the layout of another region, as a change that a restart hides would leave it. */
static void mislead(struct afar_region *region, const struct afar_region *other)
{
	Afar__RegionOpen open = AFAR__REGION_OPEN__INIT;
	struct layout_description layout = {.number = 1000};
	struct binding *binding;
	Afar__Frame *reply;

	open.namespace_ = other->target.ns;
	open.name = (char *)other->name;
	assert_int_equal(session_call_for(session, RPC_REQUEST(REGION_OPEN, region_open, &open),
					  AFAR__REPLY__RESULT_REGION_INFO, &reply),
			 0);
	layout.message = reply->reply->region_info->layout;
	layout.length = reply->reply->region_info->length;
	pthread_mutex_lock(&region->target.lock);
	assert_int_equal(binding_new(&region->target, &layout, &binding), 0);
	target_bind(&region->target, binding);
	pthread_mutex_unlock(&region->target.lock);
	afar__frame__free_unpacked(reply, NULL);
}

/* Each new incarnation of a server makes a handle ask for its layout anew. So the handle does not
 * believe what it had before the restart, whatever its number. */
static void test_layout_is_asked_for(void **state)
{
	struct afar_region *other = make_region("other", 10), *region = make_region("own", 11);

	(void)state;
	assert_int_equal(afar_region_sync(other), 0);
	assert_int_equal(afar_region_sync(region), 0);
	mislead(region, other);
	expect_bytes(region, 10);
	crash(0);
	look_around(region);
	expect_bytes(region, 11);
	/* The server's count of changes begins anew; later ones are noticed all the same. */
	mislead(region, other);
	crash(0);
	crash(0);
	look_around(region);
	expect_bytes(region, 11);
	drop_region(other);
	drop_region(region);
}

/* ---- Disks that are moved. Last: the first server does not come back. */

static void test_moved_store(void **state)
{
	struct afar_region *region = make_region("moved", 12), *late;

	(void)state;
	assert_int_equal(afar_region_sync(region), 0);
	snprintf(moved_path, sizeof(moved_path), "%s/server/flash",
		 cluster_server_folder(cluster, 0));
	cluster_stop_server(cluster, 0);
	expect_error(afar_region_pread(region, got, LENGTH, 0), -AFAR_ESERVER);
	cluster_stop_server(cluster, 1);
	cluster_move_store(cluster, 1, moved_path);
	assert_int_equal(cluster_restart_server(cluster, 1), 0);
	expect_bytes(region, 12);
	expect_synced(region);
	assert_int_equal(afar_region_open(ns, "moved", &late), 0);
	expect_bytes(late, 12);
	assert_int_equal(afar_region_close(late), 0);
	/* It is the new server's now, over crashes too. */
	crash(1);
	expect_unsynced_once(region);
	expect_bytes(region, 12);
	drop_region(region);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ports_of_its_own), cmocka_unit_test(test_blocking_calls),
		cmocka_unit_test(test_queues),		 cmocka_unit_test(test_zeros),
		cmocka_unit_test(test_mappings),	 cmocka_unit_test(test_while_away),
		cmocka_unit_test(test_with_the_manager), cmocka_unit_test(test_closed_connections),
		cmocka_unit_test(test_many_parts),	 cmocka_unit_test(test_clean_ends),
		cmocka_unit_test(test_by_proxy),	 cmocka_unit_test(test_failed_sync),
		cmocka_unit_test(test_syncs_together),	 cmocka_unit_test(test_layout_is_asked_for),
		cmocka_unit_test(test_moved_store),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
