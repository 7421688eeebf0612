/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients that get memory ready: a thread for each while they do. A step begins when all have arrived, so that it can be
 * told from the one before.
 */
#include "preparation.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include <afar/afar.h>

#include "base/clock.h"
#include "harness/harness.h"
#include "harness/process.h"

#define SLACK_BYTES	 (UINT64_C(256) << 20)
#define SLICE_BYTES	 ((size_t)32 << 20)
#define THREADS_MAX	 64U
#define SCRUB_TIMEOUT_MS 30000

/* ---- Beginning and end */

void preparation_stop(struct preparation *preparation)
{
	for (unsigned i = 0; i < preparation->nr_clients; i++)
		scene_close(&preparation->scenes[i]);
	cluster_stop(preparation->cluster);
	preparation->cluster = NULL;
}

static int open_client(struct preparation *preparation, unsigned i)
{
	const struct afar_policy policy = {.size = sizeof(policy), .tier = AFAR_TIER_DRAM};
	struct scene *scene = &preparation->scenes[i];
	char name[32];
	int ret = scene_open(scene, cluster_uri(preparation->cluster),
			     preparation->bytes + SLACK_BYTES);

	if (ret)
		return ret;
	snprintf(name, sizeof(name), SCENE_NAMESPACE "-%u", i);
	ret = afar_namespace_create(scene->session, name, &policy, &scene->ns);
	return ret ? scene_fail("create a namespace", ret) : 0;
}

int preparation_start(struct preparation *preparation)
{
	int ret;

	preparation_stop(preparation);
	ret = cluster_start(1, preparation->nr_clients * preparation->bytes + SLACK_BYTES,
			    &preparation->cluster);
	for (unsigned i = 0; i < preparation->nr_clients && !ret; i++)
		ret = open_client(preparation, i);
	return ret;
}

/* ---- The steps */

/* Where the clients wait for one another. */
struct start {
	pthread_mutex_t lock; /* held until all are there, or it is known that they will not be */
	bool is_off;
	pthread_barrier_t barrier;
};

struct preparer {
	pthread_t thread;
	struct scene *scene;
	uint64_t bytes;
	struct start *start;
	uint64_t done_at[1 + NR_STEPS]; /* on clock_ns(): ready for the first, then each */
	int status;
};

static int take_step(struct scene *scene, uint64_t bytes, enum preparation_step step)
{
	int ret = 0;

	switch (step) {
	case STEP_RESERVE:
		ret = afar_namespace_reserve(scene->ns, bytes);
		return ret ? scene_fail("reserve", ret) : 0;
	case STEP_ALLOC:
		ret = afar_region_alloc(scene->ns, bytes, 0, &scene->region);
		return ret ? scene_fail("allocate a region", ret) : 0;
	case STEP_MAP:
		return scene_map(scene, bytes);
	case NR_STEPS:
		break;
	}
	return -EINVAL;
}

static bool is_off(struct start *start)
{
	bool is_off;

	pthread_mutex_lock(&start->lock);
	is_off = start->is_off;
	pthread_mutex_unlock(&start->lock);
	return is_off;
}

/* A client that has failed still arrives at each step, because the others wait for it. */
static void *prepare(void *argument)
{
	struct preparer *preparer = argument;

	if (is_off(preparer->start))
		return NULL;
	preparer->done_at[0] = clock_ns();
	for (unsigned step = 0; step < NR_STEPS; step++) {
		pthread_barrier_wait(&preparer->start->barrier);
		if (!preparer->status)
			preparer->status = take_step(preparer->scene, preparer->bytes, step);
		preparer->done_at[1 + step] = clock_ns();
	}
	return NULL;
}

static uint64_t last_of(const struct preparer *preparers, unsigned nr, unsigned step)
{
	uint64_t last = 0;

	for (unsigned i = 0; i < nr; i++) {
		if (preparers[i].done_at[step] > last)
			last = preparers[i].done_at[step];
	}
	return last;
}

int preparation_run(struct preparation *preparation, double steps_ms[NR_STEPS])
{
	struct preparer preparers[PREPARATION_CLIENTS_MAX];
	struct start start = {.lock = PTHREAD_MUTEX_INITIALIZER};
	unsigned nr = 0;
	int ret = 0;

	pthread_barrier_init(&start.barrier, NULL, preparation->nr_clients);
	pthread_mutex_lock(&start.lock);
	for (; nr < preparation->nr_clients && !start.is_off; nr += !start.is_off) {
		preparers[nr] = (struct preparer){.scene = &preparation->scenes[nr],
						  .bytes = preparation->bytes,
						  .start = &start};
		start.is_off = pthread_create(&preparers[nr].thread, NULL, prepare, &preparers[nr]);
	}
	pthread_mutex_unlock(&start.lock);
	if (start.is_off)
		ret = bench_fail(-EAGAIN, "no thread for a client; raise the limit of processes");
	for (unsigned i = 0; i < nr; i++) {
		pthread_join(preparers[i].thread, NULL);
		if (!ret)
			ret = preparers[i].status;
	}
	pthread_barrier_destroy(&start.barrier);
	for (unsigned step = 0; step < NR_STEPS && !ret; step++)
		steps_ms[step] =
			(double)(last_of(preparers, nr, step + 1) - last_of(preparers, nr, step)) /
			1e6;
	return ret;
}

/* ---- Back again */

/* The server reports now and then: it is done when all that was given back is clean. */
static int await_scrubbed(struct preparation *preparation)
{
	const uint64_t wanted = preparation->nr_clients * preparation->bytes;
	const struct timespec pause = {.tv_nsec = 20000000};
	uint64_t deadline = clock_deadline_ms(SCRUB_TIMEOUT_MS);
	uint64_t clean = 0;
	uint64_t dirty = 0;

	while (clock_remaining_ms(deadline) && !bench_is_interrupted()) {
		json_t *json;
		int ret = scene_status(&preparation->scenes[0], &json);

		if (ret)
			return ret;
		clean = status_sum(json, "clean_bytes");
		dirty = status_sum(json, "dirty_bytes") + status_sum(json, "draining_bytes");
		json_decref(json);
		if (!dirty && clean >= wanted)
			return 0;
		nanosleep(&pause, NULL);
	}
	return bench_fail(-ETIMEDOUT, "the pool is not scrubbed: %llu MiB clean, %llu MiB dirty",
			  (unsigned long long)clean >> 20, (unsigned long long)dirty >> 20);
}

int preparation_undo(struct preparation *preparation)
{
	for (unsigned i = 0; i < preparation->nr_clients; i++) {
		struct scene *scene = &preparation->scenes[i];
		uint64_t released = 0;
		int ret;

		scene_free_region(scene);
		ret = afar_namespace_release(scene->ns, UINT64_MAX, &released);
		if (ret)
			return scene_fail("release", ret);
		if (released < preparation->bytes)
			return bench_fail(-EIO, "only %llu MiB were released",
					  (unsigned long long)released >> 20);
	}
	return await_scrubbed(preparation);
}

/* ---- Populating in a plain process */

struct order {
	uint64_t bytes;
	unsigned nr_times;
};

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

static int populate_once(uint64_t bytes, double *elapsed_ms)
{
	struct population population = {.length = bytes};
	pthread_t threads[THREADS_MAX];
	unsigned wanted = count_cores();
	unsigned started = 0;
	uint64_t begin = clock_ns();

	population.addr = map_same_kind(population.length);
	if (population.addr == MAP_FAILED)
		return -ENOMEM;
	while (started + 1 < wanted && started < THREADS_MAX &&
	       !pthread_create(&threads[started], NULL, populate_slices, &population))
		started++;
	populate_slices(&population);
	while (started)
		pthread_join(threads[--started], NULL);
	*elapsed_ms = (double)(clock_ns() - begin) / 1e6;
	return atomic_load(&population.status);
}

/* Populates in a child process. The memory stays populated until the process ends. */
static int populate_main(int channel, void *argument)
{
	const struct order *order = argument;
	double elapsed_ms;

	for (unsigned i = 0; i < order->nr_times; i++) {
		if (populate_once(order->bytes, &elapsed_ms) ||
		    child_send(&(struct child){.channel = channel}, &elapsed_ms,
			       sizeof(elapsed_ms)))
			return 1;
	}
	return 0;
}

int preparation_populate(uint64_t bytes, unsigned nr_times, double *times_ms)
{
	struct order order = {bytes, nr_times};
	struct child child;
	int ret = child_start(&child, populate_main, &order);

	if (ret)
		return ret;
	for (unsigned i = 0; i < nr_times && !ret; i++)
		ret = child_receive(&child, &times_ms[i], sizeof(times_ms[i]));
	child_stop(&child);
	if (ret)
		return bench_fail(ret, "a plain process could not populate %llu MiB",
				  (unsigned long long)(bytes * nr_times) >> 20);
	return 0;
}
