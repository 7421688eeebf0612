/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `mpi_writes FILE MIB HOW [UNIT FACTOR]`: each rank writes so much, in turns of 1 MiB, until a call fails, and syncs. HOW is one of these:
 *
 * all       together
 * alone     each by itself
 * last      the last rank does, and the others write the first MiB again and again
 * unsynced  likewise, without a sync
 * gone      by itself, and the file is deleted when it is closed
 * delete    only deletes the file
 *
 * With hints for stripes it prints what the file has. Prints for each rank which call failed: "write", "sync" or "none". Prints a line when it writes again what it has written, and one if
 * the file's error handler is called when it is closed.
 */
#include <mpi.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TURN  (1 << 20)
#define TURNS 16 /* after so many it begins again from the front */

static int rank, nr_ranks;
static bool is_closing;

static void hear(MPI_File *file, int *error, ...)
{
	(void)file;
	if (is_closing && *error != MPI_SUCCESS)
		printf("rank %d: closed with an error\n", rank);
}

static int write_turn(MPI_File file, const char *how, int turn, const char *data)
{
	MPI_Offset at = ((MPI_Offset)(turn % TURNS) * nr_ranks + rank) * TURN;

	if (strcmp(how, "all") == 0)
		return MPI_File_write_at_all(file, at, data, TURN, MPI_BYTE, MPI_STATUS_IGNORE);
	if ((strcmp(how, "last") == 0 || strcmp(how, "unsynced") == 0) && rank != nr_ranks - 1)
		at = 0;
	return MPI_File_write_at(file, at, data, TURN, MPI_BYTE, MPI_STATUS_IGNORE);
}

/* Returns which call failed. */
static const char *write_and_sync(MPI_File file, const char *how, int nr_turns, const char *data)
{
	int error = MPI_SUCCESS;

	for (int i = 0; i < nr_turns && error == MPI_SUCCESS; i++) {
		error = write_turn(file, how, i, data);
		if (i == TURNS) {
			printf("rank %d has begun\n", rank);
			fflush(stdout);
		}
	}
	if (strcmp(how, "unsynced") != 0 && MPI_File_sync(file) != MPI_SUCCESS &&
	    error == MPI_SUCCESS)
		return "sync";
	return error == MPI_SUCCESS ? "none" : "write";
}

static MPI_Info make_hints(int argc, char **argv)
{
	MPI_Info info;

	if (argc < 6)
		return MPI_INFO_NULL;
	MPI_Info_create(&info);
	MPI_Info_set(info, "striping_unit", argv[4]);
	MPI_Info_set(info, "striping_factor", argv[5]);
	return info;
}

static void print_hints(MPI_File file)
{
	char unit[32] = "-", factor[32] = "-";
	MPI_Info info;
	int is_there;

	MPI_File_get_info(file, &info);
	MPI_Info_get(info, "striping_unit", sizeof(unit) - 1, unit, &is_there);
	MPI_Info_get(info, "striping_factor", sizeof(factor) - 1, factor, &is_there);
	printf("rank %d: stripes of %s over %s\n", rank, unit, factor);
}

int main(int argc, char **argv)
{
	int amode = MPI_MODE_CREATE | MPI_MODE_WRONLY;
	char *data = malloc(TURN);
	MPI_Errhandler handler;
	MPI_File file;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &nr_ranks);
	if ((argc != 4 && argc != 6) || !data) {
		fprintf(stderr, "usage: mpi_writes FILE MIB HOW [UNIT FACTOR]\n");
		MPI_Abort(MPI_COMM_WORLD, 3);
	}
	if (strcmp(argv[3], "delete") == 0) {
		if (rank == 0 && MPI_File_delete(argv[1], MPI_INFO_NULL) != MPI_SUCCESS)
			MPI_Abort(MPI_COMM_WORLD, 2);
		MPI_Finalize();
		return 0;
	}
	if (strcmp(argv[3], "gone") == 0)
		amode |= MPI_MODE_DELETE_ON_CLOSE;
	if (MPI_File_open(MPI_COMM_WORLD, argv[1], amode, make_hints(argc, argv), &file) !=
	    MPI_SUCCESS) {
		MPI_Finalize();
		return 2;
	}
	MPI_File_create_errhandler(hear, &handler);
	MPI_File_set_errhandler(file, handler);
	if (argc == 6)
		print_hints(file);
	memset(data, 'a' + rank, TURN);
	printf("rank %d: %s\n", rank, write_and_sync(file, argv[3], atoi(argv[2]), data));
	is_closing = true;
	MPI_File_close(&file);
	free(data);
	MPI_Finalize();
	return 0;
}
