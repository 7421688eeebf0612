/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Predicts the write amplification if the update rate of each block were known. Blocks of about the
 * same rate form a group, and the spare space is split among the groups so that the fewest blocks
 * are moved. The simulator runs this policy too; the prediction here checks its result.
 *
 * The analysis is P. Desnoyers', "Analytic models of SSD write performance" (ACM Transactions on
 * Storage 10(2), 2014). Blocks are overwritten at random, and a share a of all places is valid.
 * Then a cleaned segment still has a share v of valid blocks, with a = (1 - v) / -ln v, and the
 * amplification is 1 / (1 - v).
 */
#ifndef BENCH_ORACLE_H
#define BENCH_ORACLE_H

struct oracle_group {
	double blocks; /* valid blocks */
	double writes; /* the share of all writes that goes to them */
	double spare;  /* blocks; set by oracle_split() */
};

/* Splits `spare` blocks, more than 0, among the groups. Returns the overall write amplification. */
double oracle_split(struct oracle_group *groups, unsigned nr, double spare);

#endif
