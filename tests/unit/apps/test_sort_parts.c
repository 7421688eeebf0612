/* SPDX-License-Identifier: BSD-3-Clause */
/* The pure parts of `afar sort`: the sort of one bucket, and which bucket an item belongs to. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "apps/sort/radix.h"
#include "apps/sort/splitters.h"
#include "apps/sort/word.h"
#include "unit/group.h"

#define ITEMS_MAX 4000U
#define BYTES_MAX 400U /* of an item */

static uint8_t bytes[ITEMS_MAX * BYTES_MAX];
static struct item items[ITEMS_MAX], scratch[ITEMS_MAX], expected[ITEMS_MAX];

static uint64_t state;

static uint32_t draw(uint32_t below)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(state >> 33) % below;
}

/* ---- One bucket */

/* How the items of a case are made: `common` equal bytes, then up to `most` of `values` values. */
struct shape {
	unsigned nr, common, least, most, values;
};

static const struct shape shapes[] = {
	{0, 0, 0, 0, 1},
	{1, 0, 5, 5, 256},
	{2, 0, 1, 1, 2},
	{33, 0, 0, 3, 2},
	{ITEMS_MAX, 0, 10, 10, 256},
	{ITEMS_MAX, 0, 10, 10, 95},
	{ITEMS_MAX, 0, 0, 20, 1},
	{ITEMS_MAX, 0, 0, 20, 2},
	{ITEMS_MAX, 0, 8, 8, 2},
	{ITEMS_MAX, 0, 16, 16, 2},
	{ITEMS_MAX, 7, 0, 3, 256},
	{ITEMS_MAX, 90, 10, 10, 3},
	{ITEMS_MAX, 300, 0, 50, 2},
	{ITEMS_MAX, 64, 0, 0, 1},
	{ITEMS_MAX, 1, 0, 300, 2},
	{200, 0, 0, 9, 3},
};

static void make_items(const struct shape *shape)
{
	uint32_t at = 0;

	for (unsigned i = 0; i < shape->nr; i++) {
		uint32_t length =
			shape->common + shape->least + draw(shape->most - shape->least + 1);

		memset(bytes + at, 'c', length);
		for (uint32_t j = shape->common; j < length; j++)
			bytes[at + j] = (uint8_t)draw(
				shape->values); /* 0 is one: what is not there counts as that */
		items[i] = (struct item){word_at(bytes + at, length), at, length};
		at += length;
	}
	memcpy(expected, items, sizeof(items));
}

static int compare(const void *a, const void *b)
{
	const struct item *one = a, *other = b;
	size_t common = one->length < other->length ? one->length : other->length;
	int order = memcmp(bytes + one->at, bytes + other->at, common);

	return order ? order : (one->length > other->length) - (one->length < other->length);
}

static bool is_same(const struct item *one, const struct item *other)
{
	return one->length == other->length &&
	       !memcmp(bytes + one->at, bytes + other->at, one->length);
}

static int compare_places(const void *a, const void *b)
{
	const struct item *one = a, *other = b;

	return one->at != other->at ? (one->at > other->at ? 1 : -1)
				    : (one->length > other->length) - (one->length < other->length);
}

static void test_sorts(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		unsigned nr = shapes[i].nr;

		state = i;
		make_items(&shapes[i]);
		radix_sort(bytes, items, scratch, nr);
		qsort(expected, nr, sizeof(*expected), compare);
		for (unsigned j = 0; j < nr; j++)
			assert_true(is_same(&items[j], &expected[j]));
		/* And each item is there once. */
		qsort(items, nr, sizeof(*items), compare_places);
		qsort(expected, nr, sizeof(*expected), compare_places);
		for (unsigned j = 0; j < nr; j++)
			assert_int_equal(items[j].at, expected[j].at);
	}
}

/* Each line is longer than the one before by 8 bytes, and begins with it: as many nested ranges as there are words. */
static void test_sorts_nested(void **unused)
{
	enum { LINES = 5000 };
	uint8_t *text = malloc(8 * LINES);
	struct item *lines = calloc(LINES, sizeof(*lines)), *room = calloc(LINES, sizeof(*room));

	(void)unused;
	assert_true(text && lines && room);
	memset(text, 'x', 8 * LINES);
	for (uint32_t i = 0; i < LINES; i++)
		lines[i] = (struct item){word_at(text, 8 * (LINES - i)), 0, 8 * (LINES - i)};
	radix_sort(text, lines, room, LINES);
	for (uint32_t i = 0; i < LINES; i++)
		assert_int_equal(lines[i].length, 8 * (i + 1));
	free(text);
	free(lines);
	free(room);
}

/* ---- Splitters */

static unsigned find(const struct splitters *splitters, const char *item, uint64_t position)
{
	return splitters_find(splitters, (const uint8_t *)item, strlen(item), position);
}

static struct splitters *make(struct sample *samples, size_t nr, unsigned nr_buckets)
{
	struct splitters *splitters;

	assert_int_equal(splitters_make(samples, nr, nr_buckets, &splitters), 0);
	return splitters;
}

/* Splitters b, c and d. */
static void test_finds_bucket(void **unused)
{
	static const struct {
		const char *item;
		uint64_t position;
		unsigned bucket;
	} cases[] = {
		{"", 0, 0},   {"a", 99, 0}, {"azzzzzzzzzzzzz", 0, 0},
		{"b", 9, 0},  {"b", 10, 1}, {"b", 11, 1},
		{"ba", 0, 1}, {"c", 19, 1}, {"c", 20, 2},
		{"d", 30, 3}, {"dd", 0, 3}, {"\xff\xff\xff\xff\xff\xff\xff\xff\xff", 0, 3},
	};
	struct sample samples[4];
	struct splitters *splitters;

	(void)unused;
	sample_make(&samples[2], (const uint8_t *)"a", 1, 5);
	sample_make(&samples[0], (const uint8_t *)"b", 1, 10);
	sample_make(&samples[3], (const uint8_t *)"c", 1, 20);
	sample_make(&samples[1], (const uint8_t *)"d", 1, 30);
	splitters = make(samples, 4, 4);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(find(splitters, cases[i].item, cases[i].position),
				 cases[i].bucket);
	splitters_free(splitters);
}

/* Equal items go to buckets by their positions, about as many to each. */
static void test_divides_equal_items(void **unused)
{
	enum { BUCKETS = 8, SAMPLES = 64, POSITIONS = 6400 };
	unsigned counts[BUCKETS] = {0}, last = 0;
	struct sample samples[SAMPLES];
	struct splitters *splitters;

	(void)unused;
	for (unsigned i = 0; i < SAMPLES; i++)
		sample_make(&samples[i], (const uint8_t *)"the same long item", 18,
			    (uint64_t)i * POSITIONS / SAMPLES);
	splitters = make(samples, SAMPLES, BUCKETS);
	for (uint64_t position = 0; position < POSITIONS; position++) {
		unsigned bucket = find(splitters, "the same long item", position);

		assert_in_range(bucket, last, BUCKETS - 1);
		last = bucket;
		counts[bucket]++;
	}
	for (unsigned i = 0; i < BUCKETS; i++)
		assert_int_equal(counts[i], POSITIONS / BUCKETS);
	splitters_free(splitters);
}

/* A sample that is cut stands for its beginning: whatever goes on behind that is not less, wherever it is. */
static void test_cuts_samples(void **unused)
{
	char item[2 * SAMPLE_BYTES_MAX] = "";
	struct sample samples[2];
	struct splitters *splitters;

	(void)unused;
	memset(item, 'l', sizeof(item) - 1);
	sample_make(&samples[0], (const uint8_t *)"a", 1, 0);
	sample_make(&samples[1], (const uint8_t *)item, strlen(item), 1000);
	splitters = make(samples, 2, 2);
	assert_int_equal(find(splitters, item, 0), 1);
	item[SAMPLE_BYTES_MAX] = 'a';
	assert_int_equal(find(splitters, item, 0), 1);
	item[SAMPLE_BYTES_MAX - 1] = 'a';
	assert_int_equal(find(splitters, item, 5000), 0);
	splitters_free(splitters);
}

static void test_refuses_samples(void **unused)
{
	struct sample sample = {.length = SAMPLE_BYTES_MAX + 1};
	struct splitters *splitters = NULL;

	(void)unused;
	assert_int_equal(splitters_make(&sample, 1, 2, &splitters), -EBADMSG);
	assert_null(splitters);
	splitters = make(NULL, 0, 5);
	assert_int_equal(find(splitters, "anything", 3), 0);
	splitters_free(splitters);
}

TEST_GROUP(sort_parts)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sorts),	     cmocka_unit_test(test_sorts_nested),
		cmocka_unit_test(test_finds_bucket), cmocka_unit_test(test_divides_equal_items),
		cmocka_unit_test(test_cuts_samples), cmocka_unit_test(test_refuses_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
