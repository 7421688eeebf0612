/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces for the simulator (simulate.c): sequences of blocks to overwrite. A trace is generated
 * from a rule and a seed, the same on every machine, or read from a file. It knows how often each
 * block is written, for SIMULATE_ORACLE.
 */
#ifndef BENCH_TRACES_H
#define BENCH_TRACES_H

#include <stdint.h>

/*
 * The rules, each with a name. In "80/20", 80 % of the writes go to 20 % of the blocks. These are
 * chosen at random, as is the order of the blocks in "zipf-0.99".
 */
struct trace_rule {
	const char *name;
	const char *summary;
};
/* All rules; the last has a NULL name. */
extern const struct trace_rule trace_rules[];

struct trace;

/*
 * Generates a trace over `nr_blocks` blocks, at least 1. Returns 0; -ENOENT: no such rule; -ENOMEM.
 */
int trace_make(const char *name, uint32_t nr_blocks, uint64_t seed, struct trace **out);

/*
 * Reads a file of block numbers, one per line, or the writes of a fio I/O log (version 2 or 3).
 * Blocks have 4 KiB. Numbers the blocks anew, in order of addresses. After its last write the trace
 * begins again. Returns 0, or a negative error with a reason.
 */
int trace_read(const char *path, struct trace **out);

void trace_close(struct trace *trace);
/* Makes the trace begin again, with the same writes. */
void trace_rewind(struct trace *trace);

/* Returns how many blocks it writes to. They are numbered from 0. */
uint32_t trace_nr_blocks(const struct trace *trace);
/* Returns after how many writes it begins again; 0: it does not. */
uint64_t trace_length(const struct trace *trace);
/* Returns the next block to write. */
uint32_t trace_next(struct trace *trace);
/* Returns how often the block is written, as a multiple of the average. */
double trace_rate(const struct trace *trace, uint32_t block);

#endif
