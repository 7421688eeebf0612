/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suite `apps`: apps_graph.c has the rows of graphs. Here is `afar sort` of records in the memory of servers, beside programs
 * that sort a file in tmpfs. All are whole programs, from their start to their end, with as many workers or threads as there
 * are cores. Input and output are in memory on both sides; what a turn has made is gone before the next one. The rows of one
 * size share its input, in a cluster and as a file, where there is memory for both.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps_cow.h"
#include "apps_graph.h"
#include "apps_sort.h"
#include "harness/cluster.h"
#include "harness/harness.h"
#include "harness/process.h"
#include "harness/program.h"
#include "peers/folder.h"
#include "peers/peer.h"

#define GIB	      ((uint64_t)1 << 30)
#define MIB	      ((uint64_t)1 << 20)
#define SERVER_SPARE  (128 * MIB) /* of each, beside its share */
#define BAR_GNU	      3.0
#define NR_ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))
#define PEER_PARALLEL "peer_parallel_sort"

uint64_t sorting_bytes(const struct bench_row *row)
{
	const struct sorting *sorting = row->parameters;

	return bench_bytes(sorting->gib * GIB, SORTING_RECORD_BYTES);
}

/* ---- Programs */

int apps_run(const char *const *arguments, double *seconds)
{
	return program_run(arguments, NULL, 0, seconds);
}

int apps_generate(const char *where, uint64_t bytes)
{
	const char *arguments[] = {PROGRAM_AFAR, "sort", "generate", where,
				   "--records",	 NULL,	 NULL};
	char records[24];

	snprintf(records, sizeof(records), "%llu",
		 (unsigned long long)(bytes / SORTING_RECORD_BYTES));
	arguments[5] = records;
	return apps_run(arguments, NULL);
}

static int use_cluster(int ret, struct cluster *const *cluster)
{
	if (!ret && setenv("AFAR_CLUSTER", cluster_uri(*cluster), 1))
		ret = bench_fail(-errno, "no memory for the suite");
	return ret;
}

int apps_start_cluster(uint64_t server_bytes, struct cluster **out)
{
	return use_cluster(
		cluster_start_over(CLUSTER_LOCAL_AND_TCP, APPS_NR_SERVERS, server_bytes, out), out);
}

int apps_start_flash(uint64_t server_bytes, uint64_t flash_bytes, struct cluster **out)
{
	return use_cluster(cluster_start_flash(APPS_NR_SERVERS, server_bytes, flash_bytes, out),
			   out);
}

int apps_choose_path(const char *transport)
{
	return setenv("AFAR_PATH", transport, 1) ? bench_fail(-errno, "no memory for the suite")
						 : 0;
}

/* ---- The input of a size, in a cluster and as a file */

static void forget(struct sorting_stage *stage)
{
	cluster_stop(stage->cluster);
	folder_remove(&stage->files.folder);
	*stage = (struct sorting_stage){0};
}

/* Both sides at once need room for three regions, two files, and what a reference keeps in memory of its own. */
static int choose_size(struct sorting_stage *stage, const struct bench_row *row)
{
	const struct sorting *sorting = row->parameters;
	const uint64_t bytes = sorting_bytes(row);

	if (stage->bytes != bytes || stage->is_on_flash != sorting->is_on_flash) {
		forget(stage);
		stage->bytes = bytes;
		stage->is_on_flash = sorting->is_on_flash;
		stage->is_apart = machine_available_bytes() < 9 * bytes + GIB;
	}
	return apps_choose_path(sorting->transport);
}

/* Input, output and buckets, and what the last of each is rounded up by. */
static uint64_t server_bytes(uint64_t bytes)
{
	return (3 * bytes + bytes / 4) / APPS_NR_SERVERS + SERVER_SPARE;
}

static const char *const sort_input[] = {PROGRAM_AFAR, "sort",	 "run", "s:in",
					 "s:out",      "--meet", "m",	NULL};
static const char *const remove_output[] = {PROGRAM_AFAR, "region", "rm", "s:out", NULL};

/* Servers that have just started get their memory from the kernel only when it is first used: so a first sort is not timed. */
static int make_cluster(struct sorting_stage *stage)
{
	static const char *const create_meeting[] = {PROGRAM_AFAR, "ns", "create", "m", NULL};
	const char *const create[] = {PROGRAM_AFAR, "ns",     "create",
				      "s",	    "--tier", stage->is_on_flash ? "flash" : "dram",
				      NULL};
	const uint64_t bytes = server_bytes(stage->bytes);
	int ret = stage->is_on_flash ? apps_start_flash(SERVER_SPARE, bytes, &stage->cluster)
				     : apps_start_cluster(bytes, &stage->cluster);

	if (!ret)
		ret = apps_run(create_meeting, NULL);
	if (!ret)
		ret = apps_run(create, NULL);
	if (!ret)
		ret = apps_generate("s:in", stage->bytes);
	if (!ret)
		ret = apps_run(sort_input, NULL);
	return ret ? ret : apps_run(remove_output, NULL);
}

int sorting_need_cluster(struct sorting_stage *stage, const struct bench_row *row)
{
	int ret = choose_size(stage, row);

	if (ret || stage->cluster)
		return ret;
	ret = make_cluster(stage);
	if (ret)
		forget(stage);
	return ret;
}

/* Only `afar sort generate` makes records, and it needs a cluster. */
static int generate_file(const struct sorting_stage *stage)
{
	struct cluster *cluster = NULL;
	int ret = stage->cluster ? 0 : apps_start_cluster(SERVER_SPARE, &cluster);

	if (!ret)
		ret = apps_generate(stage->files.in, stage->bytes);
	cluster_stop(cluster);
	return ret;
}

int sorting_need_file(struct sorting_stage *stage, const struct bench_row *row)
{
	struct sorting_files *files = &stage->files;
	int ret = choose_size(stage, row);

	if (!ret && !stage->is_apart)
		ret = sorting_need_cluster(stage, row);
	if (ret || files->folder.path[0])
		return ret;
	ret = folder_make_on_tmpfs(&files->folder);
	snprintf(files->in, sizeof(files->in), "%s/in", files->folder.path);
	snprintf(files->out, sizeof(files->out), "%s/out", files->folder.path);
	if (!ret)
		ret = generate_file(stage);
	if (ret)
		forget(stage);
	return ret;
}

void sorting_turn_ends(struct sorting_stage *stage, int status)
{
	if (stage->is_apart || status)
		forget(stage);
	else if (stage->files.folder.path[0])
		unlink(stage->files.out);
}

void sorting_teardown(void *stage)
{
	forget(stage);
	free(stage);
}

/* ---- Ours */

int sorting_run(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	static const char *const verify[] = {PROGRAM_AFAR, "sort", "verify", "s:out",
					     "--against",  "s:in", NULL};
	const uint64_t bytes = sorting_bytes(row);
	double seconds = 1;
	int ret = sorting_need_cluster(stage, row);

	if (!ret)
		ret = apps_run(sort_input, &seconds);
	if (!ret && repetition == 0)
		ret = apps_run(verify, NULL);
	if (!ret)
		ret = apps_run(remove_output, NULL);
	sorting_turn_ends(stage, ret);
	*value = (double)bytes / seconds / 1e9;
	return ret;
}

/* ---- References: they sort the file `in` of a folder on tmpfs into `out` */

static int run_gnu(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct sorting_stage *stage = state;
	const struct sorting_files *files = &stage->files;
	const char *const arguments[] = {"env", "LC_ALL=C", "sort",    "-T", files->folder.path,
					 "-o",	files->out, files->in, NULL};
	const uint64_t bytes = sorting_bytes(row);
	double seconds = 1;
	int ret = sorting_need_file(stage, row);

	(void)repetition;
	if (!ret)
		ret = apps_run(arguments, &seconds);
	sorting_turn_ends(stage, ret);
	*value = (double)bytes / seconds / 1e9;
	return ret;
}

static int run_parallel(void *state, const struct bench_row *row, unsigned repetition,
			double *value)
{
	struct sorting_stage *stage = state;
	char program[PATH_MAX];
	const char *const arguments[] = {program, stage->files.in, stage->files.out, NULL};
	const uint64_t bytes = sorting_bytes(row);
	double seconds = 1;
	int ret = peer_find_built(PEER_PARALLEL, program);

	(void)repetition;
	if (!ret)
		ret = sorting_need_file(stage, row);
	if (!ret)
		ret = apps_run(arguments, &seconds);
	sorting_turn_ends(stage, ret);
	*value = (double)bytes / seconds / 1e9;
	return ret;
}

/* ---- The rows */

#define GNU	 "GNU sort, from and to files in tmpfs, with as many threads as cores"
#define PARALLEL "__gnu_parallel::sort() of a file in tmpfs, read and written whole"
static const struct sorting local_1 = {"local", 1, NULL}, local_4 = {"local", 4, NULL},
			    local_8 = {"local", 8, NULL};
static const struct sorting tcp_1 = {"tcp", 1, NULL};
static struct bench_row rows[] = {
	{"sort 1 GiB, local / GNU sort", "GB/s", BENCH_HIGHER, GNU, BAR_GNU, &local_1, sorting_run,
	 run_gnu},
	{"sort 1 GiB, tcp / GNU sort", "GB/s", BENCH_HIGHER, GNU, BENCH_REPORTED, &tcp_1,
	 sorting_run, run_gnu},
	{"sort 1 GiB, local / __gnu_parallel", "GB/s", BENCH_HIGHER, PARALLEL, BENCH_REPORTED,
	 &local_1, sorting_run, run_parallel},
	{"sort 4 GiB, local / GNU sort", "GB/s", BENCH_HIGHER, GNU, BAR_GNU, &local_4, sorting_run,
	 run_gnu},
	{"sort 8 GiB, local / GNU sort", "GB/s", BENCH_HIGHER, GNU, BAR_GNU, &local_8, sorting_run,
	 run_gnu},
};

/* GNU sort keeps what it sorts in memory of its own, beside both files. */
static bool has_memory(const struct bench_row *row)
{
	return machine_available_bytes() > 4 * sorting_bytes(row) + sorting_bytes(row) / 2 + GIB;
}

int sorting_setup(void **stage)
{
	*stage = calloc(1, sizeof(struct sorting_stage));
	return *stage ? 0 : bench_fail(-ENOMEM, "no memory for the suite");
}

static int setup(void **stage)
{
	const char *missing = folder_tmpfs_missing();
	char program[PATH_MAX];

	if (missing)
		bench_skip(rows, NR_ROWS(rows), missing);
	for (unsigned i = 0; i < NR_ROWS(rows); i++) {
		if (!has_memory(&rows[i]))
			bench_skip(&rows[i], 1,
				   "not measured: less than 4.5 times as much memory is free");
		else if (rows[i].run_reference == run_parallel &&
			 peer_find_built(PEER_PARALLEL, program))
			bench_skip(&rows[i], 1,
				   "not measured: run build/afar, built with a C++ compiler");
	}
	return sorting_setup(stage);
}

static const struct bench_stage sort_stage = {setup, sorting_teardown, rows, NR_ROWS(rows)};

static const struct bench_stage *const stages[] = {&sort_stage, &apps_sort_stage, &apps_disk_stage,
						   &apps_graph_stage, &apps_cow_stage};

static const struct bench_pace paces[] = {
	{.rows = "4 GiB", .seconds = 180, .repetitions = 1, .is_long = true},
	{.rows = "8 GiB", .seconds = 240, .repetitions = 1, .is_long = true},
	{.rows = "igraph", .seconds = 35, .repetitions = 2},
	{.rows = "PageRank scale 22", .seconds = 40, .repetitions = 2},
	{.rows = "GNU sort", .seconds = 30, .repetitions = 2},
	{.rows = "", .seconds = 15},
};

const struct bench_suite bench_suite_apps = {
	.name = "apps",
	.summary = "sorts, graphs and versions of regions, against programs that have all in their "
		   "own memory",
	.repetitions = 3,
	.is_warm = true,
	.paces = paces,
	.nr_paces = NR_ROWS(paces),
	.stages = stages,
	.nr_stages = NR_ROWS(stages),
};
