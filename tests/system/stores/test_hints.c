/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hints of operations, from a program to a store that keeps pages. A read that says so leaves nothing there, and none changes a
 * byte. In memory nobody takes notice of them.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/api/api.h"
#include "lib/base/effort.h"

#define PAGE	 4096U
#define NR_PAGES 64U

static const struct afar_policy flash = {
	.size = sizeof(flash), .tier = AFAR_TIER_FLASH, .width = 1};

struct bed {
	struct afar_namespace *ns;
	struct afar_region *region;
	struct afar_queue *queue;
	struct afar_buffer *buffer;
	uint8_t bytes[PAGE];
};

static void open_bed(struct bed *bed, const struct afar_policy *policy)
{
	assert_int_equal(afar_namespace_create(session, "hints", policy, &bed->ns), 0);
	assert_int_equal(afar_namespace_reserve(bed->ns, 4 * MIB), 0);
	assert_int_equal(
		afar_region_create(bed->ns, "r", (uint64_t)NR_PAGES * PAGE, 0, &bed->region), 0);
	assert_int_equal(afar_queue_open(session, NULL, &bed->queue), 0);
	assert_int_equal(afar_queue_connect(bed->queue, afar_region_target(bed->region)), 0);
	bed->buffer = register_if_needed(bed->bytes, PAGE);
}

static void close_bed(struct bed *bed)
{
	unregister(bed->buffer);
	assert_int_equal(afar_queue_close(bed->queue), 0);
	drop_region(bed->region);
	drop_namespace(bed->ns, "hints");
}

static struct afar_op op_of(const struct bed *bed, enum afar_opcode opcode, uint32_t flags,
			    const struct afar_iov *iov, unsigned page)
{
	struct afar_op op;

	afar_prep(&op, opcode, afar_region_target(bed->region), (uint64_t)page * PAGE, iov, 1);
	op.flags = flags;
	return op;
}

static void carry_out(struct bed *bed, enum afar_opcode opcode, uint32_t flags, unsigned page)
{
	const struct afar_iov iov = {bed->buffer, bed->bytes, PAGE};
	const struct afar_op op = op_of(bed, opcode, flags, &iov, page);
	struct afar_completion done;

	assert_int_equal(afar_queue_submit(bed->queue, &op, 1), 1);
	assert_int_equal(afar_queue_wait(bed->queue, &done, 1, 1, -1), 1);
	assert_int_equal(done.result, PAGE);
}

static void put(struct bed *bed, uint32_t flags, unsigned page, unsigned number)
{
	fill(bed->bytes, PAGE, number);
	carry_out(bed, AFAR_OP_WRITE, flags, page);
}

static void expect(struct bed *bed, uint32_t flags, unsigned page, unsigned number)
{
	uint8_t wanted[PAGE];

	fill(wanted, PAGE, number);
	memset(bed->bytes, 0, PAGE);
	carry_out(bed, AFAR_OP_READ, flags, page);
	assert_memory_equal(bed->bytes, wanted, PAGE);
}

/* Writes with each hint, and reads with and without. */
static void go_through(struct bed *bed)
{
	static const uint32_t hints[] = {0, AFAR_OP_BRIEF, AFAR_OP_COLD};

	for (unsigned i = 0; i < NR_PAGES; i++)
		put(bed, hints[i % 3], i, i);
	for (unsigned i = 0; i < NR_PAGES; i++)
		put(bed, hints[(i + 1) % 3], i, NR_PAGES + i);
	for (unsigned i = 0; i < NR_PAGES; i++)
		expect(bed, AFAR_OP_ONCE, i, NR_PAGES + i);
}

static uint64_t count(const char *name)
{
	uint64_t sum = 0;
	char *json;

	assert_int_equal(afar_session_status(session, &json), 0);
	for (char *at = json; (at = strstr(at, name)); at += strlen(name))
		sum += strtoull(at + strlen(name), NULL, 10);
	free(json);
	return sum;
}

#define PAST   "\"cache_past\": "
#define MISSES "\"cache_misses\": "
#define SHARED "\"cache_shared\": "
#define HITS   "\"cache_hits\": "
#define KEPT   "\"cached_bytes\": "

/* Servers tell what they have counted now and then. */
static void await_count(const char *name, uint64_t number)
{
	while (count(name) < number)
		test_pause();
	assert_int_equal(count(name), number);
}

static void test_flash(void **state)
{
	const uint64_t past = count(PAST), misses = count(MISSES), hits = count(HITS);
	struct bed bed;

	(void)state;
	open_bed(&bed, &flash);
	go_through(&bed);
	await_count(PAST, past + NR_PAGES);
	assert_int_equal(count(MISSES), misses);
	assert_int_equal(count(KEPT), 0);
	/* A page that is kept is given to those who keep nothing, too. */
	expect(&bed, 0, 3, NR_PAGES + 3);
	expect(&bed, AFAR_OP_ONCE, 3, NR_PAGES + 3);
	await_count(HITS, hits + 1);
	assert_int_equal(count(MISSES), misses + 1);
	assert_int_equal(count(PAST), past + NR_PAGES);
	/* With other flags. */
	put(&bed, AFAR_OP_BRIEF | AFAR_OP_DURABLE | AFAR_OP_CHECKED, 5, 1000);
	put(&bed, AFAR_OP_COLD | AFAR_OP_DURABLE, 6, 1001);
	expect(&bed, AFAR_OP_ONCE | AFAR_OP_CHECKED, 5, 1000);
	expect(&bed, AFAR_OP_ONCE | AFAR_OP_AFTER, 6, 1001);
	await_count(PAST, past + NR_PAGES + 2);
	close_bed(&bed);
}

/* Says that pages will be needed. */
static void need(struct bed *bed, uint64_t offset, uint64_t length)
{
	struct afar_completion done;
	struct afar_op op;

	afar_prep(&op, AFAR_OP_WILL_NEED, afar_region_target(bed->region), offset, NULL, 0);
	op.operand = length;
	assert_int_equal(afar_queue_submit(bed->queue, &op, 1), 1);
	assert_int_equal(afar_queue_wait(bed->queue, &done, 1, 1, -1), 1);
	assert_int_equal(done.result, length);
}

static void test_will_need(void **state)
{
	const uint64_t misses = count(MISSES), kept = count(HITS) + count(SHARED);
	struct bed bed;

	(void)state;
	open_bed(&bed, &flash);
	for (unsigned i = 0; i < NR_PAGES; i++)
		put(&bed, 0, i, i);
	need(&bed, 3 * PAGE - 10, 20 * PAGE);
	for (unsigned i = 3; i < 20; i++)
		expect(&bed, 0, i, i);
	while (count(HITS) + count(SHARED) < kept + 17)
		test_pause();
	assert_int_equal(count(MISSES), misses);
	need(&bed, 0, 0);
	close_bed(&bed);
}

static void test_memory(void **state)
{
	struct bed bed;

	(void)state;
	open_bed(&bed, NULL);
	go_through(&bed);
	need(&bed, 100, NR_PAGES * PAGE - 100);
	close_bed(&bed);
}

static void test_what_does_not_fit(void **state)
{
	static const struct {
		uint32_t opcode, flags;
	} bad[] = {
		{AFAR_OP_WRITE, AFAR_OP_ONCE},	   {AFAR_OP_READ, AFAR_OP_BRIEF},
		{AFAR_OP_READ, AFAR_OP_COLD},	   {AFAR_OP_WRITE, AFAR_OP_BRIEF | AFAR_OP_COLD},
		{AFAR_OP_FLUSH, AFAR_OP_ONCE},	   {AFAR_OP_SYNC, AFAR_OP_COLD},
		{AFAR_OP_ZERO, AFAR_OP_BRIEF},	   {AFAR_OP_FETCH_ADD, AFAR_OP_ONCE},
		{AFAR_OP_READ, AFAR_OP_COLD << 1}, {AFAR_OP_WILL_NEED, 0}, /* with memory */
	};
	struct bed bed;

	(void)state;
	open_bed(&bed, &flash);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const struct afar_iov iov = {bed.buffer, bed.bytes, PAGE};
		const struct afar_op op =
			op_of(&bed, (enum afar_opcode)bad[i].opcode, bad[i].flags, &iov, 0);

		expect_error(afar_queue_submit(bed.queue, &op, 1), -EINVAL);
	}
	close_bed(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flash),
		cmocka_unit_test(test_will_need),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_what_does_not_fit),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
