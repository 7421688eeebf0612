/* SPDX-License-Identifier: BSD-3-Clause */
/* What suite `peers` and its MPI program, peer_mpi.c, say to each other: fixed messages over a SOCK_SEQPACKET socket. */
#ifndef BENCH_PEER_MPI_H
#define BENCH_PEER_MPI_H

#include <stdint.h>

enum peer_mpi_rank {
	PEER_MPI_ORIGIN,
	PEER_MPI_TARGET,
	PEER_MPI_RANKS,
};

/* From each rank, once it is ready to be told what to do. */
struct peer_mpi_hello {
	uint32_t rank;
	uint32_t reserved;
};

/* To both ranks: `nr` reads of `size` bytes, one after another, that walk over the window round and round. */
struct peer_mpi_order {
	uint64_t size;
	uint64_t nr;
	uint32_t is_target_computing; /* 0: it waits in MPI_Wait() meanwhile */
	uint32_t reserved;
};

/* From the origin. */
struct peer_mpi_result {
	uint64_t elapsed_ns;
};

#endif
