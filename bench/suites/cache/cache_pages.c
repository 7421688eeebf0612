/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `cache` on clients that want one page at the same time. Readers walk over cold pages
 * together: each page is the next one of all of them. Writers write parts of one page, each its own.
 */
#include <errno.h>
#include <stdlib.h>

#include "cache.h"

#define REGION_BYTES (128 * MIB)
#define PART	     64U
#define COUNT_BAR    0.1
#define RATE_BAR     0.9

struct pages_stage {
	struct cache_pair pair;
};

static const struct herd_order readers = {
	.nr_clients = CACHE_CLIENTS, .is_together = true, .size = CACHE_PAGE};

/* Runs the order. `*counted`: what `name` counts meanwhile; NULL: nothing. */
static int run(const struct cache_side *side, const struct herd_order *order, const char *name,
	       uint64_t *counted, struct herd_result *result)
{
	struct herd_order spanned = *order;
	uint64_t before = 0;
	int ret = name ? cache_count_settled(&side->scene, name, &before) : 0;

	spanned.span_ns = bench_span_ns(CACHE_SPAN_NS);
	if (!ret)
		ret = herd_run(&side->herd, &spanned, result);
	if (ret || !name)
		return ret;
	ret = cache_count_settled(&side->scene, name, counted);
	*counted -= before;
	return ret;
}

static int count_each(const struct cache_side *side, const struct herd_order *order,
		      const char *name, double *value)
{
	struct herd_result result;
	uint64_t counted;
	int ret = run(side, order, name, &counted, &result);

	*value = ret ? 0 : (double)counted / (double)result.nr;
	return ret;
}

static int read_kept(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct pages_stage *stage = state;

	(void)row;
	(void)repetition;
	return count_each(&stage->pair.kept, &readers, "device_reads", value);
}

static int read_bare(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct pages_stage *stage = state;

	(void)row;
	(void)repetition;
	return count_each(&stage->pair.bare, &readers, "device_reads", value);
}

/* Those of a page of each writer's own, or of one page of all. */
static struct herd_order writers(const struct bench_row *row, bool is_spread)
{
	const uint16_t *flags = row->parameters;

	return (struct herd_order){.nr_clients = CACHE_CLIENTS,
				   .is_write = true,
				   .part_bytes = is_spread ? CACHE_PAGE : PART,
				   .flags = *flags,
				   .size = PART};
}

static int count_writes(void *state, const struct bench_row *row, bool is_spread, double *value)
{
	const struct herd_order order = writers(row, is_spread);
	const struct pages_stage *stage = state;

	return count_each(&stage->pair.kept, &order, "written_blocks", value);
}

static int count_one(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)repetition;
	return count_writes(state, row, false, value);
}

static int count_spread(void *state, const struct bench_row *row, unsigned repetition,
			double *value)
{
	(void)repetition;
	return count_writes(state, row, true, value);
}

static int rate_writes(void *state, const struct bench_row *row, bool is_spread, double *value)
{
	const struct herd_order order = writers(row, is_spread);
	const struct pages_stage *stage = state;
	struct herd_result result;
	int ret = run(&stage->pair.kept, &order, NULL, NULL, &result);

	*value = ret ? 0 : (double)result.nr * 1e6 / (double)result.elapsed_ns;
	return ret;
}

static int rate_one(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)repetition;
	return rate_writes(state, row, false, value);
}

static int rate_spread(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)repetition;
	return rate_writes(state, row, true, value);
}

static void teardown(void *state)
{
	struct pages_stage *stage = state;

	cache_pair_close(&stage->pair);
	free(stage);
}

static int setup(void **state)
{
	struct pages_stage *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = cache_pair_open(&stage->pair, REGION_BYTES, false);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

#define BARE	  "the same without --cache"
#define SPREAD	  "32 writers of 64 B, each in a page of its own"
#define FLAGS(is) (&(const uint16_t){is})

static const struct bench_row rows[] = {
	{"device reads a read, 32 readers of a cold page", "", BENCH_LOWER, BARE, COUNT_BAR, NULL,
	 read_kept, read_bare},
	{"device writes a write, 32 writers of 64 B in a page", "", BENCH_LOWER, SPREAD, COUNT_BAR,
	 FLAGS(0), count_one, count_spread},
	{"32 writers of 64 B in a page", "k/s", BENCH_HIGHER, SPREAD, RATE_BAR, FLAGS(0), rate_one,
	 rate_spread},
	{"32 durable writers of 64 B in a page", "k/s", BENCH_HIGHER, SPREAD, RATE_BAR,
	 FLAGS(AFAR_OP_DURABLE), rate_one, rate_spread},
};

const struct bench_stage cache_pages_stage = {setup, teardown, rows, NR_ROWS(rows)};
