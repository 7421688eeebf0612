/* SPDX-License-Identifier: BSD-3-Clause */
/* The address space: who is where, what fits, what is refused, and what a reopened one knows. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "flash/format.h"
#include "lib/flash/flash_space_bed.h"
#include "unit/group.h"

static struct bed bed;

static int set_up(void **state)
{
	(void)state;
	space_bed_open(&bed, &space_bed_device, &space_bed_layout);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	space_bed_close(&bed);
	return 0;
}

static uint64_t capacity(void)
{
	struct ftl_stat stat;

	ftl_stat(bed.ftl, &stat);
	return stat.capacity_blocks;
}

static void expect_range(uint32_t id, uint64_t start, uint64_t length)
{
	struct space_range range;

	assert_true(space_stat(bed.space, id, &range));
	assert_int_equal(range.id, id);
	assert_int_equal(range.start, start);
	assert_int_equal(range.length, length);
	assert_false(range.is_busy);
}

/* `address` is block `block` of range `id`, in front of `count` in all. */
static void expect_place(uint64_t address, uint32_t id, uint32_t block, uint64_t count)
{
	struct space_place place;

	assert_true(space_find(bed.space, address, &place));
	assert_int_equal(place.id, id);
	assert_int_equal(place.lba, ftl_lba(id, block));
	assert_int_equal(place.count, count);
}

static bool is_nowhere(uint64_t address)
{
	struct space_place place;

	return !space_find(bed.space, address, &place);
}

static void addresses_are_found(void **state)
{
	uint32_t first, second, third;
	struct space_range range;

	(void)state;
	assert_true(is_nowhere(0));
	assert_false(space_next(bed.space, 0, &range));
	assert_int_equal(range_create(&bed, "a", SPACE_ANYWHERE, 10, &first), 0);
	assert_int_equal(range_create(&bed, "b", 1000, 5, &second), 0);
	assert_int_equal(range_create(&bed, "a", SPACE_ANYWHERE, 990, &third), 0);
	expect_range(first, 0, 10);
	expect_range(second, 1000, 5);
	expect_range(third, 10, 990);
	for (unsigned times = 0; times < 2; times++) {
		expect_place(0, first, 0, 10);
		expect_place(9, first, 9, 1);
		expect_place(10, third, 0, 990);
		expect_place(999, third, 989, 1);
		expect_place(1004, second, 4, 1);
		assert_true(is_nowhere(1005));
		assert_true(is_nowhere(UINT64_MAX));
		assert_true(space_next(bed.space, 0, &range));
		assert_int_equal(range.id, first);
		assert_true(space_next(bed.space, 10, &range));
		assert_int_equal(range.id, third);
		assert_true(space_next(bed.space, 1000, &range));
		assert_int_equal(range.id, second);
		assert_memory_equal(range.owner.bytes, owner_named("b").bytes, SPACE_OWNER_BYTES);
		assert_false(space_next(bed.space, 1005, &range));
		space_bed_reopen(&bed);
	}
}

static void first_gap_that_fits(void **state)
{
	uint32_t ids[5], other;

	(void)state;
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(range_create(&bed, "a", SPACE_ANYWHERE, 10 * (i + 1), &ids[i]), 0);
	/* Gaps of 20 at 10, and of 40 at 60. */
	assert_int_equal(range_remove(&bed, ids[1]), 0);
	assert_int_equal(range_remove(&bed, ids[3]), 0);
	assert_int_equal(range_create(&bed, "b", SPACE_ANYWHERE, 21, &other), 0);
	expect_range(other, 60, 21);
	assert_int_equal(range_create(&bed, "b", SPACE_ANYWHERE, 20, &other), 0);
	expect_range(other, 10, 20);
	assert_int_equal(range_create(&bed, "b", SPACE_ANYWHERE, 19, &other), 0);
	expect_range(other, 81, 19);
	assert_int_equal(range_create(&bed, "b", SPACE_ANYWHERE, 1, &other), 0);
	expect_range(other, 150, 1);
}

static void totals_are_by_owner(void **state)
{
	struct space_owner owner = owner_named("a"), nobody = owner_named("c");
	struct space_total total;
	uint32_t id = 0;

	(void)state;
	assert_int_equal(range_create(&bed, "a", SPACE_ANYWHERE, 10, NULL), 0);
	assert_int_equal(range_create(&bed, "b", SPACE_ANYWHERE, 20, &id), 0);
	assert_int_equal(range_create(&bed, "a", SPACE_ANYWHERE, 30, NULL), 0);
	assert_int_equal(range_reserve(&bed, id, 5), 0);
	space_total(bed.space, &owner, &total);
	assert_int_equal(total.nr_ranges, 2);
	assert_int_equal(total.length, 40);
	assert_int_equal(total.reserved, 40);
	space_total(bed.space, NULL, &total);
	assert_int_equal(total.nr_ranges, 3);
	assert_int_equal(total.length, 60);
	assert_int_equal(total.reserved, 45);
	space_total(bed.space, &nobody, &total);
	assert_int_equal(total.nr_ranges, 0);
}

static void nonsense_is_refused(void **state)
{
	uint32_t id = 0, other = 0;

	(void)state;
	assert_int_equal(range_create(&bed, "a", 100, 50, &id), 0);
	assert_int_equal(range_create(&bed, "b", 200, 50, &other), 0);

	assert_int_equal(range_create(&bed, "c", SPACE_ANYWHERE, 0, NULL), -EINVAL);
	assert_int_equal(range_create(&bed, "c", SPACE_ANYWHERE, SPACE_LENGTH_MAX + 1, NULL),
			 -EINVAL);
	assert_int_equal(range_create(&bed, "c", UINT64_MAX - 1, 3, NULL), -EINVAL);
	assert_int_equal(range_create_thin(&bed, 10, 11, NULL), -EINVAL);
	assert_int_equal(range_create(&bed, "c", 149, 1, NULL), -EEXIST);
	assert_int_equal(range_create(&bed, "c", 100, 50, NULL), -EEXIST);
	assert_int_equal(range_create(&bed, "c", 90, 200, NULL), -EEXIST);
	assert_int_equal(range_create(&bed, "c", 90, 11, NULL), -EEXIST);

	assert_int_equal(range_grow(&bed, 7, 60, false), -ENOENT);
	assert_int_equal(range_grow(&bed, UINT32_MAX, 60, false), -ENOENT);
	assert_int_equal(range_grow(&bed, id, 50, false), -EINVAL);
	assert_int_equal(range_grow(&bed, id, 49, false), -EINVAL);
	assert_int_equal(range_grow(&bed, id, SPACE_LENGTH_MAX + 1, false), -EINVAL);
	assert_int_equal(range_grow(&bed, id, UINT64_MAX, false), -EINVAL);
	assert_int_equal(range_grow(&bed, id, 101, true), -EEXIST);

	assert_int_equal(range_shrink(&bed, 7, 1), -ENOENT);
	assert_int_equal(range_shrink(&bed, id, 0), -EINVAL);
	assert_int_equal(range_shrink(&bed, id, 50), -EINVAL);
	assert_int_equal(range_shrink(&bed, id, 51), -EINVAL);

	assert_int_equal(range_reserve(&bed, 7, 1), -ENOENT);
	assert_int_equal(range_reserve(&bed, id, 51), -EINVAL);

	assert_int_equal(range_relocate(&bed, 7, 0), -ENOENT);
	assert_int_equal(range_relocate(&bed, id, 151), -EEXIST);
	assert_int_equal(range_relocate(&bed, id, 249), -EEXIST);
	assert_int_equal(range_relocate(&bed, id, UINT64_MAX - 48), -EINVAL);

	assert_int_equal(range_remove(&bed, 7), -ENOENT);

	assert_int_equal(range_clone(&bed, 7, 0, id, 0, 1), -ENOENT);
	assert_int_equal(range_clone(&bed, id, 0, 7, 0, 1), -ENOENT);
	assert_int_equal(range_clone(&bed, id, 0, other, 0, 0), -EINVAL);
	assert_int_equal(range_clone(&bed, id, 0, other, 0, 51), -EINVAL);
	assert_int_equal(range_clone(&bed, id, 1, other, 0, 50), -EINVAL);
	assert_int_equal(range_clone(&bed, id, 0, other, 50, 1), -EINVAL);
	assert_int_equal(range_clone(&bed, id, UINT64_MAX, other, 0, 2), -EINVAL);
	assert_int_equal(range_clone(&bed, id, 0, other, UINT64_MAX, 2), -EINVAL);
	assert_int_equal(range_clone(&bed, id, 0, id, 0, 10), -EINVAL);
	assert_int_equal(range_clone(&bed, id, 0, id, 9, 10), -EINVAL);
	assert_int_equal(range_clone(&bed, id, 9, id, 0, 10), -EINVAL);
	assert_int_equal(range_clone(&bed, id, 0, id, 10, 10), 0);

	/* Nothing of that has left a trace. */
	expect_range(id, 100, 50);
	expect_range(other, 200, 50);
	assert_int_equal(range_create(&bed, "c", 150, 50, NULL), 0);
	assert_int_equal(range_create(&bed, "c", 250, capacity() - 150, NULL), 0);
}

static void the_last_addresses_are_of_use(void **state)
{
	uint32_t id = 0;

	(void)state;
	assert_int_equal(range_create(&bed, "a", UINT64_MAX - 9, 10, &id), 0);
	expect_place(UINT64_MAX, id, 9, 1);
	assert_true(is_nowhere(UINT64_MAX - 10));
	assert_int_equal(range_grow(&bed, id, 11, true), -EEXIST);
	assert_int_equal(range_grow(&bed, id, 11, false), 0);
	expect_range(id, 0, 11);
	assert_true(is_nowhere(UINT64_MAX));
	assert_int_equal(range_relocate(&bed, id, UINT64_MAX - 10), 0);
	assert_int_equal(range_create(&bed, "b", SPACE_ANYWHERE, 5, &id), 0);
	expect_range(id, 0, 5);
}

static void growing_keeps_the_blocks(void **state)
{
	uint32_t id = 0, other = 0;

	(void)state;
	assert_int_equal(range_create(&bed, "a", SPACE_ANYWHERE, 10, &id), 0);
	assert_int_equal(put_word(&bed, ftl_lba(id, 9), 42), 0);
	assert_int_equal(range_grow(&bed, id, 20, true), 0);
	expect_range(id, 0, 20);
	assert_int_equal(get_word(&bed, ftl_lba(id, 10)), 0);
	assert_int_equal(range_create(&bed, "b", SPACE_ANYWHERE, 10, &other), 0);
	assert_int_equal(put_word(&bed, ftl_lba(other, 0), 43), 0);
	assert_int_equal(range_grow(&bed, id, 30, true), -EEXIST);
	assert_int_equal(range_grow(&bed, id, 30, false), 0);
	expect_range(id, 30, 30);
	assert_true(is_nowhere(0));
	space_bed_reopen(&bed);
	expect_range(id, 30, 30);
	expect_place(39, id, 9, 21);
	assert_int_equal(get_word(&bed, ftl_lba(id, 9)), 42);
	assert_int_equal(get_word(&bed, ftl_lba(other, 0)), 43);
}

static void moving_keeps_the_blocks(void **state)
{
	static const uint64_t starts[] = {50, 55, 45, 0, 10, 1000, 991, UINT64_MAX - 9, 3};
	uint32_t id = 0, other = 0;

	(void)state;
	assert_int_equal(range_create(&bed, "a", 5, 10, &id), 0);
	assert_int_equal(put_word(&bed, ftl_lba(id, 3), 42), 0);
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		assert_int_equal(range_relocate(&bed, id, starts[i]), 0);
		expect_range(id, starts[i], 10);
		expect_place(starts[i] + 3, id, 3, 7);
		/* All but where it is is free, and that is not. */
		assert_int_equal(range_create(&bed, "b", starts[i] + 8, 1, &other), -EEXIST);
		assert_int_equal(range_create(&bed, "b", starts[i] - 1, 1, &other), 0);
		assert_int_equal(range_remove(&bed, other), 0);
	}
	assert_int_equal(range_relocate(&bed, id, SPACE_ANYWHERE), 0);
	expect_range(id, 13, 10);
	space_bed_reopen(&bed);
	expect_range(id, 13, 10);
	assert_int_equal(get_word(&bed, ftl_lba(id, 3)), 42);
}

static void what_was_cut_off_is_gone(void **state)
{
	struct ftl_stat stat;
	uint32_t id = 0;

	(void)state;
	assert_int_equal(range_create(&bed, "a", SPACE_ANYWHERE, 10, &id), 0);
	for (uint32_t block = 0; block < 10; block++)
		assert_int_equal(put_word(&bed, ftl_lba(id, block), block + 1), 0);
	assert_int_equal(range_shrink(&bed, id, 4), 0);
	expect_range(id, 0, 4);
	assert_true(is_nowhere(4));
	ftl_stat(bed.ftl, &stat);
	assert_int_equal(stat.used_blocks, 4);
	assert_int_equal(range_grow(&bed, id, 10, true), 0);
	space_bed_reopen(&bed);
	for (uint32_t block = 0; block < 10; block++)
		assert_int_equal(get_word(&bed, ftl_lba(id, block)), block < 4 ? block + 1 : 0);
	assert_int_equal(range_remove(&bed, id), 0);
	assert_true(is_nowhere(0));
	ftl_stat(bed.ftl, &stat);
	assert_int_equal(stat.used_blocks, 0);
	space_bed_reopen(&bed);
	assert_true(is_nowhere(0));
	assert_int_equal(range_create(&bed, "b", SPACE_ANYWHERE, 10, &id), 0);
	assert_int_equal(get_word(&bed, ftl_lba(id, 0)), 0);
}

static void damage_the_map(void)
{
	struct format_superblock layout;
	uint8_t byte;

	flash_fake_peek(bed.device, 0, &layout, sizeof(layout));
	for (uint64_t at = layout.map_at; at < layout.segments_at; at++) {
		flash_fake_peek(bed.device, at * FORMAT_BLOCK + 100, &byte, 1);
		byte ^= 1;
		assert_int_equal(flash_fake_poke(bed.device, at * FORMAT_BLOCK + 100, &byte, 1), 0);
	}
}

/*
 * Where the map is damaged nobody knows that nothing is behind a range's end: that goes with what
 * is cut off.
 */
static void cutting_off_ends_damage(void **state)
{
	struct ftl_stat stat;
	uint32_t ids[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(range_create(&bed, "a", SPACE_ANYWHERE, 600, &ids[i]), 0);
		for (uint32_t block = 0; block < 600; block++)
			assert_int_equal(put_word(&bed, ftl_lba(ids[i], block), block + 1), 0);
	}
	space_bed_close_layer(&bed);
	damage_the_map();
	assert_int_equal(ftl_open(bed.device, 0, &bed.ftl), 0);
	assert_int_equal(space_open(bed.ftl, &bed.space), 0);
	assert_int_equal(range_shrink(&bed, ids[0], 510), 0);
	assert_int_equal(range_grow(&bed, ids[0], 700, false), 0);
	for (uint32_t block = 510; block < 700; block++)
		assert_int_equal(get_word(&bed, ftl_lba(ids[0], block)), 0);
	assert_int_equal(range_remove(&bed, ids[1]), 0);
	space_bed_reopen(&bed);
	ftl_stat(bed.ftl, &stat);
	assert_int_equal(stat.map_slots_used, 1);
	assert_int_equal(stat.damaged_pages, 1);
	assert_int_equal(range_remove(&bed, ids[0]), 0);
	space_bed_reopen(&bed);
	ftl_stat(bed.ftl, &stat);
	assert_int_equal(stat.map_slots_used, 0);
	assert_int_equal(stat.damaged_pages, 0);
}

/* All that was reserved can be written, and -ENOSPC is said before. */
static void what_is_reserved_can_be_written(void **state)
{
	uint64_t all = capacity();
	uint32_t id = 0, other = 0, thin = 0;

	(void)state;
	assert_int_equal(range_create(&bed, "a", SPACE_ANYWHERE, all + 1, &id), -ENOSPC);
	assert_int_equal(range_create(&bed, "a", SPACE_ANYWHERE, all - 10, &id), 0);
	assert_int_equal(range_create(&bed, "b", SPACE_ANYWHERE, 11, &other), -ENOSPC);
	assert_int_equal(range_create(&bed, "b", SPACE_ANYWHERE, 8, &other), 0);
	assert_int_equal(range_grow(&bed, other, 11, false), -ENOSPC);
	expect_range(other, all - 10, 8);
	assert_int_equal(range_create_thin(&bed, SPACE_LENGTH_MAX, 3, &thin), -ENOSPC);
	assert_int_equal(range_create_thin(&bed, SPACE_LENGTH_MAX, 1, &thin), 0);
	assert_int_equal(range_reserve(&bed, thin, 3), -ENOSPC);
	assert_int_equal(range_reserve(&bed, thin, 2), 0);
	for (uint32_t block = 0; block < all - 10; block++)
		assert_int_equal(put_word(&bed, ftl_lba(id, block), block + 1), 0);
	for (uint32_t block = 0; block < 8; block++)
		assert_int_equal(put_word(&bed, ftl_lba(other, block), block + 1), 0);
	assert_int_equal(put_word(&bed, ftl_lba(thin, 0), 1), 0);
	assert_int_equal(put_word(&bed, ftl_lba(thin, UINT32_MAX), 2), 0);
	space_bed_reopen(&bed);
	assert_int_equal(range_create(&bed, "c", SPACE_ANYWHERE, 1, NULL), -ENOSPC);
	/* Others may have what is given up. */
	assert_int_equal(range_shrink(&bed, id, all - 30), 0);
	assert_int_equal(range_create(&bed, "c", SPACE_ANYWHERE, 21, NULL), -ENOSPC);
	assert_int_equal(range_create(&bed, "c", SPACE_ANYWHERE, 20, &id), 0);
	for (uint32_t block = 0; block < 20; block++)
		assert_int_equal(put_word(&bed, ftl_lba(id, block), 7), 0);
	assert_int_equal(range_remove(&bed, thin), 0);
	assert_int_equal(range_create(&bed, "c", SPACE_ANYWHERE, 2, NULL), 0);
}

static void clones_are_shared_until_written(void **state)
{
	struct ftl_stat stat;
	uint32_t id = 0, other = 0;

	(void)state;
	assert_int_equal(range_create(&bed, "a", SPACE_ANYWHERE, 10, &id), 0);
	assert_int_equal(range_create(&bed, "b", SPACE_ANYWHERE, 20, &other), 0);
	for (uint32_t block = 0; block < 10; block++)
		assert_int_equal(put_word(&bed, ftl_lba(id, block), block + 1), 0);
	assert_int_equal(put_word(&bed, ftl_lba(other, 6), 60), 0);
	assert_int_equal(range_clone(&bed, id, 2, other, 5, 8), 0);
	ftl_stat(bed.ftl, &stat);
	assert_int_equal(stat.used_blocks, 10);
	assert_int_equal(put_word(&bed, ftl_lba(id, 4), 40), 0);
	assert_int_equal(put_word(&bed, ftl_lba(other, 5), 50), 0);
	space_bed_reopen(&bed);
	for (uint32_t block = 0; block < 10; block++)
		assert_int_equal(get_word(&bed, ftl_lba(id, block)), block == 4 ? 40 : block + 1);
	assert_int_equal(range_remove(&bed, id), 0);
	space_bed_reopen(&bed);
	for (uint32_t block = 0; block < 20; block++)
		assert_int_equal(get_word(&bed, ftl_lba(other, block)), block < 5 || block >= 13 ? 0
									: block == 5 ? 50
										     : block - 2);
}

static void one_change_at_a_time(void **state)
{
	struct waited first = {.request = {.length = 5, .done = on_waited}};
	struct waited second = first, third = first;
	uint32_t id = 0, other = 0;

	(void)state;
	assert_int_equal(range_create(&bed, "a", SPACE_ANYWHERE, 10, &id), 0);
	assert_int_equal(range_create(&bed, "b", SPACE_ANYWHERE, 10, &other), 0);
	first.request.id = second.request.id = id;
	assert_int_equal(space_shrink(bed.space, &first.request), 0);
	assert_true(space_is_busy(bed.space));
	/* Out of sight from now on; its addresses are others' only afterwards. */
	assert_true(is_nowhere(5));
	assert_int_equal(range_create(&bed, "c", 5, 5, NULL), -EEXIST);
	assert_int_equal(space_remove(bed.space, &second.request), -EBUSY);
	assert_int_equal(space_relocate(bed.space, &second.request), -EBUSY);
	assert_int_equal(range_clone(&bed, id, 0, other, 0, 1), -EBUSY);
	assert_int_equal(range_clone(&bed, other, 0, id, 0, 1), -EBUSY);
	/* Others are not held up, and one that is being made is not there yet. */
	third.request.start = SPACE_ANYWHERE;
	assert_int_equal(space_create(bed.space, &third.request), 0);
	assert_true(is_nowhere(20));
	second.request.id = third.request.id;
	assert_int_equal(space_remove(bed.space, &second.request), -ENOENT);
	space_bed_settle(&bed);
	assert_true(first.has_ended && third.has_ended);
	assert_int_equal(first.request.result, 0);
	assert_int_equal(third.request.result, 0);
	expect_range(id, 0, 5);
	expect_range(third.request.id, 20, 5);
	assert_int_equal(range_create(&bed, "c", 5, 5, NULL), 0);

	first.has_ended = false;
	first.request =
		(struct space_request){.id = id, .target = other, .length = 5, .done = on_waited};
	assert_int_equal(space_clone_range(bed.space, &first.request), 0);
	assert_int_equal(range_shrink(&bed, other, 5), -EBUSY);
	space_bed_settle(&bed);
	assert_int_equal(range_shrink(&bed, other, 5), 0);
}

/* Others may have what a range gives up of its reserve only when that is on record. */
static void what_is_given_up_is_not_there_before(void **state)
{
	struct waited waited = {.request = {.reserved = 5, .done = on_waited}};
	const uint64_t all = capacity();
	uint32_t id = 0;

	(void)state;
	assert_int_equal(range_create_thin(&bed, all, all, &id), 0);
	assert_int_equal(range_create(&bed, "b", SPACE_ANYWHERE, 1, NULL), -ENOSPC);
	waited.request.id = id;
	assert_int_equal(space_reserve(bed.space, &waited.request), 0);
	assert_int_equal(range_create(&bed, "b", SPACE_ANYWHERE, 1, NULL), -ENOSPC);
	space_bed_settle(&bed);
	assert_true(waited.has_ended);
	assert_int_equal(waited.request.result, 0);
	assert_int_equal(range_create(&bed, "b", SPACE_ANYWHERE, all - 5, NULL), 0);
	assert_int_equal(range_create(&bed, "b", SPACE_ANYWHERE, 1, NULL), -ENOSPC);
}

static void no_more_records(void **state)
{
	uint32_t ids[101];
	unsigned nr = 0;
	int ret;

	(void)state;
	do {
		ret = range_create(&bed, "a", SPACE_ANYWHERE, 1, &ids[nr]);
		nr += !ret;
	} while (!ret && nr <= 100);
	assert_int_equal(ret, -ENOSPC);
	assert_int_equal(nr, 100);
	/* The one that could not be made holds nothing. */
	assert_int_equal(range_shrink(&bed, ids[0], 1), -EINVAL);
	assert_int_equal(range_grow(&bed, ids[99], capacity() - 99, true), 0);
	assert_int_equal(range_relocate(&bed, ids[50], 1000000), 0);
	assert_int_equal(range_remove(&bed, ids[50]), 0);
	assert_int_equal(range_shrink(&bed, ids[99], 1), 0);
	assert_int_equal(range_create(&bed, "b", SPACE_ANYWHERE, 1, &ids[50]), 0);
	expect_range(ids[50], 50, 1);
}

/* ---- records that are no ranges */

static void on_trim(struct ftl_trim *trim)
{
	assert_int_equal(trim->result, 0);
	trim->result = 1;
}

static void put_record(uint32_t id, const void *data)
{
	struct ftl_record_change change = {.id = id};
	struct ftl_trim trim = {.change = &change, .done = on_trim};

	memcpy(change.data, data, sizeof(change.data));
	ftl_trim(bed.ftl, &trim);
	while (trim.result != 1)
		assert_true(ftl_poll(bed.ftl, -1) >= 0);
}

static void refuses_record(uint32_t id, size_t at, uint8_t byte)
{
	uint8_t data[FTL_RECORD_BYTES], kept[FTL_RECORD_BYTES];
	struct space *space;

	memcpy(kept, ftl_record(bed.ftl, id), sizeof(kept));
	memcpy(data, kept, sizeof(data));
	data[at] = byte;
	put_record(id, data);
	assert_int_equal(space_open(bed.ftl, &space), -EBADMSG);
	assert_non_null(strstr(error_last_line(), "damaged"));
	put_record(id, kept);
}

static void damaged_records_are_refused(void **state)
{
	static const uint8_t zeros[FTL_RECORD_BYTES];
	struct space *space;
	uint32_t id = 0, other = 0;

	(void)state;
	assert_int_equal(range_create(&bed, "a", 0, 10, &id), 0);
	assert_int_equal(range_create(&bed, "b", 10, 10, &other), 0);
	refuses_record(id, 24, 0);  /* no blocks               */
	refuses_record(id, 24, 11); /* in the other            */
	refuses_record(id, 16, 1);  /* so too                  */
	refuses_record(id, 29, 1);  /* longer than can be      */
	refuses_record(id, 32, 11); /* more reserved than long */
	refuses_record(id, 44, 9);  /* unknown intent          */
	refuses_record(id, 44, 1);  /* shrinks to nothing      */
	refuses_record(id, 40, 1);  /* keeps, but shrinks not  */
	refuses_record(id, 47, 1);  /* a field of tomorrow's   */
	/* Records of others are none of its business. */
	put_record(SPACE_NR_RANGES, zeros);
	assert_int_equal(space_open(bed.ftl, &space), 0);
	space_close(space);
}

TEST_GROUP(flash_space)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(addresses_are_found, set_up, tear_down),
		cmocka_unit_test_setup_teardown(first_gap_that_fits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(totals_are_by_owner, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nonsense_is_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_last_addresses_are_of_use, set_up, tear_down),
		cmocka_unit_test_setup_teardown(growing_keeps_the_blocks, set_up, tear_down),
		cmocka_unit_test_setup_teardown(moving_keeps_the_blocks, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_was_cut_off_is_gone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(cutting_off_ends_damage, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_reserved_can_be_written, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_given_up_is_not_there_before, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(clones_are_shared_until_written, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_change_at_a_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_more_records, set_up, tear_down),
		cmocka_unit_test_setup_teardown(damaged_records_are_refused, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("flash_space", tests, NULL, NULL);
}
