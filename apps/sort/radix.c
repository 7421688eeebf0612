/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sort of one bucket; see radix.h. Called by worker.c.
 *
 * A range of items that are equal up to `depth` is put in order of the next 8 bytes, its words. It is sorted by as many
 * of their leading digits that differ as it takes to tell most items apart. Items that are equal in these are a smaller
 * range: it goes on with the rest of the word, or with the next word. Short ranges are sorted by insertion.
 */
#include "radix.h"

#include <stdbool.h>
#include <string.h>

#include "word.h"

#define DIGITS	   8U	/* of a word, one byte each; digit 0 is the last */
#define VALUES	   256U /* of a digit */
#define SHORT	   32U	/* items: below, insertion is quicker */
#define SPREAD	   4U /* ranges for each item that the digits could tell apart: then most are alone */
#define WORD_BYTES 8U

struct sorter {
	const uint8_t *bytes;
	struct item *scratch; /* as long as the longest range */
	uint32_t counts[DIGITS][VALUES];
};

struct range {
	struct item *items;
	size_t nr;
	size_t depth; /* bytes in which they are equal */
};

/* ---- Short ranges */

/* Compares what is behind `depth`. */
static bool is_less(const struct sorter *sorter, const struct item *a, const struct item *b,
		    size_t depth)
{
	size_t common = a->length < b->length ? a->length : b->length;
	int order;

	if (a->word != b->word)
		return a->word < b->word;
	if (common <= depth + WORD_BYTES)
		return a->length < b->length;
	depth += WORD_BYTES;
	order = memcmp(sorter->bytes + a->at + depth, sorter->bytes + b->at + depth,
		       common - depth);
	return order ? order < 0 : a->length < b->length;
}

static void insert(const struct sorter *sorter, const struct range *range)
{
	for (size_t i = 1; i < range->nr; i++) {
		struct item item = range->items[i];
		size_t at = i;

		for (; at && is_less(sorter, &item, &range->items[at - 1], range->depth); at--)
			range->items[at] = range->items[at - 1];
		range->items[at] = item;
	}
}

/* ---- Digits */

static unsigned digit_of(uint64_t word, unsigned digit)
{
	return (unsigned)(word >> (8 * digit)) % VALUES;
}

static void count_digits(struct sorter *sorter, const struct range *range)
{
	memset(sorter->counts, 0, sizeof(sorter->counts));
	for (size_t i = 0; i < range->nr; i++) {
		uint64_t word = range->items[i].word;

		for (unsigned digit = 0; digit < DIGITS; digit++)
			sorter->counts[digit][digit_of(word, digit)]++;
	}
}

/* Returns how many values the digit has among the items. */
static unsigned nr_values(const struct sorter *sorter, unsigned digit)
{
	unsigned nr = 0;

	for (unsigned value = 0; value < VALUES; value++)
		nr += sorter->counts[digit][value] != 0;
	return nr;
}

/* Finds the last of the digits to sort by; DIGITS: the words are all equal. */
static unsigned choose_last(const struct sorter *sorter, size_t nr)
{
	unsigned last = DIGITS, values;
	size_t ranges = 1;

	for (unsigned digit = DIGITS; digit-- > 0 && ranges < SPREAD * nr;) {
		values = nr_values(sorter, digit);
		if (values == 1)
			continue;
		last = digit;
		ranges *= values;
	}
	return last;
}

/* Sorts by one digit, stably, from `from` to `to`. Turns the digit's counts into where its values go on. */
static void scatter(uint32_t counts[VALUES], unsigned digit, const struct item *from,
		    struct item *to, size_t nr)
{
	uint32_t at = 0;

	for (unsigned value = 0; value < VALUES; value++) {
		uint32_t count = counts[value];

		counts[value] = at;
		at += count;
	}
	for (size_t i = 0; i < nr; i++)
		to[counts[digit_of(from[i].word, digit)]++] = from[i];
}

/* Sorts by the digits from `last` up. */
static void sort_digits(struct sorter *sorter, const struct range *range, unsigned last)
{
	struct item *from = range->items, *to = sorter->scratch, *other;

	for (unsigned digit = last; digit < DIGITS; digit++) {
		if (nr_values(sorter, digit) == 1)
			continue;
		scatter(sorter->counts[digit], digit, from, to, range->nr);
		other = from;
		from = to;
		to = other;
	}
	if (from != range->items)
		memcpy(range->items, from, range->nr * sizeof(*from));
}

/* ---- Words */

/*
 * Goes on to the next word in a range of equal ones. Items that end in this one come first: bytes that are not there
 * count as 0, so the shorter is the beginning of the longer. Leaves in the range those that go on.
 */
static void next_word(struct sorter *sorter, struct range *range)
{
	uint32_t counts[WORD_BYTES + 2] = {0}; /* by the bytes left of them; the last: that go on */
	uint32_t at = 0, nr_ended;

	for (size_t i = 0; i < range->nr; i++) {
		size_t left = range->items[i].length - range->depth;

		counts[left > WORD_BYTES ? WORD_BYTES + 1 : left]++;
	}
	nr_ended = (uint32_t)range->nr - counts[WORD_BYTES + 1];
	if (nr_ended) {
		for (unsigned left = 0; left < WORD_BYTES + 2; left++) {
			uint32_t count = counts[left];

			counts[left] = at;
			at += count;
		}
		for (size_t i = 0; i < range->nr; i++) {
			size_t left = range->items[i].length - range->depth;

			sorter->scratch[counts[left > WORD_BYTES ? WORD_BYTES + 1 : left]++] =
				range->items[i];
		}
		memcpy(range->items, sorter->scratch, range->nr * sizeof(*range->items));
	}
	range->items += nr_ended;
	range->nr -= nr_ended;
	range->depth += WORD_BYTES;
	for (size_t i = 0; i < range->nr; i++) {
		struct item *item = &range->items[i];

		item->word = word_at(sorter->bytes + item->at + range->depth,
				     item->length - range->depth);
	}
}

/* Returns how many items from the `from`th on are equal in the digits from `last` up. */
static size_t equal_length(const struct range *range, size_t from, unsigned last)
{
	uint64_t word = range->items[from].word >> (8 * last);
	size_t to = from + 1;

	while (to < range->nr && range->items[to].word >> (8 * last) == word)
		to++;
	return to - from;
}

static void sort_range(struct sorter *sorter, struct range range);

/* Sorts each part that is equal in the digits from `last` up, but the longest, which is returned. So at most half of the
 * items are in a call within this one. */
static struct range sort_parts(struct sorter *sorter, const struct range *range, unsigned last)
{
	struct range longest = {.nr = 0};

	for (size_t at = 0; at < range->nr;) {
		struct range part = {range->items + at, equal_length(range, at, last),
				     range->depth};

		at += part.nr;
		if (part.nr > 1 && last == 0)
			next_word(sorter, &part);
		if (part.nr > longest.nr) {
			struct range other = longest;

			longest = part;
			part = other;
		}
		if (part.nr > 1)
			sort_range(sorter, part);
	}
	return longest;
}

static void sort_range(struct sorter *sorter, struct range range)
{
	while (range.nr > SHORT) {
		unsigned last;

		count_digits(sorter, &range);
		last = choose_last(sorter, range.nr);
		if (last == DIGITS) {
			next_word(sorter, &range);
			continue;
		}
		sort_digits(sorter, &range, last);
		range = sort_parts(sorter, &range, last);
	}
	insert(sorter, &range);
}

void radix_sort(const uint8_t *bytes, struct item *items, struct item *scratch, size_t nr)
{
	struct sorter sorter = {.bytes = bytes, .scratch = scratch};

	sort_range(&sorter, (struct range){items, nr, 0});
}
