/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions that become longer and shorter while others have them open. Nobody reaches what was cut off, whatever he had ready,
 * so those who get it afterwards find only their own bytes there.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "lib/api/api.h"

#define LONG  (8 * MIB)
#define SHORT (MIB + 4321)

static uint64_t length_of(struct afar_region *region)
{
	struct afar_region_stat stat = {.size = sizeof(stat)};

	assert_int_equal(afar_region_stat(region, &stat), 0);
	return stat.length;
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

/* ---- What handles see */

static void test_others_see_it(void **state)
{
	struct afar_namespace *ns = make_namespace("seen", 64 * KIB, 2 * LONG);
	struct afar_region *region;
	struct view other;
	char byte = 'a';

	(void)state;
	assert_int_equal(afar_region_create(ns, "r", SHORT, 0, &region), 0);
	open_view(&other, "seen", "r");
	assert_int_equal(afar_region_pwrite(other.region, &byte, 1, SHORT - 1), 1);
	expect_error(afar_region_pwrite(other.region, &byte, 1, SHORT), -ERANGE);

	/* Longer: the others find out when they ask. */
	assert_int_equal(afar_region_resize(region, LONG), 0);
	assert_int_equal(afar_region_pwrite(region, "b", 1, LONG - 1), 1);
	expect_error(afar_region_pread(other.region, &byte, 1, LONG - 1), -ERANGE);
	assert_int_equal(length_of(other.region), LONG);
	assert_int_equal(afar_region_pread(other.region, &byte, 1, LONG - 1), 1);
	assert_int_equal(byte, 'b');
	assert_int_equal(afar_region_pread(region, &byte, 1, SHORT - 1), 1);
	assert_int_equal(byte, 'a');

	/* Shorter: they find out at once, also those who were only about to. */
	assert_int_equal(afar_region_resize(other.region, SHORT), 0);
	expect_error(afar_region_pread(other.region, &byte, 1, SHORT), -ERANGE);
	expect_error(afar_region_pread(region, &byte, 1, SHORT), -ERANGE);
	expect_error(afar_region_pwrite(region, &byte, 1, LONG - 1), -ERANGE);
	assert_int_equal(afar_region_pread(region, &byte, 1, SHORT - 1), 1);
	assert_int_equal(byte, 'a');
	close_view(&other);
	drop_region(region);
	drop_namespace(ns, "seen");
}

/* A mapping, a queue and an attachment were ready for the part that goes. */
static void test_nothing_reaches_it(void **state)
{
	struct afar_namespace *ns = make_namespace("ready", 64 * KIB, LONG);
	struct afar_region *region, *next;
	struct afar_mapping *mapping, *early;
	struct afar_queue *queue;
	struct afar_iov iov;
	struct afar_op op = {.opcode = AFAR_OP_WRITE, .nr_iov = 1, .iov = &iov};
	struct view other;
	static uint8_t zeros[LONG], got[LONG];
	uint64_t before;
	int attached;
	void *addr;

	(void)state;
	assert_int_equal(afar_region_create(ns, "r", LONG, 0, &region), 0);
	open_view(&other, "ready", "r");
	assert_int_equal(afar_region_map(other.region, LONG - 64 * KIB, 64 * KIB, 0, &mapping), 0);
	assert_int_equal(afar_region_map(other.region, 0, 4096, 0, &early), 0);
	assert_int_equal(afar_mapping_write(mapping, 0, 64 * KIB), 0);
	assert_int_equal(afar_queue_open(other.session, NULL, &queue), 0);
	op.target = afar_region_target(other.region);
	assert_int_equal(afar_queue_connect(queue, op.target), 0);
	iov = (struct afar_iov){.buffer = afar_mapping_buffer(mapping),
				.addr = afar_mapping_data(mapping),
				.length = 4096};
	op.offset = LONG - 4096;
	assert_int_equal(complete_one(queue, &op), 4096);
	attached =
		afar_region_attach(other.region, LONG - 4096, 4096, PROT_READ | PROT_WRITE, &addr);

	assert_int_equal(afar_region_resize(region, SHORT), 0);
	assert_int_equal(afar_region_create(ns, "next", LONG - 2 * MIB, 0, &next), 0);
	assert_int_equal(afar_region_pwrite(next, zeros, LONG - 2 * MIB, 0), LONG - 2 * MIB);

	memset(afar_mapping_data(mapping), 0xff, 64 * KIB);
	/* The other session has not heard of it yet. From then on all fails for good. */
	assert_true(complete_one(queue, &op) < 0);
	expect_error(afar_mapping_write(mapping, 0, 64 * KIB), -ERANGE);
	assert_int_equal(afar_queue_connect(queue, op.target), 0);
	expect_error(afar_queue_submit(queue, &op, 1), -ERANGE);
	expect_error(afar_region_fetch_add(other.region, LONG - 8, 1, &before), -ERANGE);
	if (attached == 0)
		assert_int_equal(afar_region_detach(other.region, addr), 0);
	expect_error(afar_region_attach(other.region, LONG - 4096, 4096, PROT_READ, &addr),
		     -ERANGE);
	assert_int_equal(afar_mapping_write(early, 0, 4096), 0);
	op.offset = SHORT - 4096;
	assert_int_equal(complete_one(queue, &op), 4096);
	assert_int_equal(afar_region_pread(next, got, LONG - 2 * MIB, 0), LONG - 2 * MIB);
	assert_memory_equal(got, zeros, LONG - 2 * MIB);

	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_mapping_unmap(mapping), 0);
	assert_int_equal(afar_mapping_unmap(early), 0);
	close_view(&other);
	drop_region(next);
	drop_region(region);
	drop_namespace(ns, "ready");
}

/* ---- At the same time */

/* Writes to all of a region until it is told to stop. */
struct writer {
	struct view view;
	pthread_t thread;
	atomic_bool is_over;
	atomic_uint nr_written, nr_past;
	int failure;
};

static void *write_on(void *argument)
{
	struct writer *writer = argument;
	static const uint8_t ones[64 * KIB] = {1, 1, 1, 1};

	for (uint64_t i = 0; !writer->is_over && writer->failure == 0; i++) {
		const uint64_t offset = i * sizeof(ones) % LONG;
		ssize_t ret = afar_region_pwrite(writer->view.region, ones, sizeof(ones), offset);

		if (ret == -ERANGE)
			writer->nr_past++;
		else if (ret == sizeof(ones))
			writer->nr_written++;
		else
			writer->failure = (int)ret;
		/* It asks now and then, as it wants to use what is longer. */
		if (offset == 0)
			length_of(writer->view.region);
	}
	return NULL;
}

/* Another writes while the region is made shorter and longer. A region of zeros, made where it was cut off, stays zeros. */
static void test_writers(void **state)
{
	struct afar_namespace *ns = make_namespace("busy", 64 * KIB, LONG + 2 * MIB);
	static uint8_t zeros[LONG - MIB], got[LONG - MIB];
	struct writer writer = {.failure = 0};
	struct afar_region *region, *between;

	(void)state;
	assert_int_equal(afar_region_create(ns, "r", LONG, 0, &region), 0);
	open_view(&writer.view, "busy", "r");
	assert_int_equal(pthread_create(&writer.thread, NULL, write_on, &writer), 0);
	for (unsigned i = 0; i < 20 && writer.failure == 0; i++) {
		const unsigned written = writer.nr_written;

		assert_int_equal(afar_region_resize(region, MIB), 0);
		assert_int_equal(afar_region_alloc(ns, LONG - MIB, 0, &between), 0);
		assert_int_equal(afar_region_pwrite(between, zeros, sizeof(zeros), 0),
				 sizeof(zeros));
		while (writer.nr_written == written && writer.failure == 0)
			;
		assert_int_equal(afar_region_pread(between, got, sizeof(got), 0), sizeof(got));
		assert_memory_equal(got, zeros, sizeof(got));
		drop_region(between);
		assert_int_equal(afar_region_resize(region, LONG), 0);
	}
	writer.is_over = true;
	assert_int_equal(pthread_join(writer.thread, NULL), 0);
	assert_int_equal(writer.failure, 0);
	assert_true(writer.nr_past > 0);
	close_view(&writer.view);
	drop_region(region);
	drop_namespace(ns, "busy");
}

struct racer {
	struct view view;
	pthread_t thread;
	uint64_t bytes; /* two lengths by turns */
	int failure;
};

static void *race(void *argument)
{
	struct racer *racer = argument;

	for (unsigned i = 0; i < 20 && racer->failure == 0; i++)
		racer->failure = afar_region_resize(racer->view.region,
						    i % 2 ? racer->bytes : racer->bytes / 2);
	return NULL;
}

/* Two clients resize it: one after another, and the last one counts. */
static void test_two_clients(void **state)
{
	struct afar_namespace *ns = make_namespace("race", 64 * KIB, LONG);
	struct racer racers[2] = {{.bytes = 4 * MIB}, {.bytes = 3 * MIB}};
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	struct afar_region *region;
	uint64_t length;
	char byte;

	(void)state;
	assert_int_equal(afar_region_create(ns, "r", MIB, 0, &region), 0);
	for (size_t i = 0; i < 2; i++) {
		open_view(&racers[i].view, "race", "r");
		assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
	}
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
		assert_int_equal(racers[i].failure, 0);
	}
	length = length_of(region);
	assert_true(length == 4 * MIB || length == 3 * MIB);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(length_of(racers[i].view.region), length);
		assert_int_equal(afar_region_pread(racers[i].view.region, &byte, 1, length - 1), 1);
		expect_error(afar_region_pread(racers[i].view.region, &byte, 1, length), -ERANGE);
		close_view(&racers[i].view);
	}
	assert_int_equal(afar_region_resize(region, 4096), 0);
	assert_int_equal(afar_namespace_stat(ns, &stat), 0);
	assert_true(stat.allocated_bytes <= 256 * KIB);
	drop_region(region);
	drop_namespace(ns, "race");
}

/* ---- What is refused */

static void test_misuse(void **state)
{
	struct afar_namespace *ns = make_namespace("misuse", 64 * KIB, LONG);
	struct afar_region *region, *cow;

	(void)state;
	assert_int_equal(afar_region_create(ns, "r", MIB, 0, &region), 0);
	expect_error(afar_region_resize(NULL, 1), -EINVAL);
	expect_error(afar_region_resize(region, 0), -EINVAL);
	expect_error(afar_region_resize(region, UINT64_MAX), -EINVAL);
	expect_error(afar_region_resize(region, UINT64_MAX - 0x1000), -AFAR_ERESERVE);
	expect_error(afar_region_resize(region, (uint64_t)1 << 63), -AFAR_ERESERVE);
	expect_error(afar_region_resize(region, 2 * LONG), -AFAR_ERESERVE);
	assert_int_equal(length_of(region), MIB);
	assert_int_equal(afar_region_create(ns, "cow", MIB, AFAR_ALLOC_COW, &cow), 0);
	expect_error(afar_region_resize(cow, 4096), -EOPNOTSUPP);
	drop_region(cow);
	assert_int_equal(afar_region_seal(region), 0);
	expect_error(afar_region_resize(region, 4096), -EROFS);
	assert_int_equal(afar_region_destroy(region), 0);
	expect_error(afar_region_resize(region, 4096), -AFAR_EFREED);
	assert_int_equal(afar_region_close(region), 0);
	drop_namespace(ns, "misuse");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_others_see_it), cmocka_unit_test(test_nothing_reaches_it),
		cmocka_unit_test(test_writers),	      cmocka_unit_test(test_two_clients),
		cmocka_unit_test(test_misuse),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
