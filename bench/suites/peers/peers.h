/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of suite `peers`, in the order they run, and the declarations that they share. */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

#include "harness/harness.h"
#include "harness/transfer.h"

/* peers_mpi.c */
extern const struct bench_stage peers_mpich_memory_stage;
extern const struct bench_stage peers_mpich_tcp_stage;
extern const struct bench_stage peers_open_mpi_memory_stage;
extern const struct bench_stage peers_open_mpi_tcp_stage;

/* peers_stores.c */
extern const struct bench_stage peers_redis_unix_stage;
extern const struct bench_stage peers_redis_tcp_stage;
extern const struct bench_stage peers_memcached_unix_stage;
extern const struct bench_stage peers_memcached_tcp_stage;

/* peers_lanes.c */
extern const struct bench_stage peers_lanes_stage;

/* Ours must not be slower. */
#define PEERS_BAR 1.0

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

/* How many reads of a size one measurement takes. A peer may take a hundred times as long for them
 * as we do. */
#define PEERS_NR_4_KIB	UINT64_C(16384)
#define PEERS_NR_64_KIB UINT64_C(4096)
#define PEERS_NR_1_MIB	UINT64_C(512)

#define PEERS_READ(nr, bytes) TRANSFER_LATENCY(nr, false, bytes)

/* A row for each size of reads, against the reads of `run_peer`. */
/* clang-format off */
#define PEERS_READS(name, reference, run_peer)                                            \
	{"read 4 KiB / " name, "µs", BENCH_LOWER, reference, PEERS_BAR,                   \
	 PEERS_READ(PEERS_NR_4_KIB, 4 * KIB), transfer_run_mapping, run_peer},            \
	{"read 64 KiB / " name, "µs", BENCH_LOWER, reference, PEERS_BAR,                  \
	 PEERS_READ(PEERS_NR_64_KIB, 64 * KIB), transfer_run_mapping, run_peer},          \
	{"read 1 MiB / " name, "µs", BENCH_LOWER, reference, PEERS_BAR,                   \
	 PEERS_READ(PEERS_NR_1_MIB, MIB), transfer_run_mapping, run_peer}
/* clang-format on */

/* peers_NAME_stage: set up by setup(&NAME, …), ended by teardown(), with NAME_rows. */
#define PEERS_STAGE(name)                                                                     \
	static int setup_##name(void **stage)                                                 \
	{                                                                                     \
		return setup(&name, stage);                                                   \
	}                                                                                     \
	const struct bench_stage peers_##name##_stage = {setup_##name, teardown, name##_rows, \
							 NR_ROWS(name##_rows)};

#define NR_ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))

#endif
