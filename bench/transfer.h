/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows that move bytes, ours against raw libfabric, for the stages of suites `region` and `verbs`. */
#ifndef BENCH_TRANSFER_H
#define BENCH_TRANSFER_H

#include "harness.h"
#include "raw_fabric.h"

#define TRANSFER_REGION_BYTES  (UINT64_C(64) << 20)
#define TRANSFER_WINDOW	       (UINT64_C(1) << 20) /* for latencies: stays in the caches of both sides */
#define TRANSFER_DEPTH	       16U
#define TRANSFER_LATENCY_BAR   1.15
#define TRANSFER_BANDWIDTH_BAR 0.95

/* A stage's. Raw libfabric and the cluster are at the same address, over the same transport (cluster.h). */
int transfer_setup(void **stage);
/* The same with a session that spins for so long before it sleeps (0: the default). */
int transfer_setup_spinning(uint32_t spin_us, void **stage);
void transfer_teardown(void *stage);

/*
 * A row's functions; its parameters are a struct transfer. Latency rows are lower-is-better (µs for each
 * operation), bandwidth rows higher (GB/s).
 */
int transfer_run_raw(void *stage, const struct bench_row *row, unsigned repetition, double *value);
int transfer_run_mapping(void *stage, const struct bench_row *row, unsigned repetition,
			 double *value);
int transfer_run_plain(void *stage, const struct bench_row *row, unsigned repetition,
		       double *value);
int transfer_run_queue(void *stage, const struct bench_row *row, unsigned repetition,
		       double *value);

/* A row's parameters: so many operations one after another; so many bytes with TRANSFER_DEPTH in flight. */
#define TRANSFER_LATENCY(operations, write, bytes)                 \
	(&(const struct transfer){.is_write = (write),             \
				  .size = (bytes),                 \
				  .depth = 1,                      \
				  .window_bytes = TRANSFER_WINDOW, \
				  .nr = (operations)})
#define TRANSFER_BULK(total, write, bytes)                               \
	(&(const struct transfer){.is_write = (write),                   \
				  .size = (bytes),                       \
				  .depth = TRANSFER_DEPTH,               \
				  .window_bytes = TRANSFER_REGION_BYTES, \
				  .nr = (total) / (bytes)})

/* A row's value from how long all of its operations took. */
double transfer_value(const struct bench_row *row, uint64_t elapsed_ns);

#endif
