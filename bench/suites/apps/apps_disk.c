/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A row of suite `apps`: a sort that is too large to have input, output and buckets in memory. Both sorts read a file of
 * this machine's disk and write another. The kernel keeps as much of both in memory as there is room for. Our sort has its
 * buckets in the memory of servers. GNU sort has as much memory as it takes by itself, and temporary files on the same disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "apps_sort.h"
#include "harness/process.h"
#include "harness/program.h"

#define GIB	      ((uint64_t)1 << 30)
#define SERVER_SPARE  ((uint64_t)128 << 20)
#define BAR	      3.0
#define NR_ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))

static int make_folder(struct sorting_files *files)
{
	int ret = folder_make_on_ext4(&files->folder);

	snprintf(files->in, sizeof(files->in), "%s/in", files->folder.path);
	snprintf(files->out, sizeof(files->out), "%s/out", files->folder.path);
	return ret;
}

/* The input is written back before a sort begins, so that the disk is free. */
static int settle(const struct sorting_files *files)
{
	int fd = open(files->in, O_RDONLY | O_CLOEXEC);
	int ret = fd < 0 || syncfs(fd) ? bench_fail(-EIO, "%s: cannot be written back", files->in)
				       : 0;

	if (fd >= 0)
		close(fd);
	return ret;
}

static uint64_t bucket_bytes(uint64_t bytes)
{
	return bytes + bytes / 8;
}

/* Has servers get their memory from the kernel, as they have in the other rows. */
static int warm_servers(uint64_t bytes)
{
	char size[32];
	const char *const reserve[] = {PROGRAM_AFAR, "ns", "reserve", "s", size, NULL};
	static const char *const release[] = {PROGRAM_AFAR, "ns", "release", "s", NULL};
	int ret;

	snprintf(size, sizeof(size), "%lluM", (unsigned long long)(bucket_bytes(bytes) >> 20) + 2);
	ret = apps_run(reserve, NULL);
	return ret ? ret : apps_run(release, NULL);
}

static int sort(const struct sorting_files *files, uint64_t bytes, bool is_verified,
		double *seconds)
{
	static const char *const create[] = {PROGRAM_AFAR, "ns", "create", "s", NULL};
	const char *const run[] = {PROGRAM_AFAR, "sort", "run", files->in,
				   files->out,	 "--ns", "s",	NULL};
	const char *const verify[] = {PROGRAM_AFAR, "sort",    "verify", files->out,
				      "--against",  files->in, NULL};
	int ret = apps_choose_path("local");

	if (!ret)
		ret = apps_run(create, NULL);
	if (!ret)
		ret = apps_generate(files->in, bytes);
	if (!ret)
		ret = warm_servers(bytes);
	if (!ret)
		ret = settle(files);
	if (!ret)
		ret = apps_run(run, seconds);
	return ret || !is_verified ? ret : apps_run(verify, NULL);
}

static int run_afar(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct sorting_files files = {0};
	struct cluster *cluster = NULL;
	uint64_t bytes = sorting_bytes(row);
	double seconds = 1;
	int ret = make_folder(&files);

	(void)stage;
	if (!ret)
		ret = apps_start_cluster(bucket_bytes(bytes) / APPS_NR_SERVERS + SERVER_SPARE,
					 &cluster);
	if (!ret)
		ret = sort(&files, bytes, repetition == 0, &seconds);
	cluster_stop(cluster);
	folder_remove(&files.folder);
	*value = (double)bytes / seconds / 1e9;
	return ret;
}

static int make_input(const struct sorting_files *files, uint64_t bytes)
{
	struct cluster *cluster = NULL;
	int ret = apps_start_cluster(SERVER_SPARE, &cluster);

	if (!ret)
		ret = apps_generate(files->in, bytes);
	cluster_stop(cluster);
	return ret ? ret : settle(files);
}

static int run_gnu(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct sorting_files files = {0};
	const char *const run[] = {"env", "LC_ALL=C", "sort",	"-T", files.folder.path,
				   "-o",  files.out,  files.in, NULL};
	uint64_t bytes = sorting_bytes(row);
	double seconds = 1;
	int ret = make_folder(&files);

	(void)stage;
	(void)repetition;
	if (!ret)
		ret = make_input(&files, bytes);
	if (!ret)
		ret = apps_run(run, &seconds);
	folder_remove(&files.folder);
	*value = (double)bytes / seconds / 1e9;
	return ret;
}

/* ---- The row */

#define GNU "GNU sort, from and to files on the same disk, with as many threads as cores"
static const struct sorting local_8 = {"local", 8, NULL};
static struct bench_row rows[] = {
	{"sort 8 GiB, files on disk / GNU sort", "GB/s", BENCH_HIGHER, GNU, BAR, &local_8, run_afar,
	 run_gnu},
};

static bool has_disk(uint64_t bytes)
{
	const char *named = getenv("TMPDIR");
	struct statvfs status;

	return !statvfs(named && *named ? named : "/tmp", &status) &&
	       status.f_bavail * status.f_frsize > 4 * bytes;
}

static int setup(void **stage)
{
	const char *missing = folder_ext4_missing();
	uint64_t bytes = sorting_bytes(rows);

	*stage = NULL;
	if (missing)
		bench_skip(rows, NR_ROWS(rows), missing);
	else if (!has_disk(bytes))
		bench_skip(rows, NR_ROWS(rows),
			   "not measured: less than 32 GiB are free in /tmp; TMPDIR=FOLDER names "
			   "another folder");
	else if (machine_available_bytes() < 2 * bytes + GIB)
		bench_skip(rows, NR_ROWS(rows),
			   "not measured: less than 17 GiB of memory are free");
	return 0;
}

static void teardown(void *stage)
{
	(void)stage;
}

const struct bench_stage apps_disk_stage = {setup, teardown, rows, NR_ROWS(rows)};
