/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows that move bytes, ours against raw libfabric, for the stages of suites `region` and `verbs`.
 * Suite `local` uses our side alone, because it has other references. */
#ifndef BENCH_TRANSFER_H
#define BENCH_TRANSFER_H

#include "cluster.h"
#include "harness.h"
#include "peers/raw_fabric.h"
#include "scene.h"

#define TRANSFER_REGION_BYTES (UINT64_C(64) << 20)
#define TRANSFER_WINDOW \
	(UINT64_C(1) << 20) /* for latencies: it stays in the caches of both sides */
#define TRANSFER_DEPTH	       16U
#define TRANSFER_LATENCY_BAR   1.15
#define TRANSFER_BANDWIDTH_BAR 0.95

/* The stage that the row functions below take. A stage of another kind has it as its first
 * member. */
struct transfer_stage {
	struct raw_fabric *raw; /* NULL: the stage has another reference */
	struct cluster *cluster;
	struct scene scene;
	struct afar_queue *queue;
	struct afar_buffer *buffer; /* TRANSFER_DEPTH slots of up to 1 MiB */
	char *plain;		    /* memory that libafar does not know */
};

/*
 * Opens our side alone, in `state`, which is zeroed. It has a cluster of one server over
 * `transport` (NULL: as cluster_start() has it), a mapping and a queue. Its session spins for
 * `spin_us` before it sleeps (0: the default). It checks that bytes written are the bytes read.
 * transfer_close_ours() ends what there is.
 */
int transfer_open_ours(struct transfer_stage *state, const char *transport, uint32_t spin_us);
void transfer_close_ours(struct transfer_stage *state);

/* The setup of a stage. Raw libfabric and the cluster are at the same address, over the same
 * transport (cluster.h). */
int transfer_setup(void **stage);
/* A setup with a session that spins for `spin_us` before it sleeps (0: the default). */
int transfer_setup_spinning(uint32_t spin_us, void **stage);
void transfer_teardown(void *stage);

/*
 * A row's functions. Its parameters are a struct transfer. Latency rows are lower-is-better (µs for
 * each operation), bandwidth rows higher-is-better (GB/s).
 */
int transfer_run_raw(void *stage, const struct bench_row *row, unsigned repetition, double *value);
int transfer_run_mapping(void *stage, const struct bench_row *row, unsigned repetition,
			 double *value);
int transfer_run_plain(void *stage, const struct bench_row *row, unsigned repetition,
		       double *value);
int transfer_run_queue(void *stage, const struct bench_row *row, unsigned repetition,
		       double *value);

/* A row's parameters: `operations` one after another, or `total` bytes with TRANSFER_DEPTH in
 * flight. */
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

/* Computes a row's value from how long all of its operations took. */
double transfer_value(const struct bench_row *row, uint64_t elapsed_ns);

#endif
