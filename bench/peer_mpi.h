/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages between suite `peers` and its MPI program, peer_mpi.c: of fixed size, over a
 * SOCK_SEQPACKET socket. */
#ifndef BENCH_PEER_MPI_H
#define BENCH_PEER_MPI_H

#include <stdint.h>

enum peer_mpi_rank {
	PEER_MPI_ORIGIN,
	PEER_MPI_TARGET,
	PEER_MPI_RANKS,
};

/* From each rank, when it is ready for orders. */
struct peer_mpi_hello {
	uint32_t rank;
	uint32_t reserved;
};

/* To both ranks: do `nr` reads of `size` bytes, one after another, that walk over the window round
 * and round. */
struct peer_mpi_order {
	uint64_t size;
	uint64_t nr;
	uint32_t is_target_computing; /* 0: it waits in MPI_Wait() meanwhile */
	uint32_t reserved;
};

/* From the origin, when they are done. */
struct peer_mpi_result {
	uint64_t elapsed_ns;
};

#endif
