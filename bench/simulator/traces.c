/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The traces that are made up by a rule, and the door to all. Skewed ones draw from a table of
 * aliases (A. J. Walker's method): a draw costs two reads however skewed it is. Which blocks are
 * hot is a random order of them. traces_file.c reads the others.
 */
#include "simulator/traces.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "simulator/traces_private.h"

/* SplitMix64. */
static uint64_t draw(struct trace *trace)
{
	uint64_t z = trace->random += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static uint32_t draw_below(struct trace *trace, uint32_t limit)
{
	return (uint32_t)((draw(trace) >> 32) * limit >> 32);
}

/* ---- Rules: how the next block is found */

static uint32_t next_uniform(struct trace *trace)
{
	return draw_below(trace, trace->nr_blocks);
}

static uint32_t next_skewed(struct trace *trace)
{
	uint64_t drawn = draw(trace);
	uint32_t rank = (uint32_t)((drawn >> 32) * trace->nr_blocks >> 32);

	if ((uint32_t)drawn >= trace->ranks[rank].keep)
		rank = trace->ranks[rank].alias;
	return trace->ranks[rank].block;
}

static uint32_t next_in_sequence(struct trace *trace)
{
	return (uint32_t)(trace->position++ % trace->nr_blocks);
}

/* In turns one of the lower half, in sequence, and one of the upper, at random. */
static uint32_t next_mixed(struct trace *trace)
{
	uint32_t half = trace->nr_blocks / 2;

	if (trace->position % 2 && half)
		return (uint32_t)(trace->position++ / 2 % half);
	trace->position++;
	return half + draw_below(trace, trace->nr_blocks - half);
}

/* ---- Rules: how often a rank is written; ranks are given to blocks by lot */

static double rate_80_20(double rank)
{
	return rank <= 0.20 ? 0.80 / 0.20 : 0.20 / 0.80;
}

static double rate_95_20(double rank)
{
	return rank <= 0.20 ? 0.95 / 0.20 : 0.05 / 0.80;
}

static double rate_95_5(double rank)
{
	return rank <= 0.05 ? 0.95 / 0.05 : 0.05 / 0.95;
}

static double rate_zipf_0_99(double rank)
{
	return pow(rank, -0.99);
}

/* With a few hundred thousand blocks the hottest 20 % get 80 % of the writes. */
static double rate_zipf_0_90(double rank)
{
	return pow(rank, -0.90);
}

/* Likewise 95 %. */
static double rate_zipf_1_13(double rank)
{
	return pow(rank, -1.13);
}

const struct trace_rule trace_rules[] = {
	{"uniform", "each block as likely as any other"},
	{"80/20", "80 % of the writes to 20 % of the blocks"},
	{"95/20", "95 % of the writes to 20 % of the blocks"},
	{"95/5", "95 % of the writes to 5 % of the blocks"},
	{"zipf-0.99", "the block of rank k in proportion to k^-0.99"},
	{"zipf-0.90", "likewise: about 80 % of the writes to 20 % of the blocks"},
	{"zipf-1.13", "likewise: about 95 % of the writes to 20 % of the blocks"},
	{"sequential", "all blocks in order, again and again"},
	{"mixed", "half of the writes and blocks sequential, half uniform"},
	{0},
};

static const struct way {
	const char *name;
	uint32_t (*next)(struct trace *trace);
	double (*rate)(double rank); /* of a rank from 0 to 1, up to a factor; NULL: the same */
} ways[] = {
	{"uniform", next_uniform, NULL},
	{"80/20", next_skewed, rate_80_20},
	{"95/20", next_skewed, rate_95_20},
	{"95/5", next_skewed, rate_95_5},
	{"zipf-0.99", next_skewed, rate_zipf_0_99},
	{"zipf-0.90", next_skewed, rate_zipf_0_90},
	{"zipf-1.13", next_skewed, rate_zipf_1_13},
	{"sequential", next_in_sequence, NULL},
	{"mixed", next_mixed, NULL},
};

/* ---- Making one */

/* Ranks get blocks in random order. */
static void shuffle(struct trace *trace)
{
	uint32_t other, block;

	for (uint32_t i = 0; i < trace->nr_blocks; i++)
		trace->ranks[i].block = i;
	for (uint32_t left = trace->nr_blocks; left > 1; left--) {
		other = draw_below(trace, left);
		block = trace->ranks[left - 1].block;
		trace->ranks[left - 1].block = trace->ranks[other].block;
		trace->ranks[other].block = block;
	}
}

static void weigh(struct trace *trace, double (*rate)(double rank))
{
	double sum = 0, factor;

	for (uint32_t i = 0; i < trace->nr_blocks; i++)
		sum += rate((i + 1.0) / trace->nr_blocks);
	factor = trace->nr_blocks / sum;
	for (uint32_t i = 0; i < trace->nr_blocks; i++)
		trace->rates[trace->ranks[i].block] =
			(float)(factor * rate((i + 1.0) / trace->nr_blocks));
}

/*
 * Each rank keeps a part of its draws and gives the rest to one other, so that all are drawn by
 * their rates.
 */
static int make_aliases(struct trace *trace)
{
	uint32_t nr_poor = 0, nr_rich = 0, poor, rich, *pile;
	double *left;

	pile = malloc(trace->nr_blocks * sizeof(*pile));
	left = malloc(trace->nr_blocks * sizeof(*left));
	if (!pile || !left) {
		free(pile);
		free(left);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < trace->nr_blocks; i++) {
		left[i] = trace->rates[trace->ranks[i].block];
		trace->ranks[i].keep = UINT32_MAX;
		trace->ranks[i].alias = i;
		/* The poor from the bottom of the pile, the rich from its top. */
		if (left[i] < 1)
			pile[nr_poor++] = i;
		else
			pile[trace->nr_blocks - ++nr_rich] = i;
	}
	while (nr_poor && nr_rich) {
		poor = pile[--nr_poor];
		rich = pile[trace->nr_blocks - nr_rich];
		trace->ranks[poor].keep = (uint32_t)(left[poor] * UINT32_MAX);
		trace->ranks[poor].alias = rich;
		left[rich] -= 1 - left[poor];
		if (left[rich] < 1) {
			nr_rich--;
			pile[nr_poor++] = rich;
		}
	}
	free(pile);
	free(left);
	return 0;
}

static int prepare_skew(struct trace *trace, double (*rate)(double rank))
{
	trace->ranks = calloc(trace->nr_blocks, sizeof(*trace->ranks));
	trace->rates = malloc(trace->nr_blocks * sizeof(*trace->rates));
	if (!trace->ranks || !trace->rates)
		return -ENOMEM;
	shuffle(trace);
	weigh(trace, rate);
	return make_aliases(trace);
}

int trace_make(const char *name, uint32_t nr_blocks, uint64_t seed, struct trace **out)
{
	const struct way *way = NULL;
	struct trace *trace;

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (!strcmp(ways[i].name, name))
			way = &ways[i];
	}
	if (!way)
		return -ENOENT;
	trace = calloc(1, sizeof(*trace));
	if (!trace)
		return -ENOMEM;
	trace->next = way->next;
	trace->nr_blocks = nr_blocks;
	trace->random = seed;
	if (way->rate && prepare_skew(trace, way->rate)) {
		trace_close(trace);
		return -ENOMEM;
	}
	trace->seed = trace->random;
	*out = trace;
	return 0;
}

void trace_rewind(struct trace *trace)
{
	trace->position = 0;
	trace->random = trace->seed;
}

void trace_close(struct trace *trace)
{
	if (!trace)
		return;
	free(trace->ranks);
	free(trace->rates);
	free(trace->blocks);
	free(trace);
}

uint32_t trace_nr_blocks(const struct trace *trace)
{
	return trace->nr_blocks;
}

uint64_t trace_length(const struct trace *trace)
{
	return trace->nr_writes;
}

uint32_t trace_next(struct trace *trace)
{
	return trace->next(trace);
}

double trace_rate(const struct trace *trace, uint32_t block)
{
	return trace->rates ? (double)trace->rates[block] : 1.0;
}
