/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests what sysfs tells of network cards, and where lanes run because of it, on a folder made up to look like
 * it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/data/lanes.h"
#include "unit/group.h"

#define LOOPBACK "127.0.0.1:7"

static char sysfs[64];

static int make_root(void **state)
{
	(void)state;
	strcpy(sysfs, "/tmp/afar-sysfs-XXXXXX");
	return mkdtemp(sysfs) ? 0 : -1;
}

static int remove_root(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", sysfs);
	return system(command);
}

/* Writes a file below the root, and makes the folders to it. */
static void put(const char *name, const char *text)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", sysfs, name);
	for (char *at = path + strlen(sysfs) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(path, 0700);
		*at = '/';
	}
	file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int node_of(const char *address)
{
	struct nic nic;

	nic_find(sysfs, address, &nic);
	return nic_node(sysfs, &nic);
}

static void test_interface(void **state)
{
	struct nic nic;

	(void)state;
	nic_find(sysfs, LOOPBACK, &nic);
	assert_string_equal(nic.interface, "lo");
	assert_string_equal(nic.device, "");
	nic_find(sysfs, "0.0.0.0:7", &nic);
	assert_string_equal(nic.interface, "");
	nic_find(sysfs, "unix:/tmp/x", &nic);
	assert_string_equal(nic.interface, "");
	nic_find(sysfs, "no address", &nic);
	assert_string_equal(nic.interface, "");
	assert_int_equal(nic_node(sysfs, &nic), NIC_NODE_UNKNOWN);
	assert_int_equal(nic_link(sysfs, &nic), NIC_LINK_UNKNOWN);
}

/* A hardware device is found by its folder, a software one by its parent. */
static void test_device(void **state)
{
	uint64_t bytes_in, bytes_out;
	struct nic nic;

	(void)state;
	put("class/infiniband/mlx5_0/device/net/eth7/mtu", "");
	put("class/infiniband/rxe0/parent", "lo\n");
	nic_find(sysfs, LOOPBACK, &nic);
	assert_string_equal(nic.device, "rxe0");
	assert_false(nic_count(sysfs, &nic, &bytes_in, &bytes_out));
	put("class/infiniband/rxe0/parent", "eth8\n");
	nic_find(sysfs, LOOPBACK, &nic);
	assert_string_equal(nic.device, "");
	put("class/infiniband/mlx5_0/device/net/lo/mtu", "");
	nic_find(sysfs, LOOPBACK, &nic);
	assert_string_equal(nic.device, "mlx5_0");

	put("class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "1000\n");
	assert_false(nic_count(sysfs, &nic, &bytes_in, &bytes_out));
	put("class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "18446744073709551615\n");
	assert_false(nic_count(sysfs, &nic, &bytes_in, &bytes_out));
	put("class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "none\n");
	assert_false(nic_count(sysfs, &nic, &bytes_in, &bytes_out));
	put("class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "5\n");
	assert_true(nic_count(sysfs, &nic, &bytes_in, &bytes_out));
	assert_int_equal(bytes_in, 4000);
	assert_int_equal(bytes_out, 20);
}

static void test_link(void **state)
{
	struct nic nic;

	(void)state;
	nic_find(sysfs, LOOPBACK, &nic);
	put("class/net/lo/operstate", "unknown\n");
	assert_int_equal(nic_link(sysfs, &nic), NIC_LINK_UNKNOWN);
	put("class/net/lo/operstate", "up\n");
	assert_int_equal(nic_link(sysfs, &nic), NIC_LINK_UP);
	put("class/net/lo/operstate", "lowerlayerdown\n");
	assert_int_equal(nic_link(sysfs, &nic), NIC_LINK_DOWN);
	/* An RDMA device's port counts more than the interface. */
	put("class/infiniband/rxe0/parent", "lo\n");
	put("class/infiniband/rxe0/ports/1/state", "4: ACTIVE\n");
	nic_find(sysfs, LOOPBACK, &nic);
	assert_int_equal(nic_link(sysfs, &nic), NIC_LINK_UP);
	put("class/infiniband/rxe0/ports/1/state", "1: DOWN\n");
	assert_int_equal(nic_link(sysfs, &nic), NIC_LINK_DOWN);
}

static void test_node(void **state)
{
	static const char *const strange[] = {"-1\n", "\n", "", "x", "1x", "99999999999999999999"};

	(void)state;
	put("class/net/lo/device/numa_node", "1\n");
	assert_int_equal(node_of(LOOPBACK), NIC_NODE_UNKNOWN);
	/* One node: there is nothing to choose. */
	put("devices/system/node/online", "0\n");
	assert_int_equal(node_of(LOOPBACK), NIC_NODE_UNKNOWN);
	put("devices/system/node/online", "0-1\n");
	assert_int_equal(node_of(LOOPBACK), 1);
	assert_int_equal(node_of("0.0.0.0:7"), NIC_NODE_UNKNOWN);
	for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
		put("class/net/lo/device/numa_node", strange[i]);
		assert_int_equal(node_of(LOOPBACK), NIC_NODE_UNKNOWN);
	}
	put("class/net/lo/device/numa_node", "0\n");
	put("devices/system/node/online", "0,4-5\n");
	assert_int_equal(node_of(LOOPBACK), 0);
	put("devices/system/node/online", "0-\n");
	assert_int_equal(node_of(LOOPBACK), NIC_NODE_UNKNOWN);
}

/* The first processor that we may use. */
static unsigned own_processor(void)
{
	cpu_set_t allowed;
	unsigned first = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
	while (!CPU_ISSET(first, &allowed))
		first++;
	return first;
}

static void test_processors(void **state)
{
	static const char *const none[] = {"",	  "\n",	     "1023\n", "5000-6000\n",
					   "a\n", "0-1-2\n", "-1\n"};
	char list[64];
	cpu_set_t set;

	(void)state;
	assert_false(nic_processors(sysfs, 1, &set));
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		put("devices/system/node/node1/cpulist", none[i]);
		assert_false(nic_processors(sysfs, 1, &set));
	}
	snprintf(list, sizeof(list), "900-1023,%u,5000\n", own_processor());
	put("devices/system/node/node1/cpulist", list);
	assert_true(nic_processors(sysfs, 1, &set));
	assert_int_equal(CPU_COUNT(&set), 1);
	assert_true(CPU_ISSET(own_processor(), &set));
}

/* ---- Lanes */

static int admit(void *context, const void *shown, size_t length, struct admission *out)
{
	(void)context;
	(void)shown;
	(void)length;
	(void)out;
	return -EACCES;
}

static void ignore_change(void *context)
{
	(void)context;
}

/* How many threads named `name` run on just that processor. */
static unsigned count_bound(const char *name, unsigned processor)
{
	DIR *folder = opendir("/proc/self/task");
	const struct dirent *entry;
	char path[PATH_MAX], comm[32];
	unsigned nr = 0;

	assert_non_null(folder);
	while ((entry = readdir(folder))) {
		cpu_set_t set;
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "re");
		if (!file || !fgets(comm, sizeof(comm), file))
			comm[0] = '\0';
		if (file)
			fclose(file);
		comm[strcspn(comm, "\n")] = '\0';
		if (strcmp(comm, name) == 0 &&
		    sched_getaffinity(atoi(entry->d_name), sizeof(set), &set) == 0)
			nr += CPU_COUNT(&set) == 1 && CPU_ISSET(processor, &set);
	}
	closedir(folder);
	return nr;
}

static struct lanes *start_lanes(void)
{
	static const struct server_lane options[] = {{"tcp", "127.0.0.1:0"}};
	static const struct lanes_manager manager = {"127.0.0.1", 1};
	static const struct progress_options common = {
		.nr_threads = 2, .spin_us = 1, .admit = admit, .changed = ignore_change};
	struct lanes *lanes;

	assert_int_equal(lanes_open(options, 1, &manager, &lanes), 0);
	assert_int_equal(lanes_start(lanes, sysfs, &common), 0);
	return lanes;
}

static void stop_lanes(struct lanes *lanes)
{
	lanes_stop(lanes);
	lanes_close(lanes);
}

static void test_lanes_run_near_their_card(void **state)
{
	unsigned own = own_processor();
	struct lane_stat stat;
	struct lanes *lanes;
	char list[64];

	(void)state;
	put("devices/system/node/online", "0-1\n");
	put("class/net/lo/device/numa_node", "1\n");
	snprintf(list, sizeof(list), "%u\n", own);
	put("devices/system/node/node1/cpulist", list);
	lanes = start_lanes();
	lanes_stat(lanes, 0, &stat);
	assert_int_equal(stat.node, 1);
	assert_true(stat.is_bound);
	assert_int_equal(stat.counted_by, LANE_COUNTED_BY_TRANSPORT);
	assert_int_equal(count_bound("afar-data-0", own) + count_bound("afar-data-1", own), 2);
	stop_lanes(lanes);

	/* Where we may use none of the processors there, we run where we may. */
	put("devices/system/node/node1/cpulist", "1023\n");
	lanes = start_lanes();
	lanes_stat(lanes, 0, &stat);
	assert_int_equal(stat.node, 1);
	assert_false(stat.is_bound);
	stop_lanes(lanes);

	put("devices/system/node/online", "0\n");
	lanes = start_lanes();
	lanes_stat(lanes, 0, &stat);
	assert_int_equal(stat.node, NIC_NODE_UNKNOWN);
	assert_false(stat.is_bound);
	stop_lanes(lanes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)

TEST_GROUP(nic)
{
	const struct CMUnitTest tests[] = {
		TEST(test_interface), TEST(test_device),     TEST(test_link),
		TEST(test_node),      TEST(test_processors), TEST(test_lanes_run_near_their_card),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
