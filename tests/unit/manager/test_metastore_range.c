/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests what `range` of a metastore promises: byte order, prefixes, pages that begin after a key,
 * limits. It is tried on both that there are, LMDB's and the one in memory of the manager's
 * tests. */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/manager/manager_memory_store.h"
#include "unit/group.h"

#define NR_STORES 2

static char folder[] = "/tmp/afar-test-range-XXXXXX";
static struct memory_store memory;
static struct metastore *stores[NR_STORES];

static int setup(void **state)
{
	(void)state;
	memory_store_open(&memory);
	stores[0] = &memory.base;
	return metastore_lmdb_open(folder, (size_t)64 << 20, &stores[1]);
}

static int teardown(void **state)
{
	DIR *directory = opendir(folder);
	struct dirent *entry;
	char name[512];

	(void)state;
	memory_store_close(&memory);
	stores[1]->ops->close(stores[1]);
	while (directory && (entry = readdir(directory))) {
		snprintf(name, sizeof(name), "%s/%s", folder, entry->d_name);
		unlink(name);
	}
	if (directory)
		closedir(directory);
	return 0;
}

#define RANGE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static struct meta_bytes bytes(const char *text)
{
	return (struct meta_bytes){text, strlen(text)};
}

static void put(struct metastore *store, struct meta_bytes key)
{
	struct meta_put one = {key, bytes("v")};

	assert_int_equal(store->ops->commit(store, NULL, 0, &one, 1, NULL, 0), 0);
}

struct seen {
	char text[256];
	uint8_t last[METASTORE_KEY_MAX]; /* key */
	size_t last_length;
	size_t nr;
};

static int see(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	struct seen *seen = argument;

	assert_memory_equal(value.data, "v", 1);
	if (key.length < 16) {
		strncat(seen->text, key.data, key.length);
		strcat(seen->text, " ");
	}
	memcpy(seen->last, key.data, key.length);
	seen->last_length = key.length;
	seen->nr++;
	return 0;
}

static void expect(struct metastore *store, const char *prefix, const char *after, size_t max,
		   const char *expected)
{
	struct seen seen = {0};

	assert_int_equal(store->ops->range(store, bytes(prefix), bytes(after), max, see, &seen), 0);
	assert_string_equal(seen.text, expected);
}

static void test_begins_after_a_key_and_ends_at_a_limit(void **state)
{
	static const char *const keys[] = {"b2", "a", "b", "c", "b1", "b10", "ab"};

	(void)state;
	for (size_t which = 0; which < NR_STORES; which++) {
		struct metastore *store = stores[which];

		expect(store, "", "", SIZE_MAX, "");
		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
			put(store, bytes(keys[i]));
		expect(store, "", "", SIZE_MAX, "a ab b b1 b10 b2 c ");
		expect(store, "b", "", SIZE_MAX, "b b1 b10 b2 ");
		/* After one that is there, the prefix itself too, and after one that is not. */
		expect(store, "b", "b1", SIZE_MAX, "b10 b2 ");
		expect(store, "b", "b", SIZE_MAX, "b1 b10 b2 ");
		expect(store, "b", "b11", SIZE_MAX, "b2 ");
		expect(store, "", "b11", SIZE_MAX, "b2 c ");
		/* Before all that have the prefix, and behind them. */
		expect(store, "b", "a", SIZE_MAX, "b b1 b10 b2 ");
		expect(store, "b1", "b", SIZE_MAX, "b1 b10 ");
		expect(store, "b", "b2", SIZE_MAX, "");
		expect(store, "b", "c", SIZE_MAX, "");
		expect(store, "b", "zz", SIZE_MAX, "");
		expect(store, "bb", "", SIZE_MAX, "");
		/* No more than asked for. */
		expect(store, "b", "", 0, "");
		expect(store, "b", "", 1, "b ");
		expect(store, "b", "b", 2, "b1 b10 ");
		expect(store, "b", "", 4, "b b1 b10 b2 ");
		expect(store, "b", "", 5, "b b1 b10 b2 ");
	}
}

static int stop(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	(void)key;
	(void)value;
	return ++*(int *)argument == 2 ? 7 : 0;
}

static void test_visitor_stops_it(void **state)
{
	(void)state;
	for (size_t which = 0; which < NR_STORES; which++) {
		struct metastore *store = stores[which];
		int nr = 0;

		put(store, bytes("a"));
		put(store, bytes("b"));
		put(store, bytes("c"));
		assert_int_equal(
			store->ops->range(store, bytes(""), bytes(""), SIZE_MAX, stop, &nr), 7);
		assert_int_equal(nr, 2);
	}
}

static void test_long_keys(void **state)
{
	static const uint8_t longest[METASTORE_KEY_MAX + 1] = {'k', 0xff};

	(void)state;
	for (size_t which = 0; which < NR_STORES; which++) {
		struct metastore *store = stores[which];
		struct meta_bytes all = {longest, METASTORE_KEY_MAX}, none = {NULL, 0};
		struct meta_bytes too_long = {longest, METASTORE_KEY_MAX + 1};
		struct seen seen = {0};

		put(store, all);
		put(store, (struct meta_bytes){longest, METASTORE_KEY_MAX - 1});
		assert_int_equal(store->ops->range(store, all, none, SIZE_MAX, see, &seen), 0);
		assert_int_equal(seen.nr, 1);
		assert_int_equal(seen.last_length, METASTORE_KEY_MAX);
		assert_int_equal(store->ops->range(store, none, all, SIZE_MAX, see, &seen), 0);
		assert_int_equal(seen.nr, 1);
		assert_int_equal(store->ops->range(store, too_long, none, 1, see, &seen), -EINVAL);
		assert_int_equal(store->ops->range(store, none, too_long, 1, see, &seen), -EINVAL);
		assert_int_equal(seen.nr, 1);
	}
}

/* ---- Against a plain list */

#define NR_KEYS	   300
#define LENGTH_MAX 4

struct small_key {
	uint8_t bytes[LENGTH_MAX];
	size_t length;
};

static uint64_t seed = 1;

static uint8_t random_byte(void)
{
	static const uint8_t some[] = {0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff};

	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return some[(seed >> 33) % sizeof(some)];
}

static struct small_key random_key(size_t least)
{
	struct small_key key = {.length = least + random_byte() % (LENGTH_MAX + 1 - least)};

	for (size_t i = 0; i < key.length; i++)
		key.bytes[i] = random_byte();
	return key;
}

static int compare_keys(const void *left, const void *right)
{
	const struct small_key *a = left, *b = right;

	return memory_store_compare((struct meta_bytes){a->bytes, a->length},
				    (struct meta_bytes){b->bytes, b->length});
}

/* Walks the whole range in pages of `max`, as a caller does that must not hold everybody up. */
static void check_pages(struct metastore *store, const struct small_key *keys, size_t nr_keys,
			const struct small_key *prefix, const struct small_key *after, size_t max)
{
	struct seen seen = {.last_length = after->length};
	size_t nr = 0;

	memcpy(seen.last, after->bytes, after->length);
	for (size_t before = SIZE_MAX; before != seen.nr;) {
		before = seen.nr;
		assert_int_equal(
			store->ops->range(store, (struct meta_bytes){prefix->bytes, prefix->length},
					  (struct meta_bytes){seen.last, seen.last_length}, max,
					  see, &seen),
			0);
		assert_true(seen.nr - before <= max && seen.nr <= nr_keys);
		seen.text[0] = '\0';
	}
	for (size_t i = 0; i < nr_keys; i++) {
		bool has_prefix = keys[i].length >= prefix->length &&
				  memcmp(keys[i].bytes, prefix->bytes, prefix->length) == 0;

		nr += has_prefix && (after->length == 0 || compare_keys(&keys[i], after) > 0);
	}
	assert_int_equal(seen.nr, nr);
}

static void test_same_as_a_plain_list(void **state)
{
	struct small_key keys[NR_KEYS];
	struct meta_put puts[NR_KEYS];
	size_t nr = 0;

	(void)state;
	for (size_t i = 0; i < NR_KEYS; i++)
		keys[i] = random_key(1);
	qsort(keys, NR_KEYS, sizeof(keys[0]), compare_keys);
	for (size_t i = 0; i < NR_KEYS; i++)
		if (nr == 0 || compare_keys(&keys[nr - 1], &keys[i]) != 0)
			keys[nr++] = keys[i];
	for (size_t i = 0; i < nr; i++) { /* backwards: not in their order */
		const struct small_key *key = &keys[nr - 1 - i];

		puts[i] = (struct meta_put){{key->bytes, key->length}, bytes("v")};
	}
	for (size_t which = 0; which < NR_STORES; which++) {
		struct metastore *store = stores[which];

		assert_int_equal(store->ops->commit(store, NULL, 0, puts, nr, NULL, 0), 0);
		for (size_t i = 0; i < 500; i++) {
			struct small_key prefix = random_key(0), after = random_key(0);

			prefix.length = prefix.length > 2 ? 2 : prefix.length;
			check_pages(store, keys, nr, &prefix, &after, 1 + i % 7);
		}
	}
}

TEST_GROUP(metastore_range)
{
	const struct CMUnitTest tests[] = {
		RANGE_TEST(test_begins_after_a_key_and_ends_at_a_limit),
		RANGE_TEST(test_visitor_stops_it),
		RANGE_TEST(test_long_keys),
		RANGE_TEST(test_same_as_a_plain_list),
	};
	int failed;

	if (!mkdtemp(folder))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(folder);
	return failed;
}
