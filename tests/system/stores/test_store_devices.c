/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices come and go under a live session. It uses a device that has come, also for the second time,
 * and its open regions follow a device to a running server.
 */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/api/api.h"

#define LENGTH (3 * MIB)

static char folder[] = "/tmp/afar-devices-XXXXXX", device[64];
static uint8_t wanted[LENGTH], got[LENGTH];

static int setup(void **state)
{
	char command[PATH_MAX];

	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(device, sizeof(device), "%s/device", folder);
	snprintf(command, sizeof(command), "\"$AFAR\" flash create %s --size 64M >/dev/null",
		 device);
	/* Numbers of servers are given in the order of their first joins. */
	return system(command) || cluster_start_flash(2, 64 * MIB, 64 * MIB, &cluster) ||
			       afar_session_open(cluster_uri(cluster), NULL, &session)
		       ? -1
		       : 0;
}

static int teardown(void **state)
{
	int ret = stop(state);

	return remove(device) || remove(folder) || ret ? -1 : 0;
}

static struct afar_namespace *make_flash(const char *name, uint32_t width, uint64_t reserve)
{
	const struct afar_policy policy = {.size = sizeof(policy),
					   .tier = AFAR_TIER_FLASH,
					   .width = width,
					   .stripe_bytes = 64 * KIB};
	struct afar_namespace *ns;

	assert_int_equal(afar_namespace_create(session, name, &policy, &ns), 0);
	assert_int_equal(afar_namespace_reserve(ns, reserve), 0);
	return ns;
}

static struct afar_region *make_region(struct afar_namespace *ns, unsigned seed)
{
	struct afar_region *region;

	assert_int_equal(afar_region_create(ns, "a", LENGTH, 0, &region), 0);
	fill(wanted, LENGTH, seed);
	assert_int_equal(afar_region_pwrite(region, wanted, LENGTH, 0), LENGTH);
	assert_int_equal(afar_region_sync(region), 0);
	return region;
}

static void expect_bytes(struct afar_region *region, unsigned seed)
{
	fill(wanted, LENGTH, seed);
	memset(got, 0, LENGTH);
	if (afar_region_pread(region, got, LENGTH, 0) != LENGTH)
		fail_msg("%s", afar_last_error());
	assert_memory_equal(got, wanted, LENGTH);
}

/* Its extents are given back soon. */
static void remove_store(uint64_t store)
{
	int ret;

	while ((ret = afar_store_remove(session, store)) == -EBUSY)
		sched_yield();
	assert_int_equal(ret, 0);
}

static void test_comes_again_and_again(void **state)
{
	struct afar_namespace *kept = make_flash("kept", 2, 8 * MIB), *ns;
	struct afar_region *region = make_region(kept, 1), *inside;
	uint64_t store, again, server = 1, freed = 1;

	(void)state;
	assert_int_equal(afar_store_add(session, server, device, &store), 0);
	for (unsigned i = 0; i < 3; i++) {
		ns = make_flash("in", 3, 96 * MIB);
		inside = make_region(ns, 10 + i);
		expect_bytes(inside, 10 + i);
		expect_error(afar_store_remove(session, store), -EBUSY);
		expect_error(afar_store_add(session, server, device, NULL), -EEXIST);
		expect_bytes(region, 1);
		drop_region(inside);
		drop_namespace(ns, "in");
		remove_store(store);
		expect_bytes(region, 1);
		server = 1 + i / 2;
		assert_int_equal(afar_store_add(session, server, device, &again), 0);
		assert_int_equal(again, store);
	}
	assert_int_equal(afar_store_free_orphans(session, store, &freed), 0);
	assert_int_equal(freed, 0);
	remove_store(store);
	expect_error(afar_store_remove(session, store), -ENOENT);
	expect_error(afar_store_free_orphans(session, store, NULL), -ENOENT);
	expect_error(afar_store_add(session, 99, device, NULL), -ENOENT);
	expect_error(afar_store_add(session, 1, NULL, NULL), -EINVAL);
	expect_error(afar_store_add(session, 1, "device", NULL), -EINVAL);
	drop_region(region);
	drop_namespace(kept, "kept");
}

/* Last: the first server does not come back. */
static void test_open_regions_follow(void **state)
{
	struct afar_namespace *ns = make_flash("moving", 2, 8 * MIB);
	struct afar_region *region = make_region(ns, 2);
	char path[PATH_MAX];
	int ret;

	(void)state;
	snprintf(path, sizeof(path), "%s/server/flash", cluster_server_folder(cluster, 0));
	cluster_stop_server(cluster, 0);
	expect_error(afar_region_pread(region, got, LENGTH, 0), -AFAR_ESERVER);
	/* Servers are numbered as they join: either may be the one that lives. */
	ret = afar_store_add(session, 2, path, NULL);
	if (ret == -AFAR_ESERVER)
		ret = afar_store_add(session, 1, path, NULL);
	assert_int_equal(ret, 0);
	expect_bytes(region, 2);
	fill(wanted, LENGTH, 3);
	assert_int_equal(afar_region_pwrite(region, wanted, LENGTH, 0), LENGTH);
	assert_int_equal(afar_region_sync(region), 0);
	expect_bytes(region, 3);
	drop_region(region);
	drop_namespace(ns, "moving");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_comes_again_and_again),
		cmocka_unit_test(test_open_regions_follow),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
