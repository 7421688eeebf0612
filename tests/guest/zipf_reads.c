/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads whole files of one folder, some of them far more often than others. The n-th in rank is read
 * as often as 1/n^0.99 says, as in YCSB. For disk_speed.sh.
 *
 *	zipf_reads make FOLDER			makes the files
 *	zipf_reads direct FOLDER SECONDS	reads them past the page cache
 *	zipf_reads cached FOLDER SECONDS	reads them through it
 *
 * Prints how many files were read in a second.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NR_FILES   4096U
#define FILE_BYTES 16384U
#define EXPONENT   0.99
/* Files are made in order of their names. This, prime to their number, has ranks lie apart. */
#define STRIDE 1103U

static double share_up_to[NR_FILES]; /* of all reads, what files of this rank or a lower have */
static unsigned char *content;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "zipf_reads: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void fill_shares(void)
{
	double sum = 0;

	for (unsigned i = 0; i < NR_FILES; i++) {
		sum += 1 / pow(i + 1, EXPONENT);
		share_up_to[i] = sum;
	}
	for (unsigned i = 0; i < NR_FILES; i++)
		share_up_to[i] /= sum;
}

static unsigned any_file(void)
{
	double dice = drand48();
	unsigned low = 0, high = NR_FILES - 1;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (share_up_to[middle] < dice)
			low = middle + 1;
		else
			high = middle;
	}
	return low * STRIDE % NR_FILES;
}

static int open_file(int folder, unsigned nr, int flags)
{
	char name[16];
	int fd;

	snprintf(name, sizeof(name), "%u", nr);
	fd = openat(folder, name, flags | O_CLOEXEC, 0600);
	if (fd < 0)
		die(name);
	return fd;
}

static void make(int folder)
{
	for (unsigned i = 0; i < NR_FILES; i++) {
		int fd = open_file(folder, i, O_WRONLY | O_CREAT | O_TRUNC);

		memset(content, (int)i, FILE_BYTES);
		if (write(fd, content, FILE_BYTES) != FILE_BYTES || close(fd))
			die("write");
	}
	if (syncfs(folder))
		die("syncfs");
}

static void read_files(int folder, int flags, double seconds)
{
	uint64_t nr_read = 0;
	double begin = now();

	while (now() - begin < seconds) {
		unsigned nr = any_file();
		int fd = open_file(folder, nr, O_RDONLY | flags);

		if (read(fd, content, FILE_BYTES) != FILE_BYTES)
			die("read");
		close(fd);
		if (content[0] != (unsigned char)nr) {
			errno = EILSEQ;
			die("what was read");
		}
		nr_read++;
	}
	printf("%.1f\n", (double)nr_read / (now() - begin));
}

int main(int argc, char **argv)
{
	const bool is_make = argc == 3 && strcmp(argv[1], "make") == 0;
	const bool is_direct = argc == 4 && strcmp(argv[1], "direct") == 0;
	int folder = argc > 2 ? open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (folder < 0 || (!is_make && argc != 4)) {
		fprintf(stderr, "usage: zipf_reads make|direct|cached FOLDER [SECONDS]\n");
		return 2;
	}
	content = aligned_alloc(4096, FILE_BYTES);
	if (!content)
		die("memory");
	srand48(time(NULL));
	fill_shares();
	if (is_make)
		make(folder);
	else
		read_files(folder, is_direct ? O_DIRECT : 0, strtod(argv[3], NULL));
	return 0;
}
