/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares random requests with a model. Now and then the power is lost with requests in flight;
 * the layer then recovers and goes on. 60 000 requests; AFAR_LONG=1: ten million.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/log.h"
#include "lib/flash/flash_fake_image.h"
#include "world.h"

#define AUDIT_EVERY 8U /* lives */

static uint64_t number_of(const char *name, uint64_t usual)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : usual;
}

/* Each life has its number of streams. */
static void open_layer(struct world *world, uint64_t life)
{
	unsigned flags = FTL_STREAMS(life * 5 % (FTL_STREAMS_MAX + 1));

	if (ftl_open(world->device, flags, &world->ftl))
		fail_msg("life %llu: %s", (unsigned long long)life, error_last_line());
	if (life % AUDIT_EVERY == 0 && ftl_audit(world->ftl))
		fail_msg("life %llu: %s", (unsigned long long)life, error_last_line());
}

/* Until the power is lost, or `nr_ops` are done. */
static void live(struct world *world, uint64_t *dice, uint64_t nr_ops)
{
	uint64_t events = 1 + dice_below(dice, 1U << dice_below(dice, 13));

	flash_fake_cut_after(world->device, events);
	world->is_cut = true;
	while (world->nr_ops < nr_ops && world_step(world))
		;
}

static void lose_power(struct world *world, uint64_t *dice)
{
	struct flash_device *next;
	struct ftl_stat stat;

	/* It lost nothing by itself. */
	ftl_stat(world->ftl, &stat);
	assert_int_equal(stat.crc_errors, 0);
	assert_int_equal(stat.nr_by_state[FTL_SEGMENT_BAD], 0);
	ftl_abandon(world->ftl);
	assert_int_equal(flash_fake_restart(world->device, dice_roll(dice), &next), 0);
	flash_device_close(world->device);
	world->device = next;
	world_forget(world);
}

/* An orderly end, with everything there afterwards. */
static void close_and_open(struct world *world, uint64_t life)
{
	size_t last[WORLD_CELLS];

	assert_true(world_drain(world));
	for (uint32_t cell = 0; cell < WORLD_CELLS; cell++)
		last[cell] = world->cells[cell].nr - 1;
	assert_int_equal(ftl_close(world->ftl), 0);
	open_layer(world, life);
	world_verify(world, world->ftl, last, last, NULL, "close", life);
}

static void test_lives(void **state)
{
	uint64_t nr_ops = number_of("AFAR_FLASH_OPS", getenv("AFAR_LONG") ? 10000000 : 60000);
	uint64_t seed = number_of("AFAR_SEED", 1), dice = seed, life = 0;
	struct flash_fake_options options = world_device(seed & 1 ? 512 : 4096, seed);
	struct world world;

	(void)state;
	options.can_lose_power = true;
	world_init(&world, seed);
	assert_int_equal(flash_fake_open(&options, &world.device), 0);
	world_create(world.device);
	open_layer(&world, life);
	while (world.nr_ops < nr_ops) {
		size_t found[WORLD_CELLS];

		if (++life % 5 == 0) {
			for (uint64_t end = world.nr_ops + 50; world.nr_ops < end;)
				assert_true(world_step(&world));
			close_and_open(&world, life);
		}
		live(&world, &dice, nr_ops);
		lose_power(&world, &dice);
		world.is_cut = false;
		open_layer(&world, life);
		world_verify(&world, world.ftl, NULL, NULL, found, "life", life);
		world_settle(&world, found);
	}
	print_message("%llu requests in %llu lives\n", (unsigned long long)world.nr_ops,
		      (unsigned long long)life);
	assert_int_equal(ftl_close(world.ftl), 0);
	flash_device_close(world.device);
	world_free(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lives),
	};

	if (getenv("AFAR_LOG"))
		log_set_level(LOG_LEVEL_INFO);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
