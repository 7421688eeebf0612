/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suite `barrier`: what a phase of a barrier takes, against a small read by the same client in the same run. Each member
 * has a thread and a session of its own; member 0 is the thread that measures. The others sleep
 * between its measurements.
 */
#include <afar/barrier.h>

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cluster.h"
#include "harness.h"
#include "scene.h"

#define MEMBERS_MAX  8U
#define NR_PHASES    500U
#define NR_READS     5000U
#define READ_BYTES   64U
#define REGION_BYTES (UINT64_C(2) << 20)
#define BARRIER_AT   UINT64_C(65536) /* in the region; what is read is before it */
#define OPEN_MS	     10000

struct crew;

struct member {
	struct crew *crew;
	unsigned number;
	pthread_t thread;
	bool has_thread;
	struct scene scene;
	struct afar_barrier *barrier;
	int status;
};

struct crew {
	struct cluster *cluster;
	struct member members[MEMBERS_MAX];
	unsigned nr_members;
	pthread_mutex_t lock; /* guards the next */
	pthread_cond_t changed;
	unsigned nr_runs; /* that member 0 has begun */
	unsigned nr_done; /* of the others, with the last of them */
	bool is_over;
};

static int open_barrier(struct member *member)
{
	const struct afar_barrier_options options = {
		.size = sizeof(options),
		.offset = BARRIER_AT,
		.nr_members = member->crew->nr_members,
		.member = member->number,
	};
	int ret = afar_barrier_open(member->scene.region, &options, OPEN_MS, &member->barrier);

	return ret ? scene_fail("open the barrier", ret) : 0;
}

static int run_phases(struct member *member)
{
	for (unsigned i = 0; i < NR_PHASES; i++) {
		int ret = afar_barrier_wait(member->barrier, -1);

		if (ret)
			return scene_fail("wait at the barrier", ret < 0 ? ret : -EIO);
	}
	return 0;
}

/* ---- Runs: member 0 begins them, the others sleep between them */

static void begin_run(struct crew *crew)
{
	pthread_mutex_lock(&crew->lock);
	crew->nr_runs++;
	crew->nr_done = 0;
	pthread_cond_broadcast(&crew->changed);
	pthread_mutex_unlock(&crew->lock);
}

/* False: there are no more. */
static bool await_run(struct crew *crew, unsigned run)
{
	bool has_begun;

	pthread_mutex_lock(&crew->lock);
	while (crew->nr_runs < run && !crew->is_over)
		pthread_cond_wait(&crew->changed, &crew->lock);
	has_begun = crew->nr_runs >= run;
	pthread_mutex_unlock(&crew->lock);
	return has_begun;
}

static void end_run(struct crew *crew)
{
	pthread_mutex_lock(&crew->lock);
	crew->nr_done++;
	pthread_cond_broadcast(&crew->changed);
	pthread_mutex_unlock(&crew->lock);
}

static void await_others(struct crew *crew)
{
	pthread_mutex_lock(&crew->lock);
	while (crew->nr_done < crew->nr_members - 1)
		pthread_cond_wait(&crew->changed, &crew->lock);
	pthread_mutex_unlock(&crew->lock);
}

/* A member that cannot go on still says when a run is over; the others' waits end when its barrier is closed. */
static void *run_member(void *argument)
{
	struct member *member = argument;
	struct crew *crew = member->crew;

	member->status = scene_open(&member->scene, cluster_uri(crew->cluster), 0);
	if (!member->status)
		member->status = scene_open_region(&member->scene);
	if (!member->status)
		member->status = open_barrier(member);
	for (unsigned run = 1; await_run(crew, run); run++) {
		if (!member->status)
			member->status = run_phases(member);
		if (member->status && member->barrier) {
			afar_barrier_close(member->barrier);
			member->barrier = NULL;
		}
		end_run(crew);
	}
	if (member->barrier)
		afar_barrier_close(member->barrier);
	scene_close(&member->scene);
	return NULL;
}

static int run_barrier(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct crew *crew = stage;
	uint64_t begin;
	int ret;

	(void)row;
	(void)repetition;
	begin_run(crew);
	begin = clock_ns();
	ret = run_phases(&crew->members[0]);
	*value = (double)(clock_ns() - begin) / NR_PHASES / 1e3;
	/* The others' waits end with it. */
	if (ret && crew->members[0].barrier) {
		afar_barrier_close(crew->members[0].barrier);
		crew->members[0].barrier = NULL;
	}
	await_others(crew);
	return ret;
}

static int run_reads(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct crew *crew = stage;
	uint64_t begin = clock_ns();

	(void)row;
	(void)repetition;
	for (unsigned i = 0; i < NR_READS; i++) {
		int ret = afar_mapping_read(crew->members[0].scene.mapping, 0, READ_BYTES);

		if (ret)
			return scene_fail("read", ret);
	}
	*value = (double)(clock_ns() - begin) / NR_READS / 1e3;
	return 0;
}

static void teardown(void *stage)
{
	struct crew *crew = stage;
	struct member *first = &crew->members[0];

	if (first->barrier)
		afar_barrier_close(first->barrier);
	pthread_mutex_lock(&crew->lock);
	crew->is_over = true;
	pthread_cond_broadcast(&crew->changed);
	pthread_mutex_unlock(&crew->lock);
	for (unsigned i = 1; i < crew->nr_members; i++) {
		if (crew->members[i].has_thread)
			pthread_join(crew->members[i].thread, NULL);
	}
	scene_close(&first->scene);
	cluster_stop(crew->cluster);
	pthread_cond_destroy(&crew->changed);
	pthread_mutex_destroy(&crew->lock);
	free(crew);
}

static int start_members(struct crew *crew)
{
	for (unsigned i = 1; i < crew->nr_members; i++) {
		struct member *member = &crew->members[i];

		*member = (struct member){.crew = crew, .number = i};
		member->has_thread = pthread_create(&member->thread, NULL, run_member, member) == 0;
		if (!member->has_thread)
			return bench_fail(-EAGAIN, "no thread for member %u", i);
	}
	return 0;
}

static int open_crew(struct crew *crew)
{
	struct member *first = &crew->members[0];
	int ret = cluster_start(1, 4 * REGION_BYTES, &crew->cluster);

	first->crew = crew;
	if (!ret)
		ret = scene_open(&first->scene, cluster_uri(crew->cluster), 0);
	if (!ret)
		ret = scene_create_region(&first->scene, SCENE_NAMESPACE, 1, REGION_BYTES);
	if (!ret)
		ret = scene_map(&first->scene, BARRIER_AT);
	if (!ret)
		ret = start_members(crew);
	return ret ? ret : open_barrier(first);
}

static int setup(void **stage, unsigned nr_members)
{
	struct crew *crew = calloc(1, sizeof(*crew));
	int ret;

	if (!crew)
		return bench_fail(-ENOMEM, "no memory for the suite");
	crew->nr_members = nr_members;
	pthread_mutex_init(&crew->lock, NULL);
	pthread_cond_init(&crew->changed, NULL);
	ret = open_crew(crew);
	if (ret) {
		teardown(crew);
		return ret;
	}
	*stage = crew;
	return 0;
}

static int setup_2(void **stage)
{
	return setup(stage, 2);
}

static int setup_4(void **stage)
{
	return setup(stage, 4);
}

static int setup_8(void **stage)
{
	return setup(stage, MEMBERS_MAX);
}

#define A_READ "afar_mapping_read() of 64 bytes by member 0, while the others sleep"
#define ROW(count)                                                                           \
	{                                                                                    \
		"a phase of " #count " members / a read of 64 B", "µs", BENCH_LOWER, A_READ, \
			BENCH_REPORTED, NULL, run_barrier, run_reads                         \
	}

static const struct bench_row rows_2[] = {ROW(2)};
static const struct bench_row rows_4[] = {ROW(4)};
static const struct bench_row rows_8[] = {ROW(8)};

static const struct bench_stage stage_2 = {setup_2, teardown, rows_2, 1};
static const struct bench_stage stage_4 = {setup_4, teardown, rows_4, 1};
static const struct bench_stage stage_8 = {setup_8, teardown, rows_8, 1};

static const struct bench_stage *const stages[] = {&stage_2, &stage_4, &stage_8};

const struct bench_suite bench_suite_barrier = {
	.name = "barrier",
	.summary = "barriers of 2, 4 and 8 members: a phase against a small read",
	.stages = stages,
	.nr_stages = sizeof(stages) / sizeof(stages[0]),
};
