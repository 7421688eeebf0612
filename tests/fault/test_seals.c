/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The manager or a server is killed at any moment of a sealing. The region is as it was, or sealed. Its bytes are
 * there if its servers are, and no memory is lost.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <afar/afar.h>

#include "base/clock.h"
#include "harness/cluster.h"

#define MIB	     ((uint64_t)1 << 20)
#define LENGTH	     (16 * MIB)
#define SERVER_BYTES (128 * MIB)
#define ROUNDS	     8

static struct cluster *cluster;
static struct afar_session *session;
static struct afar_namespace *ns;
static uint8_t *data, *got;

static int start(void **state)
{
	(void)state;
	data = malloc(LENGTH);
	got = malloc(LENGTH);
	for (uint64_t i = 0; i < LENGTH; i++)
		data[i] = (uint8_t)(i * 31 + i / 4096);
	if (!data || !got || cluster_start(2, SERVER_BYTES, &cluster))
		return -1;
	return afar_session_open(cluster_uri(cluster), NULL, &session);
}

static int stop(void **state)
{
	int ret = afar_session_close(session);

	(void)state;
	cluster_stop(cluster);
	free(data);
	free(got);
	return ret;
}

static struct afar_region *try_region(unsigned *width)
{
	struct afar_region_stat stat = {.size = sizeof(stat)};
	struct afar_region *region;

	assert_int_equal(afar_namespace_create(session, "sealed", NULL, &ns), 0);
	assert_int_equal(afar_namespace_reserve(ns, 2 * LENGTH), 0);
	assert_int_equal(afar_region_create(ns, "r", LENGTH, 0, &region), 0);
	assert_int_equal(afar_region_stat(region, &stat), 0);
	*width = stat.width;
	return region;
}

static void free_region(struct afar_region *region)
{
	assert_int_equal(afar_region_destroy(region), 0);
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_namespace_close(ns), 0);
	assert_int_equal(afar_namespace_delete(session, "sealed", 0), 0);
}

/* On both servers, of which one may be scrubbing what it has to lend. */
static struct afar_region *make_region(void)
{
	struct afar_region *region;
	unsigned width;

	while (region = try_region(&width), width != 2)
		free_region(region);
	assert_int_equal(afar_region_pwrite(region, data, LENGTH, 0), LENGTH);
	return region;
}

/* Everything can be had by somebody else. */
static void drop_region(struct afar_region *region)
{
	struct afar_namespace *other;
	int status;

	free_region(region);
	assert_int_equal(afar_namespace_create(session, "other", NULL, &other), 0);
	/* A server that was to copy, and is to no more, joins again first. */
	do
		status = afar_namespace_reserve(other, 2 * SERVER_BYTES);
	while (status == -ENOSPC);
	assert_int_equal(status, 0);
	assert_int_equal(afar_namespace_close(other), 0);
	assert_int_equal(afar_namespace_delete(session, "other", 0), 0);
}

struct sealing {
	pthread_t thread;
	struct afar_region *region;
	int status;
};

static void *run_seal(void *argument)
{
	struct sealing *sealing = argument;

	sealing->status = afar_region_seal(sealing->region);
	return NULL;
}

/* Returns how long an undisturbed one takes. */
static uint64_t measure(void)
{
	struct afar_region *region = make_region();
	uint64_t began = clock_ns(), took;

	assert_int_equal(afar_region_seal(region), 0);
	took = clock_ns() - began;
	drop_region(region);
	return took;
}

static void wait_ns(uint64_t ns_to_wait)
{
	const struct timespec time = {.tv_sec = (time_t)(ns_to_wait / 1000000000U),
				      .tv_nsec = (long)(ns_to_wait % 1000000000U)};

	nanosleep(&time, NULL);
}

static bool is_sealed(struct afar_region *region)
{
	struct afar_region_stat stat = {.size = sizeof(stat)};

	assert_int_equal(afar_region_stat(region, &stat), 0);
	return stat.is_sealed != 0;
}

static void check_region(struct afar_region *region)
{
	bool was_sealed = is_sealed(region);

	assert_int_equal(afar_region_pread(region, got, LENGTH, 0), LENGTH);
	assert_memory_equal(got, data, LENGTH);
	assert_int_equal(afar_region_pwrite(region, data, 1, 0), was_sealed ? -EROFS : 1);
	if (was_sealed)
		assert_int_equal(afar_region_verify(region, 0, LENGTH, NULL), 0);
}

static void test_manager_is_killed(void **state)
{
	uint64_t longest = measure() * 3 / 2;

	(void)state;
	for (uint64_t round = 0; round < ROUNDS; round++) {
		struct sealing sealing = {.region = make_region()};

		pthread_create(&sealing.thread, NULL, run_seal, &sealing);
		wait_ns(longest * round / ROUNDS);
		cluster_kill_manager(cluster);
		assert_int_equal(cluster_restart_manager(cluster), 0);
		pthread_join(sealing.thread, NULL);
		/* The call came again by itself; a server may not have been back. */
		assert_true(sealing.status == 0 || sealing.status == -AFAR_ESERVER);
		check_region(sealing.region);
		while (sealing.status == -AFAR_ESERVER)
			sealing.status = afar_region_seal(sealing.region);
		assert_int_equal(sealing.status, 0);
		assert_true(is_sealed(sealing.region));
		check_region(sealing.region);
		drop_region(sealing.region);
	}
}

/* Until the server has joined again the manager does not know. */
static void await_lost(void)
{
	struct afar_region *region;
	int status;

	while ((status = afar_region_open(ns, "r", &region)) == 0)
		assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(status, -AFAR_ELOST);
}

/* The killed server's memory is lost, sealed or not; the other's is not. */
static void test_server_is_killed(void **state)
{
	uint64_t longest = measure() * 3 / 2;

	(void)state;
	for (uint64_t round = 0; round < ROUNDS; round++) {
		struct sealing sealing = {.region = make_region()};

		pthread_create(&sealing.thread, NULL, run_seal, &sealing);
		wait_ns(longest * round / ROUNDS);
		cluster_kill_server(cluster, round % 2);
		pthread_join(sealing.thread, NULL);
		assert_true(sealing.status == 0 || sealing.status == -AFAR_ESERVER);
		assert_int_equal(cluster_restart_server(cluster, round % 2), 0);
		await_lost();
		if (sealing.status != 0)
			assert_int_equal(afar_region_seal(sealing.region), -AFAR_ELOST);
		drop_region(sealing.region);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_manager_is_killed),
		cmocka_unit_test(test_server_is_killed),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
