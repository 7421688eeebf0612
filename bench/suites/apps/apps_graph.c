/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `apps` about `afar graph`. They compare PageRank of R-MAT graphs with programs that have the same graph
 * in their own memory. They also compare shortest ways with many reads in flight with one at a time. All programs say
 * how long they computed. The time for making graphs, reading files and writing results is nobody's.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps_graph.h"
#include "apps_sort.h"
#include "harness/cluster.h"
#include "harness/process.h"
#include "harness/program.h"
#include "peers/folder.h"
#include "peers/peer.h"

#define MIB	      ((uint64_t)1 << 20)
#define GIB	      ((uint64_t)1 << 30)
#define SERVER_SPARE  (256 * MIB) /* for mailboxes */
#define EDGES	      16U	  /* for each vertex */
#define STEPS	      32U
#define TRIED_SCALE   12U /* where a suite is only tried out */
#define BAR_GAPBS     0.7
#define BAR_IGRAPH    1.5
#define NR_ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))

struct graph_row {
	const char *transport;
	unsigned scale;
	bool is_weighted;
};

/* The graph of the row, in a cluster, and as a file for the references. Rows that differ in the transport share it. */
struct stage {
	const struct graph_row *made; /* NULL: none is */
	struct cluster *cluster;
	struct folder folder;
	char image[96];
};

static unsigned scale_of(const struct graph_row *row)
{
	const uint64_t usual = 1000000000;

	return bench_span_ns(usual) < usual ? TRIED_SCALE : row->scale;
}

static uint64_t edges_of(const struct graph_row *row)
{
	return (uint64_t)EDGES << scale_of(row);
}

/* ---- Programs */

/* Runs a program that says "… in SECONDS s", and perhaps "looked at N edges". */
static int run_timed(const char *const *arguments, double *seconds, uint64_t *nr_looked)
{
	char said[4096];
	const char *at, *looked;
	unsigned long long nr = 0;
	int ret = program_run(arguments, said, sizeof(said), NULL);

	if (ret)
		return ret;
	at = strstr(said, " in ");
	looked = strstr(said, "looked at ");
	if (!at || sscanf(at, " in %lf s", seconds) != 1 || *seconds <= 0)
		return bench_fail(-EIO, "%s %s: it has not said how long it took", arguments[0],
				  arguments[1]);
	if (looked && sscanf(looked, "looked at %llu", &nr) == 1 && nr_looked)
		*nr_looked = nr;
	return 0;
}

/* ---- The graph */

static void forget_graph(struct stage *stage)
{
	cluster_stop(stage->cluster);
	folder_remove(&stage->folder);
	*stage = (struct stage){0};
}

static int make_graph(struct stage *stage, const struct graph_row *row)
{
	static const char *const create[] = {PROGRAM_AFAR, "ns", "create", "g", NULL};
	const char *const get[] = {PROGRAM_AFAR, "region", "get", "g:graph", stage->image, NULL};
	const char *const rmat[] = {
		PROGRAM_AFAR,
		"graph",
		"rmat",
		"g:graph",
		"--edges",
		"16",
		"--scale",
		(char[]){(char)('0' + scale_of(row) / 10), (char)('0' + scale_of(row) % 10), '\0'},
		row->is_weighted ? "--weights" : NULL,
		"255",
		NULL};
	int ret = folder_make_on_tmpfs(&stage->folder);

	snprintf(stage->image, sizeof(stage->image), "%s/image", stage->folder.path);
	if (!ret)
		ret = apps_start_cluster(12 * edges_of(row) / APPS_NR_SERVERS + SERVER_SPARE,
					 &stage->cluster);
	if (!ret)
		ret = program_run(create, NULL, 0, NULL);
	if (!ret)
		ret = program_run(rmat, NULL, 0, NULL);
	if (!ret)
		ret = program_run(get, NULL, 0, NULL);
	if (!ret)
		stage->made = row;
	return ret;
}

static bool is_made(const struct stage *stage, const struct graph_row *row)
{
	return stage->made && stage->made->scale == row->scale &&
	       stage->made->is_weighted == row->is_weighted;
}

static int need_graph(struct stage *stage, const struct bench_row *row)
{
	const struct graph_row *wanted = row->parameters;
	int ret;

	if (is_made(stage, wanted))
		return apps_choose_path(wanted->transport);
	forget_graph(stage);
	ret = apps_choose_path("local");
	if (!ret)
		ret = make_graph(stage, wanted);
	if (ret)
		forget_graph(stage);
	return ret ? ret : apps_choose_path(wanted->transport);
}

/* ---- PageRank */

static int rank(void *context, const struct bench_row *row, unsigned repetition, double *value)
{
	static const char *const arguments[] = {PROGRAM_AFAR, "graph",	   "pagerank",
						"g:graph",    "--steps",   "32",
						"-o",	      "/dev/null", NULL};
	double seconds = 1;
	int ret = need_graph(context, row);

	(void)repetition;
	if (!ret)
		ret = run_timed(arguments, &seconds, NULL);
	*value = (double)(STEPS * edges_of(row->parameters)) / seconds / 1e6;
	return ret;
}

static int rank_by(const char *peer, void *context, const struct bench_row *row, double *value)
{
	struct stage *stage = context;
	char program[PATH_MAX];
	const char *const arguments[] = {program, stage->image, "32", NULL};
	double seconds = 1;
	int ret = peer_find_built(peer, program);

	if (!ret)
		ret = need_graph(stage, row);
	if (!ret)
		ret = run_timed(arguments, &seconds, NULL);
	*value = (double)(STEPS * edges_of(row->parameters)) / seconds / 1e6;
	return ret;
}

static int rank_by_gapbs(void *stage, const struct bench_row *row, unsigned repetition,
			 double *value)
{
	(void)repetition;
	return rank_by("peer_gapbs", stage, row, value);
}

static int rank_by_igraph(void *stage, const struct bench_row *row, unsigned repetition,
			  double *value)
{
	(void)repetition;
	return rank_by("peer_igraph", stage, row, value);
}

/* ---- Exploring */

static int explore(struct stage *stage, const struct bench_row *row, const char *nr_in_flight,
		   double *value)
{
	const char *const arguments[] = {PROGRAM_AFAR, "graph",	    "sssp",	   "g:graph",
					 "--from",     "0",	    "--in-flight", nr_in_flight,
					 "-o",	       "/dev/null", NULL};
	double seconds = 1;
	uint64_t nr_looked = 0;
	int ret = need_graph(stage, row);

	if (!ret)
		ret = run_timed(arguments, &seconds, &nr_looked);
	*value = (double)nr_looked / seconds / 1e6;
	return ret;
}

static int explore_by_many(void *stage, const struct bench_row *row, unsigned repetition,
			   double *value)
{
	(void)repetition;
	return explore(stage, row, "64", value);
}

static int explore_by_one(void *stage, const struct bench_row *row, unsigned repetition,
			  double *value)
{
	(void)repetition;
	return explore(stage, row, "1", value);
}

/* ---- The rows */

#define GAPBS  "peer_gapbs.c: pull in this process's memory, as many threads as cores"
#define IGRAPH "igraph_pagerank() by PRPACK, to its end, in its own memory"
#define ONE    "the same, one read in flight"
static const struct graph_row local_20 = {"local", 20, false}, local_22 = {"local", 22, false};
static const struct graph_row tcp_20 = {"tcp", 20, false}, tcp_22 = {"tcp", 22, false};
static const struct graph_row local_18 = {"local", 18, true}, tcp_18 = {"tcp", 18, true};
#define EDGES_A_SECOND "M edges/s"
static struct bench_row rows[] = {
	{"PageRank scale 20, local / igraph", EDGES_A_SECOND, BENCH_HIGHER, IGRAPH, BAR_IGRAPH,
	 &local_20, rank, rank_by_igraph},
	{"PageRank scale 20, local / GAPBS", EDGES_A_SECOND, BENCH_HIGHER, GAPBS, BAR_GAPBS,
	 &local_20, rank, rank_by_gapbs},
	{"PageRank scale 20, tcp / GAPBS", EDGES_A_SECOND, BENCH_HIGHER, GAPBS, BENCH_REPORTED,
	 &tcp_20, rank, rank_by_gapbs},
	{"PageRank scale 22, local / GAPBS", EDGES_A_SECOND, BENCH_HIGHER, GAPBS, BAR_GAPBS,
	 &local_22, rank, rank_by_gapbs},
	{"PageRank scale 22, tcp / GAPBS", EDGES_A_SECOND, BENCH_HIGHER, GAPBS, BENCH_REPORTED,
	 &tcp_22, rank, rank_by_gapbs},
	{"shortest ways 64 reads, local / 1", EDGES_A_SECOND, BENCH_HIGHER, ONE, BENCH_REPORTED,
	 &local_18, explore_by_many, explore_by_one},
	{"shortest ways 64 reads, tcp / 1", EDGES_A_SECOND, BENCH_HIGHER, ONE, BENCH_REPORTED,
	 &tcp_18, explore_by_many, explore_by_one},
};

/* Making a graph takes the most: all edges, twice, and the region and its file. The peer igraph has
 * 64 bytes for each edge, and more while it makes them. */
static bool has_memory(const struct bench_row *row)
{
	uint64_t each = row->run_reference == rank_by_igraph ? 192 : 64;

	return machine_available_bytes() > each * edges_of(row->parameters) + GIB;
}

static int setup(void **out)
{
	const char *missing = folder_tmpfs_missing();
	char program[PATH_MAX];

	*out = calloc(1, sizeof(struct stage));
	if (!*out)
		return bench_fail(-ENOMEM, "no memory for the suite");
	if (missing)
		bench_skip(rows, NR_ROWS(rows), missing);
	for (unsigned i = 0; i < NR_ROWS(rows) && !missing; i++) {
		if (!has_memory(&rows[i]))
			bench_skip(&rows[i], 1, "not measured: too little memory is free");
		else if (rows[i].run_reference == rank_by_gapbs &&
			 peer_find_built("peer_gapbs", program))
			bench_skip(&rows[i], 1, "not measured: run build/afar, built with OpenMP");
		else if (rows[i].run_reference == rank_by_igraph &&
			 peer_find_built("peer_igraph", program))
			bench_skip(&rows[i], 1,
				   "not measured: run build/afar, built with libigraph-dev");
	}
	return 0;
}

static void teardown(void *context)
{
	struct stage *stage = context;

	forget_graph(stage);
	free(stage);
}

const struct bench_stage apps_graph_stage = {setup, teardown, rows, NR_ROWS(rows)};
