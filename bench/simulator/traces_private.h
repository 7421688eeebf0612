/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by traces.c and traces_file.c. */
#ifndef BENCH_TRACES_PRIVATE_H
#define BENCH_TRACES_PRIVATE_H

#include "simulator/traces.h"

/* How many of 2^32 draws of a rank are its own block; the others are its alias's. */
struct trace_rank {
	uint32_t block;
	uint32_t alias; /* rank */
	uint32_t keep;
};

struct trace {
	uint32_t (*next)(struct trace *trace);
	uint32_t nr_blocks;
	uint64_t position;
	uint64_t random;
	uint64_t seed;		  /* `random` at the beginning                */
	struct trace_rank *ranks; /* skewed ones, by rank                     */
	float *rates;		  /* by block; NULL: all the same             */
	uint32_t *blocks;	  /* of a file: what is written, in its order */
	uint64_t nr_writes;
};

#endif
