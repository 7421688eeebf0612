/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI program of ranks.c, built once for each MPI that is there: `peer_mpi SOCKET BYTES`. All
 * ranks meet in MPI_Barrier(). If BYTES is not 0, there are two ranks. Then rank 1 lends a window
 * of so many bytes, and rank 0 reads it one-sided under one lock. It calls MPI_Get() and
 * MPI_Win_flush_local(), after which the bytes are there. MPI_Win_flush() asks the target again.
 * Between two orders all ranks sleep in recv(), so that they take no core from what is measured in
 * turn with them. They end when the suite closes the socket.
 */
#include <errno.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "peer_mpi.h"

#define HUGE_PAGE  (UINT64_C(2) << 20)
#define COMPUTE_NS UINT64_C(1000000) /* between two looks of a computing target into MPI */

struct rank {
	int number;
	int channel;
	uint64_t bytes;
	unsigned char *window_memory; /* this rank's share        */
	unsigned char *memory;	      /* the origin's, to read to */
	MPI_Win window;
};

/* MPI ends the program by itself when a call of it fails; so does this for the rest. */
static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	MPI_Abort(MPI_COMM_WORLD, 1);
	abort();
}

static int connect_to_suite(const char *path, int number)
{
	const struct peer_mpi_hello hello = {.rank = (uint32_t)number};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int channel = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (channel < 0 || connect(channel, (const struct sockaddr *)&address, sizeof(address)) ||
	    send(channel, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello))
		give_up("connect to the suite");
	return channel;
}

static unsigned char pattern(uint64_t offset)
{
	return (unsigned char)(offset * 31 + offset / 4096 + 1);
}

static void read_window(const struct rank *rank, uint64_t size, uint64_t nr)
{
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t offset = i * size % rank->bytes;

		MPI_Get(rank->memory + offset, (int)size, MPI_BYTE, PEER_MPI_TARGET,
			(MPI_Aint)offset, (int)size, MPI_BYTE, rank->window);
		MPI_Win_flush_local(PEER_MPI_TARGET, rank->window);
	}
}

static void open_window(struct rank *rank)
{
	bool is_target = rank->number == PEER_MPI_TARGET;

	/* The origin, which needs no window, has one as large: MPICH is ten times slower when the sizes
	 * differ. */
	MPI_Win_allocate((MPI_Aint)rank->bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
			 &rank->window_memory, &rank->window);
	if (is_target) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, PEER_MPI_TARGET, 0, rank->window);
		for (uint64_t i = 0; i < rank->bytes; i++)
			rank->window_memory[i] = pattern(i);
		MPI_Win_unlock(PEER_MPI_TARGET, rank->window);
	} else {
		rank->memory = aligned_alloc(HUGE_PAGE, rank->bytes);
		if (!rank->memory)
			give_up("memory");
		madvise(rank->memory, rank->bytes, MADV_HUGEPAGE);
		memset(rank->memory, 0, rank->bytes);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (!is_target)
		MPI_Win_lock(MPI_LOCK_SHARED, PEER_MPI_TARGET, 0, rank->window);
	if (!is_target)
		read_window(rank, rank->bytes,
			    1);	     /* a lock may be taken with the first read only */
	MPI_Barrier(MPI_COMM_WORLD); /* the lock needs the target in MPI */
}

static void close_window(struct rank *rank)
{
	if (rank->number == PEER_MPI_ORIGIN)
		MPI_Win_unlock(PEER_MPI_TARGET, rank->window);
	MPI_Win_free(&rank->window);
}

/* Reads that move nothing would be quick. */
static void check_bytes(const struct rank *rank)
{
	for (uint64_t i = 0; i < rank->bytes; i++) {
		if (rank->memory[i] != pattern(i)) {
			errno = EIO;
			give_up("what was read is not what the target has");
		}
	}
}

static void be_origin(const struct rank *rank, const struct peer_mpi_order *order)
{
	struct peer_mpi_result result;
	MPI_Request left;
	uint64_t begin;

	memset(rank->memory, 0, rank->bytes);
	MPI_Barrier(MPI_COMM_WORLD);
	begin = clock_ns();
	read_window(rank, order->size, order->nr);
	result.elapsed_ns = clock_ns() - begin;
	MPI_Ibarrier(MPI_COMM_WORLD, &left);
	/* NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker) it does not know MPI_Ibarrier() */
	MPI_Wait(&left, MPI_STATUS_IGNORE);
	if (order->size * order->nr >= rank->bytes)
		check_bytes(rank);
	if (send(rank->channel, &result, sizeof(result), MSG_NOSIGNAL) != sizeof(result))
		give_up("tell the suite");
}

static void be_target(const struct peer_mpi_order *order)
{
	MPI_Request left;
	int is_done = 0;

	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Ibarrier(MPI_COMM_WORLD, &left);
	while (order->is_target_computing && !is_done) {
		clock_pause_ns(COMPUTE_NS);
		MPI_Test(&left, &is_done, MPI_STATUS_IGNORE);
	}
	/* NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker) it does not know MPI_Ibarrier() */
	MPI_Wait(&left, MPI_STATUS_IGNORE);
}

static void meet(const struct rank *rank, uint64_t nr)
{
	struct peer_mpi_result result;
	uint64_t begin;

	MPI_Barrier(MPI_COMM_WORLD);
	begin = clock_ns();
	for (uint64_t i = 0; i < nr; i++)
		MPI_Barrier(MPI_COMM_WORLD);
	result.elapsed_ns = clock_ns() - begin;
	if (rank->number == 0 &&
	    send(rank->channel, &result, sizeof(result), MSG_NOSIGNAL) != sizeof(result))
		give_up("tell the suite");
}

static bool next_order(const struct rank *rank, struct peer_mpi_order *out)
{
	ssize_t length;

	do
		length = recv(rank->channel, out, sizeof(*out), 0);
	while (length < 0 && errno == EINTR);
	if (length != 0 && length != sizeof(*out))
		give_up("an order");
	return length != 0 &&
	       (out->kind == PEER_MPI_BARRIER || (out->size > 0 && out->size <= rank->bytes));
}

int main(int argc, char **argv)
{
	struct rank rank = {0};
	struct peer_mpi_order order;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank.number);
	if (argc != 3) {
		errno = EINVAL;
		give_up("run by `afar bench` alone");
	}
	rank.bytes = strtoull(argv[2], NULL, 10);
	if (rank.bytes)
		open_window(&rank);
	rank.channel = connect_to_suite(argv[1], rank.number);
	while (next_order(&rank, &order)) {
		if (order.kind == PEER_MPI_BARRIER)
			meet(&rank, order.nr);
		else if (rank.number == PEER_MPI_ORIGIN)
			be_origin(&rank, &order);
		else
			be_target(&order);
	}
	if (rank.bytes)
		close_window(&rank);
	MPI_Finalize();
	return 0;
}
