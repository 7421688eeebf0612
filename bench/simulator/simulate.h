/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Simulates a device that has no data, only counts. Overwrites blocks as a trace says, with
 * segments, streams and a cleaner, and counts the blocks that the cleaner moves. The translation
 * layer's own code (streams.h, heat.h, victim.h) chooses streams and victims. For `afar flash
 * simulate` and `afar bench flash`.
 */
#ifndef BENCH_SIMULATE_H
#define BENCH_SIMULATE_H

#include <stdint.h>

#include "simulator/traces.h"

enum simulate_policy {
	SIMULATE_OURS,	 /* the translation layer's, without hints */
	SIMULATE_HINTED, /* the translation layer's, with a hint of each block's rate */
	SIMULATE_TOLD,	 /* … of whether that is above the mean, as programs give it */
	SIMULATE_GREEDY, /* one stream; cleans the segment with the fewest valid blocks */
	SIMULATE_ORACLE, /* knows each block's rate; a stream for each group, see oracle.h */
	SIMULATE_NR_POLICIES,
};

/* Returns "ours", "hinted", "told", "greedy" or "oracle". */
const char *simulate_policy_name(enum simulate_policy policy);

struct simulate_options {
	uint32_t segment_blocks;
	unsigned full_percent; /* how many of the device's blocks are valid: 1 to 99 */
	unsigned nr_streams;   /* for all but the last two */
	unsigned nr_times;     /* writes so many times the device's capacity */
};

#define SIMULATE_SEGMENT_BLOCKS 256U
#define SIMULATE_FULL_PERCENT	90U
#define SIMULATE_NR_TIMES	5U

/*
 * First every block of the trace is written once, in order, which is not counted. Then all of the
 * trace's writes are counted, also those from which the policy still learns the rates.
 */
struct simulate_result {
	uint64_t capacity; /* blocks of the device */
	uint64_t written;  /* blocks, by users */
	uint64_t moved;	   /* blocks, by the cleaner */
	double amplification;
	double late;	     /* amplification of the last fifth */
	double predicted;    /* SIMULATE_ORACLE: by oracle_split(); others: 0 */
	unsigned nr_streams; /* that were written to */
};

/*
 * Rewinds and runs the trace. Returns 0, or with a reason: -EINVAL: the device would be too small
 * for its streams; -ENOMEM.
 */
int simulate(struct trace *trace, const struct simulate_options *options,
	     enum simulate_policy policy, struct simulate_result *result);

/* Returns how many blocks a trace must have for a device of `capacity` blocks. */
uint32_t simulate_trace_blocks(uint64_t capacity, const struct simulate_options *options);

#endif
