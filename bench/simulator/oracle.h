/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What could be reached if the update rate of each block were known: blocks of about the same rate in a group of their own, and the
 * spare space split among the groups so that the fewest blocks are moved. The simulator runs it as a contender; the amplification
 * that is predicted here is a check on it.
 *
 * The analysis is P. Desnoyers', "Analytic models of SSD write performance" (ACM Transactions on Storage 10(2), 2014): of blocks
 * overwritten at random, of which a share a of the places is valid, a cleaned segment still has the share v valid that
 * a = (1 - v) / -ln v gives, and the amplification is 1 / (1 - v).
 */
#ifndef BENCH_ORACLE_H
#define BENCH_ORACLE_H

struct oracle_group {
	double blocks; /* valid ones                                     */
	double writes; /* of all writes, the share that goes to them     */
	double spare;  /* blocks: oracle_split() says it                 */
};

/* Splits `spare` blocks, more than 0, among the groups. Returns the write amplification of all. */
double oracle_split(struct oracle_group *groups, unsigned nr, double spare);

#endif
