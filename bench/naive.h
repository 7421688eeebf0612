/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The references for many clients, over plain TCP sockets on loopback: nothing of it is Afar's.
 *
 * The naive way is what happens without flow control. Clients push messages whenever they like; the receiver
 * has memory for NAIVE_SLOTS of them, drops what comes when all is taken, and says so; then the client sends it again
 * ("unexpected messages": B. Goglin et al., on network interfaces for distributed storage).
 *
 * The plain way is what sockets can do: each message goes from the socket to its place in memory, as much of it at once as
 * there is, and none is dropped.
 */
#ifndef BENCH_NAIVE_H
#define BENCH_NAIVE_H

#include <stddef.h>
#include <stdint.h>

#define NAIVE_SLOTS 16U

struct naive; /* clients in this process, which take turns in one thread; a receiver in a child */

struct naive_result {
	uint64_t nr, nr_dropped; /* messages that were taken, and not, in the span */
	uint64_t elapsed_ns;
};

enum naive_way { WITHOUT_FLOW_CONTROL, PLAIN_SOCKETS };

/* Messages are of `size` bytes, and come from and end in `memory_bytes` at each end. Before there are threads in this
 * process. */
int naive_open(enum naive_way way, unsigned nr_clients, size_t size, uint64_t memory_bytes,
	       struct naive **out);
void naive_close(struct naive *naive);
/* So many of the clients push for so long, one message each at a time. */
int naive_run(struct naive *naive, unsigned nr_clients, uint64_t span_ns,
	      struct naive_result *result);

#endif
