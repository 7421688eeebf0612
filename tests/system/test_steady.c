/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Once a program has made its buffers, mappings and queues, nothing is registered, populated or connected for
 * it, in its process or on the servers. It does a million operations, fewer where they take their time.
 * AFAR_LONG=1: a million everywhere.
 */
#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "lib/api/api.h"
#include "lib/base/transport.h"

#define BYTES		(4 * MIB)
#define SMALL		64U
#define DEPTH		64U
#define BLOCKING_ROUNDS 8U /* one in so many has blocking calls, too */

static struct afar_session *own; /* keeps registrations, too */
static struct afar_namespace *ns;
static struct afar_region *region;
static struct afar_mapping *mapping;
static struct afar_queue *queue;
static struct afar_buffer *registered, *allocated;
static uint8_t *memory, *plain;

static int setup(void **state)
{
	const struct afar_session_options options = {.size = sizeof(options),
						     .registration_bytes = 16 * MIB};
	struct afar_memory wanted = {.size = sizeof(wanted), .length = BYTES};

	memory = malloc(BYTES);
	plain = malloc(BYTES);
	wanted.addr = memory;
	if (!memory || !plain || start(state) ||
	    afar_session_open(cluster_uri(cluster), &options, &own) ||
	    afar_namespace_create(own, "steady", NULL, &ns) ||
	    afar_namespace_reserve(ns, 2 * BYTES) ||
	    afar_region_create(ns, "r", BYTES, 0, &region) ||
	    afar_region_map(region, 0, BYTES, 0, &mapping) ||
	    afar_buffer_register(own, &wanted,
				 AFAR_ACCESS_READ | AFAR_ACCESS_WRITE | AFAR_ACCESS_SERVER,
				 &registered) ||
	    afar_buffer_alloc(own, BYTES, &allocated) || afar_queue_open(own, NULL, &queue))
		return -1;
	return afar_queue_connect(queue, afar_region_target(region));
}

static int teardown(void **state)
{
	if (afar_queue_close(queue) || afar_buffer_unregister(allocated) ||
	    afar_buffer_unregister(registered) || afar_mapping_unmap(mapping) ||
	    afar_region_destroy(region) || afar_region_close(region) || afar_namespace_close(ns) ||
	    afar_session_close(own))
		return -1;
	free(memory);
	free(plain);
	return stop(state);
}

static struct afar_session_stat stat_now(void)
{
	struct afar_session_stat stat = {.size = sizeof(stat)};

	assert_int_equal(afar_session_stat(own, &stat), 0);
	assert_int_equal(stat.size, sizeof(stat));
	return stat;
}

/* False: one of them has not told within that time, and what is known is older. */
static bool sum_registrations(uint64_t within_ns, json_int_t *sum)
{
	json_int_t oldest_ms = 0;
	json_t *root, *server;
	char *text;
	size_t i;

	assert_int_equal(afar_session_status(own, &text), 0);
	root = json_loads(text, 0, NULL);
	free(text);
	assert_non_null(root);
	*sum = 0;
	json_array_foreach(json_object_get(root, "servers"), i, server)
	{
		json_int_t age_ms = json_integer_value(json_object_get(server, "report_age_ms"));

		oldest_ms = age_ms > oldest_ms ? age_ms : oldest_ms;
		*sum += json_integer_value(json_object_get(server, "nr_registrations"));
	}
	json_decref(root);
	return (uint64_t)oldest_ms * 1000000U < within_ns;
}

/* Returns how much all servers have registered. */
static json_int_t registered_by_servers(void)
{
	uint64_t begin = clock_ns();
	json_int_t sum;

	while (!sum_registrations(clock_ns() - begin, &sum))
		;
	return sum;
}

/* Runs a queue's operations, half of them from registered memory, half from allocated. Now and then also makes one
 * blocking call of each kind each way. */
static void run_round(unsigned round)
{
	struct afar_completion done[DEPTH];
	struct afar_iov iov[DEPTH];
	struct afar_op ops[DEPTH];
	uint64_t offset = round % (BYTES / SMALL) * SMALL;

	for (unsigned i = 0; i < DEPTH; i++) {
		struct afar_buffer *buffer = i % 4 < 2 ? registered : allocated;

		iov[i] = (struct afar_iov){.buffer = buffer,
					   .addr = (uint8_t *)afar_buffer_data(buffer) + i * SMALL,
					   .length = SMALL};
		ops[i] = (struct afar_op){.opcode = i % 2 ? AFAR_OP_READ : AFAR_OP_WRITE,
					  .nr_iov = 1,
					  .iov = &iov[i],
					  .target = afar_region_target(region),
					  .offset = (offset + i * SMALL) % BYTES};
	}
	assert_int_equal(afar_queue_submit(queue, ops, DEPTH), DEPTH);
	assert_int_equal(afar_queue_wait(queue, done, DEPTH, DEPTH, -1), DEPTH);
	for (unsigned i = 0; i < DEPTH; i++)
		assert_int_equal(done[i].result, SMALL);
	if (round % BLOCKING_ROUNDS)
		return;
	assert_int_equal(afar_mapping_write(mapping, offset, SMALL), 0);
	assert_int_equal(afar_mapping_read(mapping, offset, SMALL), 0);
	assert_int_equal(afar_region_pwrite(region, plain + offset, SMALL, offset), SMALL);
	assert_int_equal(afar_region_pread(region, plain + offset, SMALL, offset), SMALL);
}

static void test_registers_nothing(void **state)
{
	const unsigned nr_operations = getenv("AFAR_LONG") ? 1000000
				       : is_on_verbs()	   ? 10000
							   : 1000000;
	struct afar_session_stat before, after;
	json_int_t by_servers;

	(void)state;
	run_round(0);
	before = stat_now();
	by_servers = registered_by_servers();
	assert_true(by_servers > 0);
	for (unsigned round = 1; round * DEPTH < nr_operations; round++)
		run_round(round);
	after = stat_now();
	assert_int_equal(after.nr_registrations, before.nr_registrations);
	assert_int_equal(after.registered_bytes, before.registered_bytes);
	assert_int_equal(after.nr_cache_hits, before.nr_cache_hits);
	assert_int_equal(after.nr_cache_misses, before.nr_cache_misses);
	assert_int_equal(after.nr_kept_misses, before.nr_kept_misses);
	assert_int_equal(after.nr_paths, before.nr_paths);
	assert_int_equal(after.nr_bounced, 0);
	assert_int_equal(registered_by_servers(), by_servers);
	/* It counts, where there is something to count. */
	if (is_on_verbs())
		assert_true(before.registered_bytes >= 3 * BYTES);
	else if (is_on_tcp())
		assert_int_equal(before.registered_bytes, BYTES);
	else
		assert_int_equal(before.registered_bytes, 0);
}

static void test_counts_what_is_made(void **state)
{
	const struct afar_memory wanted = {.size = sizeof(wanted), .addr = plain, .length = 100000};
	struct afar_session_stat before = stat_now(), after;
	const unsigned per_buffer = is_on_local() ? 0 : 1;
	struct afar_buffer *buffer;

	(void)state;
	assert_int_equal(
		afar_buffer_register(own, &wanted, AFAR_ACCESS_READ | AFAR_ACCESS_SERVER, &buffer),
		0);
	after = stat_now();
	assert_int_equal(after.nr_registrations, before.nr_registrations + per_buffer);
	assert_int_equal(after.registered_bytes, before.registered_bytes + per_buffer * 100000);
	assert_int_equal(afar_buffer_unregister(buffer), 0);
	assert_int_equal(stat_now().registered_bytes, before.registered_bytes);

	/* Memory that comes back is found again. */
	assert_int_equal(afar_buffer_alloc(own, 2 * MIB, &buffer), 0);
	assert_int_equal(afar_buffer_unregister(buffer), 0);
	after = stat_now();
	assert_int_equal(after.nr_cache_misses, before.nr_cache_misses + 1);
	assert_int_equal(after.cached_bytes, 2 * MIB);
	assert_true(after.cached_bytes_max >= 2 * MIB);
	assert_int_equal(afar_buffer_alloc(own, 2 * MIB, &buffer), 0);
	assert_int_equal(stat_now().cached_bytes, 0);
	assert_int_equal(stat_now().nr_cache_hits, before.nr_cache_hits + 1);
	assert_int_equal(afar_buffer_unregister(buffer), 0);
}

/* Plain memory above 64 KiB is registered, and found so the next time. */
static void test_counts_what_is_kept(void **state)
{
	struct afar_session_stat before = stat_now(), after;

	(void)state;
	assert_int_equal(before.kept_bytes_max, 16 * MIB);
	assert_true(before.nr_kept_max > 0);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(afar_region_pwrite(region, plain, MIB, 0), MIB);
	after = stat_now();
	if (!is_on_verbs()) {
		assert_int_equal(after.nr_kept_misses + after.nr_kept_hits, 0);
		return;
	}
	assert_int_equal(after.nr_kept_misses, before.nr_kept_misses + 1);
	assert_int_equal(after.nr_kept_hits, before.nr_kept_hits + 4);
	assert_int_equal(after.nr_registrations, before.nr_registrations + 1);
	assert_true(after.kept_bytes >= MIB);
	assert_int_equal(after.nr_kept, 1);
}

static void test_structs_of_other_sizes(void **state)
{
	struct {
		struct afar_session_stat stat;
		uint64_t newer;
	} larger = {.stat.size = sizeof(larger), .newer = 1};
	struct afar_session_stat stat = {.size = 8};

	(void)state;
	expect_error(afar_session_stat(own, &stat), -EINVAL);
	expect_error(afar_session_stat(own, NULL), -EINVAL);
	expect_error(afar_session_stat(NULL, &stat), -EINVAL);
	assert_int_equal(afar_session_stat(own, &larger.stat), 0);
	assert_int_equal(larger.stat.size, sizeof(larger));
	assert_int_equal(larger.newer, 0);
	assert_true(larger.stat.nr_blocking_queues_max >= larger.stat.nr_blocking_queues);
	assert_true(larger.stat.nr_blocking_queues > 0);
	assert_true(larger.stat.nr_unused_paths_max > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registers_nothing),
		cmocka_unit_test(test_counts_what_is_made),
		cmocka_unit_test(test_counts_what_is_kept),
		cmocka_unit_test(test_structs_of_other_sizes),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
