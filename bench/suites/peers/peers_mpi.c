/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `peers` against one-sided reads of MPI, by MPICH and by Open MPI, each over shared memory and over tcp.
 * Its two ranks run peer_mpi.c all the while, and sleep when it is not their turn.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "harness/process.h"
#include "peers.h"
#include "peers/ranks.h"

#define NR_COMPUTING UINT64_C(64) /* each may take a millisecond and more */

/* Rows beside one MPI over one transport. */
struct mpi_rows {
	const struct mpi *mpi;
	const char *transport; /* Afar's */
	struct bench_row *rows;
	unsigned nr_rows;
};

struct mpi_stage {
	struct transfer_stage ours; /* first: the row functions of transfer.h take it */
	struct mpi_ranks ranks;
};

/* ---- Rows */

static int order_read(struct mpi_stage *state, const struct bench_row *row, bool is_computing,
		      double *value)
{
	const struct transfer *transfer = row->parameters;
	const struct peer_mpi_order order = {.kind = PEER_MPI_READ,
					     .size = transfer->size,
					     .nr = transfer->nr,
					     .is_target_computing = is_computing};
	uint64_t elapsed_ns = 0;
	int status = mpi_order(&state->ranks, &order, &elapsed_ns);

	if (!status)
		*value = transfer_value(row, elapsed_ns);
	return status;
}

static int run_mpi(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)repetition;
	return order_read(stage, row, false, value);
}

static int run_mpi_computing(void *stage, const struct bench_row *row, unsigned repetition,
			     double *value)
{
	(void)repetition;
	return order_read(stage, row, true, value);
}

static int compute_main(int channel, void *argument)
{
	char word = 0;

	(void)argument;
	if (send(channel, &word, sizeof(word), MSG_NOSIGNAL) < 0)
		return 1;
	for (;;)
		clock_pause_ns(UINT64_C(1000000));
}

/* A third process, as Afar's server is none that computes. */
static int run_ours_computing(void *stage, const struct bench_row *row, unsigned repetition,
			      double *value)
{
	struct child computing = {0};
	char word;
	int status = child_start(&computing, compute_main, NULL);

	if (!status)
		status = child_receive(&computing, &word, sizeof(word));
	if (!status)
		status = transfer_run_mapping(stage, row, repetition, value);
	child_stop(&computing);
	return status;
}

/* clang-format off */
#define MPI_ROWS(name, reference)                                                           \
	{                                                                                   \
		PEERS_READS(name, reference, run_mpi),                                      \
		{"read 4 KiB / " name ", target computing", "µs", BENCH_LOWER, reference,   \
		 BENCH_REPORTED, PEERS_READ(NR_COMPUTING, 4 * KIB), run_ours_computing,     \
		 run_mpi_computing},                                                        \
	}
/* clang-format on */

#define REFERENCE(name, way) name " " way ": MPI_Get and MPI_Win_flush_local, target in MPI_Wait"

/* Not constant: bench_skip(). */
static struct bench_row mpich_memory_rows[] =
	MPI_ROWS("MPICH memory", REFERENCE("MPICH", "over shared memory"));
static struct bench_row mpich_tcp_rows[] =
	MPI_ROWS("MPICH tcp", REFERENCE("MPICH", "over UCX's tcp"));
static struct bench_row open_mpi_memory_rows[] =
	MPI_ROWS("Open MPI memory", REFERENCE("Open MPI", "over shared memory (osc sm)"));
static struct bench_row open_mpi_tcp_rows[] =
	MPI_ROWS("Open MPI tcp", REFERENCE("Open MPI", "over tcp (osc pt2pt, btl tcp)"));

static const struct mpi_rows mpich_memory = {&mpi_mpich_memory, "local", mpich_memory_rows,
					     NR_ROWS(mpich_memory_rows)};
static const struct mpi_rows mpich_tcp = {&mpi_mpich_tcp, "tcp", mpich_tcp_rows,
					  NR_ROWS(mpich_tcp_rows)};
static const struct mpi_rows open_mpi_memory = {&mpi_open_mpi_memory, "local", open_mpi_memory_rows,
						NR_ROWS(open_mpi_memory_rows)};
static const struct mpi_rows open_mpi_tcp = {&mpi_open_mpi_tcp, "tcp", open_mpi_tcp_rows,
					     NR_ROWS(open_mpi_tcp_rows)};

/* ---- The stages */

static void teardown(void *stage)
{
	struct mpi_stage *state = stage;

	if (!state)
		return;
	transfer_close_ours(&state->ours);
	mpi_stop(&state->ranks);
	free(state);
}

static int setup(const struct mpi_rows *rows, void **stage)
{
	struct mpi_stage *state;
	int status;

	if (!mpi_is_here(rows->mpi)) {
		bench_skip(rows->rows, rows->nr_rows, rows->mpi->missing);
		return 0;
	}
	state = calloc(1, sizeof(*state));
	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	status = mpi_start(&state->ranks, rows->mpi, 2, TRANSFER_WINDOW);
	if (!status)
		status = transfer_open_ours(&state->ours, rows->transport, 0);
	if (status)
		teardown(state);
	else
		*stage = state;
	return status;
}

PEERS_STAGE(mpich_memory)
PEERS_STAGE(mpich_tcp)
PEERS_STAGE(open_mpi_memory)
PEERS_STAGE(open_mpi_tcp)
