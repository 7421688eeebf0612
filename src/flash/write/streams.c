/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses streams; see streams.h. A small hash table finds sequences by the LBA that would continue
 * them. Many single puts do not displace a long sequence.
 */
#include "streams.h"

#include <string.h>

#define CLASS_LEVELS (2 * HEAT_OCTAVE) /* a factor of four */
#define NR_CLASSES   (HEAT_LEVELS / CLASS_LEVELS)
#define RUN_LEAST    64U /* blocks: shorter ones are no sequence */
#define PATIENCE_MAX 1024U

void streams_init(struct streams *streams, unsigned nr, uint64_t nr_blocks)
{
	memset(streams, 0, sizeof(*streams));
	streams->nr = nr;
	streams->nr_heat = nr > 2 ? nr - 1 : nr;
	heat_init(&streams->heat, nr_blocks);
}

/* Returns the stream of a level. With fewer streams than classes, the outermost classes at each end
 * share a stream. */
static unsigned stream_of_level(const struct streams *streams, unsigned level)
{
	unsigned class = level / CLASS_LEVELS;
	unsigned first = streams->nr_heat < NR_CLASSES ? (NR_CLASSES - streams->nr_heat) / 2 : 0;

	if (class < first)
		return 0;
	class -= first;
	return class < streams->nr_heat ? class : streams->nr_heat - 1;
}

static struct streams_run *run_entry(struct streams *streams, uint64_t lba)
{
	return &streams->runs[lba * 0x9e3779b97f4a7c15 >> 56];
}

_Static_assert(STREAMS_RUNS == 1U << (64 - 56), "a hash of 8 bits");

/* Stores the run by the LBA that would continue it, unless a longer one there has patience left. */
static void keep_run(struct streams *streams, const struct streams_run *run)
{
	struct streams_run *entry = run_entry(streams, run->next);

	if (entry->length > run->length && entry->patience) {
		entry->patience--;
		return;
	}
	*entry = *run;
	entry->patience = run->length < PATIENCE_MAX ? run->length : PATIENCE_MAX;
}

/*
 * Finds the sequence that the put continues, and adds the put to it. Length 1: it continues none.
 */
static struct streams_run follow_run(struct streams *streams, const struct streams_put *put)
{
	struct streams_run *entry = run_entry(streams, put->lba);
	struct streams_run run = {.began = put->now};

	if (entry->length && entry->next == put->lba) {
		run = *entry;
		entry->length = 0;
	}
	run.length += run.length < UINT32_MAX;
	run.next = put->lba + 1;
	keep_run(streams, &run);
	return run;
}

/* A hint says how an estimate begins. From then on it learns. */
static unsigned level_of_put(struct streams *streams, const struct streams_put *put)
{
	if (put->hint && !(put->is_overwrite && heat_is_known(*put->heat)))
		return heat_told(put->heat, put->hint);
	return put->is_overwrite ? heat_put(&streams->heat, put->heat, put->survived)
				 : heat_level(*put->heat);
}

unsigned streams_put(struct streams *streams, const struct streams_put *put, uint64_t *pace)
{
	struct streams_run run;
	const unsigned level = level_of_put(streams, put);

	*pace = 0;
	if (!put->is_overwrite || streams->nr_heat == streams->nr)
		return stream_of_level(streams, level);
	run = follow_run(streams, put);
	if (run.length < RUN_LEAST)
		return stream_of_level(streams, level);
	*pace = (put->now - run.began) / run.length + 1;
	return streams->nr - 1;
}

unsigned streams_move(struct streams *streams, uint8_t *heat, uint64_t survived)
{
	return stream_of_level(streams, heat_moved(&streams->heat, heat, survived));
}

unsigned streams_nearest(uint32_t mask, unsigned stream)
{
	uint32_t hotter = mask & (uint32_t)((2ULL << stream) - 1);
	uint32_t colder = mask & ~(uint32_t)((1ULL << stream) - 1);
	unsigned below, above;

	if (!hotter)
		return (unsigned)__builtin_ctz(colder);
	below = 31U - (unsigned)__builtin_clz(hotter);
	if (!colder)
		return below;
	above = (unsigned)__builtin_ctz(colder);
	return stream - below <= above - stream ? below : above;
}
