/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer of suite `apps`, built for each MPI that is there: `peer_mpi_sort IN OUT TIME` sorts a file of records of 100
 * bytes into another by samples. Each rank reads its share, and packs each record for the rank that its key belongs to.
 * MPI_Alltoallv() moves them. Each rank then sorts what it has got, by the radix sort of `afar sort` itself, and writes it
 * to its place in OUT.
 *
 * It does so twice, in the same memory and the same OUT, because a kernel may take longer to give memory than a sort takes.
 * TIME gets the seconds of the second time, from when all ranks have met to when all have written; what MPI_Init() takes is
 * not counted.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/sort/radix.h"
#include "apps/sort/word.h"
#include "base/clock.h"

#define RECORD_BYTES	 100U
#define PIECE_RECORDS	 2560U /* of a read or a write: stays in the cache */
#define SAMPLES_PER_RANK 4096U
#define AHEAD		 12U /* records: how far ahead of their copying they are fetched from memory */

struct record {
	uint8_t bytes[RECORD_BYTES];
};

struct rank {
	int number, nr;
	int in, out;
	uint64_t first, nr_share; /* records of the share */
	MPI_Datatype record;
	struct record *splitters; /* nr - 1 */
	struct record *
		packed; /* room for the whole share for each rank, of which it takes what it needs */
	int *nr_packed, *nr_got; /* for and from each rank */
	struct record *got;
	uint64_t nr_records; /* that it has got */
	struct item *items, *scratch;
	struct record *piece;
};

/* MPI ends the program by itself when a call of it fails; so does this for the rest. */
static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	MPI_Abort(MPI_COMM_WORLD, 1);
	abort();
}

static void *get(size_t nr, size_t size)
{
	void *memory = mmap(NULL, nr * size + 1, /* never nothing */ PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		give_up("memory");
	madvise(memory, nr * size + 1, MADV_HUGEPAGE);
	return memory;
}

static void read_records(const struct rank *rank, uint64_t first, struct record *records, size_t nr)
{
	if (pread(rank->in, records, nr * RECORD_BYTES, (off_t)(first * RECORD_BYTES)) !=
	    (ssize_t)(nr * RECORD_BYTES))
		give_up("read");
}

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, RECORD_BYTES);
}

/* ---- Samples */

static void make_splitters(struct rank *rank)
{
	size_t each = rank->nr_share < SAMPLES_PER_RANK ? rank->nr_share : SAMPLES_PER_RANK;
	size_t nr = (size_t)rank->nr * SAMPLES_PER_RANK;
	struct record *samples = get(nr, RECORD_BYTES), *own = get(SAMPLES_PER_RANK, RECORD_BYTES);

	/* A share that is smaller gives some of its records more than once. */
	for (size_t i = 0; i < SAMPLES_PER_RANK && each; i++)
		read_records(rank, rank->first + i % each * (rank->nr_share / each), &own[i], 1);
	MPI_Allgather(own, SAMPLES_PER_RANK, rank->record, samples, SAMPLES_PER_RANK, rank->record,
		      MPI_COMM_WORLD);
	qsort(samples, nr, RECORD_BYTES, compare);
	for (int i = 1; i < rank->nr; i++)
		rank->splitters[i - 1] = samples[(size_t)i * SAMPLES_PER_RANK];
	munmap(samples, nr * RECORD_BYTES);
	munmap(own, (size_t)SAMPLES_PER_RANK * RECORD_BYTES);
}

static int find_rank(const struct rank *rank, const struct record *record)
{
	int low = 0, high = rank->nr - 1;

	while (low < high) {
		int middle = (low + high) / 2;

		if (memcmp(record, &rank->splitters[middle], RECORD_BYTES) < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* ---- Exchange */

static void pack(struct rank *rank)
{
	struct record *piece = rank->piece;

	memset(rank->nr_packed, 0, (size_t)rank->nr * sizeof(*rank->nr_packed));
	for (uint64_t done = 0, nr; done < rank->nr_share; done += nr) {
		nr = rank->nr_share - done < PIECE_RECORDS ? rank->nr_share - done : PIECE_RECORDS;
		read_records(rank, rank->first + done, piece, nr);
		for (uint64_t i = 0; i < nr; i++) {
			int to = find_rank(rank, &piece[i]);

			rank->packed[(size_t)to * rank->nr_share + (size_t)rank->nr_packed[to]++] =
				piece[i];
		}
	}
}

static void exchange(struct rank *rank)
{
	int *from = calloc((size_t)rank->nr, sizeof(*from)),
	    *to = calloc((size_t)rank->nr, sizeof(*to));

	if (!from || !to)
		give_up("memory");
	rank->nr_records = 0;
	MPI_Alltoall(rank->nr_packed, 1, MPI_INT, rank->nr_got, 1, MPI_INT, MPI_COMM_WORLD);
	for (int i = 0; i < rank->nr; i++) {
		from[i] = i * (int)rank->nr_share;
		to[i] = (int)rank->nr_records;
		rank->nr_records += (uint64_t)rank->nr_got[i];
	}
	/* The second time there are as many. */
	if (!rank->got) {
		rank->got = get(rank->nr_records, RECORD_BYTES);
		rank->items = get(rank->nr_records, sizeof(*rank->items));
		rank->scratch = get(rank->nr_records, sizeof(*rank->scratch));
	}
	MPI_Alltoallv(rank->packed, rank->nr_packed, from, rank->record, rank->got, rank->nr_got,
		      to, rank->record, MPI_COMM_WORLD);
	free(from);
	free(to);
}

/* ---- Sorting and writing */

static void write_sorted(const struct rank *rank)
{
	const struct item *items = rank->items;
	struct record *piece = rank->piece;
	const uint8_t *data = (const uint8_t *)rank->got;
	uint64_t nr_before = 0;
	size_t filled = 0;
	off_t at;

	MPI_Exscan(&rank->nr_records, &nr_before, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	at = (off_t)((rank->number ? nr_before : 0) * RECORD_BYTES);
	for (uint64_t i = 0; i < rank->nr_records; i++) {
		if (i + AHEAD < rank->nr_records) {
			__builtin_prefetch(data + items[i + AHEAD].at);
			__builtin_prefetch(data + items[i + AHEAD].at + 64);
		}
		memcpy(&piece[filled++], data + items[i].at, RECORD_BYTES);
		if (filled < PIECE_RECORDS && i + 1 < rank->nr_records)
			continue;
		if (pwrite(rank->out, piece, filled * RECORD_BYTES, at) !=
		    (ssize_t)(filled * RECORD_BYTES))
			give_up("write");
		at += (off_t)(filled * RECORD_BYTES);
		filled = 0;
	}
}

static void sort(const struct rank *rank)
{
	struct item *items = rank->items;
	const uint8_t *data = (const uint8_t *)rank->got;

	if (rank->nr_records * RECORD_BYTES > UINT32_MAX) {
		errno = EFBIG;
		give_up("sort");
	}
	for (uint64_t i = 0; i < rank->nr_records; i++) {
		uint32_t at = (uint32_t)(i * RECORD_BYTES);

		items[i] = (struct item){word_at(data + at, RECORD_BYTES), at, RECORD_BYTES};
	}
	radix_sort(data, items, rank->scratch, rank->nr_records);
	write_sorted(rank);
}

/* ---- All of it */

static void open_files(struct rank *rank, const char *in, const char *out)
{
	struct stat status;
	uint64_t nr;

	/* An output that is there is written over, as memory of warm servers is. */
	rank->in = open(in, O_RDONLY | O_CLOEXEC);
	rank->out = open(out, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (rank->in < 0 || rank->out < 0 || fstat(rank->in, &status))
		give_up("open");
	nr = (uint64_t)status.st_size / RECORD_BYTES;
	rank->first = nr * (uint64_t)rank->number / (uint64_t)rank->nr;
	rank->nr_share = nr * (uint64_t)(rank->number + 1) / (uint64_t)rank->nr - rank->first;
	if (nr > INT32_MAX) {
		errno = EFBIG;
		give_up("sort");
	}
}

static void tell(const char *path, uint64_t elapsed_ns)
{
	FILE *file = fopen(path, "w");

	if (!file || fprintf(file, "%.9f\n", (double)elapsed_ns / 1e9) < 0 || fclose(file))
		give_up("tell the time");
}

/* Returns how long it took. */
static uint64_t sort_file(struct rank *rank)
{
	uint64_t begin_ns;

	MPI_Barrier(MPI_COMM_WORLD);
	begin_ns = clock_ns();
	make_splitters(rank);
	pack(rank);
	exchange(rank);
	sort(rank);
	MPI_Barrier(MPI_COMM_WORLD);
	return clock_ns() - begin_ns;
}

int main(int argc, char **argv)
{
	struct rank rank = {0};
	uint64_t elapsed_ns;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank.number);
	MPI_Comm_size(MPI_COMM_WORLD, &rank.nr);
	if (argc != 4) {
		errno = EINVAL;
		give_up("usage: peer_mpi_sort IN OUT TIME");
	}
	rank.nr_packed = calloc((size_t)rank.nr, sizeof(*rank.nr_packed));
	rank.nr_got = calloc((size_t)rank.nr, sizeof(*rank.nr_got));
	if (!rank.nr_packed || !rank.nr_got)
		give_up("memory");
	MPI_Type_contiguous(RECORD_BYTES, MPI_BYTE, &rank.record);
	MPI_Type_commit(&rank.record);
	open_files(&rank, argv[1], argv[2]);
	rank.splitters = get((size_t)rank.nr, RECORD_BYTES);
	rank.packed = get((size_t)rank.nr * rank.nr_share, RECORD_BYTES);
	rank.piece = get(PIECE_RECORDS, RECORD_BYTES);
	sort_file(&rank);
	elapsed_ns = sort_file(&rank);
	if (rank.number == 0)
		tell(argv[3], elapsed_ns);
	MPI_Type_free(&rank.record);
	MPI_Finalize();
	free(rank.nr_packed);
	free(rank.nr_got);
	return 0;
}
