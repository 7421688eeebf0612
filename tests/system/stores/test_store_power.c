/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A real server loses its power, under a real manager and a client over tcp; see power_world.h.
 *
 * "events": a program makes a namespace, writes, syncs, frees, allocates again, and restarts the
 * server in order. It runs again and again, and each time the power is cut one event of the device
 * later, until the program ends before the cut.
 *
 * "flush": AFAR_OP_FLUSH promises nothing about durability, and the power takes its data.
 *
 * "put": a region survives the same cut when `afar region put` has returned.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h> /* memfd_create() */
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/child.h"
#include "lib/base/effort.h"
#include "power_world.h"

#define NR_TRIES 4U
#define SAMPLE	 24U /* cuts, where each event would take too long */

/* Both regions fill what is reserved, so each that is made gets what another one had. */
static const struct power_step program[] = {
	{power_make_namespace},
	{power_reserve},
	{power_make_region, 0},
	{power_write, 0, 0, 16},
	{power_make_region, 1},
	{power_sync, 0},
	{power_write, 0, 8, 16},
	{power_write_durable, 0, 4, 8},
	{power_write_and_sync, 1, 0, POWER_BLOCKS},
	{power_write_and_flush, 1, 100, 8},
	{power_free_region, 0},
	{power_make_region, 0},
	{power_write_durable, 0, 32, 8},
	{power_write, 0, 24, 32},
	{power_free_region, 1},
	{power_make_region, 1},
	{power_write, 1, 0, 32},
	{power_sync, 1},
	{power_write_durable, 1, 0, 4},
	{power_free_region, 0},
	{power_free_region, 1},
	{power_release},
	{power_reserve},
	{power_make_region, 0},
	{power_write_durable, 0, 16, 8},
	{power_make_region, 1},
	{power_write, 1, 60, 32},
	{power_restart},
	{power_write, 1, 0, 32}, /* the first put of an opening */
	{power_write, 0, 40, 32},
	{power_restart},
};

/* ---- "events" */

/* Returns whether the power was cut behind so many events, or the program ended before. */
static bool run_program(uint64_t nr_events)
{
	const uint64_t nr_cuts = power_nr_cuts();

	power_cut_behind(nr_events);
	for (size_t i = 0; i < sizeof(program) / sizeof(program[0]); i++)
		power_run(&program[i]);
	power_look();
	power_clear();
	return power_nr_cuts() != nr_cuts;
}

/* Cuts the power once in each `stride` events, until the program ends before the cut. Returns how
 * many cuts there were. */
static uint64_t walk(uint64_t stride)
{
	uint64_t nr = 0;

	for (uint64_t at = 1; run_program(at + power_dice(stride)); at += stride)
		nr++;
	return nr;
}

static void test_events(void **state)
{
	const uint64_t nr_walks = test_effort(1, 1, 50);
	const uint64_t first = power_nr_events();
	uint64_t stride, nr = 0;
	struct power_counts counts;

	(void)state;
	assert_false(run_program(POWER_NO_CUT));
	/* Each event takes a minute or two. A quick run takes some from all over the program. */
	stride = test_effort((power_nr_events() - first) / SAMPLE + 1, 1, 1);
	for (uint64_t i = 0; i < nr_walks; i++)
		nr += walk(stride);
	counts = power_counts();
	print_message("%llu cuts, one behind each %llu events; %u starts were cut too; %u times a "
		      "sync said that writes may be lost, and %u times some were\n",
		      (unsigned long long)nr, (unsigned long long)stride, counts.nr_starts,
		      counts.nr_unsynced, counts.nr_lost);
	assert_true(nr > 1 && counts.nr_unsynced > 0);
}

/* ---- "flush" and "put" */

static void begin(void)
{
	static const struct power_step steps[] = {{power_make_namespace},
						  {power_reserve},
						  {power_make_region, 0},
						  {power_make_region, 1}};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		power_run(&steps[i]);
}

/* Data may survive by chance, so there are several tries. Each time a sync says that it may not. */
static void test_flush(void **state)
{
	const struct power_step write = {power_write_and_flush, 0, 0, 64};

	(void)state;
	for (unsigned i = 0; i < NR_TRIES; i++) {
		begin();
		power_run(&write);
		power_cut_now();
		power_clear();
	}
	assert_true(power_counts().nr_lost > 0);
}

static void put(const char *path)
{
	pid_t pid = fork_child();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		setenv("AFAR_CLUSTER", cluster_uri(cluster), 1);
		execl(getenv("AFAR"), "afar", "region", "put", path, POWER_NAMESPACE ":put", NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_put(void **state)
{
	static uint8_t wanted[300000];
	char path[32];
	int fd = memfd_create("put", MFD_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), fd);
	for (unsigned i = 0; i < NR_TRIES; i++) {
		fill(wanted, sizeof(wanted), i);
		assert_int_equal(pwrite(fd, wanted, sizeof(wanted), 0), sizeof(wanted));
		begin();
		put(path);
		power_expect("put", wanted, sizeof(wanted));
		power_cut_now();
		power_clear();
	}
	close(fd);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest events[] = {cmocka_unit_test(test_events)};
	const struct CMUnitTest flush[] = {cmocka_unit_test(test_flush)};
	const struct CMUnitTest command[] = {cmocka_unit_test(test_put)};

	if (argc != 2)
		return 2;
	if (strcmp(argv[1], "flush") == 0)
		return cmocka_run_group_tests(flush, power_start, power_stop);
	if (strcmp(argv[1], "put") == 0)
		return cmocka_run_group_tests(command, power_start, power_stop);
	return cmocka_run_group_tests(events, power_start, power_stop);
}
