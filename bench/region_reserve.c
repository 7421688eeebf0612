/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `region` about getting memory ready: reserving against populating the same memory in a
 * plain process, and the whole way to a mapping, cold against warm. Cold means servers and sessions
 * that have just begun; each cold measurement starts its own.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <afar/afar.h>

#include "base/clock.h"
#include "cluster.h"
#include "process.h"
#include "region.h"
#include "scene.h"

#define GIB		 (UINT64_C(1) << 30)
#define BYTES_WANTED	 (4 * GIB)
#define MACHINE_WANTED	 (15 * GIB) /* "16 GiB" machines show somewhat less */
#define SLACK_BYTES	 (GIB / 4)
#define SLICE_BYTES	 ((size_t)32 << 20)
#define THREADS_MAX	 64U
#define SCRUB_TIMEOUT_MS 30000

struct reserve_stage {
	uint64_t bytes;
	struct cluster *cluster;
	struct scene scene;
	bool is_warm; /* the server's pool and the session's cache hold `bytes` each */
};

static double milliseconds_since(uint64_t begin)
{
	return (double)(clock_ns() - begin) / 1e6;
}

static void note_size(const struct reserve_stage *state)
{
	if (state->bytes < BYTES_WANTED)
		bench_note("with %llu MiB instead of 4 GiB: the machine has less than 16 GiB",
			   (unsigned long long)state->bytes >> 20);
}

/* A quarter of a small machine: server, client and reference are populated side by side. */
static uint64_t choose_bytes(void)
{
	uint64_t bytes = BYTES_WANTED;

	if (machine_memory_bytes() >= MACHINE_WANTED)
		return BYTES_WANTED;
	while (bytes > machine_memory_bytes() / 4)
		bytes /= 2;
	return bytes;
}

static void stop_cluster(struct reserve_stage *state)
{
	scene_close(&state->scene);
	cluster_stop(state->cluster);
	state->cluster = NULL;
	state->is_warm = false;
}

/* A server and a session that have nothing yet, and an empty namespace. */
static int start_cold(struct reserve_stage *state)
{
	const struct afar_policy policy = {.size = sizeof(policy), .tier = AFAR_TIER_DRAM};
	int status;

	stop_cluster(state);
	status = cluster_start(1, state->bytes + SLACK_BYTES, &state->cluster);
	if (!status)
		status = scene_open(&state->scene, cluster_uri(state->cluster),
				    state->bytes + SLACK_BYTES);
	if (status)
		return status;
	status = afar_namespace_create(state->scene.session, SCENE_NAMESPACE, &policy,
				       &state->scene.ns);
	return status ? scene_fail("create a namespace", status) : 0;
}

static int setup(void **stage)
{
	struct reserve_stage *state = calloc(1, sizeof(*state));

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	state->bytes = choose_bytes();
	*stage = state;
	return 0;
}

static void teardown(void *stage)
{
	stop_cluster(stage);
	free(stage);
}

/* ---- Populating in a plain process: mmap, then as many threads as afard takes, one per core */

struct population {
	char *addr;
	size_t length;
	atomic_size_t next;
	atomic_int status;
};

static void *populate_slices(void *argument)
{
	struct population *population = argument;
	size_t offset;

	while ((offset = atomic_fetch_add(&population->next, SLICE_BYTES)) < population->length) {
		size_t left = population->length - offset;

		if (madvise(population->addr + offset, left < SLICE_BYTES ? left : SLICE_BYTES,
			    MADV_POPULATE_WRITE))
			atomic_store(&population->status, -errno);
	}
	return NULL;
}

static unsigned count_cores(void)
{
	cpu_set_t cores;

	if (sched_getaffinity(0, sizeof(cores), &cores))
		return 1;
	return (unsigned)CPU_COUNT(&cores);
}

/* Reserved huge pages if there are enough, else transparent ones, as a server does. */
static void *map_same_kind(size_t length)
{
	void *addr = mmap(NULL, length, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	if (addr != MAP_FAILED)
		return addr;
	addr = mmap(NULL, length, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (addr != MAP_FAILED)
		madvise(addr, length, MADV_HUGEPAGE);
	return addr;
}

static int populate_main(int channel, void *argument)
{
	struct population population = {.length = *(const uint64_t *)argument};
	pthread_t threads[THREADS_MAX];
	unsigned wanted = count_cores();
	unsigned started = 0;
	uint64_t begin = clock_ns();
	double elapsed_ms;

	population.addr = map_same_kind(population.length);
	if (population.addr == MAP_FAILED)
		return 1;
	while (started + 1 < wanted && started < THREADS_MAX &&
	       !pthread_create(&threads[started], NULL, populate_slices, &population))
		started++;
	populate_slices(&population);
	while (started)
		pthread_join(threads[--started], NULL);
	elapsed_ms = milliseconds_since(begin);
	if (atomic_load(&population.status))
		return 1;
	return child_send(&(struct child){.channel = channel}, &elapsed_ms, sizeof(elapsed_ms));
}

static int run_populate(void *stage, const struct bench_row *row, unsigned repetition,
			double *value)
{
	struct reserve_stage *state = stage;
	struct child child;
	int status = child_start(&child, populate_main, &state->bytes);

	(void)row;
	(void)repetition;
	if (status)
		return status;
	status = child_receive(&child, value, sizeof(*value));
	child_stop(&child);
	if (status)
		return bench_fail(status, "a plain process could not populate %llu MiB",
				  (unsigned long long)state->bytes >> 20);
	return 0;
}

static int run_reserve(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct reserve_stage *state = stage;
	uint64_t begin;
	int status = start_cold(state);

	(void)row;
	(void)repetition;
	if (status)
		return status;
	begin = clock_ns();
	status = afar_namespace_reserve(state->scene.ns, state->bytes);
	*value = milliseconds_since(begin);
	note_size(state);
	return status ? scene_fail("reserve", status) : 0;
}

static const struct bench_row reserve_rows[] = {
	{"cold reserve of 4 GiB", "ms", BENCH_LOWER,
	 "mmap and populate of the same kind of memory with as many threads, in a fresh process",
	 1.2, NULL, run_reserve, run_populate},
};

const struct bench_stage region_reserve_stage = {setup, teardown, reserve_rows,
						 NR_ROWS(reserve_rows)};

/* ---- Cold against warm */

/* The server reports now and then: it is done when all that was given back is clean. */
static int await_scrubbed(struct reserve_stage *state)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	uint64_t deadline = clock_deadline_ms(SCRUB_TIMEOUT_MS);
	uint64_t clean = 0;
	uint64_t dirty = 0;

	while (clock_remaining_ms(deadline) && !bench_is_interrupted()) {
		json_t *json;
		int status = scene_status(&state->scene, &json);

		if (status)
			return status;
		clean = status_sum(json, "clean_bytes");
		dirty = status_sum(json, "dirty_bytes") + status_sum(json, "draining_bytes");
		json_decref(json);
		if (!dirty && clean >= state->bytes)
			return 0;
		nanosleep(&pause, NULL);
	}
	return bench_fail(-ETIMEDOUT, "the pool is not scrubbed: %llu MiB clean, %llu MiB dirty",
			  (unsigned long long)clean >> 20, (unsigned long long)dirty >> 20);
}

static int reserve_alloc_map(struct reserve_stage *state, double *elapsed_ms)
{
	struct scene *scene = &state->scene;
	uint64_t begin = clock_ns();
	int status = afar_namespace_reserve(scene->ns, state->bytes);

	if (status)
		return scene_fail("reserve", status);
	status = afar_region_alloc(scene->ns, state->bytes, 0, &scene->region);
	if (status)
		return scene_fail("allocate a region", status);
	status = scene_map(scene, state->bytes);
	*elapsed_ms = milliseconds_since(begin);
	return status;
}

/* Gives everything back, and waits until it is ready to be taken again. */
static int undo(struct reserve_stage *state)
{
	uint64_t released = 0;
	int status;

	scene_free_region(&state->scene);
	status = afar_namespace_release(state->scene.ns, UINT64_MAX, &released);
	if (status)
		return scene_fail("release", status);
	if (released < state->bytes)
		return bench_fail(-EIO, "only %llu MiB were released",
				  (unsigned long long)released >> 20);
	status = await_scrubbed(state);
	state->is_warm = !status;
	return status;
}

static int run_cold(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct reserve_stage *state = stage;
	int status = start_cold(state);

	(void)row;
	(void)repetition;
	if (!status)
		status = reserve_alloc_map(state, value);
	note_size(state);
	return status ? status : undo(state);
}

static int run_warm(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct reserve_stage *state = stage;
	double cold_ms;
	int status = 0;

	if (!state->is_warm)
		status = run_cold(state, row, repetition, &cold_ms);
	if (!status)
		status = reserve_alloc_map(state, value);
	return status ? status : undo(state);
}

static const struct bench_row warm_rows[] = {
	{"cold reserve + alloc + map of 4 GiB", "ms", BENCH_HIGHER,
	 "the same from a warm pool: the server's scrubbed, the session's cached memory", 300, NULL,
	 run_cold, run_warm},
};

const struct bench_stage region_warm_stage = {setup, teardown, warm_rows, NR_ROWS(warm_rows)};
