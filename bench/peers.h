/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of suite `peers`, in the order they run, and what they have in common. */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

#include "harness.h"
#include "transfer.h"

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

/* Ours is to be ahead. */
#define PEERS_BAR 1.0

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

/* How many reads of a size one measurement takes: those of a peer may take a hundred times as long as ours. */
#define PEERS_NR_4_KIB	UINT64_C(4096)
#define PEERS_NR_64_KIB UINT64_C(1024)
#define PEERS_NR_1_MIB	UINT64_C(128)

#define NR_ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))

/* Leaves rows out, and says why in the place of their reference. */
void peers_skip(struct bench_row *rows, unsigned nr_rows, const char *why);

#endif
