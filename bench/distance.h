/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How far two processors of this machine are from each other. A virtual machine's are moved by its host, to another cluster of cores
 * with another cache, say; then copies from one to the other take several times as long until they are moved again.
 */
#ifndef BENCH_DISTANCE_H
#define BENCH_DISTANCE_H

/* Nanoseconds that a cache line takes there and back; 0: never looked. */
struct distance {
	double least_ns;
	double most_ns;
};

/* Looks, which takes two processors some milliseconds. With one it does nothing. */
void distance_look(struct distance *distance);

#endif
