/* SPDX-License-Identifier: BSD-3-Clause */
/* Two threads, each on a processor of its own, that answer each other through one cache line; see distance.h. */
#include "distance.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

#define LOOK_NS	      UINT64_C(3000000)
#define BATCH	      256U /* rounds that are timed together: the quickest batch was not interrupted */
#define SPINS	      1024U /* between two looks at the clock */
#define LINE	      64U
#define NR_PROCESSORS 2

struct line {
	_Alignas(LINE) atomic_uint ball;
	_Alignas(LINE) atomic_bool has_ended;
	uint64_t least_ns; /* of a batch; 0: none */
};

/* Odd is the other's to answer, by the next even number. */
static void *answer(void *argument)
{
	struct line *line = argument;

	while (!atomic_load_explicit(&line->has_ended, memory_order_relaxed)) {
		unsigned ball = atomic_load_explicit(&line->ball, memory_order_acquire);

		if (ball % 2 == 1)
			atomic_store_explicit(&line->ball, ball + 1, memory_order_release);
	}
	return NULL;
}

static uint64_t serve_batch(struct line *line, uint64_t deadline)
{
	uint64_t begin = clock_ns();

	for (unsigned i = 0; i < BATCH; i++) {
		unsigned ball = atomic_load_explicit(&line->ball, memory_order_relaxed);

		atomic_store_explicit(&line->ball, ball + 1, memory_order_release);
		/* The other may not run at all. */
		for (unsigned spins = 1;
		     atomic_load_explicit(&line->ball, memory_order_acquire) == ball + 1; spins++) {
			if (spins % SPINS == 0 && clock_ns() >= deadline)
				return UINT64_MAX;
		}
	}
	return clock_ns() - begin;
}

static void *serve(void *argument)
{
	struct line *line = argument;
	uint64_t deadline = clock_ns() + LOOK_NS;

	while (clock_ns() < deadline) {
		uint64_t took = serve_batch(line, deadline);

		if (took != UINT64_MAX && (!line->least_ns || took < line->least_ns))
			line->least_ns = took;
	}
	atomic_store_explicit(&line->has_ended, true, memory_order_relaxed);
	return NULL;
}

/* The first and the last that this process may use. */
static bool find_processors(size_t processors[NR_PROCESSORS])
{
	cpu_set_t allowed;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) || CPU_COUNT(&allowed) < NR_PROCESSORS)
		return false;
	processors[0] = 0;
	while (!CPU_ISSET(processors[0], &allowed))
		processors[0]++;
	processors[1] = CPU_SETSIZE - 1;
	while (!CPU_ISSET(processors[1], &allowed))
		processors[1]--;
	return true;
}

static bool start_on(size_t processor, void *(*run)(void *), struct line *line, pthread_t *thread)
{
	pthread_attr_t attributes;
	cpu_set_t only;
	bool has_started;

	CPU_ZERO(&only);
	CPU_SET(processor, &only);
	pthread_attr_init(&attributes);
	has_started = !pthread_attr_setaffinity_np(&attributes, sizeof(only), &only) &&
		      !pthread_create(thread, &attributes, run, line);
	pthread_attr_destroy(&attributes);
	return has_started;
}

void distance_look(struct distance *distance)
{
	struct line line = {0};
	size_t processors[NR_PROCESSORS];
	pthread_t server, other;
	double ns;

	if (!find_processors(processors) || !start_on(processors[1], answer, &line, &other))
		return;
	if (start_on(processors[0], serve, &line, &server))
		pthread_join(server, NULL);
	atomic_store(&line.has_ended, true);
	pthread_join(other, NULL);
	if (!line.least_ns)
		return;
	ns = (double)line.least_ns / BATCH;
	if (distance->least_ns == 0 || ns < distance->least_ns)
		distance->least_ns = ns;
	if (ns > distance->most_ns)
		distance->most_ns = ns;
}
