/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `python` on single calls: Region.read_into() with a numpy array, beside afar_region_pread(). The row of small reads has
 * what Python adds to a call. Its reference is what that may be.
 *
 * Each measurement is a new process with a new buffer, in C as in Python. Where a process's buffer lies makes up to a tenth, for as long
 * as the process lives.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "harness/cluster.h"
#include "harness/process.h"
#include "harness/scene.h"
#include "peers/python.h"
#include "python.h"

#define SERVER_BYTES (64 * MIB)
#define REGION_BYTES (16 * MIB)
#define NR_SMALL     50000U
#define NR_LARGE     2048U
#define MAY_ADD_US   0.5
#define BAR_LARGE    0.98
#define NR_WARM	     64U

struct calls_stage {
	struct cluster *cluster;
};

struct kind {
	uint64_t size;
	unsigned nr;
};

/* The order for a child. */
struct calls {
	const char *uri;
	const struct bench_row *row;
};

/* Nanoseconds of a call. A small read is at a place in no order of 1 MiB, as peer_python.py has it. */
static int measure(const struct scene *scene, const struct bench_row *row, char *memory, double *ns)
{
	const struct kind *kind = row->parameters;
	const uint64_t nr_places = kind->size < MIB ? MIB / kind->size : REGION_BYTES / MIB;
	uint64_t random = 1, begin = 0;

	for (unsigned i = 0; i < NR_WARM + kind->nr; i++) {
		const uint64_t place =
			kind->size < MIB ? (random >> 33) % nr_places : i % nr_places;
		ssize_t nr;

		if (i == NR_WARM)
			begin = clock_ns();
		nr = afar_region_pread(scene->region, memory, kind->size, place * kind->size);
		if (nr != (ssize_t)kind->size)
			return scene_fail(row->name, nr < 0 ? (int)nr : -EIO);
		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	}
	*ns = (double)(clock_ns() - begin) / kind->nr;
	return 0;
}

static int calls_main(int channel, void *argument)
{
	const struct calls *calls = argument;
	char *memory = malloc(((const struct kind *)calls->row->parameters)->size);
	struct scene scene = {0};
	double ns = 0;
	int ret = memory ? scene_open(&scene, calls->uri, 0) : -ENOMEM;

	if (!ret)
		ret = scene_open_region(&scene);
	if (!ret)
		ret = measure(&scene, calls->row, memory, &ns);
	if (!ret)
		ret = child_send(&(struct child){.channel = channel}, &ns, sizeof(ns));
	scene_close(&scene);
	free(memory);
	return ret ? 1 : 0;
}

static int create_main(int channel, void *argument)
{
	const double done = 0;
	struct scene scene = {0};
	int ret = scene_open(&scene, argument, 0);

	if (!ret)
		ret = scene_create_region(&scene, SCENE_NAMESPACE, 0, REGION_BYTES);
	scene_close(&scene);
	if (!ret)
		ret = child_send(&(struct child){.channel = channel}, &done, sizeof(done));
	return ret ? 1 : 0;
}

/* This process opens no session, so it has no threads that a child would miss. */
static int run_child(int (*child_main)(int channel, void *argument), void *argument, double *value)
{
	struct child child;
	int ret = child_start(&child, child_main, argument);

	if (!ret) {
		ret = child_receive(&child, value, sizeof(*value));
		if (ret)
			bench_fail(ret, "a client ended early");
	}
	child_stop(&child);
	return ret;
}

static int run_c(const struct calls_stage *stage, const struct bench_row *row, double *ns)
{
	struct calls calls = {cluster_uri(stage->cluster), row};

	return run_child(calls_main, &calls, ns);
}

static int run_python(const struct calls_stage *stage, const struct bench_row *row, double *ns)
{
	const struct kind *kind = row->parameters;
	char size[24], nr[24];

	snprintf(size, sizeof(size), "%llu", (unsigned long long)kind->size);
	snprintf(nr, sizeof(nr), "%u", kind->nr);
	return python_run(cluster_uri(stage->cluster), "call", (const char *[]){size, nr, NULL},
			  ns);
}

/* Both in turn, so that what a machine does meanwhile is in both. */
static int run_added(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	double in_c, in_python;
	int ret = run_c(state, row, &in_c);

	(void)repetition;
	if (!ret)
		ret = run_python(state, row, &in_python);
	if (ret)
		return ret;
	bench_note("%s: a call takes %.2f µs in C, and %.2f µs in Python", row->name, in_c / 1e3,
		   in_python / 1e3);
	*value = (in_python - in_c) / 1e3;
	return 0;
}

static int run_may_add(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)state, (void)row, (void)repetition;
	*value = MAY_ADD_US;
	return 0;
}

static int run_large(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	int ret = run_python(state, row, value);

	(void)repetition;
	*value = (double)((const struct kind *)row->parameters)->size / *value;
	return ret;
}

static int run_large_in_c(void *state, const struct bench_row *row, unsigned repetition,
			  double *value)
{
	int ret = run_c(state, row, value);

	(void)repetition;
	*value = (double)((const struct kind *)row->parameters)->size / *value;
	return ret;
}

#define ROWS(over)                                                                                \
	{"read_into 4 KiB, " over ": added to C", "µs",	     BENCH_LOWER, "0.5 µs", 1.0,          \
	 &(const struct kind){4 * KIB, NR_SMALL}, run_added, run_may_add},                        \
	{                                                                                         \
		"read_into 1 MiB, " over, "GB/s", BENCH_HIGHER, "afar_region_pread()", BAR_LARGE, \
			&(const struct kind){MIB, NR_LARGE}, run_large, run_large_in_c            \
	}

static struct bench_row local_rows[] = {ROWS("local")}, tcp_rows[] = {ROWS("tcp")};

static void teardown(void *state)
{
	struct calls_stage *stage = state;

	if (!stage)
		return;
	cluster_stop(stage->cluster);
	free(stage);
}

static int setup(const char *transport, struct bench_row *rows, unsigned nr_rows, void **state)
{
	const char *missing = python_missing("numpy", "not installed: apt install python3-numpy");
	struct calls_stage *stage;
	double ignored;
	int ret;

	*state = NULL;
	if (missing) {
		bench_skip(rows, nr_rows, missing);
		return 0;
	}
	stage = calloc(1, sizeof(*stage));
	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = cluster_start_over(transport, 1, SERVER_BYTES, &stage->cluster);
	if (!ret)
		ret = run_child(create_main, (void *)(uintptr_t)cluster_uri(stage->cluster),
				&ignored);
	if (ret) {
		teardown(stage);
		return ret;
	}
	*state = stage;
	return 0;
}

static int setup_local(void **state)
{
	return setup("local", local_rows, NR_ROWS(local_rows), state);
}

static int setup_tcp(void **state)
{
	return setup("tcp", tcp_rows, NR_ROWS(tcp_rows), state);
}

const struct bench_stage python_calls_local_stage = {setup_local, teardown, local_rows,
						     NR_ROWS(local_rows)};
const struct bench_stage python_calls_tcp_stage = {setup_tcp, teardown, tcp_rows,
						   NR_ROWS(tcp_rows)};
