/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `apps`: `afar sort` of a file in tmpfs beside a sort by MPI, peer_mpi_sort.c. It is also compared with
 * the time that its reads, its writes and its sorting of bytes in memory take by themselves (apps_floor.c).
 */
#include "apps_sort.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/process.h"
#include "harness/program.h"
#include "peers/peer.h"
#include "peers/ranks.h"

#define GIB	      ((uint64_t)1 << 30)
#define SERVER_SPARE  ((uint64_t)128 << 20)
#define BAR_MPI	      1.0
#define BAR_FLOOR     0.8
#define BAR_FLASH     0.9
#define NR_ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))

/* ---- MPI */

struct mpi_sort {
	const struct mpi *mpi;
	const char *program;
};

static const struct mpi_sort mpich = {&mpi_mpich_memory, "peer_sort_mpich"};
static const struct mpi_sort open_mpi = {&mpi_open_mpi_memory, "peer_sort_open_mpi"};

static const struct mpi_sort *mpi_of(const struct bench_row *row)
{
	return ((const struct sorting *)row->parameters)->more;
}

static unsigned nr_cores(void)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	return cores > 1 ? (unsigned)cores : 1;
}

static int read_seconds(const char *path, double *out)
{
	FILE *file = fopen(path, "r");
	int ret = file && fscanf(file, "%lf", out) == 1 && *out > 0 ? 0 : -EIO;

	if (file)
		fclose(file);
	return ret ? bench_fail(ret, "MPI did not say how long its sort took") : 0;
}

/* The program is told by the environment what mpiexec is not. */
static int set_environment(const struct mpi *mpi)
{
	for (unsigned i = 0; mpi->environment[i]; i++)
		if (putenv((char *)(uintptr_t)mpi->environment[i]))
			return bench_fail(-errno, "no memory for the suite");
	return 0;
}

static int sort_by_mpi(const struct mpi_sort *sort, const struct sorting_files *files,
		       double *seconds)
{
	struct mpi_command command;
	char program[PATH_MAX], told[128];
	int ret = peer_find_built(sort->program, program);

	if (!ret)
		ret = set_environment(sort->mpi);
	if (ret)
		return ret;
	snprintf(told, sizeof(told), "%s/seconds", files->folder.path);
	mpi_command_begin(&command, sort->mpi, nr_cores());
	command.words[command.nr++] = program;
	command.words[command.nr++] = files->in;
	command.words[command.nr++] = files->out;
	command.words[command.nr++] = told;
	command.words[command.nr] = NULL;
	ret = apps_run(command.words, NULL);
	return ret ? ret : read_seconds(told, seconds);
}

static int verify(const struct sorting_stage *stage)
{
	const char *const arguments[] = {PROGRAM_AFAR, "sort",		"verify", stage->files.out,
					 "--against",  stage->files.in, NULL};
	struct cluster *cluster = NULL;
	int ret = stage->cluster ? 0 : apps_start_cluster(SERVER_SPARE, &cluster);

	if (!ret)
		ret = apps_run(arguments, NULL);
	cluster_stop(cluster);
	return ret;
}

static int run_mpi(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const uint64_t bytes = sorting_bytes(row);
	struct sorting_stage *stage = state;
	double seconds = 1;
	int ret = sorting_need_file(stage, row);

	if (!ret)
		ret = sort_by_mpi(mpi_of(row), &stage->files, &seconds);
	if (!ret && repetition == 0)
		ret = verify(stage);
	sorting_turn_ends(stage, ret);
	*value = (double)bytes / seconds / 1e9;
	return ret;
}

/* ---- The rows */

#define MPI(name)   name " over shared memory: a sort by samples, from and to files in tmpfs"
#define FLOOR	    "two reads, two writes and the sort in memory of as many bytes, one after the other"
#define FLOOR_FLASH FLOOR "; the cluster lends a quarter of them in memory"
static const struct sorting mpich_1 = {"local", 1, &mpich}, mpich_4 = {"local", 4, &mpich};
static const struct sorting open_mpi_1 = {"local", 1, &open_mpi};
static const struct sorting floor_1 = {"local", 1, NULL}, floor_4 = {"local", 4, NULL};
static const struct sorting floor_tcp = {"tcp", 1, NULL};
static const struct sorting floor_flash = {.transport = "tcp", .gib = 1, .is_on_flash = true};
static struct bench_row rows[] = {
	{"sort 1 GiB, local / MPICH", "GB/s", BENCH_HIGHER, MPI("MPICH"), BAR_MPI, &mpich_1,
	 sorting_run, run_mpi},
	{"sort 1 GiB, local / Open MPI", "GB/s", BENCH_HIGHER, MPI("Open MPI"), BAR_MPI,
	 &open_mpi_1, sorting_run, run_mpi},
	{"sort 1 GiB, local / its parts", "GB/s", BENCH_HIGHER, FLOOR, BAR_FLOOR, &floor_1,
	 sorting_run, sorting_run_floor},
	{"sort 1 GiB, tcp / its parts", "GB/s", BENCH_HIGHER, FLOOR, BAR_FLOOR, &floor_tcp,
	 sorting_run, sorting_run_floor},
	{"sort 4 GiB, local / MPICH", "GB/s", BENCH_HIGHER, MPI("MPICH"), BAR_MPI, &mpich_4,
	 sorting_run, run_mpi},
	{"sort 1 GiB on flash, tcp / its parts", "GB/s", BENCH_HIGHER, FLOOR_FLASH, BAR_FLASH,
	 &floor_flash, sorting_run, sorting_run_floor},
	{"sort 4 GiB, local / its parts", "GB/s", BENCH_HIGHER, FLOOR, BAR_FLOOR, &floor_4,
	 sorting_run, sorting_run_floor},
};

/* MPI has two files, and two copies of the bytes and references in its ranks. */
static bool has_memory(const struct bench_row *row)
{
	return machine_available_bytes() > 9 * sorting_bytes(row) / 2 + GIB;
}

static bool has_mpi(const struct mpi_sort *sort)
{
	char program[PATH_MAX];

	return !peer_find_built(sort->program, program) && peer_is_installed(sort->mpi->launcher);
}

static int setup(void **stage)
{
	const char *missing = folder_tmpfs_missing();

	for (unsigned i = 0; i < NR_ROWS(rows); i++) {
		if (!has_memory(&rows[i]))
			bench_skip(&rows[i], 1,
				   "not measured: less than 4.5 times as much memory is free");
		else if (mpi_of(&rows[i]) && missing)
			bench_skip(&rows[i], 1, missing);
		else if (mpi_of(&rows[i]) && !has_mpi(mpi_of(&rows[i])))
			bench_skip(&rows[i], 1, mpi_of(&rows[i])->mpi->missing);
	}
	return sorting_setup(stage);
}

const struct bench_stage apps_sort_stage = {setup, sorting_teardown, rows, NR_ROWS(rows)};
