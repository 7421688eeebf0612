/* SPDX-License-Identifier: BSD-3-Clause */
/* Splitters; see splitters.h. Called by worker.c for each item, so the search looks at 8 bytes of each splitter first. */
#include "splitters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "word.h"

#define PREFIX_BITS 12U
#define PREFIXES    (1U << PREFIX_BITS)

struct splitters {
	unsigned nr;
	/* For each beginning of a word: how many words are less than the least with it. So the search looks at few. */
	uint16_t below[PREFIXES + 1];
	uint64_t *words;	/* the first 8 bytes of each, in order */
	struct sample *samples; /* all of each */
};

void sample_make(struct sample *out, const uint8_t *item, size_t length, uint64_t position)
{
	const bool is_cut = length > SAMPLE_BYTES_MAX;

	*out = (struct sample){
		.position = is_cut ? 0 : position,
		.length = is_cut ? SAMPLE_BYTES_MAX : (uint32_t)length,
	};
	memcpy(out->bytes, item, out->length);
}

/* Compares an item with a sample, the positions included. */
static int compare(const uint8_t *item, size_t length, uint64_t position,
		   const struct sample *sample)
{
	size_t common = length < sample->length ? length : sample->length;
	int order = common ? memcmp(item, sample->bytes, common) : 0;

	if (order)
		return order;
	if (length != sample->length)
		return length < sample->length ? -1 : 1;
	return position < sample->position ? -1 : position > sample->position;
}

static int compare_samples(const void *a, const void *b)
{
	const struct sample *sample = a;

	return compare(sample->bytes, sample->length, sample->position, b);
}

static void count_below(struct splitters *splitters)
{
	unsigned at = 0;

	for (unsigned prefix = 0; prefix < PREFIXES; prefix++) {
		while (at < splitters->nr && splitters->words[at] < (uint64_t)prefix
									    << (64 - PREFIX_BITS))
			at++;
		splitters->below[prefix] = (uint16_t)at;
	}
	splitters->below[PREFIXES] = (uint16_t)splitters->nr;
}

int splitters_make(struct sample *samples, size_t nr, unsigned nr_buckets, struct splitters **out)
{
	const unsigned nr_splitters = nr && nr_buckets ? nr_buckets - 1 : 0;
	struct splitters *splitters;

	for (size_t i = 0; i < nr; i++) {
		if (samples[i].length > SAMPLE_BYTES_MAX)
			return -EBADMSG;
	}
	splitters = calloc(1, sizeof(*splitters));
	if (!splitters)
		return -ENOMEM;
	splitters->words = calloc(nr_splitters + 1, sizeof(*splitters->words));
	splitters->samples = calloc(nr_splitters + 1, sizeof(*splitters->samples));
	if (!splitters->words || !splitters->samples) {
		splitters_free(splitters);
		return -ENOMEM;
	}
	if (nr)
		qsort(samples, nr, sizeof(*samples), compare_samples);
	for (unsigned i = 0; i < nr_splitters; i++) {
		splitters->samples[i] = samples[(i + 1) * nr / nr_buckets];
		splitters->words[i] =
			word_at(splitters->samples[i].bytes, splitters->samples[i].length);
	}
	splitters->nr = nr_splitters;
	count_below(splitters);
	*out = splitters;
	return 0;
}

void splitters_free(struct splitters *splitters)
{
	if (!splitters)
		return;
	free(splitters->words);
	free(splitters->samples);
	free(splitters);
}

/* Returns how many words are less than `word`. Without branches that depend on the items, which are in no order. */
static unsigned count_less(const uint64_t *words, unsigned nr, uint64_t word)
{
	const uint64_t *at = words;

	while (nr > 1) {
		unsigned half = nr / 2;

		at += at[half - 1] < word ? half : 0;
		nr -= half;
	}
	return (unsigned)(at - words) + (nr && *at < word);
}

unsigned splitters_find(const struct splitters *splitters, const uint8_t *item, size_t length,
			uint64_t position)
{
	uint64_t word = word_at(item, length);
	const uint16_t *below = &splitters->below[word >> (64 - PREFIX_BITS)];
	unsigned nr = (unsigned)(below[1] - below[0]), low, high;

	low = high = below[0] + count_less(splitters->words + below[0], nr, word);
	if (low == splitters->nr || splitters->words[low] != word)
		return low;
	/* Some begin as the item does. */
	high += count_less(splitters->words + low, splitters->nr - low, word + 1);
	if (word == UINT64_MAX)
		high = splitters->nr;
	while (low < high) {
		unsigned middle = low + (high - low) / 2;

		if (compare(item, length, position, &splitters->samples[middle]) < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}
