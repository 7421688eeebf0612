/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator: maps of blocks to places and back, and what a translation layer does with them on
 * a put and in cleaning. It owns all its memory for the time of a run.
 */
#include "simulator/simulate.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "flash/ftl.h"
#include "flash/map/victim.h"
#include "flash/write/streams.h"
#include "simulator/oracle.h"

#define NOWHERE UINT32_MAX

/* Free segments that a put leaves: one to write to while cleaning, and one more. */
#define RESERVE 2U

/* The oracle's groups: by octaves of the rate, up to so many from the average. */
#define OCTAVES_MAX 12
#define GROUPS_MAX  (2 * OCTAVES_MAX + 1)
_Static_assert(GROUPS_MAX <= STREAMS_MAX, "a stream per group");

struct segment {
	struct victim_segment victim; /* first: victims_choose() returns it */
	uint64_t opened;	      /* write clock                        */
	uint32_t nr_written;
};

struct simulation {
	struct simulate_options options;
	enum simulate_policy policy;
	struct trace *trace;
	uint32_t nr_blocks; /* that are in use */
	uint32_t nr_segments;
	uint64_t clock;
	uint64_t moved;

	uint32_t *places; /* by block */
	uint32_t *blocks; /* by place */
	uint8_t *heat;	  /* by block */
	uint8_t *known;	  /* by block: the hint, or the oracle's group */

	struct segment *segments;
	uint32_t *free;
	uint32_t nr_free;
	uint32_t open[STREAMS_MAX]; /* segments, of the streams in open_mask */
	uint32_t open_mask;
	uint32_t used_mask; /* streams that were ever written to */

	unsigned nr_streams;
	struct streams streams;
	struct victims *victims;
	struct oracle_group groups[GROUPS_MAX];
	double shares[GROUPS_MAX];
	double predicted;
};

const char *simulate_policy_name(enum simulate_policy policy)
{
	static const char *const names[] = {"ours", "hinted", "told", "greedy", "oracle"};

	return names[policy];
}

/* ---- Writing */

static uint32_t segment_of(const struct simulation *simulation, uint32_t place)
{
	return place / simulation->options.segment_blocks;
}

static void open_segment(struct simulation *simulation, unsigned stream)
{
	uint32_t number = simulation->free[--simulation->nr_free];
	struct segment *segment = &simulation->segments[number];

	victims_begin(simulation->victims, &segment->victim, stream);
	segment->opened = simulation->clock;
	segment->nr_written = 0;
	simulation->open[stream] = number;
	simulation->open_mask |= 1U << stream;
	simulation->used_mask |= 1U << stream;
}

/*
 * `reserve`: how many free segments are not for this write. With no other left it goes to a stream
 * that has room.
 */
static void append(struct simulation *simulation, unsigned stream, uint32_t block, uint32_t reserve)
{
	struct segment *segment;
	uint32_t place;

	if (!(simulation->open_mask >> stream & 1)) {
		if (simulation->nr_free > reserve || !simulation->open_mask)
			open_segment(simulation, stream);
		else
			stream = streams_nearest(simulation->open_mask, stream);
	}
	segment = &simulation->segments[simulation->open[stream]];
	place = simulation->open[stream] * simulation->options.segment_blocks +
		segment->nr_written++;
	simulation->places[block] = place;
	simulation->blocks[place] = block;
	victims_gain(simulation->victims, &segment->victim);
	if (segment->nr_written == simulation->options.segment_blocks) {
		victims_fill(simulation->victims, &segment->victim);
		simulation->open_mask &= ~(1U << stream);
	}
}

static unsigned stream_of_move(struct simulation *simulation, uint32_t block, uint64_t survived)
{
	switch (simulation->policy) {
	case SIMULATE_GREEDY:
		return 0;
	case SIMULATE_ORACLE:
		return simulation->known[block];
	default:
		return streams_move(&simulation->streams, &simulation->heat[block], survived);
	}
}

static void clean(struct simulation *simulation)
{
	struct segment *segment =
		(struct segment *)victims_choose(simulation->victims, simulation->clock);
	uint64_t survived;
	uint32_t first, block;

	/*
	 * More spare than all open segments and the reserve have (check_size()): a full one has
	 * some of it.
	 */
	assert(segment);
	victims_take(simulation->victims, &segment->victim);
	survived = simulation->clock - segment->opened;
	first = (uint32_t)(segment - simulation->segments) * simulation->options.segment_blocks;
	for (uint32_t place = first; segment->victim.valid; place++) {
		block = simulation->blocks[place];
		if (simulation->places[block] != place)
			continue;
		victims_move(simulation->victims, &segment->victim);
		append(simulation, stream_of_move(simulation, block, survived), block, 0);
		simulation->moved++;
	}
	victims_end(simulation->victims, &segment->victim);
	simulation->free[simulation->nr_free++] = (uint32_t)(segment - simulation->segments);
}

static unsigned stream_of_put(struct simulation *simulation, uint32_t block, uint64_t *pace)
{
	struct streams_put put = {
		.lba = block, .now = simulation->clock, .heat = &simulation->heat[block]};
	uint32_t place = simulation->places[block];

	*pace = 0;
	switch (simulation->policy) {
	case SIMULATE_GREEDY:
		return 0;
	case SIMULATE_ORACLE:
		return simulation->known[block];
	case SIMULATE_HINTED:
	case SIMULATE_TOLD:
		put.hint = simulation->known[block];
		break;
	default:
		break;
	}
	put.is_overwrite = place != NOWHERE;
	if (put.is_overwrite)
		put.survived = simulation->clock -
			       simulation->segments[segment_of(simulation, place)].opened;
	return streams_put(&simulation->streams, &put, pace);
}

static void put(struct simulation *simulation, uint32_t block)
{
	uint32_t place;
	uint64_t pace;
	unsigned stream;

	while (simulation->nr_free < RESERVE)
		clean(simulation);
	stream = stream_of_put(simulation, block, &pace);
	place = simulation->places[block];
	if (place != NOWHERE)
		victims_lose(simulation->victims,
			     &simulation->segments[segment_of(simulation, place)].victim,
			     simulation->clock, pace);
	append(simulation, stream, block, 1);
	simulation->clock++;
}

/* ---- What contenders know */

static void make_hints(struct simulation *simulation)
{
	double hint;

	for (uint32_t block = 0; block < simulation->nr_blocks; block++) {
		hint = HEAT_HINT_MEAN + 16 * log2(trace_rate(simulation->trace, block));
		simulation->known[block] = (uint8_t)(hint < 1 ? 1 : hint > 255 ? 255 : hint);
	}
}

static void make_told(struct simulation *simulation)
{
	for (uint32_t block = 0; block < simulation->nr_blocks; block++)
		simulation->known[block] =
			trace_rate(simulation->trace, block) > 1 ? FTL_HEAT_BRIEF : FTL_HEAT_COLD;
}

static unsigned octave_of(double rate)
{
	double octave = floor(log2(rate));

	if (octave < -OCTAVES_MAX)
		return 0;
	return (unsigned)((octave > OCTAVES_MAX ? OCTAVES_MAX : octave) + OCTAVES_MAX);
}

/*
 * Groups by octaves, the hottest first. One that would fill less than half a segment joins the next
 * colder: what it would win is less than what its open segment costs.
 */
static void make_groups(struct simulation *simulation)
{
	double blocks[GROUPS_MAX] = {0}, writes[GROUPS_MAX] = {0};
	uint8_t group_of[GROUPS_MAX];
	unsigned group = 0;
	double rate;

	for (uint32_t block = 0; block < simulation->nr_blocks; block++) {
		rate = trace_rate(simulation->trace, block);
		blocks[octave_of(rate)]++;
		writes[octave_of(rate)] += rate / simulation->nr_blocks;
	}
	for (unsigned octave = GROUPS_MAX; octave-- > 0;) {
		group_of[octave] = (uint8_t)group;
		simulation->groups[group].blocks += blocks[octave];
		simulation->groups[group].writes += writes[octave];
		if (simulation->groups[group].blocks >= simulation->options.segment_blocks / 2.0)
			group++;
	}
	/* The coldest, if they are too few, are with the coldest that are enough. */
	simulation->nr_streams = group ? group : 1;
	if (group < GROUPS_MAX && group) {
		simulation->groups[group - 1].blocks += simulation->groups[group].blocks;
		simulation->groups[group - 1].writes += simulation->groups[group].writes;
	}
	for (uint32_t block = 0; block < simulation->nr_blocks; block++) {
		group = group_of[octave_of(trace_rate(simulation->trace, block))];
		simulation->known[block] =
			(uint8_t)(group < simulation->nr_streams ? group
								 : simulation->nr_streams - 1);
	}
}

/* A segment of each group is open, half full on average, and the reserve is of no use either. */
static void split_spare(struct simulation *simulation)
{
	double segments = simulation->nr_segments - RESERVE - simulation->nr_streams / 2.0;
	double spare = segments * simulation->options.segment_blocks - simulation->nr_blocks;

	simulation->predicted = oracle_split(simulation->groups, simulation->nr_streams, spare);
	for (unsigned i = 0; i < simulation->nr_streams; i++)
		simulation->shares[i] = simulation->groups[i].spare;
}

/* ---- Set-up */

uint32_t simulate_trace_blocks(uint64_t capacity, const struct simulate_options *options)
{
	uint64_t segments = capacity / options->segment_blocks;

	return (uint32_t)(segments * options->segment_blocks * options->full_percent / 100);
}

static int check_size(const struct simulation *simulation)
{
	uint32_t used = (simulation->nr_blocks - 1) / simulation->options.segment_blocks + 1;

	if (simulation->nr_segments < used + simulation->nr_streams + RESERVE + 1)
		return error_fail(-EINVAL,
				  "simulate %u segments, %u of them full: %u streams need more "
				  "spare; take more capacity, smaller segments or fewer streams",
				  simulation->nr_segments, used, simulation->nr_streams);
	return 0;
}

static int allocate(struct simulation *simulation)
{
	uint64_t nr_places = (uint64_t)simulation->nr_segments * simulation->options.segment_blocks;

	simulation->places = malloc(simulation->nr_blocks * sizeof(*simulation->places));
	simulation->blocks = malloc(nr_places * sizeof(*simulation->blocks));
	simulation->heat = calloc(simulation->nr_blocks, 1);
	simulation->known = calloc(simulation->nr_blocks, 1);
	simulation->segments = calloc(simulation->nr_segments, sizeof(*simulation->segments));
	simulation->free = malloc(simulation->nr_segments * sizeof(*simulation->free));
	if (!simulation->places || !simulation->blocks || !simulation->heat || !simulation->known ||
	    !simulation->segments || !simulation->free)
		return error_fail(-ENOMEM, "simulate %u segments: out of memory",
				  simulation->nr_segments);
	memset(simulation->places, 0xff, simulation->nr_blocks * sizeof(*simulation->places));
	for (uint32_t i = simulation->nr_segments; i-- > 0;)
		simulation->free[simulation->nr_free++] = i;
	return 0;
}

static int prepare_policy(struct simulation *simulation)
{
	int ret;

	simulation->nr_streams =
		simulation->policy == SIMULATE_GREEDY ? 1 : simulation->options.nr_streams;
	if (simulation->policy == SIMULATE_HINTED)
		make_hints(simulation);
	if (simulation->policy == SIMULATE_TOLD)
		make_told(simulation);
	if (simulation->policy == SIMULATE_ORACLE)
		make_groups(simulation);
	ret = check_size(simulation);
	if (ret)
		return ret;
	streams_init(&simulation->streams, simulation->nr_streams, simulation->nr_blocks);
	simulation->victims = victims_open(
		simulation->nr_streams, simulation->options.segment_blocks,
		(uint64_t)simulation->nr_segments * simulation->options.segment_blocks);
	if (!simulation->victims)
		return error_fail(-ENOMEM, "simulate %u segments: out of memory",
				  simulation->nr_segments);
	if (simulation->policy == SIMULATE_ORACLE) {
		split_spare(simulation);
		victims_set_shares(simulation->victims, simulation->shares);
	}
	return 0;
}

static void run(struct simulation *simulation, struct simulate_result *result)
{
	uint64_t late = 0, last, written, fill;

	result->capacity = (uint64_t)simulation->nr_segments * simulation->options.segment_blocks;
	result->written = result->capacity * simulation->options.nr_times;
	last = result->written / 5;
	for (uint32_t block = 0; block < simulation->nr_blocks; block++)
		put(simulation, block);
	fill = simulation->moved;
	for (written = 0; written < result->written; written++) {
		if (written == result->written - last)
			late = simulation->moved;
		put(simulation, trace_next(simulation->trace));
	}
	result->moved = simulation->moved - fill;
	result->amplification = 1 + (double)result->moved / (double)result->written;
	result->late = 1 + (double)(simulation->moved - late) / (double)last;
	result->predicted = simulation->predicted;
	result->nr_streams = (unsigned)__builtin_popcount(simulation->used_mask);
}

static void release(struct simulation *simulation)
{
	victims_close(simulation->victims);
	free(simulation->places);
	free(simulation->blocks);
	free(simulation->heat);
	free(simulation->known);
	free(simulation->segments);
	free(simulation->free);
	free(simulation);
}

int simulate(struct trace *trace, const struct simulate_options *options,
	     enum simulate_policy policy, struct simulate_result *result)
{
	struct simulation *simulation = calloc(1, sizeof(*simulation));
	uint64_t places;
	int ret;

	if (!simulation)
		return error_fail(-ENOMEM, "simulate: out of memory");
	simulation->options = *options;
	simulation->policy = policy;
	simulation->trace = trace;
	simulation->nr_blocks = trace_nr_blocks(trace);
	places = ((uint64_t)simulation->nr_blocks * 100 + options->full_percent - 1) /
		 options->full_percent;
	simulation->nr_segments =
		(uint32_t)((places + options->segment_blocks - 1) / options->segment_blocks);
	trace_rewind(trace);
	ret = allocate(simulation);
	if (!ret)
		ret = prepare_policy(simulation);
	if (!ret)
		run(simulation, result);
	release(simulation);
	return ret;
}
