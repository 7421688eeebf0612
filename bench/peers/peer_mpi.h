/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between ranks.c and its MPI program, peer_mpi.c: of fixed size, over a SOCK_SEQPACKET
 * socket.
 */
#ifndef BENCH_PEER_MPI_H
#define BENCH_PEER_MPI_H

#include <stdint.h>

#define PEER_MPI_RANKS_MAX 16U

enum peer_mpi_rank {
	PEER_MPI_ORIGIN,
	PEER_MPI_TARGET, /* it lends the window */
};

/* From each rank, once it is ready to be told what to do. */
struct peer_mpi_hello {
	uint32_t rank;
	uint32_t reserved;
};

enum peer_mpi_kind {
	PEER_MPI_READ,	  /* by the origin, one after another, round and round over the window */
	PEER_MPI_BARRIER, /* MPI_Barrier() of all ranks */
};

/* To all ranks: `nr` times the same. */
struct peer_mpi_order {
	uint64_t nr;
	uint64_t size;		      /* of a read */
	uint32_t kind;		      /* enum peer_mpi_kind */
	uint32_t is_target_computing; /* 0: it waits in MPI_Wait() while it is read */
};

/* From rank 0. */
struct peer_mpi_result {
	uint64_t elapsed_ns;
};

#endif
