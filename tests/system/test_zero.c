/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zeros and trims of regions, in memory or on flash as told, against a model of their bytes. Whatever the range, the
 * bytes that are named read as zeros, or may after a trim, and no others change. The regions are striped over two
 * servers, so that one operation is many messages.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/namespace/region.h"
#include "lib/api/api.h"
#include "lib/base/effort.h"

#define LENGTH	(9 * MIB + 4321)
#define BLOCK	4096U
#define NR_MANY 64U

static bool is_flash; /* all regions are on flash; else in memory */

/* A region, the bytes that it has, and a queue for it. */
struct ground {
	const char *name;
	struct afar_namespace *ns;
	struct afar_region *region;
	struct afar_target *target;
	struct afar_queue *queue;
	struct afar_buffer *buffer; /* of `data`; NULL: unregistered memory will do */
};

static uint8_t model[LENGTH], data[LENGTH], got[LENGTH];
static unsigned random_state;

static unsigned dice(unsigned sides)
{
	random_state = random_state * 1664525U + 1013904223U;
	return (random_state >> 8) % sides;
}

static int64_t run(struct ground *ground, uint16_t opcode, uint32_t flags, uint64_t offset,
		   uint64_t length)
{
	const bool is_write = opcode == AFAR_OP_WRITE;
	const struct afar_iov iov = {ground->buffer, data + offset, length};
	const struct afar_op op = {
		.opcode = opcode,
		.flags = flags,
		.target = ground->target,
		.offset = offset,
		.iov = is_write ? &iov : NULL,
		.nr_iov = is_write,
		.operand = is_write ? 0 : length,
	};
	struct afar_completion done;

	assert_int_equal(afar_queue_submit(ground->queue, &op, 1), 1);
	assert_int_equal(afar_queue_wait(ground->queue, &done, 1, 1, -1), 1);
	return done.result;
}

/* The server's processor writes the zeros, and sees over any transport what was flushed. */
static void write_bytes(struct ground *ground, uint64_t offset, uint64_t length, unsigned seed)
{
	fill(data + offset, length, seed);
	memcpy(model + offset, data + offset, length);
	assert_int_equal(run(ground, AFAR_OP_WRITE, 0, offset, length), length);
	assert_int_equal(run(ground, AFAR_OP_FLUSH, 0, 0, 0), 0);
}

static void expect_bytes(struct ground *ground, uint64_t offset, uint64_t length)
{
	assert_int_equal(afar_region_pread(ground->region, got, length, offset), length);
	assert_memory_equal(got, model + offset, length);
}

static void ground_open(struct ground *ground, const char *name, uint64_t stripe_bytes)
{
	const struct afar_policy policy = {
		.size = sizeof(policy),
		.tier = is_flash ? AFAR_TIER_FLASH : AFAR_TIER_DRAM,
		.stripe_bytes = stripe_bytes,
	};

	*ground = (struct ground){.name = name};
	assert_int_equal(afar_namespace_create(session, name, &policy, &ground->ns), 0);
	assert_int_equal(afar_namespace_reserve(ground->ns, 32 * MIB), 0);
	assert_int_equal(afar_region_create(ground->ns, "r", LENGTH, 0, &ground->region), 0);
	ground->target = afar_region_target(ground->region);
	ground->buffer = register_if_needed(data, LENGTH);
	assert_int_equal(afar_queue_open(session, NULL, &ground->queue), 0);
	assert_int_equal(afar_queue_connect(ground->queue, ground->target), 0);
	write_bytes(ground, 0, LENGTH, 1);
}

static void ground_close(struct ground *ground)
{
	assert_int_equal(afar_queue_close(ground->queue), 0);
	unregister(ground->buffer);
	drop_region(ground->region);
	drop_namespace(ground->ns, ground->name);
}

/* ---- Against the model */

/* A trim zeros whole blocks on flash; every other byte of the range may be as it was, or zero. */
static void take_trim(struct ground *ground, uint64_t offset, uint64_t length)
{
	uint64_t begin = (offset + BLOCK - 1) / BLOCK * BLOCK,
		 end = (offset + length) / BLOCK * BLOCK;

	if (is_flash && begin < end)
		memset(model + begin, 0, end - begin);
	assert_int_equal(afar_region_pread(ground->region, got, length, offset), length);
	for (uint64_t i = 0; i < length; i++) {
		if (got[i] == 0)
			model[offset + i] = 0;
	}
}

static void take_random_step(struct ground *ground, unsigned number)
{
	static const uint64_t longest[] = {16, 10000, 3 * MIB, LENGTH};
	const uint64_t offset = dice((unsigned)LENGTH);
	uint64_t length = 1 + dice((unsigned)longest[dice(4)]);
	uint32_t flags = is_flash && dice(3) == 0 ? AFAR_OP_DURABLE : 0;

	if (length > LENGTH - offset)
		length = LENGTH - offset;
	switch (dice(4)) {
	case 0:
		write_bytes(ground, offset, length, number);
		break;
	case 1:
		assert_int_equal(run(ground, AFAR_OP_TRIM, flags, offset, length), length);
		take_trim(ground, offset, length);
		break;
	case 2:
		assert_int_equal(run(ground, AFAR_OP_ZERO, flags, offset, length), length);
		memset(model + offset, 0, length);
		break;
	default:
		assert_int_equal(target_zero(ground->target, AFAR_OP_ZERO, flags, offset, length),
				 0);
		memset(model + offset, 0, length);
	}
}

static void walk(uint64_t stripe_bytes)
{
	const unsigned nr_steps = (unsigned)test_effort(60, 300, 5000);
	const char *seed = getenv("AFAR_SEED");
	struct ground ground;

	random_state = seed ? (unsigned)strtoul(seed, NULL, 10) : (unsigned)getpid();
	print_message("AFAR_SEED=%u\n", random_state);
	ground_open(&ground, "walk", stripe_bytes);
	for (unsigned i = 0; i < nr_steps; i++) {
		take_random_step(&ground, i + 2);
		expect_bytes(&ground, 0, LENGTH);
	}
	ground_close(&ground);
}

/* Stripes of several messages each, and of parts of one. */
static void test_model(void **state)
{
	(void)state;
	walk(4 * MIB);
	walk(64 * KIB);
}

/* ---- Many at once */

/* More than there are message credits; a sync behind them; and in between, bytes that stay. */
static void test_many(void **state)
{
	const uint64_t each = LENGTH / NR_MANY;
	struct afar_completion done[NR_MANY + 1];
	struct ground ground;
	struct afar_op op;

	(void)state;
	ground_open(&ground, "many", 4 * KIB);
	for (unsigned i = 0; i < NR_MANY; i++) {
		op = (struct afar_op){
			.opcode = AFAR_OP_ZERO,
			.flags = is_flash && i % 3 == 0 ? AFAR_OP_DURABLE : 0,
			.target = ground.target,
			.offset = i * each,
			.operand = each - 1,
			.user_data = i,
		};
		memset(model + op.offset, 0, op.operand);
		assert_int_equal(afar_queue_submit(ground.queue, &op, 1), 1);
	}
	op = (struct afar_op){
		.opcode = AFAR_OP_SYNC, .target = ground.target, .user_data = NR_MANY};
	assert_int_equal(afar_queue_submit(ground.queue, &op, 1), 1);
	assert_int_equal(afar_queue_wait(ground.queue, done, NR_MANY + 1, NR_MANY + 1, -1),
			 NR_MANY + 1);
	for (unsigned i = 0; i <= NR_MANY; i++)
		assert_int_equal(done[i].result, done[i].user_data == NR_MANY ? 0 : each - 1);
	/* The sync was the last. */
	assert_int_equal(done[NR_MANY].user_data, NR_MANY);
	expect_bytes(&ground, 0, LENGTH);
	ground_close(&ground);
}

/* In one queue a zero comes behind what is before it, and before what is behind it. */
static void test_order(void **state)
{
	struct afar_iov iov[2] = {{NULL, data, LENGTH}, {NULL, data, 100}};
	struct afar_op ops[4] = {
		{.opcode = AFAR_OP_WRITE, .iov = &iov[0], .nr_iov = 1},
		{.opcode = AFAR_OP_FLUSH},
		{.opcode = AFAR_OP_ZERO, .offset = 5, .operand = 5 * MIB},
		{.opcode = AFAR_OP_WRITE, .offset = MIB, .iov = &iov[1], .nr_iov = 1},
	};
	struct afar_completion done[4];
	struct ground ground;

	(void)state;
	ground_open(&ground, "order", 64 * KIB);
	fill(data, LENGTH, 9);
	memcpy(model, data, LENGTH);
	memset(model + 5, 0, 5 * MIB);
	memcpy(model + MIB, data, 100);
	iov[0].buffer = iov[1].buffer = ground.buffer;
	for (unsigned i = 0; i < 4; i++) {
		ops[i].flags = AFAR_OP_AFTER;
		ops[i].target = ground.target;
	}
	assert_int_equal(afar_queue_submit(ground.queue, ops, 4), 4);
	assert_int_equal(afar_queue_wait(ground.queue, done, 4, 4, -1), 4);
	for (unsigned i = 0; i < 4; i++)
		assert_true(done[i].result >= 0);
	expect_bytes(&ground, 0, LENGTH);
	ground_close(&ground);
}

/* Servers close connections to seal another region, in memory: blocking calls go on by themselves. */
static void test_over_a_new_connection(void **state)
{
	struct afar_region *other;
	struct ground ground;

	(void)state;
	ground_open(&ground, "again", 64 * KIB);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(target_zero(ground.target, AFAR_OP_ZERO, 0, i * MIB, 70000), 0);
		memset(model + i * MIB, 0, 70000);
		assert_int_equal(afar_region_create(ground.ns, "other", MIB, 0, &other), 0);
		assert_int_equal(afar_region_seal(other), 0);
		drop_region(other);
	}
	assert_int_equal(target_zero(ground.target, AFAR_OP_TRIM, 0, 0, LENGTH), 0);
	assert_int_equal(target_zero(ground.target, AFAR_OP_ZERO, 0, LENGTH, 0), 0);
	expect_bytes(&ground, 0, LENGTH);
	ground_close(&ground);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest in_memory[] = {
		cmocka_unit_test(test_model),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_over_a_new_connection),
	};
	const struct CMUnitTest on_flash[] = {
		cmocka_unit_test(test_model),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_order),
	};

	if (argc != 2)
		return 2;
	is_flash = strcmp(argv[1], "flash") == 0;
	return is_flash ? cmocka_run_group_tests(on_flash, start, stop)
			: cmocka_run_group_tests(in_memory, start, stop);
}
