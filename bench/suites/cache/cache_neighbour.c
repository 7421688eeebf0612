/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `cache` on a reader of 4 KiB beside clients that read more of the same hot pages. A hit
 * is copied on the store's thread, so it could hold up those behind it. The reference is a store that
 * keeps no pages. The reader pauses between two reads, so that others have the processors, too.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "cache.h"

#define REGION_BYTES (4 * MIB)
#define WARM_NS	     UINT64_C(100000000) /* of the others, before a measurement */
#define PAUSE_NS     200000
#define SAMPLES_MAX  65536U
#define BAR	     1.5

struct neighbour_stage {
	struct cache_pair pair;
	char *memory;
	double us[SAMPLES_MAX];
	double others[2]; /* GB/s in the last measurement: ours, the reference's */
	double tails[2];  /* and what 99 % of the reader's times do not exceed, in µs */
};

static int compare(const void *a, const void *b)
{
	const double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

/* The median of reads one after the other, in µs. */
static int measure(struct neighbour_stage *stage, const struct cache_side *side, double *value,
		   double *tail)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	const uint64_t begin = clock_ns() + WARM_NS, end = begin + bench_span_ns(CACHE_SPAN_NS);
	unsigned nr = 0;

	while (nr < SAMPLES_MAX && (nr == 0 || clock_ns() < end)) {
		const uint64_t before = clock_ns();
		ssize_t got = afar_region_pread(side->scene.region, stage->memory, CACHE_PAGE,
						(uint64_t)nr * CACHE_PAGE % REGION_BYTES);

		if (got < 0)
			return scene_fail("read", (int)got);
		if (before >= begin)
			stage->us[nr++] = (double)(clock_ns() - before) / 1e3;
		nanosleep(&pause, NULL);
	}
	qsort(stage->us, nr, sizeof(*stage->us), compare);
	*value = stage->us[nr / 2];
	*tail = stage->us[nr - 1 - nr / 100];
	return 0;
}

static int run(struct neighbour_stage *stage, const struct bench_row *row, unsigned is_bare,
	       double *value)
{
	const struct cache_side *side = is_bare ? &stage->pair.bare : &stage->pair.kept;
	struct herd_order order = *(const struct herd_order *)row->parameters;
	struct herd_result result;
	int ret, ended;

	order.span_ns = bench_span_ns(CACHE_SPAN_NS) + 2 * WARM_NS;
	ret = herd_begin(&side->herd, &order);
	if (ret)
		return ret;
	ret = measure(stage, side, value, &stage->tails[is_bare]);
	ended = herd_end(&side->herd, &result);
	if (ret || ended)
		return ret ? ret : ended;
	stage->others[is_bare] = (double)result.nr * (double)order.size / (double)result.elapsed_ns;
	bench_note("99 %% within %.0f and %.0f µs; the others read %.2f and %.2f GB/s",
		   stage->tails[0], stage->tails[1], stage->others[0], stage->others[1]);
	return 0;
}

static int run_kept(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)repetition;
	return run(state, row, false, value);
}

static int run_bare(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)repetition;
	return run(state, row, true, value);
}

static void teardown(void *state)
{
	struct neighbour_stage *stage = state;

	cache_pair_close(&stage->pair);
	free(stage->memory);
	free(stage);
}

static int setup(void **state)
{
	struct neighbour_stage *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	stage->memory = aligned_alloc(CACHE_PAGE, CACHE_PAGE);
	ret = stage->memory ? 0 : bench_fail(-ENOMEM, "no memory for the suite");
	if (!ret)
		ret = cache_pair_open_hot(&stage->pair, REGION_BYTES, false);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

#define BARE "the same without --cache"
#define LOAD(bytes)                  \
	(&(const struct herd_order){ \
		.nr_clients = 8, .size = (bytes), .is_scattered = true, .may_sleep = true})

static const struct bench_row rows[] = {
	{"read 4 KiB hot beside 8 readers of 64 KiB", "µs", BENCH_LOWER, BARE, BAR, LOAD(64 * KIB),
	 run_kept, run_bare},
	{"read 4 KiB hot beside 8 readers of 1 MiB", "µs", BENCH_LOWER, BARE, BAR, LOAD(MIB),
	 run_kept, run_bare},
};

const struct bench_stage cache_neighbour_stage = {setup, teardown, rows, NR_ROWS(rows)};
