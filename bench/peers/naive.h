/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The references for many clients, over plain TCP sockets on loopback. Nothing of it is Afar's.
 *
 * The naive way has no flow control. Clients push messages whenever they like. The receiver has
 * memory for NAIVE_SLOTS of them. When all is taken, it drops what comes, and says so; then the
 * client sends it again ("unexpected messages": B. Goglin et al., on network interfaces for
 * distributed storage).
 *
 * The plain way shows what sockets can do. Each message goes from the socket to its place in
 * memory, as much of it at once as there is, and none is dropped.
 */
#ifndef BENCH_NAIVE_H
#define BENCH_NAIVE_H

#include <stddef.h>
#include <stdint.h>

#define NAIVE_SLOTS 16U

struct naive; /* clients in this process, in turn in one thread, and a receiver in a child */

struct naive_result {
	uint64_t nr, nr_dropped; /* messages that were taken, and dropped, in the span */
	uint64_t elapsed_ns;
};

enum naive_way { WITHOUT_FLOW_CONTROL, PLAIN_SOCKETS };

/* Starts the receiver and connects the clients. Messages have `size` bytes, and come from and end
 * in `memory_bytes` at each end. Call it before there are threads in this process. */
int naive_open(enum naive_way way, unsigned nr_clients, size_t size, uint64_t memory_bytes,
	       struct naive **out);
void naive_close(struct naive *naive);
/* Has `nr_clients` of the clients push for `span_ns`, one message each at a time. */
int naive_run(struct naive *naive, unsigned nr_clients, uint64_t span_ns,
	      struct naive_result *result);

#endif
