/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference for transfers: libfabric itself, with nothing in between. It was written without a
 * look at src/fabric, as the shortest program that moves bytes one-sided over a provider. The
 * provider is the one with the name of the clusters' transport, $AFAR_TEST_TRANSPORT (tcp), at
 * their address, $AFAR_TEST_HOST (127.0.0.1).
 */
#ifndef BENCH_RAW_FABRIC_H
#define BENCH_RAW_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct raw_fabric; /* an initiator in this process, connected to a target in a child */

/* The operations of both sides of a row: what to move, and how. */
struct transfer {
	bool is_write;
	size_t size;	       /* bytes of each operation                                       */
	unsigned depth;	       /* in flight; at most RAW_DEPTH_MAX                              */
	uint64_t window_bytes; /* the operations walk over so much remote memory, round and round */
	uint64_t nr;	       /* operations                                                    */
};

#define RAW_DEPTH_MAX 64U

/* Writes a description like "libfabric 1.17, provider tcp". */
void raw_fabric_describe(char *out, size_t size);

/*
 * Forks the target with `bytes` of registered memory, connects to it, and checks that bytes written
 * are the bytes read. Call it before there are threads in this process.
 */
int raw_fabric_open(size_t bytes, struct raw_fabric **out);
void raw_fabric_close(struct raw_fabric *raw);

/* Does `transfer`, and spins for it. `*elapsed_ns` gets the time that it took. */
int raw_fabric_run(struct raw_fabric *raw, const struct transfer *transfer, uint64_t *elapsed_ns);

/* Returns the CPU time of the target so far. */
uint64_t raw_fabric_target_cpu_ns(const struct raw_fabric *raw);

/* Maps populated, page-aligned memory on transparent huge pages, as both sides of every row use it.
 * NULL: there is none. */
void *bench_memory_map(size_t bytes);
void bench_memory_unmap(void *addr, size_t bytes);

#endif
