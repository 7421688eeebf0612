/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cuts the power at every event of a long run on a small device, where cleaning and checkpoints
 * never end. After each cut the test recovers a state that may have survived, and reads it. All
 * synced values are there. Any other block has one of its values since, never torn and never
 * another block's. The layer can be used afterwards, also when its recovery is cut itself.
 *
 * The run is recorded once. The state after a cut is made from the recording, at random. Arguments
 * are the sector, and "faults": now and then a write to a segment fails, the segment is given up,
 * and the data goes elsewhere. AFAR_SEED and AFAR_FLASH_OPS choose another run.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/log.h"
#include "flash/format.h"
#include "lib/base/effort.h"
#include "lib/flash/flash_fake_image.h"
#include "world.h"

#define AUDIT_EVERY	 7U
#define SECOND_CUT_EVERY 5U
#define USE_EVERY	 11U
#define STREAMS		 5U
#define FAULTS		 25U /* in a run; each costs a segment */
#define FAULTS_SIZE	 ((4U << 20) + FAULTS * 65536U)

struct timeline {
	struct world *world;
	size_t next_promise;
	size_t floor[WORLD_CELLS];
	size_t last[WORLD_CELLS];
};

/* Finds what is promised, and what may be there, behind so many events. */
static void go_to(struct timeline *timeline, uint64_t event)
{
	const struct world *world = timeline->world;

	while (timeline->next_promise < world->nr_promises &&
	       world->promises[timeline->next_promise].event <= event) {
		const struct world_promise *promise = &world->promises[timeline->next_promise++];

		timeline->floor[promise->cell] = promise->value;
	}
	for (uint32_t cell = 0; cell < WORLD_CELLS; cell++) {
		const struct world_cell *it = &world->cells[cell];
		size_t *last = &timeline->last[cell];

		while (*last + 1 < it->nr && it->values[*last + 1].event <= event)
			++*last;
	}
}

/* By a program that has another number of streams. */
static struct ftl *open_layer(struct flash_device *device, uint64_t event)
{
	struct ftl *ftl;

	if (ftl_open(device, FTL_STREAMS(1 + event % FTL_STREAMS_MAX), &ftl))
		fail_msg("cut %llu: %s", (unsigned long long)event, error_last_line());
	return ftl;
}

/* Cuts recovery, or what comes right behind it, and recovers again. */
static struct flash_device *cut_again(struct flash_device *device, uint64_t *dice)
{
	struct flash_device *next;
	struct ftl *ftl;

	flash_fake_cut_after(device, 1 + dice_below(dice, 30));
	if (ftl_open(device, FTL_STREAMS(STREAMS), &ftl) == 0)
		ftl_abandon(ftl);
	assert_int_equal(flash_fake_restart(device, dice_roll(dice), &next), 0);
	flash_device_close(device);
	return next;
}

static void check_cut(struct timeline *timeline, struct flash_fake_log *log, uint64_t event,
		      uint64_t *dice)
{
	struct flash_device *device;
	struct ftl *ftl;

	go_to(timeline, event);
	assert_int_equal(flash_fake_image_at(log, event, dice_roll(dice), &device), 0);
	if (event % SECOND_CUT_EVERY == 0)
		device = cut_again(device, dice);
	ftl = open_layer(device, event);
	if (event % AUDIT_EVERY == 0 && ftl_audit(ftl))
		fail_msg("cut %llu: %s", (unsigned long long)event, error_last_line());
	world_verify(timeline->world, ftl, timeline->floor, timeline->last, NULL, "cut", event);
	if (event % USE_EVERY == 0) {
		world_use(ftl);
		ftl_abandon(ftl);
		ftl = open_layer(device, event);
		assert_int_equal(ftl_close(ftl), 0);
	} else {
		ftl_abandon(ftl);
	}
	flash_device_close(device);
}

/* The next write to a segment is one. */
static void add_fault(struct flash_device *device)
{
	struct format_superblock superblock;
	struct flash_fake_fault fault = {.opcode = FLASH_IO_WRITE, .error = -EIO, .nr = 1};

	flash_fake_peek(device, 0, &superblock, sizeof(superblock));
	fault.offset = (uint64_t)superblock.segments_at * FTL_BLOCK;
	fault.length = device->size - FTL_BLOCK - fault.offset;
	assert_int_equal(flash_fake_fail(device, &fault), 0);
}

static bool has_faults;

static struct flash_fake_log *record(struct world *world, uint32_t sector_bytes, uint64_t dice,
				     uint64_t nr_ops, uint64_t *first)
{
	struct flash_fake_options options = world_device(sector_bytes, dice);
	uint64_t next_fault = has_faults ? nr_ops / FAULTS : UINT64_MAX;
	struct flash_fake_log *log;
	struct ftl_stat stat;

	if (has_faults)
		options.size = FAULTS_SIZE;
	options.can_lose_power = true;
	assert_int_equal(flash_fake_open(&options, &world->device), 0);
	assert_int_equal(flash_fake_record(world->device, &log), 0);
	world_create(world->device);
	*first = flash_fake_events(world->device);
	assert_int_equal(ftl_open(world->device, FTL_STREAMS(STREAMS), &world->ftl), 0);
	world->has_promises = true;
	while (world->nr_ops < nr_ops) {
		assert_true(world_step(world));
		if (world->nr_ops >= next_fault) {
			add_fault(world->device);
			next_fault += nr_ops / FAULTS;
		}
	}
	assert_true(world_drain(world));
	world_verify(world, world->ftl, NULL, NULL, NULL, "the end", 0);
	if (ftl_audit(world->ftl))
		fail_msg("the end: %s", error_last_line());
	ftl_stat(world->ftl, &stat);
	print_message(
		"%llu requests: %llu blocks put, %llu moved out of %llu segments, %llu "
		"checkpoints, %llu flushes, %llu journal blocks, %llu records ahead, %llu of them "
		"void\n",
		(unsigned long long)world->nr_ops, (unsigned long long)stat.user_blocks,
		(unsigned long long)stat.moved_blocks, (unsigned long long)stat.segments_cleaned,
		(unsigned long long)stat.checkpoints, (unsigned long long)stat.flushes,
		(unsigned long long)stat.journal_written, (unsigned long long)stat.records_ahead,
		(unsigned long long)stat.records_void);
	assert_true(stat.segments_cleaned >= nr_ops / 200);
	assert_true(stat.checkpoints > nr_ops / 500);
	assert_true(stat.records_ahead > nr_ops / 10);
	assert_true(has_faults == (stat.records_void > 0));
	assert_int_equal(ftl_close(world->ftl), 0);
	flash_device_close(world->device);
	world->device = NULL;
	return log;
}

static void search(uint32_t sector_bytes, uint64_t dice, uint64_t nr_ops)
{
	struct world world;
	struct timeline timeline = {.world = &world};
	struct flash_fake_log *log;
	uint64_t first, nr;

	world_init(&world, dice);
	log = record(&world, sector_bytes, dice, nr_ops, &first);
	nr = flash_fake_log_events(log);
	for (uint64_t event = first; event <= nr; event++)
		check_cut(&timeline, log, event, &dice);
	print_message("%llu cuts\n", (unsigned long long)(nr - first + 1));
	flash_fake_log_close(log);
	world_free(&world);
}

static uint64_t length(void)
{
	const char *text = getenv("AFAR_FLASH_OPS");

	return text ? strtoull(text, NULL, 10) : test_effort(1000, 5000, 10000);
}

static uint64_t seed(void)
{
	const char *text = getenv("AFAR_SEED");

	return text ? strtoull(text, NULL, 10) : 1;
}

static uint32_t sector = 512;

static void test_every_event(void **state)
{
	(void)state;
	search(sector, seed() + sector, length());
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_event),
	};

	if (argc > 1)
		sector = (uint32_t)strtoul(argv[1], NULL, 10);
	has_faults = argc > 2;
	if (getenv("AFAR_LOG"))
		log_set_level(LOG_LEVEL_INFO);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
