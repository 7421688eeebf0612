/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool of extents, its memory reached as peers reach it: through a data port and keys. All or
 * nothing, never two holders, always zeroed, no way in after a release.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/shared.h"
#include "lib/base/transport.h"
#include "lib/server/extent_bed.h"
#include "server/data/selfcheck.h"
#include "unit/group.h"

static const struct reach mine = {1, true}, others = {2, true}, read_only = {1, false};

static void test_all_or_nothing(void **state)
{
	struct extent_info *held, *none = NULL;
	struct extent_bed bed;
	size_t nr_held, nr_none;

	(void)state;
	extent_bed_open(&bed, 16 * MIB + 4096, 0);
	assert_int_equal(extent_bed_stat(&bed).capacity_bytes, 16 * MIB);
	nr_held = extent_bed_reserve(&bed, 1, 10 * MIB, &held);
	assert_int_equal(extent_pool_reserve(bed.pool, 2, 8 * MIB, CLOCK_NEVER, &none, &nr_none),
			 -ENOSPC);
	assert_non_null(strstr(afar_last_error(), "16 MiB of capacity, 10 MiB granted"));
	assert_int_equal(extent_bed_stat(&bed).granted_bytes, 10 * MIB);

	extent_bed_release(&bed, held, nr_held);
	nr_held = extent_bed_reserve(&bed, 2, 16 * MIB, &held);
	extent_bed_release(&bed, held, nr_held);
	extent_bed_close(&bed);
}

static void test_absurd(void **state)
{
	static const uint64_t odd[] = {0, 1, 4096, 2 * MIB - 1, 2 * MIB + 1, UINT64_MAX};
	static const uint64_t absurd[] = {UINT64_MAX / (2 * MIB) * (2 * MIB), (uint64_t)1 << 63};
	struct extent_info *out;
	struct extent_bed bed;
	size_t nr_out, i;

	(void)state;
	/* More than any machine has: the pool would, the kernel does not. */
	extent_bed_open(&bed, (uint64_t)1 << 50, 0);
	for (i = 0; i < sizeof(odd) / sizeof(*odd); i++)
		assert_int_equal(
			extent_pool_reserve(bed.pool, 1, odd[i], CLOCK_NEVER, &out, &nr_out),
			-EINVAL);
	assert_int_equal(extent_pool_reserve(bed.pool, 0, 2 * MIB, CLOCK_NEVER, &out, &nr_out),
			 -EINVAL);
	for (i = 0; i < sizeof(absurd) / sizeof(*absurd); i++)
		assert_int_equal(
			extent_pool_reserve(bed.pool, 1, absurd[i], CLOCK_NEVER, &out, &nr_out),
			-ENOSPC);
	assert_int_equal(
		extent_pool_reserve(bed.pool, 1, (uint64_t)1 << 49, CLOCK_NEVER, &out, &nr_out),
		-ENOSPC);
	assert_int_equal(extent_bed_stat(&bed).granted_bytes + extent_bed_stat(&bed).clean_bytes,
			 0);
	extent_bed_close(&bed);
}

static void test_zeroed_for_the_next(void **state)
{
	struct extent_info *first, *second;
	size_t nr_first, nr_second, i;
	struct extent_bed bed;

	(void)state;
	extent_bed_open(&bed, 32 * MIB, 0);
	nr_first = extent_bed_reserve(&bed, 1, 32 * MIB, &first);
	for (i = 0; i < nr_first; i++) {
		extent_bed_expect(&bed, &first[i], 0);
		extent_bed_fill(&bed, &first[i], 0x5a);
		extent_bed_expect(&bed, &first[i], 0x5a);
	}
	extent_bed_release(&bed, first, nr_first);
	extent_bed_await_scrubbed(&bed);
	assert_int_equal(extent_bed_stat(&bed).clean_bytes, 32 * MIB);

	/* From the pool, in another cut; and then when the scrubber has to be waited for. */
	for (int round = 0; round < 2; round++) {
		nr_second = extent_bed_reserve(&bed, 2, 12 * MIB, &second);
		for (i = 0; i < nr_second; i++) {
			extent_bed_expect(&bed, &second[i], 0);
			extent_bed_fill(&bed, &second[i], 0x77);
		}
		nr_first = extent_bed_reserve(&bed, 3, 20 * MIB, &first);
		for (i = 0; i < nr_first; i++) {
			extent_bed_expect(&bed, &first[i], 0);
			extent_bed_fill(&bed, &first[i], 0x33);
		}
		extent_bed_release(&bed, first, nr_first);
		extent_bed_release(&bed, second, nr_second);
	}
	extent_bed_close(&bed);
}

static void test_no_way_in_after_release(void **state)
{
	struct extent_info *extents, *next;
	struct extent_drain drain;
	struct extent_key key, late;
	char data[64] = "late";
	size_t nr_extents;
	struct extent_bed bed;

	(void)state;
	extent_bed_open(&bed, 2 * MIB, 0);
	nr_extents = extent_bed_reserve(&bed, 1, 2 * MIB, &extents);
	assert_int_equal(nr_extents, 1);
	assert_int_equal(extent_pool_key(bed.pool, extents[0].extent, mine, &key), 0);
	assert_int_equal(extent_pool_key(bed.pool, extents[0].extent, others, &late), -AFAR_ELOST);
	assert_int_equal(
		data_client_write(&bed.client, data, sizeof(data), key.on[0].origin, key.on[0].key),
		0);
	/* Past the end is refused too, and costs the connection. */
	assert_int_not_equal(data_client_write(&bed.client, data, sizeof(data),
					       key.on[0].origin + key.length - sizeof(data) + 1,
					       key.on[0].key),
			     0);
	extent_bed_connect(&bed, 1, true);

	extent_pool_drain(bed.pool, &extents[0].extent, 1, &drain);
	extent_bed_settle(&bed);
	extent_pool_drained(bed.pool, &drain);
	assert_int_equal(extent_pool_release(bed.pool, &extents[0].extent, 1), 0);
	assert_int_equal(extent_pool_key(bed.pool, extents[0].extent, mine, &late), -AFAR_ELOST);
	assert_int_not_equal(
		data_client_write(&bed.client, data, sizeof(data), key.on[0].origin, key.on[0].key),
		0);
	/* Nor into what the next holder got of the same memory. */
	extent_bed_reserve(&bed, 2, 2 * MIB, &next);
	assert_int_not_equal(next[0].extent, extents[0].extent);
	extent_bed_connect(&bed, 2, true);
	assert_int_not_equal(
		data_client_write(&bed.client, data, sizeof(data), key.on[0].origin, key.on[0].key),
		0);
	extent_bed_connect(&bed, 2, true);
	extent_bed_expect(&bed, &next[0], 0);
	free(extents);
	extent_bed_release(&bed, next, 1);
	extent_bed_close(&bed);
}

/* Returns whether the pool says that somebody has the extent. */
static bool is_listed(struct extent_bed *bed, uint64_t extent)
{
	struct extent_info *listed;
	bool is_found = false;
	size_t nr_listed, i;

	assert_int_equal(extent_pool_list(bed->pool, &listed, &nr_listed), 0);
	for (i = 0; i < nr_listed; i++)
		is_found = is_found || listed[i].extent == extent;
	free(listed);
	return is_found;
}

static void test_draining(void **state)
{
	struct extent_info *extents, *next;
	struct extent_drain drain, again;
	struct extent_key key;
	size_t nr_extents, nr_next;
	uint64_t twice[2];
	struct extent_bed bed;

	(void)state;
	extent_bed_open(&bed, 4 * MIB, 0);
	nr_extents = extent_bed_reserve(&bed, 1, 4 * MIB, &extents);
	assert_int_equal(nr_extents, 1);
	extent_bed_fill(&bed, &extents[0], 0x11);
	twice[0] = twice[1] = extents[0].extent;
	extent_pool_drain(bed.pool, twice, 2, &drain);
	assert_int_equal(drain.nr_extents, 1);
	extent_pool_drain(bed.pool, twice, 2, &again);
	assert_int_equal(again.nr_extents, 0);
	extent_pool_drained(bed.pool, &again);

	/* No keys any more, but it is not free yet: nobody gets the memory, and the manager is told. */
	assert_int_equal(extent_pool_key(bed.pool, extents[0].extent, mine, &key), -AFAR_ELOST);
	assert_int_equal(extent_pool_key(bed.pool, extents[0].extent, read_only, &key),
			 -AFAR_ELOST);
	assert_int_equal(extent_bed_stat(&bed).draining_bytes, 4 * MIB);
	assert_int_equal(extent_bed_stat(&bed).dirty_bytes, 0);
	assert_true(is_listed(&bed, extents[0].extent));
	assert_int_equal(
		extent_pool_reserve(bed.pool, 2, 2 * MIB, clock_ns() + 1000000, &next, &nr_next),
		-ETIMEDOUT);

	extent_bed_settle(&bed);
	extent_pool_drained(bed.pool, &drain);
	assert_false(is_listed(&bed, extents[0].extent));
	nr_next = extent_bed_reserve(&bed, 2, 4 * MIB, &next);
	assert_int_equal(extent_bed_stat(&bed).scrubbed_bytes, 4 * MIB);
	assert_true(extent_bed_stat(&bed).scrub_bytes_per_s > 0);
	extent_bed_expect(&bed, &next[0], 0);
	free(extents);
	extent_bed_release(&bed, next, nr_next);
	extent_bed_close(&bed);
}

/* A key is worth something on connections for just the same, also where registering is slow. */
static void test_keys_are_of_one_domain(void **state)
{
	struct extent_pool_options options = {
		.capacity_bytes = 2 * MIB, .is_registering_slow = true, .is_shared = is_on_local()};
	struct extent_key read, both, again;
	struct extent_info *extents;
	size_t nr_extents;
	char data[8] = "before";
	struct extent_bed bed;

	(void)state;
	extent_bed_open(&bed, 2 * MIB, 0);
	extent_pool_close(bed.pool);
	options.domains = bed.domains;
	assert_int_equal(extent_pool_open(&options, &bed.pool), 0);
	nr_extents = extent_bed_reserve(&bed, 1, 2 * MIB, &extents);
	assert_int_equal(extent_pool_key(bed.pool, extents[0].extent, read_only, &read), 0);
	assert_int_equal(extent_pool_key(bed.pool, extents[0].extent, mine, &both), 0);
	assert_int_equal(extent_pool_key(bed.pool, extents[0].extent, mine, &again), 0);
	assert_int_equal(again.on[0].key, both.on[0].key);
	assert_int_equal(data_client_write(&bed.client, data, 8, both.on[0].origin, both.on[0].key),
			 0);
	extent_bed_connect(&bed, 1, false);
	assert_int_equal(data_client_read(&bed.client, data, 8, read.on[0].origin, read.on[0].key),
			 0);
	assert_string_equal(data, "before");
	assert_int_not_equal(
		data_client_write(&bed.client, "after!!", 8, read.on[0].origin, read.on[0].key), 0);
	extent_bed_connect(&bed, 1, false);
	assert_int_not_equal(
		data_client_write(&bed.client, "after!!", 8, both.on[0].origin, both.on[0].key), 0);
	extent_bed_connect(&bed, 2, true);
	assert_int_not_equal(
		data_client_write(&bed.client, "after!!", 8, both.on[0].origin, both.on[0].key), 0);
	extent_bed_connect(&bed, 1, true);
	assert_int_equal(data_client_read(&bed.client, data, 8, both.on[0].origin, both.on[0].key),
			 0);
	assert_string_equal(data, "before");
	data_client_disconnect(&bed.client);
	extent_bed_release(&bed, extents, nr_extents);
	extent_bed_close(&bed);
}

static void test_pool_limit(void **state)
{
	struct extent_info *extents;
	size_t nr_extents;
	struct extent_bed bed;

	(void)state;
	extent_bed_open(&bed, 16 * MIB, 4 * MIB);
	nr_extents = extent_bed_reserve(&bed, 1, 2 * MIB, &extents);
	extent_bed_release(&bed, extents, nr_extents);
	extent_bed_await_scrubbed(&bed);
	assert_int_equal(extent_bed_stat(&bed).clean_bytes, 2 * MIB);
	nr_extents = extent_bed_reserve(&bed, 1, 16 * MIB, &extents);
	extent_bed_release(&bed, extents, nr_extents);
	extent_bed_await_scrubbed(&bed);
	assert_true(extent_bed_stat(&bed).clean_bytes <= 4 * MIB);
	/* Memory that was let go can be populated again. */
	nr_extents = extent_bed_reserve(&bed, 1, 16 * MIB, &extents);
	extent_bed_release(&bed, extents, nr_extents);
	extent_bed_close(&bed);
}

static void test_large_extents_and_deadline(void **state)
{
	struct extent_info *extents, *none;
	size_t nr_extents, nr_none;
	struct extent_bed bed;

	(void)state;
	extent_bed_open(&bed, EXTENT_BYTES_MAX + 64 * MIB, 0);
	nr_extents = extent_bed_reserve(&bed, 1, EXTENT_BYTES_MAX + 64 * MIB, &extents);
	assert_int_equal(nr_extents, 2);
	assert_int_equal(extents[0].length + extents[1].length, EXTENT_BYTES_MAX + 64 * MIB);
	assert_true(extents[0].length <= EXTENT_BYTES_MAX && extents[1].length <= EXTENT_BYTES_MAX);

	/* Split off and merged back, it is whole again. */
	extent_bed_release(&bed, extents, nr_extents);
	assert_int_equal(extent_pool_reserve_clean(bed.pool, 1, EXTENT_BYTES_MAX + 66 * MIB, &none,
						   &nr_none),
			 -EAGAIN);
	extent_bed_await_scrubbed(&bed);
	/* A shared extent is not split: room is made for another. */
	assert_int_equal(extent_pool_reserve_clean(bed.pool, 1, 128 * MIB, &extents, &nr_extents),
			 is_on_local() ? -EAGAIN : 0);
	if (is_on_local())
		nr_extents = extent_bed_reserve(&bed, 1, 128 * MIB, &extents);
	extent_bed_release(&bed, extents, nr_extents);
	extent_bed_await_scrubbed(&bed);
	nr_extents = extent_bed_reserve(&bed, 2, EXTENT_BYTES_MAX, &extents);
	assert_true(nr_extents == 1 || is_on_local());
	extent_bed_release(&bed, extents, nr_extents);
	extent_pool_stop(bed.pool);
	assert_int_equal(extent_pool_reserve(bed.pool, 1, 2 * MIB, CLOCK_NEVER, &none, &nr_none),
			 -ECANCELED);
	extent_bed_close(&bed);
}

/* The file behind an extent that somebody has. */
static ino_t file_of(struct extent_bed *bed, const struct extent_info *extent)
{
	uint64_t *word;
	struct stat file;

	assert_int_equal(extent_pool_word(bed->pool, extent->extent, extent->namespace, 0, &word),
			 0);
	assert_int_equal(fstat(shared_descriptor(word, extent->length), &file), 0);
	return file.st_ino;
}

/* A client that has had the memory may have kept it: the next one's is other memory, if it was lent to
 * anybody. */
static void test_exchanges_what_was_lent(void **state)
{
	struct extent_info *extents;
	uint64_t data = 0x5a5a;
	struct extent_bed bed;
	ino_t first;

	(void)state;
	if (!is_on_local())
		skip();
	for (int was_lent = 0; was_lent < 2; was_lent++) {
		extent_bed_open(&bed, 4 * MIB, 0);
		assert_int_equal(extent_bed_reserve(&bed, 1, 4 * MIB, &extents), 1);
		first = file_of(&bed, &extents[0]);
		if (was_lent)
			assert_int_equal(extent_bed_transfer(&bed, &extents[0], 1, &data, 8, 0), 0);
		data_client_disconnect(&bed.client);
		extent_bed_release(&bed, extents, 1);
		extent_bed_await_scrubbed(&bed);
		assert_int_equal(extent_bed_reserve(&bed, 2, 4 * MIB, &extents), 1);
		if (was_lent)
			assert_int_not_equal(file_of(&bed, &extents[0]), first);
		else
			assert_int_equal(file_of(&bed, &extents[0]), first);
		assert_int_equal(extent_bed_transfer(&bed, &extents[0], 0, &data, 8, 0), 0);
		assert_int_equal(data, 0);
		extent_bed_release(&bed, extents, 1);
		extent_bed_close(&bed);
	}
}

/* Before it lends anything, a server tries whether its transport keeps to its keys. */
static void test_transport_keeps_to_its_keys(void **state)
{
	struct fabric *fabric;

	(void)state;
	assert_int_equal(fabric_open(test_transport(), &fabric), 0);
	assert_int_equal(selfcheck(fabric, any_port()), 0);
	fabric_close(fabric);
}

/* To be read alone in both domains, not by the processor's atomics either; and no other process, whatever it was
 * lent, can write it. */
static void test_sealed(void **state)
{
	struct extent_info *infos;
	struct extent_key key;
	size_t nr_infos;
	uint64_t *word;
	char *at, *none, byte = 1;
	struct extent_bed bed;
	int fd;

	(void)state;
	extent_bed_open(&bed, 8 * MIB, 0);
	assert_int_equal(
		extent_pool_reserve_sealed(bed.pool, 1, 2 * MIB, CLOCK_NEVER, &infos, &nr_infos),
		0);
	assert_int_equal(nr_infos, 1);
	assert_int_equal(infos[0].class, CLASS_DRAM_SEALED);
	assert_int_equal(
		extent_pool_span(bed.pool, infos[0].extent, 1, CLASS_DRAM_SEALED, 0, 2 * MIB, &at),
		0);
	*at = 7; /* the server can */
	assert_int_equal(extent_pool_key(bed.pool, infos[0].extent, mine, &key), 0);
	assert_int_not_equal(
		data_client_write(&bed.client, &byte, 1, key.on[0].origin, key.on[0].key), 0);
	extent_bed_connect(&bed, 1, true);
	assert_int_equal(data_client_read(&bed.client, &byte, 1, key.on[0].origin, key.on[0].key),
			 0);
	assert_int_equal(byte, 7);
	assert_int_equal(extent_pool_word(bed.pool, infos[0].extent, 1, 0, &word), -EROFS);
	assert_int_equal(extent_pool_span(bed.pool, infos[0].extent, 1, CLASS_DRAM, 0, 1, &none),
			 -AFAR_ELOST);
	if (is_on_local()) {
		fd = shared_descriptor(at, 2 * MIB);
		assert_int_equal(pwrite(fd, "x", 1, 0), -1);
		assert_ptr_equal(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	}
	data_client_disconnect(&bed.client);
	assert_int_equal(extent_pool_release(bed.pool, &infos[0].extent, 1), 1);
	free(infos);
	/* For anybody else it is as any other. */
	extent_bed_await_scrubbed(&bed);
	assert_int_equal(extent_pool_reserve(bed.pool, 1, 8 * MIB, CLOCK_NEVER, &infos, &nr_infos),
			 0);
	extent_bed_connect(&bed, 1, true);
	for (size_t i = 0; i < nr_infos; i++) {
		assert_int_equal(infos[i].class, CLASS_DRAM);
		assert_int_equal(extent_pool_key(bed.pool, infos[i].extent, mine, &key), 0);
		assert_int_equal(
			data_client_write(&bed.client, &byte, 1, key.on[0].origin, key.on[0].key),
			0);
	}
	free(infos);
	extent_bed_close(&bed);
}

TEST_GROUP(extent)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_or_nothing),
		cmocka_unit_test(test_absurd),
		cmocka_unit_test(test_zeroed_for_the_next),
		cmocka_unit_test(test_no_way_in_after_release),
		cmocka_unit_test(test_draining),
		cmocka_unit_test(test_keys_are_of_one_domain),
		cmocka_unit_test(test_pool_limit),
		cmocka_unit_test(test_large_extents_and_deadline),
		cmocka_unit_test(test_exchanges_what_was_lent),
		cmocka_unit_test(test_transport_keeps_to_its_keys),
		cmocka_unit_test(test_sealed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
