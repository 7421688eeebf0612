/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `file` on what clients do to each other at the manager. One session asks, or opens, while others
 * make files one by one. Each file is on the manager's disk when its call returns. The reference is the same
 * without the others.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "file.h"

#define CREATORS_MAX 8U
#define LOOKERS_MAX  4U
#define SERVER_BYTES (256 * MIB)
#define SPAN_NS	     UINT64_C(500000000)
#define SAMPLES_MAX  65536U

struct beside_stage;
struct actor;
typedef int act_call(struct actor *actor);

struct beside {
	act_call *act;	    /* is measured */
	unsigned nr_actors; /* that do it; 1: the time of one is measured, else how many a second */
	act_call *other;    /* is done meanwhile */
	unsigned nr_others;
};

/* One that asks or makes, in a session of its own. */
struct actor {
	struct beside_stage *stage;
	struct afar_session *session;
	struct afar_fs *fs;
	uint64_t dir;
	unsigned nr_made; /* names, so far */
	act_call *act;
	uint64_t nr_done;
	int status;
	pthread_t thread;
};

struct beside_stage {
	struct cluster *cluster;
	struct actor actors[CREATORS_MAX + LOOKERS_MAX];
	uint64_t ino; /* that is asked for */
	atomic_bool is_over;
	double samples[SAMPLES_MAX];
};

/* ---- What is done */

/* By its path, which sessions ask for each time. */
static int look(struct actor *actor)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	int ret = afar_fs_walk(actor->fs, NULL, 0, "/dir-0/file", 0, 0, &stat);

	return ret ? scene_fail("look at a file", ret) : 0;
}

/* To write, because a file that is opened to read again asks nobody. */
static int open_and_close(struct actor *actor)
{
	struct afar_file *file;
	int ret = afar_file_open(actor->fs, NULL, actor->stage->ino, O_WRONLY, &file);

	if (!ret)
		ret = afar_file_close(file);
	return ret ? scene_fail("open a file", ret) : 0;
}

static int make(struct actor *actor)
{
	struct afar_file_stat made = {.size = sizeof(made)};
	char name[24];
	int ret;

	snprintf(name, sizeof(name), "file-%u", actor->nr_made++);
	ret = afar_fs_make(actor->fs, NULL, actor->dir, name, S_IFREG | 0644, 0, NULL, &made);
	return ret ? scene_fail("make a file", ret) : 0;
}

static void *act_on(void *argument)
{
	struct actor *actor = argument;

	actor->nr_done = 0;
	actor->status = 0;
	while (!atomic_load(&actor->stage->is_over) && !actor->status) {
		actor->status = actor->act(actor);
		actor->nr_done++;
	}
	return NULL;
}

static int start(struct beside_stage *stage, unsigned i, act_call *act)
{
	stage->actors[i].act = act;
	return -pthread_create(&stage->actors[i].thread, NULL, act_on, &stage->actors[i]);
}

/* The median of one actor's times, in microseconds. */
static int time_one(struct beside_stage *stage, act_call *act, double *value)
{
	uint64_t end = clock_ns() + bench_span_ns(SPAN_NS);
	unsigned nr = 0;
	int ret = 0;

	do {
		uint64_t begin = clock_ns();

		ret = act(&stage->actors[0]);
		stage->samples[nr++] = (double)(clock_ns() - begin) / 1e3;
	} while (!ret && nr < SAMPLES_MAX && clock_ns() < end);
	*value = bench_median(stage->samples, nr);
	return ret;
}

static void sleep_for(uint64_t ns)
{
	const struct timespec span = {.tv_sec = (time_t)(ns / 1000000000U),
				      .tv_nsec = (long)(ns % 1000000000U)};

	nanosleep(&span, NULL);
}

/* How many thousand all of them do in a second. */
static int count_all(struct beside_stage *stage, const struct beside *beside, double *value)
{
	uint64_t begin = clock_ns(), nr_done = 0;
	unsigned nr = 0;
	int ret = 0;

	for (; nr < beside->nr_actors && !ret; nr++)
		ret = start(stage, nr, beside->act);
	sleep_for(bench_span_ns(SPAN_NS));
	atomic_store(&stage->is_over, true);
	for (unsigned i = 0; i < nr; i++) {
		pthread_join(stage->actors[i].thread, NULL);
		nr_done += stage->actors[i].nr_done;
		ret = ret ? ret : stage->actors[i].status;
	}
	*value = (double)nr_done * 1e6 / (double)(clock_ns() - begin);
	return ret;
}

static int measure(struct beside_stage *stage, const struct beside *beside, unsigned nr_others,
		   double *value)
{
	struct actor *others = &stage->actors[LOOKERS_MAX];
	unsigned nr = 0;
	int ret = 0;

	atomic_store(&stage->is_over, false);
	for (; nr < nr_others && !ret; nr++)
		ret = start(stage, LOOKERS_MAX + nr, beside->other);
	if (!ret)
		ret = beside->nr_actors == 1 ? time_one(stage, beside->act, value)
					     : count_all(stage, beside, value);
	atomic_store(&stage->is_over, true);
	for (unsigned i = 0; i < nr; i++) {
		pthread_join(others[i].thread, NULL);
		ret = ret ? ret : others[i].status;
	}
	return ret;
}

static int run_beside(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct beside *beside = row->parameters;

	(void)repetition;
	return measure(state, beside, beside->nr_others, value);
}

static int run_alone(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)repetition;
	return measure(state, row->parameters, 0, value);
}

/* ---- The stage */

static int open_actor(struct beside_stage *stage, unsigned i)
{
	struct actor *actor = &stage->actors[i];
	struct afar_file_stat made = {.size = sizeof(made)};
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	char name[16];
	int ret = afar_session_open(cluster_uri(stage->cluster), NULL, &actor->session);

	actor->stage = stage;
	if (ret)
		return scene_fail("open a session", ret);
	ret = i == 0 ? file_fs_open(actor->session, AFAR_TIER_DRAM, &actor->fs)
		     : file_fs_join(actor->session, &actor->fs);
	if (ret)
		return ret;
	snprintf(name, sizeof(name), "dir-%u", i);
	ret = afar_fs_stat(actor->fs, &stat);
	if (!ret)
		ret = afar_fs_make(actor->fs, NULL, stat.root, name, S_IFDIR | 0755, 0, NULL,
				   &made);
	actor->dir = made.ino;
	if (!ret && i == 0)
		ret = afar_fs_make(actor->fs, NULL, actor->dir, "file", S_IFREG | 0644, 0, NULL,
				   &made);
	if (i == 0)
		stage->ino = made.ino;
	return ret ? scene_fail("make a directory", ret) : 0;
}

static void teardown(void *state)
{
	struct beside_stage *stage = state;

	for (unsigned i = 0; i < CREATORS_MAX + LOOKERS_MAX; i++) {
		if (stage->actors[i].fs)
			afar_fs_close(stage->actors[i].fs);
		if (stage->actors[i].session)
			afar_session_close(stage->actors[i].session);
	}
	cluster_stop(stage->cluster);
	free(stage);
}

static int setup(void **state)
{
	struct beside_stage *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = cluster_start_over("tcp", 1, SERVER_BYTES, &stage->cluster);
	for (unsigned i = 0; i < CREATORS_MAX + LOOKERS_MAX && !ret; i++)
		ret = open_actor(stage, i);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

#define BESIDE(name, unit, better, ...)                                            \
	{                                                                          \
		name, unit, better, "the same alone", BENCH_REPORTED,              \
			&(const struct beside){__VA_ARGS__}, run_beside, run_alone \
	}
static const struct bench_row rows[] = {
	BESIDE("find a file, beside 1 client's durable creates", "us", BENCH_LOWER, look, 1, make,
	       1),
	BESIDE("find a file, beside 8 clients' durable creates", "us", BENCH_LOWER, look, 1, make,
	       8),
	BESIDE("finds of 4 clients, beside 1 client's durable creates", "k/s", BENCH_HIGHER, look,
	       4, make, 1),
	BESIDE("open and close, beside 1 client's durable creates", "us", BENCH_LOWER,
	       open_and_close, 1, make, 1),
	BESIDE("durable create, beside 1 client's finds", "us", BENCH_LOWER, make, 1, look, 1),
	BESIDE("durable create, beside 7 clients' durable creates", "us", BENCH_LOWER, make, 1,
	       make, 7),
};

const struct bench_stage file_beside_stage = {setup, teardown, rows, NR_ROWS(rows)};
