/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures how far two processors of this machine are from each other. A virtual machine's host
 * moves its processors, for example to another cluster of cores with another cache. Then copies
 * from one to the other take several times as long, until they are moved again.
 */
#ifndef BENCH_DISTANCE_H
#define BENCH_DISTANCE_H

/* Nanoseconds that a cache line takes there and back; 0: not measured. */
struct distance {
	double least_ns;
	double most_ns;
};

/* Measures once, which takes two processors some milliseconds. With one processor it does
 * nothing. */
void distance_look(struct distance *distance);

#endif
