/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sequences of blocks to overwrite, for the simulator (simulate.c): made up by a rule and a seed, the same on every machine, or read
 * from a file. A trace knows how often each block is written, which is what an oracle would know.
 */
#ifndef BENCH_TRACES_H
#define BENCH_TRACES_H

#include <stdint.h>

/*
 * The made-up traces, each with a name. In "80/20" 80 % of the writes go to 20 % of the blocks; which those are is drawn by lot, as
 * is the order of the blocks in "zipf-0.99".
 */
struct trace_rule {
	const char *name;
	const char *summary;
};
/* Ends with a NULL name. */
extern const struct trace_rule trace_rules[];

struct trace;

/* Over `nr_blocks` blocks, at least 1. 0, -ENOENT (no such rule) or -ENOMEM. */
int trace_make(const char *name, uint32_t nr_blocks, uint64_t seed, struct trace **out);

/*
 * Reads a file of block numbers, one a line, or an I/O log of fio's (version 2 or 3), of which it takes the writes, in blocks of
 * 4 KiB. Blocks are numbered anew by address; after its last write it begins again. 0 or a negative code with a line.
 */
int trace_read(const char *path, struct trace **out);

void trace_close(struct trace *trace);
/* From the beginning again, the same writes. */
void trace_rewind(struct trace *trace);

/* Blocks that it writes to: numbers from 0. */
uint32_t trace_nr_blocks(const struct trace *trace);
/* How many writes until it begins again, or 0: it does not. */
uint64_t trace_length(const struct trace *trace);
/* The next block to write. */
uint32_t trace_next(struct trace *trace);
/* How often a block is written, as a multiple of the average. */
double trace_rate(const struct trace *trace, uint32_t block);

#endif
