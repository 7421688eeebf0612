/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions on flash from C, against servers with a store each. They are read and written as regions in memory are,
 * at any offset and length, striped over stores. They can be made durable. A call that is impossible there is
 * refused with a sentence. Servers are killed in test_store_killed.c.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include <cmocka.h>

#include "lib/api/api.h"

#define LENGTH (9 * MIB + 4321)

static struct afar_namespace *make_flash_namespace(const char *name, uint64_t stripe_bytes,
						   uint64_t reserve)
{
	const struct afar_policy policy = {
		.size = sizeof(policy), .tier = AFAR_TIER_FLASH, .stripe_bytes = stripe_bytes};
	struct afar_namespace *ns;

	assert_int_equal(afar_namespace_create(session, name, &policy, &ns), 0);
	assert_int_equal(afar_namespace_reserve(ns, reserve), 0);
	return ns;
}

static void expect_bytes(struct afar_region *region, const uint8_t *data, uint64_t offset,
			 uint64_t length)
{
	uint8_t *got = malloc(length + 1);

	assert_non_null(got);
	assert_int_equal(afar_region_pread(region, got, length, offset), (ssize_t)length);
	assert_memory_equal(got, data, length);
	free(got);
}

/* Bytes that were never written are zeros, and so are those that another region had there. */
static void test_begins_as_zeros(void **state)
{
	struct afar_namespace *ns = make_flash_namespace("zeros", 64 * KIB, 16 * MIB);
	static uint8_t zeros[LENGTH], data[LENGTH];
	struct afar_region *region;

	(void)state;
	fill(data, LENGTH, 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(afar_region_create(ns, "r", LENGTH, 0, &region), 0);
		expect_bytes(region, zeros, 0, LENGTH);
		assert_int_equal(afar_region_pwrite(region, data, LENGTH, 0), LENGTH);
		expect_bytes(region, data, 0, LENGTH);
		drop_region(region);
	}
	drop_namespace(ns, "zeros");
}

/* At any offset, in any length; the bytes around it stay. */
static void test_any_range(void **state)
{
	static const struct {
		uint64_t offset, length;
	} ranges[] = {{0, 1},		{4095, 2},
		      {4096, 4096},	{12345, 67890},
		      {65535, 3},	{65536, 65536},
		      {1 * MIB - 1, 2}, {1 * MIB - 7, 3 * MIB + 14},
		      {LENGTH - 1, 1},	{LENGTH - 5000, 5000},
		      {0, LENGTH},	{100, 0}};
	struct afar_namespace *ns = make_flash_namespace("ranges", 64 * KIB, 16 * MIB);
	static uint8_t data[LENGTH], part[LENGTH];
	struct afar_region *region;

	(void)state;
	assert_int_equal(afar_region_create(ns, "r", LENGTH, 0, &region), 0);
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		uint64_t offset = ranges[i].offset, length = ranges[i].length;

		fill(part, length, (unsigned)i + 10);
		memcpy(data + offset, part, length);
		assert_int_equal(afar_region_pwrite(region, part, length, offset), (ssize_t)length);
		expect_bytes(region, data + offset, offset, length);
		expect_bytes(region, data, 0, LENGTH);
	}
	expect_error(afar_region_pread(region, part, 2, LENGTH - 1), -ERANGE);
	drop_region(region);
	drop_namespace(ns, "ranges");
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

/* Many operations at once, durable ones among them, and syncs behind. */
static void test_queues(void **state)
{
	enum { NR = 64, BYTES = 70 * KIB };
	struct afar_namespace *ns = make_flash_namespace("queues", 64 * KIB, 16 * MIB);
	static uint8_t data[NR][BYTES];
	struct afar_completion completions[NR + 1];
	struct afar_iov iov[NR][2];
	struct afar_region *region;
	struct afar_queue *queue;
	struct afar_op op = {0};

	(void)state;
	assert_int_equal(afar_region_create(ns, "r", NR * BYTES, 0, &region), 0);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	op.target = afar_region_target(region);
	for (int i = 0; i < NR; i++) {
		fill(data[i], BYTES, (unsigned)i);
		iov[i][0] = (struct afar_iov){.addr = data[i], .length = 1000};
		iov[i][1] = (struct afar_iov){.addr = data[i] + 1000, .length = BYTES - 1000};
		op.opcode = AFAR_OP_WRITE;
		op.flags = i % 3 == 0 ? AFAR_OP_DURABLE : 0;
		op.offset = (uint64_t)i * BYTES;
		op.iov = iov[i];
		op.nr_iov = 2;
		assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
	}
	op = (struct afar_op){.opcode = AFAR_OP_SYNC, .target = op.target, .user_data = NR};
	assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
	assert_int_equal(afar_queue_wait(queue, completions, NR + 1, NR + 1, -1), NR + 1);
	for (int i = 0; i <= NR; i++)
		assert_int_equal(completions[i].result, completions[i].user_data == NR ? 0 : BYTES);
	expect_bytes(region, data[0], 0, NR * BYTES);
	assert_int_equal(afar_region_sync(region), 0);
	assert_int_equal(afar_region_sync(region), 0);
	assert_int_equal(afar_queue_close(queue), 0);
	drop_region(region);
	drop_namespace(ns, "queues");
}

/* A client that may only read may sync, too: what others have written. */
static void test_what_others_wrote(void **state)
{
	struct afar_namespace *ns = make_flash_namespace("others", 64 * KIB, 4 * MIB);
	struct afar_region *region;
	uint8_t byte = 7, got = 0;
	struct view other;

	(void)state;
	assert_int_equal(afar_region_create(ns, "r", MIB, 0, &region), 0);
	open_view(&other, "others", "r");
	assert_int_equal(afar_region_pwrite(region, &byte, 1, 99), 1);
	assert_int_equal(afar_region_pread(other.region, &got, 1, 99), 1);
	assert_int_equal(got, 7);
	assert_int_equal(afar_region_sync(other.region), 0);
	close_view(&other);
	drop_region(region);
	drop_namespace(ns, "others");
}

static void test_refusals(void **state)
{
	struct afar_namespace *ns = make_flash_namespace("refusals", 64 * KIB, 4 * MIB), *memory;
	struct afar_op op = {.opcode = AFAR_OP_WRITE, .nr_iov = 1};
	struct afar_region *region, *other;
	struct afar_queue *queue;
	uint64_t word = 0;
	struct afar_iov iov = {.addr = &word, .length = 8};
	void *addr = mmap(NULL, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_int_equal(afar_region_create(ns, "r", MIB, 0, &region), 0);
	expect_error(afar_region_create(ns, "n", MIB, AFAR_ALLOC_NIC_ATOMICS, &other), -EOPNOTSUPP);
	expect_error(afar_region_fetch_add(region, 0, 1, &word), -EOPNOTSUPP);
	assert_non_null(strstr(afar_last_error(), "flash"));
	expect_error(afar_region_compare_swap(region, 0, 0, 1, &word), -EOPNOTSUPP);
	expect_error(afar_region_seal(region), -EOPNOTSUPP);
	assert_non_null(strstr(afar_last_error(), "flash"));
	expect_error(afar_region_attach(region, 0, MIB, PROT_READ, &addr), -EOPNOTSUPP);
	assert_non_null(strstr(afar_last_error(), "flash"));
	munmap(addr, MIB);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	op.target = afar_region_target(region);
	op.iov = &iov;
	op.flags = AFAR_OP_DRIVEN;
	expect_error(afar_queue_submit(queue, &op, 1), -EOPNOTSUPP);
	assert_non_null(strstr(afar_last_error(), "flash"));
	op.flags = 0;
	op.opcode = AFAR_OP_FETCH_ADD;
	op.operand = 1;
	expect_error(afar_queue_submit(queue, &op, 1), -EOPNOTSUPP);
	/* And the queue goes on. */
	op = (struct afar_op){.opcode = AFAR_OP_WRITE,
			      .target = op.target,
			      .iov = &iov,
			      .nr_iov = 1,
			      .flags = AFAR_OP_DURABLE};
	assert_int_equal(complete_one(queue, &op), 8);
	memory = make_namespace("memory", 64 * KIB, 4 * MIB);
	assert_int_equal(afar_region_create(memory, "m", MIB, 0, &other), 0);
	op.target = afar_region_target(other);
	expect_error(afar_queue_submit(queue, &op, 1), -EOPNOTSUPP);
	assert_int_equal(afar_region_sync(other), 0);
	op = (struct afar_op){.opcode = AFAR_OP_SYNC, .target = afar_region_target(other)};
	assert_int_equal(afar_queue_connect(queue, op.target), 0);
	assert_int_equal(complete_one(queue, &op), 0);
	assert_int_equal(afar_queue_close(queue), 0);
	drop_region(other);
	drop_namespace(memory, "memory");
	drop_region(region);
	drop_namespace(ns, "refusals");
}

/* A program finds stores by their numbers, and what is there. */
static void test_stores(void **state)
{
	struct afar_namespace *ns = make_flash_namespace("stores", 64 * KIB, 16 * MIB);
	struct afar_store_stat stores[3] = {{.size = sizeof(*stores)}};
	struct afar_server_stat servers[3] = {{.size = sizeof(*servers)}};
	struct afar_server_region region = {.size = sizeof(region)};

	(void)state;
	assert_int_equal(afar_region_create(ns, "r", MIB, 0, NULL), 0);
	assert_int_equal(afar_server_list(session, 0, servers, 3), 2);
	assert_int_equal(afar_store_list(session, 0, stores, 3), 2);
	assert_true(stores[0].store < stores[1].store);
	for (int i = 0; i < 2; i++) {
		assert_true(stores[i].is_up);
		assert_true(stores[i].server == servers[0].server ||
			    stores[i].server == servers[1].server);
		assert_in_range(stores[i].granted_bytes, MIB, stores[i].capacity_bytes);
		assert_int_equal(afar_store_regions(session, stores[i].store, 0, &region, 1), 1);
		assert_string_equal(region.name, "r");
	}
	assert_int_equal(afar_store_list(session, stores[0].store, stores, 1), 1);
	assert_int_equal(afar_store_list(session, stores[0].store, stores, 1), 0);
	assert_int_equal(afar_server_list(session, servers[1].server, servers, 1), 0);
	expect_error(afar_store_list(session, 0, NULL, 1), -EINVAL);
	assert_int_equal(afar_region_delete(ns, "r"), 0);
	drop_namespace(ns, "stores");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_begins_as_zeros), cmocka_unit_test(test_any_range),
		cmocka_unit_test(test_queues),		cmocka_unit_test(test_what_others_wrote),
		cmocka_unit_test(test_refusals),	cmocka_unit_test(test_stores),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
