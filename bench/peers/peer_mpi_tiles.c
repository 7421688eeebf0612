/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tiles of a matrix by MPI-IO, as in Fig 14 of A. Davis's thesis: `peer_mpi_tiles FILE HOW REPETITIONS [PIECE]`. The ranks, a
 * square number, have one tile each, of 768 rows of 1024 elements of 24 bytes. HOW: "view", each its own; "calls", each row by a call of its own;
 * "all", together. With PIECE the matrix is a row of blocks of so many bytes, dealt to the ranks in turn, of 4 MiB together for each.
 * Rank 0 prints a line for each repetition: nanoseconds to write, and to read.
 */
#include <mpi.h>

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ELEMENT 24
#define COLUMNS 1024
#define ROWS	768
#define DEALT	(4 << 20)

static int rank, nr_ranks;

/* One rank's part of the file: `nr` pieces of `length` bytes, `distance` apart. */
struct tile {
	int nr, length;
	MPI_Offset distance, begin;
};

static int fail(const char *what)
{
	fprintf(stderr, "peer_mpi_tiles: rank %d: %s failed\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
	return 1;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static struct tile find_tile(int piece)
{
	struct tile tile = {.nr = ROWS, .length = COLUMNS * ELEMENT};
	int side = 1;

	if (piece != 0) {
		tile.nr = DEALT / piece;
		tile.length = piece;
		tile.distance = (MPI_Offset)piece * nr_ranks;
		tile.begin = (MPI_Offset)piece * rank;
		return tile;
	}
	while ((side + 1) * (side + 1) <= nr_ranks)
		side++;
	tile.distance = (MPI_Offset)side * tile.length;
	tile.begin = (MPI_Offset)(rank / side) * ROWS * tile.distance +
		     (MPI_Offset)(rank % side) * tile.length;
	return tile;
}

static int move_calls(MPI_File file, const struct tile *tile, char *data, int is_write)
{
	int ret = MPI_SUCCESS;

	for (int i = 0; i < tile->nr && ret == MPI_SUCCESS; i++) {
		MPI_Offset at = tile->begin + i * tile->distance;
		char *piece = data + (size_t)i * (size_t)tile->length;

		ret = is_write ? MPI_File_write_at(file, at, piece, tile->length, MPI_BYTE,
						   MPI_STATUS_IGNORE)
			       : MPI_File_read_at(file, at, piece, tile->length, MPI_BYTE,
						  MPI_STATUS_IGNORE);
	}
	return ret;
}

static uint64_t move(MPI_File file, const char *how, const struct tile *tile, char *data,
		     int is_write)
{
	const int length = tile->nr * tile->length;
	uint64_t begin;
	int ret;

	MPI_Barrier(MPI_COMM_WORLD);
	begin = now_ns();
	if (strcmp(how, "calls") == 0)
		ret = move_calls(file, tile, data, is_write);
	else if (strcmp(how, "view") == 0)
		ret = is_write ? MPI_File_write_at(file, 0, data, length, MPI_BYTE,
						   MPI_STATUS_IGNORE)
			       : MPI_File_read_at(file, 0, data, length, MPI_BYTE,
						  MPI_STATUS_IGNORE);
	else
		ret = is_write ? MPI_File_write_at_all(file, 0, data, length, MPI_BYTE,
						       MPI_STATUS_IGNORE)
			       : MPI_File_read_at_all(file, 0, data, length, MPI_BYTE,
						      MPI_STATUS_IGNORE);
	if (ret != MPI_SUCCESS)
		fail(is_write ? "write" : "read");
	MPI_Barrier(MPI_COMM_WORLD);
	return now_ns() - begin;
}

static void set_view(MPI_File file, const struct tile *tile)
{
	MPI_Datatype rows, type;

	MPI_Type_create_hvector(tile->nr, tile->length, tile->distance, MPI_BYTE, &rows);
	MPI_Type_create_resized(rows, 0, tile->nr * tile->distance, &type);
	MPI_Type_commit(&type);
	if (MPI_File_set_view(file, tile->begin, MPI_BYTE, type, "native", MPI_INFO_NULL))
		fail("set a view");
	MPI_Type_free(&rows);
	MPI_Type_free(&type);
}

/* Fills the memory, or checks that it was read. */
static void fill(const struct tile *tile, char *data)
{
	for (int i = 0; i < tile->nr; i++)
		memset(data + (size_t)i * (size_t)tile->length, 1 + (rank * 7 + i) % 250,
		       (size_t)tile->length);
}

static void check(const struct tile *tile, const char *data)
{
	for (int i = 0; i < tile->nr; i++)
		for (int j = 0; j < tile->length; j += tile->length - 1 ? tile->length - 1 : 1)
			if ((unsigned char)data[(size_t)i * (size_t)tile->length + (size_t)j] !=
			    1 + (rank * 7 + i) % 250)
				fail("compare what was read");
}

int main(int argc, char **argv)
{
	struct tile tile;
	MPI_File file;
	char *data;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &nr_ranks);
	if (argc < 4)
		return fail("reading the arguments");
	tile = find_tile(argc > 4 ? atoi(argv[4]) : 0);
	data = malloc((size_t)tile.nr * (size_t)tile.length);
	if (!data || MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR,
				   MPI_INFO_NULL, &file))
		return fail("open the file");
	if (strcmp(argv[2], "calls") != 0)
		set_view(file, &tile);
	for (int i = 0; i < atoi(argv[3]); i++) {
		uint64_t write_ns, read_ns;

		fill(&tile, data);
		write_ns = move(file, argv[2], &tile, data, 1);
		memset(data, 0, (size_t)tile.nr * (size_t)tile.length);
		read_ns = move(file, argv[2], &tile, data, 0);
		check(&tile, data);
		if (rank == 0)
			printf("%" PRIu64 " %" PRIu64 "\n", write_ns, read_ns);
	}
	MPI_File_close(&file);
	free(data);
	MPI_Finalize();
	return 0;
}
