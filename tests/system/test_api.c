/* SPDX-License-Identifier: BSD-3-Clause */
/* The public API against real daemons: what it promises, and what it answers to misuse. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <afar/barrier.h>

#include "lib/api.h"
#include "lib/child.h"
#include "lib/transport.h"

/* ---- What it promises */

static void test_bytes_come_back(void **state)
{
	static const uint64_t sizes[] = {1,	   63,		 4095,		4096,
					 64 * KIB, 64 * KIB + 1, 5 * MIB + 333, 64 * MIB};
	struct afar_namespace *ns = make_namespace("bytes", 64 * KIB, 80 * MIB);
	uint8_t *sent = malloc(64 * MIB);
	uint8_t *got = malloc(64 * MIB);

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct afar_region *region;

		fill(sent, sizes[i], (uint32_t)i);
		memset(got, 0, sizes[i]);
		assert_int_equal(afar_region_alloc(ns, sizes[i], 0, &region), 0);
		assert_int_equal(afar_region_pwrite(region, sent, sizes[i], 0), sizes[i]);
		assert_int_equal(afar_region_pread(region, got, sizes[i], 0), sizes[i]);
		assert_memory_equal(sent, got, sizes[i]);
		drop_region(region);
	}
	free(sent);
	free(got);
	drop_namespace(ns, "bytes");
}

static void test_any_range_and_pieces(void **state)
{
	struct afar_namespace *ns = make_namespace("ranges", 4 * KIB, 4 * MIB);
	const size_t size = 300 * KIB;
	uint8_t *model = calloc(1, size);
	uint8_t *got = malloc(size);
	struct afar_region *region;
	uint32_t seed = 7;

	(void)state;
	assert_int_equal(afar_region_alloc(ns, size, 0, &region), 0);
	assert_int_equal(afar_region_pwrite(region, model, size, 0), size);
	for (int round = 0; round < 300; round++) {
		struct iovec iov[7];
		size_t offset, length = 0;

		for (int i = 0; i < 7; i++) {
			seed = seed * 1664525 + 1013904223;
			iov[i].iov_len = seed % (round % 2 ? 40000 : 600);
			iov[i].iov_base = got + length;
			length += iov[i].iov_len;
		}
		offset = seed % (size - length);
		fill(model + offset, length, seed);
		memcpy(got, model + offset, length);
		assert_int_equal(afar_region_writev(region, iov, 7, offset), length);
		memset(got, 0xee, length);
		assert_int_equal(afar_region_readv(region, iov, 7, offset), length);
		assert_memory_equal(got, model + offset, length);
	}
	assert_int_equal(afar_region_pread(region, got, size, 0), size);
	assert_memory_equal(got, model, size);
	drop_region(region);
	free(model);
	free(got);
	drop_namespace(ns, "ranges");
}

/* Memory that nobody has registered, not even writable where it is only read. */
static void test_plain_memory(void **state)
{
	const size_t lengths[] = {1, 4 * KIB, 64 * KIB, 64 * KIB + 1, 9 * MIB + 5};
	struct afar_namespace *ns = make_namespace("plain", 1 * MIB, 16 * MIB);
	uint8_t *from =
		mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *to = malloc(16 * MIB);
	struct afar_region *region;
	struct afar_queue *queue;
	struct afar_iov iov = {.addr = to, .length = 128 * KIB};
	struct afar_op op = {.opcode = AFAR_OP_READ, .nr_iov = 1, .iov = &iov};

	(void)state;
	fill(from, 16 * MIB, 99);
	mprotect(from, 16 * MIB, PROT_READ);
	assert_int_equal(afar_region_alloc(ns, 16 * MIB, 0, &region), 0);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t length = lengths[i], half = length / 2;
		struct iovec in[] = {{to + 4096, half}, {NULL, 0}, {to + 7, length - half}};

		if (half > 4096)
			in[2].iov_base = to + 4096 + half + 3;
		memset(to, 0, 16 * MIB);
		assert_int_equal(afar_region_pwrite(region, from + i, length, 3 * i), length);
		assert_int_equal(afar_region_readv(region, in, 3, 3 * i), length);
		assert_memory_equal(in[0].iov_base, from + i, half);
		assert_memory_equal(in[2].iov_base, from + i + half, length - half);
	}
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	op.target = afar_region_target(region);
	if (is_on_verbs()) {
		expect_error(afar_queue_submit(queue, &op, 1), -EINVAL);
		assert_non_null(strstr(afar_last_error(), "afar_buffer_register()"));
	}
	assert_int_equal(afar_queue_close(queue), 0);
	drop_region(region);
	drop_namespace(ns, "plain");
	munmap(from, 16 * MIB);
	free(to);
}

static void test_mapping_whole_and_part(void **state)
{
	struct afar_namespace *ns = make_namespace("mapping", 0, 16 * MIB);
	struct afar_mapping *whole, *part;
	struct afar_region *region;

	(void)state;
	assert_int_equal(afar_region_alloc(ns, 10 * MIB, 0, &region), 0);
	assert_int_equal(afar_region_map(region, 0, 10 * MIB, 0, &whole), 0);
	assert_int_equal(afar_region_map(region, 3 * MIB + 5, 100, 0, &part), 0);
	assert_int_equal((uintptr_t)afar_mapping_data(whole) % 4096, 0);
	assert_int_equal(afar_mapping_length(part), 100);
	fill(afar_mapping_data(whole), 10 * MIB, 3);
	assert_int_equal(afar_mapping_write(whole, 0, 10 * MIB), 0);
	assert_int_equal(afar_mapping_read(part, 0, 100), 0);
	assert_memory_equal(afar_mapping_data(part),
			    (uint8_t *)afar_mapping_data(whole) + 3 * MIB + 5, 100);
	expect_error(afar_mapping_read(part, 1, 100), -ERANGE);
	expect_error(afar_region_close(region), -EBUSY);
	assert_int_equal(afar_mapping_unmap(part), 0);
	assert_int_equal(afar_mapping_unmap(whole), 0);
	drop_region(region);
	drop_namespace(ns, "mapping");
}

static void test_names_and_addresses(void **state)
{
	struct afar_namespace *ns = make_namespace("names", 0, 8 * MIB);
	struct afar_region *first, *named, *again, *other;
	struct afar_region_stat stats[4] = {{.size = sizeof(stats[0])}};
	uint8_t byte = 42, got = 0;

	(void)state;
	expect_error(afar_region_open_at(ns, AFAR_FIRST_ADDRESS, &first), -ENOENT);
	assert_int_equal(afar_region_alloc(ns, 4096, AFAR_ALLOC_FIRST, &first), 0);
	expect_error(afar_region_alloc(ns, 4096, AFAR_ALLOC_FIRST, &other), -EADDRINUSE);
	assert_int_equal(afar_region_create(ns, "a name", 8192, 0, &named), 0);
	expect_error(afar_region_create(ns, "a name", 8192, 0, &other), -EEXIST);
	assert_int_equal(afar_region_pwrite(named, &byte, 1, 8191), 1);
	assert_int_equal(afar_region_open(ns, "a name", &again), 0);
	assert_int_equal(afar_region_pread(again, &got, 1, 8191), 1);
	assert_int_equal(got, 42);
	assert_int_equal(afar_region_list(ns, 0, stats, 4), 2);
	assert_int_equal(stats[0].address, AFAR_FIRST_ADDRESS);
	assert_string_equal(stats[1].name, "a name");
	assert_int_equal(stats[1].length, 8192);
	assert_int_equal(stats[1].nr_references, 1);
	assert_int_equal(afar_region_close(again), 0);
	assert_int_equal(afar_region_close(named), 0);
	assert_int_equal(afar_region_close(first), 0);
	assert_int_equal(afar_region_delete(ns, "a name"), 0);
	expect_error(afar_region_delete(ns, "a name"), -ENOENT);
	assert_int_equal(afar_region_delete_at(ns, AFAR_FIRST_ADDRESS), 0);
	expect_error(afar_region_delete_at(ns, AFAR_FIRST_ADDRESS), -ENOENT);
	assert_int_equal(afar_region_list(ns, 0, stats, 4), 0);
	drop_namespace(ns, "names");
}

/* What an open handle shows stays until it is closed, though the region is freed. */
static void test_freed_region_lives_while_open(void **state)
{
	struct afar_namespace *ns = make_namespace("freed", 0, 2 * MIB);
	struct afar_region_stat stat = {.size = sizeof(stat)};
	struct afar_region *region, *other;
	uint8_t byte = 9, got = 0;

	(void)state;
	assert_int_equal(afar_region_create(ns, "r", 2 * MIB, 0, &region), 0);
	assert_int_equal(afar_region_pwrite(region, &byte, 1, 0), 1);
	assert_int_equal(afar_region_free(region), 0);
	expect_error(afar_region_free(region), -AFAR_EFREED);
	expect_error(afar_region_open(ns, "r", &other), -ENOENT);
	assert_int_equal(afar_region_pread(region, &got, 1, 0), 1);
	assert_int_equal(got, 9);
	expect_error(afar_region_alloc(ns, 2 * MIB, 0, &other), -AFAR_ERESERVE);
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_region_alloc(ns, MIB, AFAR_ALLOC_FIRST, &region), 0);
	assert_int_equal(afar_region_free(region), 0);
	assert_int_equal(afar_region_alloc(ns, MIB, AFAR_ALLOC_FIRST, &other), 0);
	expect_error(afar_region_stat(region, &stat), -AFAR_EFREED); /* another has its address */
	assert_int_equal(afar_region_stat(other, &stat), 0);
	assert_int_equal(stat.length, MIB);
	assert_int_equal(afar_region_close(region), 0);
	drop_region(other);
	drop_namespace(ns, "freed");
}

static void test_queue(void **state)
{
	struct afar_namespace *ns = make_namespace("queue", 64 * KIB, 64 * MIB);
	struct afar_queue_options options = {.size = sizeof(options), .depth = 8};
	struct afar_completion done[16];
	struct afar_buffer *buffer;
	struct afar_region *region;
	struct afar_queue *queue;
	struct afar_iov iov[16];
	struct afar_op ops[16] = {0};
	struct pollfd wait;
	unsigned seen = 0;

	(void)state;
	assert_int_equal(afar_region_alloc(ns, 16 * MIB, 0, &region), 0);
	assert_int_equal(afar_buffer_alloc(session, 16 * MIB, &buffer), 0);
	assert_int_equal(afar_queue_open(session, &options, &queue), 0);
	fill(afar_buffer_data(buffer), 16 * MIB, 5);
	for (unsigned i = 0; i < 16; i++) {
		iov[i] = (struct afar_iov){buffer, (char *)afar_buffer_data(buffer) + i * MIB, MIB};
		ops[i] = (struct afar_op){.opcode = AFAR_OP_WRITE,
					  .target = afar_region_target(region),
					  .offset = i * MIB,
					  .iov = &iov[i],
					  .nr_iov = 1,
					  .user_data = i};
	}
	/* Without its connections every operation fails at once, as a completion. */
	assert_int_equal(afar_queue_submit(queue, ops, 1), 1);
	assert_int_equal(afar_queue_wait(queue, done, 16, 1, -1), 1);
	assert_int_equal(done[0].result, -ENOTCONN);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);

	/* Depth 8: the rest is taken after reaping. */
	assert_int_equal(afar_queue_submit(queue, ops, 16), 8);
	expect_error(afar_queue_close(queue), -EBUSY);
	assert_int_equal(afar_queue_wait_one(queue, 5, &done[0], -1), 0);
	assert_int_equal(done[0].user_data, 5);
	assert_int_equal(done[0].result, MIB);
	expect_error(afar_queue_wait_one(queue, 5, &done[0], 0), -ENOENT);
	assert_int_equal(afar_queue_wait(queue, done, 16, 7, -1), 7);
	assert_int_equal(afar_queue_submit(queue, ops + 8, 8), 8);

	/* By the descriptor. */
	wait = (struct pollfd){.fd = afar_queue_fd(queue), .events = POLLIN};
	while (seen != 0xff) {
		int count;

		if (afar_queue_arm(queue) == 0)
			assert_int_equal(poll(&wait, 1, 20000), 1);
		count = afar_queue_wait(queue, done, 16, 0, 0);
		for (int i = 0; i < count; i++) {
			assert_int_equal(done[i].result, MIB);
			seen |= 1U << (done[i].user_data - 8);
		}
	}
	/* Fewer are in flight than asked for: what can come. */
	assert_int_equal(afar_queue_wait(queue, done, 16, 3, -1), 0);

	memset(afar_buffer_data(buffer), 0, 16 * MIB);
	for (unsigned i = 0; i < 16; i++) {
		ops[i].opcode = AFAR_OP_READ;
		assert_int_equal(afar_queue_submit(queue, &ops[i], 1), 1);
		assert_int_equal(afar_queue_wait(queue, done, 1, 1, -1), 1);
	}
	{
		uint8_t *expected = malloc(16 * MIB);

		fill(expected, 16 * MIB, 5);
		assert_memory_equal(expected, afar_buffer_data(buffer), 16 * MIB);
		free(expected);
	}

	ops[0].opcode = 77;
	expect_error(afar_queue_submit(queue, ops, 2), -EINVAL);
	ops[1].offset = 16 * MIB;
	expect_error(afar_queue_submit(queue, ops + 1, 1), -ERANGE);
	iov[2].addr = (char *)iov[2].addr + 14 * MIB + 1;
	expect_error(afar_queue_submit(queue, ops + 2, 1), -EINVAL);
	iov[3].length = 0;
	assert_int_equal(afar_queue_submit(queue, ops + 3, 1), 1); /* empty: done at once */
	assert_int_equal(afar_queue_wait(queue, done, 1, 1, -1), 1);
	assert_int_equal(done[0].result, 0);

	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_buffer_unregister(buffer), 0);
	drop_region(region);
	drop_namespace(ns, "queue");
}

/* Operations that move no bytes are operations: they are checked, and complete with 0, over whatever connection or none. */
static void test_nothing_to_move(void **state)
{
	struct afar_namespace *ns = make_namespace("nothing", 4 * KIB, 1 * MIB);
	struct afar_region *region;
	struct afar_buffer *buffer;
	struct afar_queue *queue;
	struct afar_completion done;
	struct afar_iov empty[3], at_null = {.length = 0};

	(void)state;
	assert_int_equal(afar_region_alloc(ns, 64 * KIB, 0, &region), 0);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_buffer_alloc(session, 4096, &buffer), 0);
	for (int i = 0; i < 3; i++)
		empty[i] = (struct afar_iov){.buffer = buffer,
					     .addr = (char *)afar_buffer_data(buffer) + 2048 * i};

	const struct {
		struct afar_op op;
		int error; /* of the submission */
	} cases[] = {
		{{.opcode = AFAR_OP_READ}, 0},
		{{.opcode = AFAR_OP_WRITE}, 0},
		{{.opcode = AFAR_OP_READ, .flags = AFAR_OP_AFTER}, 0},
		{{.opcode = AFAR_OP_READ, .offset = 64 * KIB}, 0},
		{{.opcode = AFAR_OP_READ, .offset = 64 * KIB + 1}, -ERANGE},
		{{.opcode = AFAR_OP_READ, .nr_iov = 3, .iov = empty}, 0},
		{{.opcode = AFAR_OP_WRITE, .nr_iov = 1, .iov = &at_null}, 0},
		{{.opcode = AFAR_OP_READ, .nr_iov = 1}, -EINVAL},
		{{.opcode = AFAR_OP_FLUSH, .nr_iov = 1, .iov = empty}, -EINVAL},
		{{.opcode = AFAR_OP_FETCH_ADD, .nr_iov = 1, .iov = empty}, -EINVAL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct afar_op op = cases[i].op;

		op.target = afar_region_target(region);
		op.user_data = i;
		if (cases[i].error) {
			expect_error(afar_queue_submit(queue, &op, 1), cases[i].error);
			continue;
		}
		assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
		assert_int_equal(afar_queue_wait(queue, &done, 1, 1, -1), 1);
		assert_int_equal(done.user_data, i);
		assert_int_equal(done.result, 0);
	}
	assert_int_equal(afar_region_pread(region, NULL, 0, 64 * KIB), 0);
	expect_error((int)afar_region_pread(region, NULL, 0, 64 * KIB + 1), -ERANGE);

	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_buffer_unregister(buffer), 0);
	drop_region(region);
	drop_namespace(ns, "nothing");
}

/* ---- Many operations of all sizes in flight */

#define STORM_BYTES (32 * MIB)
#define STORM_DEPTH 64

struct storm {
	struct afar_queue *queue;
	struct afar_region *region;
	const uint8_t *pattern; /* what the region holds, always: writes write the same */
	uint8_t *room;		/* 2 MiB for each operation in flight */
	struct afar_buffer *buffer;
	struct afar_iov iov[STORM_DEPTH];
	struct afar_op ops[STORM_DEPTH];
	uint32_t seed;
	unsigned nr_in_flight;
};

static uint32_t storm_random(struct storm *storm)
{
	storm->seed = storm->seed * 1664525 + 1013904223;
	return storm->seed >> 8;
}

static void storm_submit(struct storm *storm, unsigned slot, unsigned size_shift)
{
	struct afar_op *op = &storm->ops[slot];
	struct afar_iov *iov = &storm->iov[slot];
	unsigned shift = size_shift ? size_shift : storm_random(storm) % 21;

	iov->buffer = storm->buffer;
	iov->addr = storm->room + slot * 2 * MIB;
	iov->length = ((size_t)1 << shift) + (size_shift ? 0 : storm_random(storm) % 13);
	*op = (struct afar_op){
		.opcode = storm_random(storm) % 4 ? AFAR_OP_READ : AFAR_OP_WRITE,
		.target = afar_region_target(storm->region),
		.offset = storm_random(storm) * 7ULL % (STORM_BYTES - iov->length),
		.iov = iov,
		.nr_iov = 1,
		.user_data = slot,
	};
	if (op->opcode == AFAR_OP_WRITE)
		memcpy(iov->addr, storm->pattern + op->offset, iov->length);
	assert_int_equal(afar_queue_submit(storm->queue, op, 1), 1);
	storm->nr_in_flight++;
}

static void storm_reap(struct storm *storm, unsigned *slot)
{
	struct afar_completion done;

	assert_int_equal(afar_queue_wait(storm->queue, &done, 1, 1, -1), 1);
	*slot = (unsigned)done.user_data;
	assert_int_equal(done.result, storm->iov[*slot].length);
	if (storm->ops[*slot].opcode == AFAR_OP_READ)
		assert_memory_equal(storm->iov[*slot].addr,
				    storm->pattern + storm->ops[*slot].offset,
				    storm->iov[*slot].length);
	storm->nr_in_flight--;
}

static void run_storm(struct storm *storm, unsigned depth, unsigned size_shift, unsigned nr_ops)
{
	unsigned slot;

	for (unsigned i = 0; i < nr_ops; i++) {
		if (storm->nr_in_flight < depth) {
			slot = i;
		} else {
			storm_reap(storm, &slot);
		}
		storm_submit(storm, slot, size_shift);
	}
	while (storm->nr_in_flight)
		storm_reap(storm, &slot);
}

static void test_storms(void **state)
{
	struct afar_namespace *ns = make_namespace("storm", 256 * KIB, 64 * MIB);
	struct afar_queue_options options = {.size = sizeof(options), .depth = STORM_DEPTH};
	struct storm storm = {.seed = 11};
	uint8_t *pattern = malloc(STORM_BYTES);

	(void)state;
	storm.room = malloc(STORM_DEPTH * 2 * MIB);
	storm.buffer = register_if_needed(storm.room, STORM_DEPTH * 2 * MIB);
	storm.pattern = pattern;
	fill(pattern, STORM_BYTES, 21);
	assert_int_equal(afar_region_alloc(ns, STORM_BYTES, 0, &storm.region), 0);
	assert_int_equal(afar_region_pwrite(storm.region, pattern, STORM_BYTES, 0), STORM_BYTES);
	assert_int_equal(afar_queue_open(session, &options, &storm.queue), 0);
	assert_int_equal(afar_queue_connect(storm.queue, afar_region_target(storm.region)), 0);
	run_storm(&storm, 1, 0, 300);
	run_storm(&storm, 7, 0, 600);
	run_storm(&storm, STORM_DEPTH, 0, 1500);
	run_storm(&storm, STORM_DEPTH, 6, 20000);
	run_storm(&storm, 32, 12, 5000);
	run_storm(&storm, 32, 20, 600);
	assert_int_equal(afar_queue_close(storm.queue), 0);
	drop_region(storm.region);
	drop_namespace(ns, "storm");
	unregister(storm.buffer);
	free(storm.room);
	free(pattern);
}

/* Whole batches at once, from a client that sleeps for every answer: whoever forgets to wake, hangs. */
static void test_batches_of_a_sleeper(void **state)
{
	struct afar_session_options sleeper = {
		.size = sizeof(sleeper), .spin_us = UINT32_MAX, .timeout_ms = 30000};
	struct afar_namespace *ns = make_namespace("batch", 0, 32 * MIB), *own;
	struct afar_completion done[32];
	struct afar_session *sleepy;
	struct afar_region *region;
	struct afar_buffer *buffer;
	struct afar_queue *queue;
	struct afar_iov iov[32];
	struct afar_op ops[32];

	(void)state;
	assert_int_equal(afar_session_open(cluster_uri(cluster), &sleeper, &sleepy), 0);
	assert_int_equal(afar_namespace_open(sleepy, "batch", &own), 0);
	assert_int_equal(afar_region_alloc(own, 32 * MIB, 0, &region), 0);
	assert_int_equal(afar_buffer_alloc(sleepy, 32 * MIB, &buffer), 0);
	assert_int_equal(afar_queue_open(sleepy, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	for (unsigned i = 0; i < 32; i++) {
		iov[i] = (struct afar_iov){buffer, (char *)afar_buffer_data(buffer) + i * MIB, MIB};
		ops[i] = (struct afar_op){.opcode = AFAR_OP_READ,
					  .target = afar_region_target(region),
					  .offset = i * MIB,
					  .iov = &iov[i],
					  .nr_iov = 1};
	}
	for (unsigned round = 0; round < 150; round++) {
		assert_int_equal(afar_queue_submit(queue, ops, 32), 32);
		assert_int_equal(afar_queue_wait(queue, done, 32, 32, -1), 32);
		for (unsigned i = 0; i < 32; i++)
			assert_int_equal(done[i].result, MIB);
	}
	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_buffer_unregister(buffer), 0);
	drop_region(region);
	assert_int_equal(afar_namespace_close(own), 0);
	assert_int_equal(afar_session_close(sleepy), 0);
	drop_namespace(ns, "batch");
}

static void test_registered_memory(void **state)
{
	struct afar_namespace *ns = make_namespace("register", 0, 2 * MIB);
	static uint8_t bytes[8192];
	struct afar_memory memory = {
		.size = sizeof(memory), .addr = bytes, .length = sizeof(bytes)};
	struct afar_buffer *buffer;
	struct afar_region *region;
	struct afar_queue *queue;
	struct afar_completion done;
	struct afar_iov iov;
	struct afar_op op;

	(void)state;
	assert_int_equal(afar_region_alloc(ns, 8192, 0, &region), 0);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	assert_int_equal(afar_buffer_register(session, &memory, AFAR_ACCESS_READ, &buffer), 0);
	iov = (struct afar_iov){buffer, bytes, sizeof(bytes)};
	op = (struct afar_op){.opcode = AFAR_OP_WRITE,
			      .target = afar_region_target(region),
			      .iov = &iov,
			      .nr_iov = 1};
	assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
	assert_int_equal(afar_queue_wait_one(queue, 0, &done, -1), 0);
	assert_int_equal(done.result, sizeof(bytes));
	op.opcode = AFAR_OP_READ; /* the buffer may only be read from */
	expect_error(afar_queue_submit(queue, &op, 1), -EINVAL);
	assert_int_equal(afar_buffer_unregister(buffer), 0);
	expect_error(afar_buffer_unregister(buffer), -EINVAL);
	memory.kind = 1;
	expect_error(afar_buffer_register(session, &memory, AFAR_ACCESS_READ, &buffer),
		     -EOPNOTSUPP);
	assert_int_equal(afar_queue_close(queue), 0);
	drop_region(region);
	drop_namespace(ns, "register");
}

static void test_reserve_and_release(void **state)
{
	struct afar_namespace *ns = make_namespace("reserve", 0, 0);
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	struct afar_region *region;
	uint64_t released;

	(void)state;
	expect_error(afar_region_alloc(ns, 4096, 0, &region), -AFAR_ERESERVE);
	assert_int_equal(afar_namespace_reserve(ns, 64 * MIB), 0);
	assert_int_equal(afar_namespace_stat(ns, &stat), 0);
	assert_true(stat.reserved_bytes >= 64 * MIB);
	assert_int_equal(stat.allocated_bytes, 0);
	assert_int_equal(afar_region_alloc(ns, 4096, 0, &region), 0);
	assert_int_equal(afar_namespace_release(ns, UINT64_MAX, &released), 0);
	assert_true(released < 64 * MIB + 4 * MIB && released > 0);
	assert_int_equal(afar_namespace_stat(ns, &stat), 0);
	assert_true(stat.reserved_bytes >= 4096);
	assert_int_equal(stat.nr_regions, 1);
	drop_region(region);
	drop_namespace(ns, "reserve");
}

/* ---- Bad input */

static void test_bad_sizes(void **state)
{
	struct afar_namespace *ns = make_namespace("sizes", 0, 2 * MIB);
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	struct afar_mapping *mapping;
	struct afar_region *region;
	uint8_t bytes[16];

	(void)state;
	expect_error(afar_namespace_reserve(ns, 0), -EINVAL);
	assert_true(afar_namespace_reserve(ns, UINT64_MAX) < 0);
	assert_true(afar_namespace_reserve(ns, UINT64_MAX - 4095) < 0);
	expect_error(afar_namespace_reserve(ns, (uint64_t)1 << 50), -ENOSPC);
	expect_error(afar_region_alloc(ns, 0, 0, &region), -EINVAL);
	expect_error(afar_region_alloc(ns, 1000 * MIB, 0, &region), -AFAR_ERESERVE);
	assert_true(afar_region_alloc(ns, UINT64_MAX, 0, &region) < 0);
	assert_int_equal(afar_namespace_stat(ns, &stat), 0);
	assert_int_equal(stat.allocated_bytes, 0);

	assert_int_equal(afar_region_alloc(ns, 4096, 0, &region), 0);
	expect_error(afar_region_pread(region, bytes, 16, 4081), -ERANGE);
	expect_error(afar_region_pread(region, bytes, 16, UINT64_MAX - 3), -ERANGE);
	expect_error(afar_region_pwrite(region, bytes, 1, 4096), -ERANGE);
	assert_int_equal(afar_region_pread(region, bytes, 0, 4096), 0);
	expect_error(afar_region_pread(region, NULL, 1, 0), -EINVAL);
	expect_error(afar_region_map(region, 0, 0, 0, &mapping), -EINVAL);
	expect_error(afar_region_map(region, 1, 4096, 0, &mapping), -ERANGE);
	expect_error(afar_region_map(region, UINT64_MAX, 2, 0, &mapping), -ERANGE);
	drop_region(region);
	drop_namespace(ns, "sizes");
}

static void test_bad_names(void **state)
{
	static const char *const names[] = {"",	   ".",	   "-a",  ".a",	 "a/b",
					    "a b", "a\nb", "a:b", "\xff"};
	char long_name[AFAR_NAME_MAX + 2];
	struct afar_namespace *ns;

	(void)state;
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_true(afar_namespace_create(session, names[i], NULL, &ns) < 0);
	expect_error(afar_namespace_create(session, long_name, NULL, &ns), -EINVAL);
	expect_error(afar_namespace_create(session, NULL, NULL, &ns), -EINVAL);
	expect_error(afar_namespace_open(session, "no-such", &ns), -ENOENT);
	expect_error(afar_namespace_delete(session, "no-such", 0), -ENOENT);
	long_name[AFAR_NAME_MAX] = '\0';
	assert_int_equal(afar_namespace_create(session, long_name, NULL, &ns), 0);
	drop_namespace(ns, long_name);
}

static void test_bad_policies(void **state)
{
	struct afar_policy policy = {.size = sizeof(policy)};
	struct afar_namespace *ns;

	(void)state;
	policy.tier = 9;
	expect_error(afar_namespace_create(session, "policy", &policy, &ns), -EOPNOTSUPP);
	policy.tier = 0;
	policy.stripe_bytes = 5000;
	expect_error(afar_namespace_create(session, "policy", &policy, &ns), -EINVAL);
	policy.stripe_bytes = 2048;
	expect_error(afar_namespace_create(session, "policy", &policy, &ns), -EINVAL);
	policy.stripe_bytes = 0;
	policy.width = 65;
	expect_error(afar_namespace_create(session, "policy", &policy, &ns), -EINVAL);
	policy.width = 0;
	policy.size = 1;
	expect_error(afar_namespace_create(session, "policy", &policy, &ns), -EINVAL);
}

static void test_twice(void **state)
{
	struct afar_namespace *ns = make_namespace("twice", 0, 2 * MIB);
	struct afar_mapping *mapping;
	struct afar_region *region;
	struct afar_namespace *other;

	(void)state;
	expect_error(afar_namespace_create(session, "twice", NULL, &other), -EEXIST);
	assert_int_equal(afar_region_alloc(ns, 4096, 0, &region), 0);
	assert_int_equal(afar_region_map(region, 0, 4096, 0, &mapping), 0);
	assert_int_equal(afar_mapping_unmap(mapping), 0);
	expect_error(afar_mapping_unmap(mapping), -EINVAL);
	assert_null(afar_mapping_data(mapping));
	expect_error(afar_mapping_read(mapping, 0, 1), -EINVAL);
	drop_region(region);
	expect_error(afar_region_close(region), -EINVAL);
	expect_error(afar_region_free(region), -EINVAL);
	expect_error((int)afar_region_pread(region, &(char){0}, 1, 0), -EINVAL);
	drop_namespace(ns, "twice");
	expect_error(afar_namespace_close(ns), -EINVAL);
	expect_error(afar_namespace_delete(session, "twice", 0), -ENOENT);
	expect_error(afar_namespace_close(NULL), -EINVAL);
}

/* A namespace deleted by one session answers the other with -ENOENT, whatever it asks. */
static void test_deleted_namespace(void **state)
{
	struct afar_namespace *ns = make_namespace("deleted", 0, 2 * MIB);
	struct afar_region *region;

	(void)state;
	assert_int_equal(afar_namespace_delete(session, "deleted", 0), 0);
	expect_error(afar_namespace_reserve(ns, MIB), -ENOENT);
	expect_error(afar_region_alloc(ns, 4096, 0, &region), -ENOENT);
	expect_error(afar_region_open(ns, "x", &region), -ENOENT);
	assert_int_equal(afar_namespace_close(ns), 0);
}

static void test_delete_with_regions(void **state)
{
	struct afar_namespace *ns = make_namespace("full", 0, 2 * MIB);
	struct afar_region *region;

	(void)state;
	assert_int_equal(afar_region_alloc(ns, 4096, 0, &region), 0);
	expect_error(afar_namespace_delete(session, "full", AFAR_DELETE_REGIONS), -EBUSY);
	assert_int_equal(afar_region_close(region), 0);
	expect_error(afar_namespace_delete(session, "full", 0), -ENOTEMPTY);
	assert_int_equal(afar_namespace_delete(session, "full", AFAR_DELETE_REGIONS), 0);
	assert_int_equal(afar_namespace_close(ns), 0);
}

static void test_session_stays_while_used(void **state)
{
	struct afar_namespace *ns = make_namespace("used", 0, 0);

	(void)state;
	expect_error(afar_session_close(session), -EBUSY);
	drop_namespace(ns, "used");
}

static void test_wrong_addresses(void **state)
{
	static const char *const uris[] = {"afar://",	     "http://localhost", "afar://h:0",
					   "afar://h:99999", "afar://[::1",	 "x"};
	struct afar_session *other;

	(void)state;
	for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++)
		expect_error(afar_session_open(uris[i], NULL, &other), -EINVAL);
	expect_error(afar_session_open("afar://127.0.0.1:1?key=/nowhere/key", NULL, &other),
		     -ENOENT);
}

/* Inside of a call that succeeds things may fail and be done in another way: that is nobody's business. */
static void test_success_leaves_the_last_line(void **state)
{
	const char *const failed = "use a region: the handle is null or closed";
	struct afar_namespace *ns = make_namespace("lines", 0, 70 * MIB);
	struct afar_mapping *mapping;
	struct afar_region *region, *large;
	struct afar_queue *queue;
	char *json;
	int is_first;

	(void)state;
	expect_error(afar_region_close(NULL), -EINVAL);
	assert_string_equal(afar_last_error(), failed);
	/* It is not there yet. */
	assert_int_equal(afar_region_bootstrap(ns, 64 * KIB, &region, &is_first), 0);
	assert_true(is_first);
	assert_string_equal(afar_last_error(), failed);
	/* Not on huge pages, where there are none. */
	assert_int_equal(afar_region_create(ns, "large", 64 * MIB, 0, &large), 0);
	assert_string_equal(afar_last_error(), failed);
	assert_int_equal(afar_region_map(large, 0, 64 * MIB, 0, &mapping), 0);
	assert_int_equal(afar_mapping_write(mapping, 0, 64 * MIB), 0);
	assert_int_equal(afar_mapping_unmap(mapping), 0);
	assert_string_equal(afar_last_error(), failed);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(large)), 0);
	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_region_seal(large), 0);
	assert_int_equal(afar_region_verify(large, 0, 64 * MIB, NULL), 0);
	assert_int_equal(afar_session_status(session, &json), 0);
	free(json);
	drop_region(large);
	drop_region(region);
	drop_namespace(ns, "lines");
	assert_string_equal(afar_last_error(), failed);
	/* A call of ours that fails may make others, which succeed, to clean up. */
	assert_int_equal(afar_region_bootstrap(NULL, 0, &region, NULL), -EINVAL);
	assert_string_not_equal(afar_last_error(), failed);
}

static void test_child_of_fork(void **state)
{
	struct afar_namespace *ns;
	int status;
	pid_t child;

	(void)state;
	child = fork_child();
	assert_true(child >= 0);
	if (child == 0)
		_exit(afar_namespace_open(session, "x", &ns) == -AFAR_EFORKED ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	expect_error(afar_namespace_open(session, "x", &ns), -ENOENT); /* the parent goes on */
}

static void test_status_is_json(void **state)
{
	char *json;

	(void)state;
	assert_int_equal(afar_session_status(session, &json), 0);
	assert_int_equal(json[0], '{');
	assert_non_null(strstr(json, "\"servers\""));
	assert_non_null(strstr(json, "\"capacity_bytes\""));
	free(json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_come_back),
		cmocka_unit_test(test_any_range_and_pieces),
		cmocka_unit_test(test_plain_memory),
		cmocka_unit_test(test_mapping_whole_and_part),
		cmocka_unit_test(test_names_and_addresses),
		cmocka_unit_test(test_freed_region_lives_while_open),
		cmocka_unit_test(test_queue),
		cmocka_unit_test(test_nothing_to_move),
		cmocka_unit_test(test_storms),
		cmocka_unit_test(test_batches_of_a_sleeper),
		cmocka_unit_test(test_registered_memory),
		cmocka_unit_test(test_reserve_and_release),
		cmocka_unit_test(test_bad_sizes),
		cmocka_unit_test(test_bad_names),
		cmocka_unit_test(test_bad_policies),
		cmocka_unit_test(test_twice),
		cmocka_unit_test(test_deleted_namespace),
		cmocka_unit_test(test_delete_with_regions),
		cmocka_unit_test(test_session_stays_while_used),
		cmocka_unit_test(test_wrong_addresses),
		cmocka_unit_test(test_success_leaves_the_last_line),
		cmocka_unit_test(test_child_of_fork),
		cmocka_unit_test(test_status_is_json),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
