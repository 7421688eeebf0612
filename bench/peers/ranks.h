/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Other people's MPI, for suites to measure beside Afar. Its ranks run peer_mpi.c all the while, do
 * what they are told together, and sleep between two orders.
 */
#ifndef BENCH_RANKS_H
#define BENCH_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include "peer.h"
#include "peer_mpi.h"

/* One MPI over one transport. */
struct mpi {
	const char *program; /* peer_mpi.c, built for it */
	const char *launcher;
	bool has_slots; /* the launcher wants to know how many ranks may run at once */
	const char *const *options;
	const char *const *environment;
	const char *missing; /* says what to install */
};

extern const struct mpi mpi_mpich_memory;
extern const struct mpi mpi_mpich_tcp;
extern const struct mpi mpi_open_mpi_memory;
extern const struct mpi mpi_open_mpi_tcp;

struct mpi_ranks {
	struct peer peer;
	unsigned nr; /* that have said that they are ready */
	int channels[PEER_MPI_RANKS_MAX];
};

/* Returns whether it is installed, and peer_mpi.c was built for it. */
bool mpi_is_here(const struct mpi *mpi);

/* A line that starts ranks, for execvp(). It points into itself. */
struct mpi_command {
	const char *words[32]; /* NULL behind the last of: */
	unsigned nr;
	char count[16], host[32];
};

/* Writes what stands before the program of `nr` ranks. Its caller adds that, and its words. */
void mpi_command_begin(struct mpi_command *command, const struct mpi *mpi, unsigned nr);

/*
 * Starts `nr` ranks, 2 to PEER_MPI_RANKS_MAX, and waits until all are ready. Where there are more
 * of them than cores Open MPI is told so, and its ranks give their cores up while they wait.
 * `window_bytes`: of the window that PEER_MPI_READ reads, for two ranks alone; 0: none. Returns 0
 * or a negative code, after bench_fail(); mpi_stop() takes what there is then, too.
 */
int mpi_start(struct mpi_ranks *ranks, const struct mpi *mpi, unsigned nr, uint64_t window_bytes);
/* Has all ranks do something once, and waits; `elapsed_ns` is the time that it took at rank 0. */
int mpi_order(struct mpi_ranks *ranks, const struct peer_mpi_order *order, uint64_t *elapsed_ns);
/* Ends the ranks. Takes zeroed ones, too. */
void mpi_stop(struct mpi_ranks *ranks);

#endif
