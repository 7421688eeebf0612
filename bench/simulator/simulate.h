/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device that is nothing but counts: overwrites blocks as a trace says, with segments, streams and a cleaner, and says how many
 * blocks the cleaner moved. What chooses streams and victims is the translation layer's own code (streams.h, heat.h, victim.h).
 * For `afar flash simulate` and `afar bench flash`.
 */
#ifndef BENCH_SIMULATE_H
#define BENCH_SIMULATE_H

#include <stdint.h>

#include "simulator/traces.h"

enum simulate_policy {
	SIMULATE_OURS,	 /* what the translation layer does, without a word from callers */
	SIMULATE_HINTED, /* the same, and callers say the rate of each block they put    */
	SIMULATE_GREEDY, /* one stream, and the segment with the fewest valid blocks     */
	SIMULATE_ORACLE, /* knows each block's rate; a stream for each group: oracle.h   */
	SIMULATE_NR_POLICIES,
};

/* "ours", "hinted", "greedy", "oracle". */
const char *simulate_policy_name(enum simulate_policy policy);

struct simulate_options {
	uint32_t segment_blocks;
	unsigned full_percent; /* of the device's blocks that are valid: 1 to 99 */
	unsigned nr_streams;   /* of SIMULATE_OURS and SIMULATE_HINTED           */
	unsigned nr_times;     /* the device's capacity is written so often      */
};

#define SIMULATE_SEGMENT_BLOCKS 256U
#define SIMULATE_FULL_PERCENT	90U
#define SIMULATE_NR_TIMES	5U

/*
 * Every block of the trace is written once, in order, which is not counted; then the trace's writes, of which all are. They include
 * what it costs to learn.
 */
struct simulate_result {
	uint64_t capacity; /* blocks of the device                            */
	uint64_t written;  /* by users                                        */
	uint64_t moved;	   /* by the cleaner                                  */
	double amplification;
	double late;	     /* amplification of the last fifth                 */
	double predicted;    /* what oracle_split() says; others: 0             */
	unsigned nr_streams; /* that were written to                            */
};

/*
 * Rewinds and runs the trace. 0; -EINVAL with a line when the device would be too small for its streams; -ENOMEM with a line.
 */
int simulate(struct trace *trace, const struct simulate_options *options,
	     enum simulate_policy policy, struct simulate_result *result);

/* Of how many blocks a trace must be for a device of `capacity` blocks. */
uint32_t simulate_trace_blocks(uint64_t capacity, const struct simulate_options *options);

#endif
