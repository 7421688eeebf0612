/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suite `registration`: what the cache of registrations (memory/registration_cache.h) costs and
 * saves. It measures a lookup, and freeing memory that is watched. registration_pinning.c measures
 * the pinning that the cache saves.
 */
#include "registration.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/error.h"

#define PAGE	      ((size_t)4096)
#define NR_RANGES     10000U
#define NR_LOOKUPS    1000000U
#define LOOKUP_BAR_NS 100.0
#define BUFFER_BYTES  ((size_t)64 << 10)
#define NR_BUFFERS    1000U
#define STRIDE	      ((size_t)7919) /* ranges apart: no order that a processor could foresee */

/* Memory is watched by one cache at a time: each has its own. */
struct side {
	struct registration_cache *cache;
	char *memory; /* NR_RANGES pieces of one page, a page apart, all kept */
};

struct lookup_stage {
	struct side asking;   /* for pending changes, as it has to be */
	struct side trusting; /* for what that costs */
};

static int add_nothing(void *context, void *addr, size_t length, void **registration)
{
	(void)context;
	(void)length;
	*registration = addr;
	return 0;
}

static void remove_nothing(void *context, void *const *registrations, size_t nr)
{
	(void)context;
	(void)registrations;
	(void)nr;
}

const struct registrar registrar_of_nothing = {.add = add_nothing, .remove = remove_nothing};

static char *map(size_t bytes)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static int use(struct registration_cache *cache, void *addr, size_t length)
{
	struct registration *registration;
	int ret = registration_take(cache, addr, length, &registration);

	if (ret)
		return bench_fail(ret, "%s", error_last_line());
	registration_give(cache, registration);
	return 0;
}

/* ---- Finding one of many */

static int look_up(const struct side *side, double *value)
{
	uint64_t began = clock_ns();
	int ret = 0;

	for (size_t i = 0; i < NR_LOOKUPS && !ret; i++)
		ret = use(side->cache, side->memory + i * STRIDE % NR_RANGES * 2 * PAGE, PAGE);
	*value = (double)(clock_ns() - began) / NR_LOOKUPS;
	return ret;
}

static int run_trusting(void *stage, const struct bench_row *row, unsigned repetition,
			double *value)
{
	(void)row;
	(void)repetition;
	return look_up(&((struct lookup_stage *)stage)->trusting, value);
}

static int run_asking(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)row;
	(void)repetition;
	return look_up(&((struct lookup_stage *)stage)->asking, value);
}

static int run_lookup_bar(void *stage, const struct bench_row *row, unsigned repetition,
			  double *value)
{
	(void)stage;
	(void)row;
	(void)repetition;
	*value = LOOKUP_BAR_NS;
	return 0;
}

/* ---- Freeing what is watched: microseconds for each buffer */

static int unmap_buffers(struct registration_cache *cache, double *value)
{
	char *buffers[NR_BUFFERS];
	unsigned nr = 0;
	uint64_t began;
	int ret = 0;

	for (; nr < NR_BUFFERS && !ret; nr++) {
		buffers[nr] = map(BUFFER_BYTES);
		if (!buffers[nr])
			ret = bench_fail(-ENOMEM, "no memory for %u buffers", NR_BUFFERS);
		else if (cache)
			ret = use(cache, buffers[nr], BUFFER_BYTES);
	}
	began = clock_ns();
	for (unsigned i = 0; i < nr; i++)
		munmap(buffers[i], BUFFER_BYTES);
	*value = (double)(clock_ns() - began) / 1e3 / NR_BUFFERS;
	return ret;
}

static int run_unmap_watched(void *stage, const struct bench_row *row, unsigned repetition,
			     double *value)
{
	(void)row;
	(void)repetition;
	return unmap_buffers(((struct lookup_stage *)stage)->asking.cache, value);
}

static int run_unmap(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)stage;
	(void)row;
	(void)repetition;
	return unmap_buffers(NULL, value);
}

/* ---- The stage */

static void close_side(struct side *side)
{
	registration_cache_close(side->cache);
	if (side->memory)
		munmap(side->memory, 2 * NR_RANGES * PAGE);
}

static int open_side(struct side *side, bool trusts_thread)
{
	const struct registration_cache_options options = {
		.registrar = registrar_of_nothing,
		.bytes_max = UINT64_MAX / 2,
		.nr_max = 2 * NR_RANGES,
		.batch = 16,
		.trusts_thread = trusts_thread,
	};
	int ret = registration_cache_open(&options, &side->cache);

	if (ret)
		return bench_fail(ret, "%s", error_last_line());
	side->memory = map(2 * NR_RANGES * PAGE);
	if (!side->memory)
		return bench_fail(-ENOMEM, "no memory for %u ranges", NR_RANGES);
	for (size_t i = 0; i < NR_RANGES && !ret; i++)
		ret = use(side->cache, side->memory + i * 2 * PAGE, PAGE);
	return ret;
}

static void teardown(void *stage)
{
	struct lookup_stage *state = stage;

	close_side(&state->asking);
	close_side(&state->trusting);
	free(state);
}

static int setup(void **stage)
{
	struct lookup_stage *state = calloc(1, sizeof(*state));
	int ret;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = open_side(&state->asking, false);
	if (!ret)
		ret = open_side(&state->trusting, true);
	if (ret)
		teardown(state);
	else
		*stage = state;
	return ret;
}

static const struct bench_row lookup_rows[] = {
	{"lookup among 10 000, not asking for changes", "ns", BENCH_LOWER, "the bar of 100 ns", 1.0,
	 NULL, run_trusting, run_lookup_bar},
	{"lookup among 10 000, asking for changes", "ns", BENCH_LOWER, "not asking", BENCH_REPORTED,
	 NULL, run_asking, run_trusting},
	{"munmap of 64 KiB, watched", "µs", BENCH_LOWER, "not watched", BENCH_REPORTED, NULL,
	 run_unmap_watched, run_unmap},
};

const struct bench_stage registration_lookup_stage = {setup, teardown, lookup_rows,
						      NR_ROWS(lookup_rows)};

static const struct bench_stage *const stages[] = {
	&registration_lookup_stage, &registration_ring_stage, &registration_verbs_stage};

const struct bench_suite bench_suite_registration = {
	.name = "registration",
	.summary = "keeping memory registered: lookups, freeing, and pinning saved",
	.stages = stages,
	.nr_stages = sizeof(stages) / sizeof(stages[0]),
};
