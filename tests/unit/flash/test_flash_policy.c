/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts that choose streams and victims for the flash layer: estimates of update rates,
 * sequences, shares of the spare. And the choice of a segment beside a look at all of them.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "flash/map/victim.h"
#include "flash/write/heat.h"
#include "flash/write/streams.h"
#include "unit/group.h"

#define NR_BLOCKS 100000U

static uint64_t random_state;

static uint32_t draw(uint32_t limit)
{
	random_state = random_state * 6364136223846793005 + 1442695040888963407;
	return (uint32_t)((random_state >> 32) * limit >> 32);
}

static double draw_exponential(double mean)
{
	return -mean * log((draw(1U << 30) + 1.0) / (1U << 30));
}

/* ---- Heat */

static void test_unknown_is_the_mean(void **state)
{
	(void)state;
	assert_int_equal(heat_level(0), HEAT_LEVEL_MEAN);
}

/*
 * The average of what is said of a block that is put at random, at intervals of `mean`; some are
 * moved in between.
 */
static double learnt_level(double mean, unsigned nr_moves)
{
	struct heat heat;
	double sum = 0;
	uint8_t block = 0;
	unsigned nr = 0;

	heat_init(&heat, NR_BLOCKS);
	for (unsigned i = 0; i < 4000; i++) {
		for (unsigned move = 0; move < nr_moves && draw(2); move++)
			heat_moved(&heat, &block, (uint64_t)draw_exponential(mean) / 4);
		sum += heat_put(&heat, &block, (uint64_t)draw_exponential(mean));
		nr++;
	}
	return sum / nr;
}

static void test_rates_are_learnt(void **state)
{
	double level;

	(void)state;
	for (int octave = -6; octave <= 6; octave++) {
		level = HEAT_LEVEL_MEAN + octave * (double)HEAT_OCTAVE;
		/*
		 * Over a few intervals the logarithm's average is a little less than the logarithm
		 * of their mean.
		 */
		assert_true(fabs(learnt_level(NR_BLOCKS * exp2(octave), 0) - level) < 2);
		assert_true(fabs(learnt_level(NR_BLOCKS * exp2(octave), 3) - level) < 3);
	}
}

/* Intervals that are always the same are known to a quarter of an octave, from the first few on. */
static void test_regular_puts(void **state)
{
	struct heat heat;
	uint8_t block = 0;

	(void)state;
	heat_init(&heat, NR_BLOCKS);
	for (unsigned i = 0; i < 30; i++)
		heat_put(&heat, &block, NR_BLOCKS / 16);
	assert_in_range(heat_level(block), HEAT_LEVEL_MEAN - 17, HEAT_LEVEL_MEAN - 15);
}

/* Small steps are not lost to rounding: survival in many pieces is as one piece. */
static void test_survival_adds_up(void **state)
{
	struct heat heat;
	double sum = 0;
	uint8_t block;

	(void)state;
	heat_init(&heat, NR_BLOCKS);
	for (unsigned trial = 0; trial < 200; trial++) {
		block = 0;
		for (unsigned i = 0; i < 3000; i++)
			heat_moved(&heat, &block, NR_BLOCKS / 2000);
		sum += heat_level(block);
	}
	/* 1 + 2 × 1.5 mean intervals: two octaves. */
	assert_true(fabs(sum / 200 - HEAT_LEVEL_MEAN - 2.0 * HEAT_OCTAVE) < 1);
}

static void test_extremes(void **state)
{
	struct heat heat;
	uint8_t block;

	(void)state;
	for (uint64_t nr_blocks = 1; nr_blocks;
	     nr_blocks = nr_blocks < 1ULL << 40 ? nr_blocks << 8 : 0) {
		heat_init(&heat, nr_blocks);
		block = 0;
		for (unsigned i = 0; i < 50; i++)
			assert_in_range(heat_put(&heat, &block, 0), 0, HEAT_LEVELS - 1);
		assert_int_equal(heat_level(block), 0);
		for (unsigned i = 0; i < 50; i++)
			assert_in_range(heat_moved(&heat, &block, UINT64_MAX), 0, HEAT_LEVELS - 1);
		assert_int_equal(heat_level(block), HEAT_LEVELS - 1);
		for (uint64_t survived = nr_blocks << 8; survived; survived <<= 1) {
			block = 0;
			assert_int_equal(heat_moved(&heat, &block, survived), HEAT_LEVELS - 1);
		}
	}
}

static void test_hints(void **state)
{
	uint8_t block = 0;
	unsigned level, last = HEAT_LEVELS;

	(void)state;
	for (unsigned hint = 1; hint < 256; hint++) {
		level = heat_told(&block, (uint8_t)hint);
		assert_true(level <= last);
		assert_int_equal(heat_level(block), level);
		last = level;
	}
	assert_int_equal(heat_told(&block, HEAT_HINT_MEAN), HEAT_LEVEL_MEAN);
	assert_int_equal(heat_told(&block, HEAT_HINT_MEAN + 16), HEAT_LEVEL_MEAN - HEAT_OCTAVE);
}

/* A block that is put often becomes hot, whatever the hint that comes with each put. */
static void test_wrong_hints_are_unlearnt(void **state)
{
	struct streams_put request = {.lba = 1, .hint = HEAT_HINT_MEAN - 48};
	struct streams streams;
	uint64_t pace;
	uint8_t heat = 0;
	unsigned cold;

	(void)state;
	streams_init(&streams, STREAMS_DEFAULT, NR_BLOCKS);
	request.heat = &heat;
	cold = streams_put(&streams, &request, &pace);
	assert_int_equal(heat_level(heat), HEAT_LEVEL_MEAN + 3 * HEAT_OCTAVE);
	request.is_overwrite = true;
	request.survived = NR_BLOCKS / 16;
	for (unsigned i = 0; i < 20; i++)
		streams_put(&streams, &request, &pace);
	assert_in_range(heat_level(heat), HEAT_LEVEL_MEAN - 5 * HEAT_OCTAVE,
			HEAT_LEVEL_MEAN - 3 * HEAT_OCTAVE);
	/* The block is trimmed, and its number used for something else. */
	request.is_overwrite = false;
	assert_int_equal(streams_put(&streams, &request, &pace), cold);
}

/* ---- Streams */

static unsigned put(struct streams *streams, uint64_t lba, uint64_t now, uint64_t *pace)
{
	static uint8_t heat;
	const struct streams_put request = {
		.lba = lba, .now = now, .survived = NR_BLOCKS, .is_overwrite = true, .heat = &heat};

	heat = 0;
	return streams_put(streams, &request, pace);
}

static void test_streams_by_rate(void **state)
{
	struct streams_put request = {.lba = 1, .is_overwrite = true};
	struct streams streams;
	unsigned stream, last;
	uint64_t pace;
	uint8_t heat;

	(void)state;
	request.heat = &heat;
	for (unsigned nr = 1; nr <= STREAMS_MAX; nr++) {
		streams_init(&streams, nr, NR_BLOCKS);
		last = nr;
		for (unsigned hint = 1; hint < 256; hint++) {
			request.hint = (uint8_t)hint;
			heat = 0;
			stream = streams_put(&streams, &request, &pace);
			assert_true(stream < nr && stream <= last);
			assert_int_equal(pace, 0);
			last = stream;
		}
		assert_int_equal(last, 0);
		heat = 0;
		assert_true(streams_move(&streams, &heat, UINT64_MAX) < nr);
	}
	/* 16 times the rate are two streams apart. */
	streams_init(&streams, STREAMS_DEFAULT, NR_BLOCKS);
	heat = 0;
	request.hint = HEAT_HINT_MEAN + 32;
	stream = streams_put(&streams, &request, &pace);
	heat = 0;
	request.hint = HEAT_HINT_MEAN - 32;
	assert_int_equal(streams_put(&streams, &request, &pace), stream + 2);
}

/* Several sequences at a time among single puts: each is found, with the pace of its own. */
static void test_sequences(void **state)
{
	enum { NR = 8, LENGTH = 2000, SINGLES = 3 };
	struct streams streams;
	uint64_t now = 0, pace;
	unsigned nr_found = 0;

	(void)state;
	random_state = 1;
	streams_init(&streams, STREAMS_DEFAULT, NR_BLOCKS);
	for (unsigned i = 0; i < LENGTH; i++) {
		for (unsigned run = 0; run < NR; run++) {
			if (put(&streams, run * 1000000ULL + i, now++, &pace) ==
			    STREAMS_DEFAULT - 1) {
				nr_found++;
				assert_in_range(pace, NR * (SINGLES + 1) - 1,
						NR * (SINGLES + 1) + 1);
			} else {
				assert_int_equal(pace, 0);
			}
			for (unsigned single = 0; single < SINGLES; single++)
				assert_int_not_equal(put(&streams,
							 (1ULL << 40) + 2 * draw(1U << 30), now++,
							 &pace),
						     STREAMS_DEFAULT - 1);
		}
	}
	assert_true(nr_found > NR * LENGTH * 8 / 10);
}

static void test_first_writes_are_no_sequence(void **state)
{
	struct streams_put request = {0};
	struct streams streams;
	uint64_t pace;
	uint8_t heat = 0;

	(void)state;
	request.heat = &heat;
	streams_init(&streams, STREAMS_DEFAULT, NR_BLOCKS);
	for (; request.lba < 1000; request.lba++, request.now++) {
		assert_int_not_equal(streams_put(&streams, &request, &pace), STREAMS_DEFAULT - 1);
		assert_int_equal(pace, 0);
	}
}

static void test_nearest(void **state)
{
	unsigned found, distance;

	(void)state;
	random_state = 2;
	for (unsigned trial = 0; trial < 20000; trial++) {
		uint32_t mask = 1U << draw(32);
		unsigned stream = draw(STREAMS_MAX);

		for (unsigned i = draw(8); i > 0; i--)
			mask |= 1U << draw(32);
		found = streams_nearest(mask, stream);
		assert_true(mask >> found & 1);
		distance = (unsigned)abs((int)found - (int)stream);
		for (unsigned other = 0; other < STREAMS_MAX; other++)
			assert_false((mask >> other & 1) &&
				     (unsigned)abs((int)other - (int)stream) < distance);
	}
}

/* ---- Victims */

#define NR_STREAMS  4U
#define NR_SEGMENTS 200U
#define SEGMENT	    64U

struct scene {
	struct victims *victims;
	struct victim_segment segments[NR_SEGMENTS];
	bool in_use[NR_SEGMENTS];
};

static int open_scene(void **state)
{
	struct scene *scene = calloc(1, sizeof(*scene));

	assert_non_null(scene);
	scene->victims = victims_open(NR_STREAMS, SEGMENT, NR_SEGMENTS * SEGMENT);
	assert_non_null(scene->victims);
	random_state = 3;
	*state = scene;
	return 0;
}

static int close_scene(void **state)
{
	struct scene *scene = *state;

	victims_close(scene->victims);
	free(scene);
	return 0;
}

static void fill(struct scene *scene, unsigned number, unsigned stream, uint32_t valid)
{
	struct victim_segment *segment = &scene->segments[number];

	victims_begin(scene->victims, segment, stream);
	for (uint32_t i = 0; i < SEGMENT; i++)
		victims_gain(scene->victims, segment);
	victims_fill(scene->victims, segment);
	scene->in_use[number] = true;
	while (segment->valid > valid)
		victims_lose(scene->victims, segment, 0, 0);
}

/*
 * The rule, by a look at every segment. Returns the least number of valid blocks that it allows;
 * SEGMENT: none.
 */
static uint32_t least_of(const struct scene *scene, const double *shares, unsigned *stream_out)
{
	uint32_t least[NR_STREAMS], best = SEGMENT;
	uint64_t spare[NR_STREAMS] = {0}, valid[NR_STREAMS] = {0};
	struct victims_stream stat;
	double over, most = -1;

	for (unsigned i = 0; i < NR_STREAMS; i++)
		least[i] = SEGMENT;
	for (unsigned i = 0; i < NR_SEGMENTS; i++) {
		const struct victim_segment *segment = &scene->segments[i];

		if (!scene->in_use[i])
			continue;
		spare[segment->stream] += SEGMENT - segment->valid;
		valid[segment->stream] += segment->valid;
		if (segment->valid < least[segment->stream])
			least[segment->stream] = segment->valid;
	}
	for (unsigned i = 0; i < NR_STREAMS; i++) {
		victims_stat(scene->victims, i, &stat);
		assert_int_equal(stat.valid, valid[i]);
		assert_int_equal(stat.blocks, valid[i] + spare[i]);
		over = shares ? (double)spare[i] / shares[i]
			      : (double)spare[i] /
					sqrt((stat.updates + 1) * ((double)valid[i] + 1));
		if (least[i] == SEGMENT)
			continue;
		if (!least[i])
			over = INFINITY; /* nothing to move: always the best */
		if (over > most) {
			most = over;
			best = least[i];
			*stream_out = i;
		}
	}
	return best;
}

static void expect_choice(struct scene *scene, const double *shares)
{
	const struct victim_segment *chosen = victims_choose(scene->victims, 0);
	unsigned stream = 0;
	uint32_t valid = least_of(scene, shares, &stream);

	if (valid == SEGMENT) {
		assert_null(chosen);
		return;
	}
	assert_non_null(chosen);
	assert_int_equal(chosen->valid, valid);
	assert_true(!valid || chosen->stream == stream);
}

static void walk(struct scene *scene, const double *shares)
{
	struct victim_segment *segment;

	for (unsigned step = 0; step < 40000; step++) {
		unsigned number = draw(NR_SEGMENTS);

		segment = &scene->segments[number];
		if (!scene->in_use[number]) {
			fill(scene, number, draw(NR_STREAMS), SEGMENT - draw(3));
		} else if (segment->valid && draw(64)) {
			victims_lose(scene->victims, segment, 0, 0);
		} else {
			victims_take(scene->victims, segment);
			while (segment->valid)
				victims_move(scene->victims, segment);
			victims_end(scene->victims, segment);
			scene->in_use[number] = false;
		}
		if (step % 7 == 0)
			expect_choice(scene, shares);
	}
}

static void test_choice_is_that_of_a_look_at_all(void **state)
{
	walk(*state, NULL);
}

static void test_choice_by_given_shares(void **state)
{
	static const double shares[NR_STREAMS] = {1, 7, 3, 2};
	struct scene *scene = *state;

	victims_set_shares(scene->victims, shares);
	walk(scene, shares);
}

static void test_nothing_to_choose(void **state)
{
	struct scene *scene = *state;

	assert_null(victims_choose(scene->victims, 0));
	fill(scene, 0, 1, SEGMENT);
	assert_null(victims_choose(scene->victims, 0));
	victims_lose(scene->victims, &scene->segments[0], 0, 0);
	assert_ptr_equal(victims_choose(scene->victims, 0), &scene->segments[0]);
	victims_take(scene->victims, &scene->segments[0]);
	assert_null(victims_choose(scene->victims, 0));
}

/*
 * A segment that is being overwritten in sequence is left alone for as long as that takes, unless
 * nothing else is there.
 */
static void test_sequences_are_left_alone(void **state)
{
	struct scene *scene = *state;
	struct victim_segment *quiet = &scene->segments[0], *other = &scene->segments[1];

	fill(scene, 0, 0, 10);
	victims_lose(scene->victims, quiet, 1000, 5);
	assert_ptr_equal(victims_choose(scene->victims, 1000), quiet);
	fill(scene, 1, 0, 50);
	assert_ptr_equal(victims_choose(scene->victims, 1000), other);
	assert_ptr_equal(victims_choose(scene->victims, 1000 + 9 * 5), other);
	assert_ptr_equal(victims_choose(scene->victims, 1000 + 3 * 9 * 5), quiet);
	/* It ended before: nothing is left to move. */
	while (quiet->valid)
		victims_lose(scene->victims, quiet, 1001, 5);
	assert_ptr_equal(victims_choose(scene->victims, 1001), quiet);
}

static void test_slow_sequences_are_not_waited_for(void **state)
{
	struct scene *scene = *state;

	fill(scene, 0, 0, 10);
	victims_lose(scene->victims, &scene->segments[0], 1000, NR_SEGMENTS * SEGMENT / 16);
	fill(scene, 1, 0, 50);
	assert_ptr_equal(victims_choose(scene->victims, 1000), &scene->segments[0]);
	victims_lose(scene->victims, &scene->segments[0], 1000, UINT64_MAX);
	assert_ptr_equal(victims_choose(scene->victims, 1000), &scene->segments[0]);
}

/*
 * Two streams of as many blocks, one overwritten nine times as often, get the spare as three to
 * one.
 */
static void test_shares_follow_the_root_of_rates(void **state)
{
	struct scene *scene = *state;
	struct victims_stream hot, cold;
	struct victim_segment *segment;
	unsigned number, stream, nr = 0;

	for (; nr < NR_SEGMENTS; nr++)
		fill(scene, nr, nr % 2, SEGMENT);
	for (unsigned step = 0; step < 400000; step++) {
		do
			number = draw(NR_SEGMENTS);
		while (!scene->segments[number].valid ||
		       (scene->segments[number].stream == 1 && draw(9)));
		victims_lose(scene->victims, &scene->segments[number], 0, 0);
		victims_stat(scene->victims, 0, &hot);
		victims_stat(scene->victims, 1, &cold);
		if (hot.blocks + cold.blocks - hot.valid - cold.valid < 20 * SEGMENT)
			continue;
		/*
		 * Pretends that its valid blocks had gone to others of its stream, and as many been
		 * put anew.
		 */
		segment = victims_choose(scene->victims, 0);
		number = (unsigned)(segment - scene->segments);
		stream = segment->stream;
		victims_end(scene->victims, segment);
		fill(scene, number, stream, SEGMENT);
	}
	assert_true(fabs((double)(hot.blocks - hot.valid) / (double)(cold.blocks - cold.valid) -
			 3) < 0.5);
}

static void test_large_segments(void **state)
{
	struct victims *victims = victims_open(1, 10000, 1U << 20);
	struct victim_segment few = {0}, many = {0};

	(void)state;
	assert_non_null(victims);
	victims_load(victims, &few, 0, 10000, 9000);
	victims_load(victims, &many, 0, 10000, 9999);
	victims_fill(victims, &few);
	victims_fill(victims, &many);
	assert_ptr_equal(victims_choose(victims, 0), &few);
	while (few.valid > 1)
		victims_lose(victims, &few, 0, 0);
	assert_ptr_equal(victims_choose(victims, 0), &few);
	victims_end(victims, &few);
	assert_ptr_equal(victims_choose(victims, 0), &many);
	victims_end(victims, &many);
	victims_close(victims);
}

TEST_GROUP(flash_policy)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unknown_is_the_mean),
		cmocka_unit_test(test_rates_are_learnt),
		cmocka_unit_test(test_regular_puts),
		cmocka_unit_test(test_survival_adds_up),
		cmocka_unit_test(test_extremes),
		cmocka_unit_test(test_hints),
		cmocka_unit_test(test_wrong_hints_are_unlearnt),
		cmocka_unit_test(test_streams_by_rate),
		cmocka_unit_test(test_sequences),
		cmocka_unit_test(test_first_writes_are_no_sequence),
		cmocka_unit_test(test_nearest),
		cmocka_unit_test_setup_teardown(test_choice_is_that_of_a_look_at_all, open_scene,
						close_scene),
		cmocka_unit_test_setup_teardown(test_choice_by_given_shares, open_scene,
						close_scene),
		cmocka_unit_test_setup_teardown(test_nothing_to_choose, open_scene, close_scene),
		cmocka_unit_test_setup_teardown(test_sequences_are_left_alone, open_scene,
						close_scene),
		cmocka_unit_test_setup_teardown(test_slow_sequences_are_not_waited_for, open_scene,
						close_scene),
		cmocka_unit_test_setup_teardown(test_shares_follow_the_root_of_rates, open_scene,
						close_scene),
		cmocka_unit_test(test_large_segments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
