/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows of bytes that are read ahead: what they give, what they never give, and how much they take. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "client/files/inode/stream.h"
#include "unit/group.h"

#define KIB	  ((size_t)1024)
#define LIMIT	  (512 * KIB)
#define WHOLE	  (64 * 1024 * KIB) /* the file's size, if it does not matter */
#define BUDGET	  ((int64_t)(2 * LIMIT))
#define SINCE	  7U
#define NR_WRITES 1000U
#define NR_HITS	  1000U
#define LINE	  64U /* what the threads read and write at once */

static struct stream stream;
static struct streams streams;
static _Atomic int64_t budget;
static uint8_t version; /* of the file's bytes */

static int setup(void **state)
{
	(void)state;
	version = 1;
	atomic_store(&budget, BUDGET);
	streams_init(&streams);
	stream_init(&stream, LIMIT, &budget);
	streams_add(&streams, &stream);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	streams_remove(&streams, &stream);
	stream_free(&stream);
	streams_free(&streams);
	return atomic_load(&budget) == BUDGET ? 0 : -1;
}

#define STREAM_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static uint8_t byte_at(uint64_t offset)
{
	return (uint8_t)(offset / 512 * 31 + offset + version);
}

static void fill_data(const struct stream_fill *fill, size_t length)
{
	for (size_t i = 0; i < length; i++)
		((uint8_t *)fill->data)[i] = byte_at(fill->offset + i);
}

/* Fills what is wanted. Returns how many blocks that was. */
static unsigned fill_all(uint64_t since)
{
	struct stream_fill fill;
	unsigned nr = 0;

	for (; stream_begin_fill(&stream, &fill); nr++) {
		fill_data(&fill, fill.length);
		stream_end_fill(&stream, &fill, (ssize_t)fill.length, since);
	}
	return nr;
}

static enum stream_found read_at(uint64_t offset, size_t length, uint64_t since)
{
	static uint8_t data[LIMIT];
	enum stream_found found = stream_read(&stream, data, length, offset, since);

	for (size_t i = 0; i < length && found == STREAM_HIT; i++)
		assert_int_equal(data[i], byte_at(offset + i));
	return found;
}

static void open_at(uint64_t offset, uint64_t size)
{
	stream_open(&stream, offset, 4096);
	assert_int_not_equal(stream_want(&stream, size), 0);
}

static void test_hit_and_miss(void **state)
{
	struct stream_fill fill;

	(void)state;
	assert_int_equal(read_at(0, 4096, SINCE), STREAM_MISS);
	open_at(8192, WHOLE);
	/* A program that waited for threads would be slower than without them, where these wait for a server. */
	assert_int_equal(read_at(8192, 4096, SINCE), STREAM_MISS);
	assert_true(stream_begin_fill(&stream, &fill));
	assert_int_equal(read_at(8192, 4096, SINCE), STREAM_COMING);
	fill_data(&fill, fill.length);
	stream_end_fill(&stream, &fill, (ssize_t)fill.length, SINCE);
	assert_int_not_equal(fill_all(SINCE), 0);
	assert_int_equal(read_at(8192, 4096, SINCE), STREAM_HIT);
	/* A request that comes late is not there; the window stays. */
	assert_int_equal(read_at(4096, 4096, SINCE), STREAM_MISS);
	assert_int_equal(read_at(12288, 100, SINCE), STREAM_HIT);
	assert_int_equal(read_at(12388, 4096, SINCE), STREAM_HIT);
	/* Over the border of two blocks. */
	assert_int_equal(read_at(8192 + 20480, 16384, SINCE), STREAM_HIT);
}

static void test_doubles(void **state)
{
	size_t before = 0;
	uint64_t offset;

	(void)state;
	open_at(4096, WHOLE);
	for (offset = 4096; offset < 4 * LIMIT; offset += 4096) {
		assert_true(stream.bytes >= before && (before == 0 || stream.bytes <= 2 * before));
		before = stream.bytes;
		assert_true(stream.ahead - offset <= LIMIT);
		fill_all(SINCE);
		assert_int_equal(read_at(offset, 4096, SINCE), STREAM_HIT);
		stream_want(&stream, WHOLE);
	}
	assert_int_equal(before, LIMIT / 4 * 3);
	assert_int_equal(atomic_load(&budget), BUDGET - (int64_t)LIMIT);
}

static void test_seek(void **state)
{
	(void)state;
	open_at(4096, WHOLE);
	fill_all(SINCE);
	assert_int_equal(read_at(20 * LIMIT, 4096, SINCE), STREAM_MISS);
	assert_int_equal(atomic_load(&budget), BUDGET);
	assert_int_equal(read_at(4096, 4096, SINCE), STREAM_MISS);
	assert_int_equal(stream_want(&stream, WHOLE), 0);
}

/* The program overtakes the window: it goes on in front of it. */
static void test_overtaken(void **state)
{
	struct stream_fill fill;
	uint64_t offset = 4096;

	(void)state;
	open_at(offset, WHOLE);
	assert_true(stream_begin_fill(&stream, &fill));
	for (unsigned i = 0; i < 40; i++, offset += 4096)
		read_at(offset, 4096, SINCE);
	assert_int_equal(read_at(offset, 4096, SINCE), STREAM_MISS);
	/* Nobody fills what it has passed. */
	assert_int_equal(fill_all(SINCE), 0);
	stream_end_fill(&stream, &fill, -1, 0);
	assert_int_equal(atomic_load(&budget), BUDGET);
}

static void test_write(void **state)
{
	struct stream_fill fill;

	(void)state;
	open_at(0, WHOLE);
	assert_int_equal(fill_all(SINCE), 2);
	/* In another place nothing happens. */
	streams_drop(&streams, WHOLE / 2, 4096);
	assert_int_equal(read_at(0, 4096, SINCE), STREAM_HIT);
	version++;
	streams_drop(&streams, 4096, 1);
	assert_int_equal(read_at(4096, 4096, SINCE), STREAM_MISS);
	streams_drop(&streams, 0, UINT64_MAX);
	assert_int_equal(read_at(8192, 4096, SINCE), STREAM_MISS);
	/* A block that was being filled meanwhile does not count. */
	assert_int_not_equal(stream_want(&stream, WHOLE), 0);
	assert_true(stream_begin_fill(&stream, &fill));
	fill_data(&fill, fill.length);
	version++;
	streams_drop(&streams, fill.offset + fill.length - 1, 1);
	stream_end_fill(&stream, &fill, (ssize_t)fill.length, SINCE);
	assert_int_equal(read_at(12288, fill.offset - 12288, SINCE), STREAM_MISS);
	assert_int_equal(read_at(fill.offset, 4096, SINCE), STREAM_MISS);
}

static void test_revoke(void **state)
{
	(void)state;
	open_at(0, WHOLE);
	fill_all(SINCE);
	assert_int_equal(read_at(0, 4096, SINCE + 1), STREAM_MISS);
	assert_int_equal(read_at(0, 4096, 0), STREAM_MISS);
	assert_int_equal(read_at(0, 4096, SINCE), STREAM_HIT);
	/* Nobody promises anything: what came is not kept, and the window rests. */
	stream_want(&stream, WHOLE);
	fill_all(0);
	assert_int_equal(read_at(4096, 4096, 0), STREAM_MISS);
	assert_int_equal(atomic_load(&budget), BUDGET);
}

static void test_end(void **state)
{
	struct stream_fill fill;

	(void)state;
	open_at(0, 40000);
	assert_int_equal(fill_all(SINCE), 2);
	assert_int_equal(stream_want(&stream, 40000), 0);
	assert_int_equal(read_at(0, 32768, SINCE), STREAM_HIT);
	assert_int_equal(read_at(32768, 40000 - 32768, SINCE), STREAM_HIT);
	/* The ordinary way finds out if there is more. */
	assert_int_equal(read_at(36864, 4096, SINCE), STREAM_MISS);
	assert_int_equal(read_at(40000, 4096, SINCE), STREAM_MISS);
	/* A fill that brings less gives that, and no more. */
	assert_int_not_equal(stream_want(&stream, WHOLE), 0);
	assert_true(stream_begin_fill(&stream, &fill));
	fill_data(&fill, 5000);
	stream_end_fill(&stream, &fill, 5000, SINCE);
	assert_int_equal(read_at(fill.offset, 5000, SINCE), STREAM_HIT);
	assert_int_equal(read_at(fill.offset, 5001, SINCE), STREAM_MISS);
}

/* An error is nobody's, and nothing is read ahead for a while. */
static void test_failure(void **state)
{
	struct stream_fill fill;

	(void)state;
	open_at(0, WHOLE);
	assert_true(stream_begin_fill(&stream, &fill));
	stream_end_fill(&stream, &fill, -EIO, SINCE);
	assert_int_equal(atomic_load(&budget), BUDGET);
	assert_int_equal(read_at(0, 4096, SINCE), STREAM_MISS);
	stream_open(&stream, 4096, 4096);
	assert_int_equal(stream_want(&stream, WHOLE), 0);
	stream.rests_until = 0;
	open_at(4096, WHOLE);
}

static void test_budget(void **state)
{
	struct stream others[2];

	(void)state;
	open_at(0, WHOLE);
	for (unsigned i = 0; i < 2; i++) {
		stream_init(&others[i], LIMIT, &budget);
		stream_open(&others[i], 0, 4096);
	}
	assert_int_not_equal(stream_want(&others[0], WHOLE), 0);
	assert_int_equal(stream_want(&others[1], WHOLE), 0);
	assert_int_equal(atomic_load(&budget), 0);
	for (unsigned i = 0; i < 2; i++)
		stream_free(&others[i]);
}

/* Memory that is being filled stays until that has ended. */
static void test_close_meanwhile(void **state)
{
	struct stream_fill fill;

	(void)state;
	open_at(0, WHOLE);
	assert_true(stream_begin_fill(&stream, &fill));
	stream_close(&stream);
	assert_int_equal(atomic_load(&budget), BUDGET - (int64_t)LIMIT);
	stream_open(&stream, 0, 4096);
	assert_int_equal(stream_want(&stream, WHOLE), 0);
	fill_data(&fill, fill.length);
	stream_end_fill(&stream, &fill, (ssize_t)fill.length, SINCE);
	assert_int_equal(atomic_load(&budget), BUDGET);
	open_at(0, WHOLE);
	assert_int_not_equal(fill_all(SINCE), 0);
	assert_int_equal(read_at(0, 4096, SINCE), STREAM_HIT);
}

static void test_late(void **state)
{
	struct stream_fill fill;

	(void)state;
	open_at(0, WHOLE);
	assert_true(stream_begin_fill(&stream, &fill));
	assert_false(stream_wait(&stream, 0, 4096, clock_ns()));
	assert_int_equal(read_at(0, 4096, SINCE), STREAM_MISS);
	stream_end_fill(&stream, &fill, (ssize_t)fill.length, SINCE);
	assert_int_equal(atomic_load(&budget), BUDGET);
}

/* ---- Threads */

static atomic_uint content, acknowledged, nr_hits, nr_stale;
static atomic_bool is_over, are_readers_over;

/* Fills blocks with what the file is at that moment. */
static void *fill_on(void *argument)
{
	struct stream_fill fill;

	(void)argument;
	while (!atomic_load(&are_readers_over)) {
		unsigned now;

		if (!stream_begin_fill(&stream, &fill)) {
			sched_yield();
			continue;
		}
		now = atomic_load(&content);
		for (size_t at = 0; at < fill.length; at += LINE)
			memcpy((char *)fill.data + at, &now, sizeof(now));
		stream_end_fill(&stream, &fill, (ssize_t)fill.length, SINCE);
	}
	return NULL;
}

static void *read_on(void *argument)
{
	char line[LINE];

	(void)argument;
	for (uint64_t at = 0; !atomic_load(&is_over); at += LINE) {
		const unsigned least = atomic_load(&acknowledged);
		enum stream_found found;
		unsigned got;

		stream_open(&stream, at, 4096);
		stream_want(&stream, UINT64_MAX / 2);
		do
			found = stream_read(&stream, line, LINE, at, SINCE);
		while (found == STREAM_COMING &&
		       stream_wait(&stream, at, LINE, clock_deadline_ms(60000)));
		if (found != STREAM_HIT)
			continue;
		memcpy(&got, line, sizeof(got));
		if (got < least)
			atomic_fetch_add(&nr_stale, 1);
		atomic_fetch_add(&nr_hits, 1);
	}
	return NULL;
}

/* A read gives what was acknowledged before it, or newer bytes, whatever is filled and read meanwhile. */
static void test_threads(void **state)
{
	void *(*const runs[])(void *) = {fill_on, fill_on, read_on, read_on};
	pthread_t threads[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, runs[i], NULL), 0);
	for (unsigned i = 1; i <= NR_WRITES || atomic_load(&nr_hits) < NR_HITS; i++) {
		atomic_store(&content, i);
		streams_drop(&streams, 0, UINT64_MAX);
		atomic_store(&acknowledged, i);
		sched_yield();
	}
	atomic_store(&is_over, true);
	for (unsigned i = 2; i < 4; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&are_readers_over, true);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	stream_close(&stream);
	assert_int_equal(atomic_load(&nr_stale), 0);
}

TEST_GROUP(stream)
{
	const struct CMUnitTest tests[] = {
		STREAM_TEST(test_hit_and_miss), STREAM_TEST(test_doubles),
		STREAM_TEST(test_seek),		STREAM_TEST(test_overtaken),
		STREAM_TEST(test_write),	STREAM_TEST(test_revoke),
		STREAM_TEST(test_end),		STREAM_TEST(test_failure),
		STREAM_TEST(test_budget),	STREAM_TEST(test_close_meanwhile),
		STREAM_TEST(test_late),		STREAM_TEST(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
