/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The address space after a power cut behind every event of a trace of changes, puts and clones.
 * Each change is there as a whole or not at all, and all that was acknowledged is. No two ranges
 * overlap, and what was cut off holds nothing.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/flash/flash_space_bed.h"
#include "unit/group.h"

#define NR_IDS	  6
#define NR_BLOCKS 24
/* So many blocks between two that are written, so that a range has many pages of the map. */
#define STEP	   200
#define NR_CHANGES 80

/* The world after so many changes. */
struct world {
	bool is_there[NR_IDS];
	struct space_range ranges[NR_IDS];
	uint64_t words[NR_IDS][NR_BLOCKS];
	uint64_t ended; /* events of the device when the change had ended */
	bool is_durable;
};

static struct world worlds[NR_CHANGES + 1];

static const struct flash_fake_options small_device = {
	.size = 4U << 20,
	.sector = 512,
	.latency_max = 3,
	.seed = 5,
	.can_lose_power = true,
};

static const struct ftl_options small_layout = {.segment_bytes = 64U << 10,
						.journal_blocks = 16,
						.nr_map_pages = 100,
						.nr_records = NR_IDS};

static uint64_t dice_state;

static uint32_t dice(uint32_t sides)
{
	dice_state = dice_state * 6364136223846793005U + 1442695040888963407U;
	return (uint32_t)(dice_state >> 33) % sides;
}

/* ---- the trace */

static int roll_create(struct bed *bed, struct world *world)
{
	char owner[2] = {(char)('a' + dice(3)), 0};
	struct waited waited = {.request = {.start = dice(2) ? SPACE_ANYWHERE : dice(100 * STEP),
					    .length = (1 + dice(NR_BLOCKS)) * STEP,
					    .owner = owner_named(owner),
					    .is_thin = true,
					    .reserved = 1 + dice(NR_BLOCKS)}};

	(void)world;
	return range_run(bed, space_create, &waited);
}

static int roll_shrink(struct bed *bed, struct world *world, uint32_t id)
{
	uint64_t length = dice(NR_BLOCKS);
	int ret = range_shrink(bed, id, length * STEP);

	for (uint64_t block = length; !ret && block < NR_BLOCKS; block++)
		world->words[id][block] = 0;
	return ret;
}

static int roll_remove(struct bed *bed, struct world *world, uint32_t id)
{
	int ret = range_remove(bed, id);

	if (!ret)
		memset(world->words[id], 0, sizeof(world->words[id]));
	return ret;
}

static int roll_clone(struct bed *bed, struct world *world, uint32_t id)
{
	uint32_t target = dice(NR_IDS);
	uint64_t from = dice(NR_BLOCKS), to = dice(NR_BLOCKS), length = 1 + dice(8);
	int ret = range_clone(bed, id, from * STEP, target, to * STEP, length * STEP);

	if (!ret)
		memcpy(&world->words[target][to], &world->words[id][from],
		       length * sizeof(uint64_t));
	return ret;
}

static int roll_put(struct bed *bed, struct world *world, uint32_t id)
{
	uint32_t block = dice(NR_BLOCKS);
	uint64_t word = UINT64_C(1) + dice(1U << 30);
	int ret;

	if (!world->is_there[id] || block * STEP >= world->ranges[id].length)
		return -EINVAL;
	ret = put_word(bed, ftl_lba(id, block * STEP), word);
	if (!ret)
		world->words[id][block] = word;
	world->is_durable = false;
	return ret;
}

static int roll_change(struct bed *bed, struct world *world)
{
	uint32_t id = dice(NR_IDS);

	world->is_durable = true;
	switch (dice(12)) {
	case 0:
	case 1:
		return roll_create(bed, world);
	case 2:
		return range_grow(bed, id, (1 + dice(NR_BLOCKS)) * STEP, dice(2));
	case 3:
	case 4:
		return roll_shrink(bed, world, id);
	case 5:
		return range_relocate(bed, id, dice(2) ? SPACE_ANYWHERE : dice(200 * STEP));
	case 6:
		return roll_remove(bed, world, id);
	case 7:
		return roll_clone(bed, world, id);
	case 8:
		return range_reserve(bed, id, dice(NR_BLOCKS));
	default:
		return roll_put(bed, world, id);
	}
}

/*
 * Somebody who syncs all the time. Without him the records of one change would all be in one block
 * of the journal, which would be whole anyway.
 */
struct noise {
	struct ftl_sync sync;
	struct ftl *ftl;
	bool may_end, has_ended;
};

static void on_noise(struct ftl_sync *sync)
{
	struct noise *noise = caa_container_of(sync, struct noise, sync);

	noise->has_ended = noise->may_end;
	if (!noise->may_end)
		ftl_sync(noise->ftl, sync);
}

static int change_amid_noise(struct bed *bed, struct world *world)
{
	struct noise noise = {.ftl = bed->ftl, .sync.done = on_noise};
	int ret;

	ftl_sync(bed->ftl, &noise.sync);
	ret = roll_change(bed, world);
	world->ended = flash_fake_events(bed->device);
	noise.may_end = true;
	while (!noise.has_ended)
		assert_true(ftl_poll(bed->ftl, -1) >= 0);
	return ret;
}

static void look(const struct bed *bed, struct world *world)
{
	for (uint32_t id = 0; id < NR_IDS; id++) {
		memset(&world->ranges[id], 0, sizeof(world->ranges[id]));
		world->is_there[id] = space_stat(bed->space, id, &world->ranges[id]);
	}
}

static void open_space(struct bed *bed)
{
	assert_int_equal(ftl_open(bed->device, 0, &bed->ftl), 0);
	assert_int_equal(space_open(bed->ftl, &bed->space), 0);
}

static void reopen(struct bed *bed)
{
	space_bed_close_layer(bed);
	open_space(bed);
}

static void run_trace(struct bed *bed)
{
	worlds[0] = (struct world){.ended = flash_fake_events(bed->device), .is_durable = true};
	for (unsigned i = 1; i <= NR_CHANGES; i++) {
		int ret;

		worlds[i] = worlds[i - 1];
		/* So that pages of the map are not in memory, and a change takes several steps. */
		if (i % 3 == 0)
			reopen(bed);
		/* A change that is refused changes nothing. */
		do {
			ret = change_amid_noise(bed, &worlds[i]);
		} while (ret);
		look(bed, &worlds[i]);
	}
}

/* ---- what a cut may leave */

static bool is_same_range(const struct space_range *a, const struct space_range *b)
{
	return a->start == b->start && a->length == b->length && a->reserved == b->reserved &&
	       a->is_busy == b->is_busy &&
	       memcmp(a->owner.bytes, b->owner.bytes, SPACE_OWNER_BYTES) == 0;
}

static bool is_table(const struct world *found, const struct world *world)
{
	for (uint32_t id = 0; id < NR_IDS; id++) {
		if (found->is_there[id] != world->is_there[id] ||
		    !is_same_range(&found->ranges[id], &world->ranges[id]))
			return false;
	}
	return true;
}

/* The last change that had ended durably, and the one that was under way. */
static void find_changes(uint64_t nr_events, unsigned *durable, unsigned *under_way)
{
	*durable = 0;
	for (unsigned i = 0; i <= NR_CHANGES; i++) {
		*under_way = i;
		if (worlds[i].ended > nr_events)
			return;
		if (worlds[i].is_durable)
			*durable = i;
	}
}

static bool is_one_of(uint64_t word, uint32_t id, uint32_t block, unsigned first, unsigned last)
{
	for (unsigned i = first; i <= last; i++) {
		if (worlds[i].words[id][block] == word)
			return true;
	}
	return false;
}

/* The change that the ranges are after changed the block itself: trimmed it. */
static bool is_trimmed_by(unsigned change, uint32_t id, uint32_t block)
{
	return change && !worlds[change].words[id][block] && worlds[change - 1].words[id][block];
}

static void expect_no_overlap(const struct world *found)
{
	for (uint32_t a = 0; a < NR_IDS; a++) {
		for (uint32_t b = 0; b < a; b++) {
			const struct space_range *one = &found->ranges[a],
						 *other = &found->ranges[b];

			if (found->is_there[a] && found->is_there[b])
				assert_true(one->start + one->length <= other->start ||
					    other->start + other->length <= one->start);
		}
	}
}

/*
 * The ranges are those after change `table`, which is the one that was `under_way` or the one
 * before. All that it trimmed is trimmed then, and only then. Puts and clones since the last
 * durable change are there or not.
 */
static void expect_block(struct bed *bed, uint64_t nr_events, uint32_t id, uint32_t block,
			 unsigned durable, unsigned table, unsigned under_way)
{
	uint64_t word = get_word(bed, ftl_lba(id, block * STEP));
	bool is_clone = is_table(&worlds[table], &worlds[under_way]);
	unsigned last = is_clone ? under_way : table;

	if (table == under_way && is_trimmed_by(table, id, block) &&
	    !is_table(&worlds[table], &worlds[table - 1]))
		durable = table;
	if (!is_one_of(word, id, block, durable, last))
		fail_msg("cut behind %lu: block %u of range %u is %lx, as after none of changes %u "
			 "to "
			 "%u",
			 (unsigned long)nr_events, block, id, (unsigned long)word, durable, last);
}

static void expect_world(struct bed *bed, uint64_t nr_events)
{
	unsigned durable, under_way, table;
	struct world found;

	find_changes(nr_events, &durable, &under_way);
	look(bed, &found);
	expect_no_overlap(&found);
	/* Between the two there are only puts. */
	table = is_table(&found, &worlds[under_way]) ? under_way : under_way ? under_way - 1 : 0;
	if (!is_table(&found, &worlds[table]))
		fail_msg("cut behind %lu: the ranges are neither those after change %u nor %u",
			 (unsigned long)nr_events, table, under_way);
	for (uint32_t id = 0; id < NR_IDS; id++) {
		for (uint32_t block = 0; block < NR_BLOCKS; block++)
			expect_block(bed, nr_events, id, block, durable, table, under_way);
	}
}

/* Power goes again while what was cut off is gone on with. */
static void cut_again(struct bed *bed, uint64_t nr_events)
{
	struct flash_device *next;

	flash_fake_cut_after(bed->device, nr_events % 13);
	if (ftl_open(bed->device, 0, &bed->ftl) == 0) {
		if (space_open(bed->ftl, &bed->space) == 0) {
			while (space_is_busy(bed->space) && ftl_poll(bed->ftl, -1) >= 0)
				;
			ftl_abandon(bed->ftl);
			space_close(bed->space);
		} else {
			ftl_abandon(bed->ftl);
		}
	}
	assert_int_equal(flash_fake_restart(bed->device, nr_events, &next), 0);
	flash_device_close(bed->device);
	bed->device = next;
}

static void try_cut(struct flash_fake_log *log, uint64_t nr_events)
{
	struct bed bed;

	assert_int_equal(flash_fake_image_at(log, nr_events, nr_events, &bed.device), 0);
	if (nr_events % 3 == 0)
		cut_again(&bed, nr_events);
	open_space(&bed);
	space_bed_settle(&bed);
	expect_world(&bed, nr_events);
	assert_int_equal(ftl_audit(bed.ftl), 0);
	space_bed_close(&bed);
}

static void every_cut(uint64_t seed)
{
	struct flash_fake_options options = small_device;
	struct flash_fake_log *log;
	uint64_t made, all;
	struct bed bed;

	dice_state = seed;
	options.seed = seed;
	assert_int_equal(flash_fake_open(&options, &bed.device), 0);
	assert_int_equal(flash_fake_record(bed.device, &log), 0);
	assert_int_equal(ftl_create(bed.device, &small_layout), 0);
	made = flash_fake_events(bed.device);
	open_space(&bed);
	run_trace(&bed);
	space_bed_close(&bed);
	all = flash_fake_log_events(log);
	for (uint64_t nr_events = made; nr_events <= all; nr_events++)
		try_cut(log, nr_events);
	flash_fake_log_close(log);
}

static void changes_are_whole(void **state)
{
	(void)state;
	every_cut(1);
	every_cut(2);
}

TEST_GROUP(flash_space_crash)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changes_are_whole),
	};

	return cmocka_run_group_tests_name("flash_space_crash", tests, NULL, NULL);
}
