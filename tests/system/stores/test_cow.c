/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copy-on-write regions from C: each handle shows one version, whole, beside a copy of it in memory. Units that are not
 * prepared keep their bytes. An impossible call is refused in one line, and changes nothing. `flash`: on that tier.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include <afar/cache.h>
#include <afar/cow.h>

#include "lib/api/api.h"
#include "lib/base/effort.h"

#define UNIT	 (64 * KIB)
#define NR_UNITS 13U
#define LENGTH	 (12 * UNIT + 4321)

static bool is_on_flash;

static struct afar_namespace *make_space(const char *name, uint64_t reserve)
{
	const struct afar_policy policy = {.size = sizeof(policy),
					   .tier = is_on_flash ? AFAR_TIER_FLASH : AFAR_TIER_DRAM,
					   .stripe_bytes = UNIT};
	struct afar_namespace *ns;

	assert_int_equal(afar_namespace_create(session, name, &policy, &ns), 0);
	assert_int_equal(afar_namespace_reserve(ns, reserve), 0);
	return ns;
}

static struct afar_region *make_region(struct afar_namespace *ns)
{
	struct afar_region *region;

	assert_int_equal(afar_region_create(ns, "r", LENGTH, AFAR_ALLOC_COW, &region), 0);
	return region;
}

static void expect_bytes(struct afar_region *region, const uint8_t *bytes)
{
	static uint8_t got[LENGTH];

	memset(got, 0xee, LENGTH);
	assert_int_equal(afar_region_pread(region, got, LENGTH, 0), LENGTH);
	if (memcmp(got, bytes, LENGTH) == 0)
		return;
	for (uint64_t i = 0; i < LENGTH; i++)
		if (got[i] != bytes[i])
			fail_msg("version %llu: byte %llu is %u, not %u",
				 (unsigned long long)afar_region_version(region),
				 (unsigned long long)i, got[i], bytes[i]);
}

/* Likewise through a cache that has no room for all of it. */
static void expect_cached(struct afar_cache *cache, struct afar_region *region,
			  const uint8_t *bytes)
{
	static uint8_t got[LENGTH];

	memset(got, 0xee, LENGTH);
	assert_int_equal(afar_cache_read(cache, region, got, LENGTH, 0), LENGTH);
	assert_memory_equal(got, bytes, LENGTH);
}

static uint64_t allocated(struct afar_namespace *ns)
{
	struct afar_namespace_stat stat = {.size = sizeof(stat)};

	assert_int_equal(afar_namespace_stat(ns, &stat), 0);
	return stat.allocated_bytes;
}

static void await_allocated(struct afar_namespace *ns, uint64_t bytes)
{
	while (allocated(ns) != bytes) /* trims end in the background */
		test_pause();
}

/* ---- Random versions, beside what they should be */

#define NR_READERS 4U
#define RANGES_MAX 6U

static uint8_t now[LENGTH], seen[NR_READERS][LENGTH];

static struct afar_range random_range(void)
{
	struct afar_range range = {.offset = (uint64_t)random() % LENGTH};
	uint64_t most = LENGTH - range.offset;

	switch (random() % 4) {
	case 0: /* whole units */
		range.offset = range.offset / UNIT * UNIT;
		most = LENGTH - range.offset;
		range.length = UNIT * (uint64_t)(1 + random() % 3);
		break;
	case 1:
		range.length = 0;
		break;
	default:
		range.length = (uint64_t)random() % (2 * UNIT);
	}
	if (range.length > most)
		range.length = most;
	return range;
}

/* Fills the ranges, which is what preparing them asks for. */
static void write_ranges(struct afar_region *region, const struct afar_range *ranges, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		for (uint64_t at = 0; at < ranges[i].length; at++)
			now[ranges[i].offset + at] = (uint8_t)random();
		assert_int_equal(afar_region_pwrite(region, now + ranges[i].offset,
						    ranges[i].length, ranges[i].offset),
				 (ssize_t)ranges[i].length);
	}
}

static void make_version(struct afar_region *writer, bool does_publish)
{
	static uint8_t before[LENGTH];
	struct afar_range ranges[RANGES_MAX];
	unsigned nr = (unsigned)random() % RANGES_MAX, nr_first = nr / 2;
	uint64_t version = afar_region_version(writer);

	memcpy(before, now, LENGTH);
	for (unsigned i = 0; i < nr; i++)
		ranges[i] = random_range();
	assert_int_equal(afar_region_begin(writer, ranges, nr_first), 0);
	write_ranges(writer, ranges, nr_first);
	expect_bytes(writer, now);
	assert_int_equal(afar_region_prepare(writer, ranges + nr_first, nr - nr_first), 0);
	write_ranges(writer, ranges + nr_first, nr - nr_first);
	/* Again: what was written stays. */
	assert_int_equal(afar_region_prepare(writer, ranges, nr), 0);
	expect_bytes(writer, now);
	if (does_publish) {
		assert_int_equal(afar_region_publish(writer), 0);
		assert_int_equal(afar_region_version(writer), version + 1);
	} else {
		assert_int_equal(afar_region_abandon(writer), 0);
		assert_int_equal(afar_region_version(writer), version);
		memcpy(now, before, LENGTH);
	}
	expect_bytes(writer, now);
}

static void test_random_versions(void **state)
{
	struct afar_namespace *ns = make_space("random", 16 * MIB);
	struct afar_region *writer = make_region(ns);
	struct view readers[NR_READERS];
	struct afar_cache *caches[NR_READERS];
	uint64_t nr = test_effort(40, 400, 10000), newest;

	(void)state;
	srandom(7);
	memset(now, 0, LENGTH);
	memset(seen, 0, sizeof(seen));
	for (unsigned i = 0; i < NR_READERS; i++) {
		open_view(&readers[i], "random", "r");
		assert_int_equal(afar_cache_open(readers[i].session, LENGTH / 2, &caches[i]), 0);
	}
	for (uint64_t i = 0; i < nr; i++) {
		unsigned some = (unsigned)random() % NR_READERS;

		make_version(writer, i % 5 != 4);
		for (unsigned j = 0; j < NR_READERS; j++) {
			expect_bytes(readers[j].region, seen[j]);
			expect_cached(caches[j], readers[j].region, seen[j]);
		}
		assert_int_equal(afar_region_newest(readers[some].region, &newest), 0);
		assert_int_equal(newest, afar_region_version(writer));
		assert_int_equal(afar_region_refresh(readers[some].region), 0);
		assert_int_equal(afar_region_version(readers[some].region), newest);
		memcpy(seen[some], now, LENGTH);
		expect_bytes(readers[some].region, now);
		expect_cached(caches[some], readers[some].region, now);
	}
	for (unsigned i = 0; i < NR_READERS; i++) {
		assert_int_equal(afar_cache_close(caches[i]), 0);
		close_view(&readers[i]);
	}
	drop_region(writer);
	await_allocated(ns, 0);
	drop_namespace(ns, "random");
}

/* ---- Who writes, and what comes of it */

static void test_one_writer(void **state)
{
	struct afar_namespace *ns = make_space("one", 16 * MIB);
	struct afar_region *region = make_region(ns);
	const struct afar_range head = {0, 10};
	struct afar_region_stat stat = {.size = sizeof(stat)};
	struct view other;
	uint8_t byte = 0;

	(void)state;
	open_view(&other, "one", "r");
	assert_int_equal(afar_region_begin(region, &head, 1), 0);
	assert_int_equal(afar_region_pwrite(region, "0123456789", 10, 0), 10);
	expect_error(afar_region_begin(region, NULL, 0), -EBUSY);
	expect_error(afar_region_begin(other.region, NULL, 0), -EBUSY);
	assert_non_null(strstr(afar_last_error(), "has begun one"));
	assert_int_equal(afar_region_stat(other.region, &stat), 0);
	assert_int_equal(stat.version, 1);
	assert_int_equal(stat.nr_older, 0);
	assert_non_null(strstr(stat.writer, "session"));
	expect_error(afar_region_refresh(region), -EBUSY);
	assert_int_equal(afar_region_publish(region), 0);
	expect_error(afar_region_publish(region), -EINVAL);
	expect_error(afar_region_abandon(region), -EINVAL);
	assert_int_equal(afar_region_stat(region, &stat), 0);
	assert_int_equal(stat.version, 2);
	assert_int_equal(stat.nr_older, 1);
	assert_int_equal(stat.nr_older_references, 1);
	assert_string_equal(stat.writer, "");
	/* A writer that begins from an old version goes on from the newest. */
	assert_int_equal(afar_region_begin(other.region, &(struct afar_range){10, 1}, 1), 0);
	assert_int_equal(afar_region_version(other.region), 3);
	assert_int_equal(afar_region_pread(other.region, &byte, 1, 3), 1);
	assert_int_equal(byte, '3');
	/* A close gives the version up. */
	assert_int_equal(afar_region_close(other.region), 0);
	assert_int_equal(afar_region_open(other.ns, "r", &other.region), 0);
	assert_int_equal(afar_region_version(other.region), 2);
	assert_int_equal(afar_region_begin(region, NULL, 0), 0);
	/* A region that is freed is published no more. */
	assert_int_equal(afar_region_destroy(other.region), 0);
	expect_error(afar_region_publish(region), -AFAR_EFREED);
	assert_int_equal(afar_region_pread(other.region, &byte, 1, 3), 1);
	expect_error(afar_region_refresh(other.region), -AFAR_EFREED);
	close_view(&other);
	assert_int_equal(afar_region_close(region), 0);
	await_allocated(ns, 0);
	drop_namespace(ns, "one");
}

static int64_t complete_one(struct afar_queue *queue, const struct afar_op *op)
{
	struct afar_completion completion;
	int ret = afar_queue_submit(queue, op, 1);

	if (ret != 1)
		return ret;
	assert_int_equal(afar_queue_wait(queue, &completion, 1, 1, -1), 1);
	return completion.result;
}

/* Units that are not prepared are not written, by any way. */
static void test_writes_elsewhere(void **state)
{
	struct afar_namespace *ns = make_space("elsewhere", 16 * MIB);
	struct afar_region *region = make_region(ns);
	struct afar_mapping *mapping;
	struct afar_queue *queue;
	struct afar_iov iov;
	struct afar_op op = {.opcode = AFAR_OP_WRITE, .nr_iov = 1, .iov = &iov};

	(void)state;
	assert_int_equal(afar_region_map(region, 0, LENGTH, 0, &mapping), 0);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	iov = (struct afar_iov){afar_mapping_buffer(mapping), afar_mapping_data(mapping), 8};
	op.target = afar_region_target(region);
	memset(now, 0, LENGTH);
	/* Memory in all of its units, so that there is something to be written. */
	assert_int_equal(afar_region_begin(region, &(struct afar_range){0, LENGTH}, 1), 0);
	assert_int_equal(afar_region_pwrite(region, now, LENGTH, 0), LENGTH);
	assert_int_equal(afar_region_publish(region), 0);
	memset(afar_mapping_data(mapping), 'x', LENGTH);
	expect_error(afar_region_pwrite(region, "x", 1, 0), -EROFS);
	assert_non_null(strstr(afar_last_error(), "begin a version"));
	expect_error(afar_queue_submit(queue, &op, 1), -EROFS);
	expect_error(afar_mapping_write(mapping, 0, 8), -EROFS);
	assert_int_equal(afar_region_begin(region, &(struct afar_range){3 * UNIT, 1}, 1), 0);
	op.target = afar_region_target(region);
	assert_int_equal(afar_queue_connect(queue, op.target), 0);
	for (int round = 0; round < 2; round++) { /* the second one with windows */
		expect_error(afar_region_pwrite(region, "x", 1, 2 * UNIT), -EROFS);
		assert_non_null(strstr(afar_last_error(), "not prepared"));
		expect_error(afar_mapping_write(mapping, 2 * UNIT, 8), -EROFS);
		op.offset = 4 * UNIT;
		assert_int_equal(complete_one(queue, &op), -EROFS);
		op.offset = 3 * UNIT;
		assert_int_equal(complete_one(queue, &op), 8);
		assert_int_equal(afar_mapping_write(mapping, 3 * UNIT, UNIT), 0);
		op.opcode = AFAR_OP_FLUSH;
		op.offset = op.nr_iov = 0;
		assert_int_equal(complete_one(queue, &op), 0);
		op.opcode = AFAR_OP_WRITE;
		op.nr_iov = 1;
		memset(now + 3 * UNIT, 'x', UNIT);
		expect_bytes(region, now);
	}
	assert_int_equal(afar_region_publish(region), 0);
	expect_error(afar_region_pwrite(region, "y", 1, 3 * UNIT), -EROFS);
	op.offset = 3 * UNIT;
	expect_error(afar_queue_submit(queue, &op, 1), -EROFS);
	expect_error(afar_mapping_write(mapping, 3 * UNIT, 8), -EROFS);
	expect_bytes(region, now);
	/* A mapping goes with its handle. */
	memset(afar_mapping_data(mapping), 0, LENGTH);
	assert_int_equal(afar_mapping_read(mapping, 0, LENGTH), 0);
	assert_memory_equal(afar_mapping_data(mapping), now, LENGTH);
	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_mapping_unmap(mapping), 0);
	drop_region(region);
	drop_namespace(ns, "elsewhere");
}

static void test_in_flight(void **state)
{
	struct afar_namespace *ns = make_space("flight", 16 * MIB);
	struct afar_region *region = make_region(ns);
	struct afar_completion completion;
	struct afar_queue *queue;
	uint64_t word;
	struct afar_buffer *buffer = register_if_needed(&word, sizeof(word));
	const struct afar_iov iov = {buffer, &word, sizeof(word)};
	const struct afar_op op = {.opcode = AFAR_OP_READ,
				   .target = afar_region_target(region),
				   .iov = &iov,
				   .nr_iov = 1};
	int ret;

	(void)state;
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_region_begin(region, &(struct afar_range){0, LENGTH}, 1), 0);
	assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
	ret = afar_region_publish(region); /* it may have completed */
	assert_true(ret == 0 || ret == -EBUSY);
	assert_int_equal(afar_queue_wait(queue, &completion, 1, 1, -1), 1);
	if (ret)
		assert_int_equal(afar_region_publish(region), 0);
	assert_int_equal(afar_queue_close(queue), 0);
	unregister(buffer);
	drop_region(region);
	drop_namespace(ns, "flight");
}

static void test_refused(void **state)
{
	struct afar_namespace *ns = make_space("refused", 16 * MIB);
	struct afar_region *region = make_region(ns), *plain, *none;
	const struct afar_range behind = {LENGTH - 1, 2}, far = {UINT64_MAX, 2};
	uint64_t before, version;
	void *addr;

	(void)state;
	assert_int_equal(afar_region_create(ns, "p", 5000, 0, &plain), 0);
	expect_error(afar_region_begin(plain, NULL, 0), -EINVAL);
	expect_error(afar_region_prepare(plain, NULL, 0), -EINVAL);
	expect_error(afar_region_publish(plain), -EINVAL);
	expect_error(afar_region_abandon(plain), -EINVAL);
	expect_error(afar_region_refresh(plain), -EINVAL);
	expect_error(afar_region_newest(plain, &version), -EINVAL);
	expect_error(afar_region_newest(region, NULL), -EINVAL);
	expect_error(afar_region_begin(NULL, NULL, 0), -EINVAL);
	assert_int_equal(afar_region_version(plain), 0);
	assert_int_equal(afar_region_version(NULL), 0);
	drop_region(plain);
	expect_error(afar_region_create(ns, "n", 1, AFAR_ALLOC_COW | AFAR_ALLOC_NIC_ATOMICS, &none),
		     -EOPNOTSUPP);
	expect_error(afar_region_create(ns, "u", 1, AFAR_ALLOC_COW | AFAR_ALLOC_UNFINISHED, &none),
		     -EINVAL);
	expect_error(afar_region_begin(region, &behind, 1), -ERANGE);
	expect_error(afar_region_begin(region, &far, 1), -ERANGE);
	expect_error(afar_region_begin(region, NULL, 1), -EINVAL);
	expect_error(afar_region_prepare(region, &behind, 1), -EINVAL);
	expect_error(afar_region_fetch_add(region, 0, 1, &before), -EOPNOTSUPP);
	expect_error(afar_region_compare_swap(region, 0, 0, 1, &before), -EOPNOTSUPP);
	expect_error(afar_region_seal(region), -EOPNOTSUPP);
	expect_error(afar_region_attach(region, 0, 4096, PROT_READ, &addr), -EOPNOTSUPP);
	/* After all of that nothing is begun. */
	assert_int_equal(afar_region_begin(region, NULL, 0), 0);
	assert_int_equal(afar_region_abandon(region), 0);
	drop_region(region);
	drop_namespace(ns, "refused");
}

static void test_full(void **state)
{
	struct afar_namespace *ns = make_space("full", 4 * MIB);
	struct afar_region *region = make_region(ns), *rest;
	const struct afar_range half = {0, 6 * UNIT}, all = {0, LENGTH};
	struct view other;
	uint64_t before;

	(void)state;
	memset(now, 0, LENGTH);
	assert_int_equal(afar_region_begin(region, &half, 1), 0);
	memset(now, 'a', 6 * UNIT);
	assert_int_equal(afar_region_pwrite(region, now, 6 * UNIT, 0), 6 * (int)UNIT);
	assert_int_equal(afar_region_publish(region), 0);
	before = allocated(ns);
	assert_int_equal(afar_region_create(ns, "rest", 4 * MIB - before - 3 * UNIT, 0, &rest), 0);
	before = allocated(ns);
	expect_error(afar_region_begin(region, &all, 1), -ENOSPC);
	assert_non_null(strstr(afar_last_error(), "reserve"));
	await_allocated(ns, before);
	expect_bytes(region, now);
	/* Nobody has begun; a smaller version is. */
	open_view(&other, "full", "r");
	assert_int_equal(afar_region_begin(other.region, &(struct afar_range){5, 1}, 1), 0);
	assert_int_equal(afar_region_pwrite(other.region, "b", 1, 5), 1);
	expect_error(afar_region_prepare(other.region, &all, 1), -ENOSPC);
	assert_int_equal(afar_region_publish(other.region), 0);
	expect_bytes(region, now);
	now[5] = 'b';
	expect_bytes(other.region, now);
	close_view(&other);
	drop_region(rest);
	drop_region(region);
	await_allocated(ns, 0);
	drop_namespace(ns, "full");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_versions),	 cmocka_unit_test(test_one_writer),
		cmocka_unit_test(test_writes_elsewhere), cmocka_unit_test(test_in_flight),
		cmocka_unit_test(test_refused),		 cmocka_unit_test(test_full),
	};

	is_on_flash = argc > 1 && strcmp(argv[1], "flash") == 0;
	return cmocka_run_group_tests(tests, start, stop);
}
