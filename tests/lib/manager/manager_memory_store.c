/* SPDX-License-Identifier: BSD-3-Clause */
/* The metastore in memory of the manager's tests: a sorted array; its commits fail when told to. */
#include "lib/manager/manager_memory_store.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

int memory_store_compare(struct meta_bytes left, struct meta_bytes right)
{
	size_t length = left.length < right.length ? left.length : right.length;
	int order = length != 0 ? memcmp(left.data, right.data, length) : 0;

	if (order != 0)
		return order;
	return left.length < right.length ? -1 : left.length > right.length;
}

static size_t find_pair(const struct memory_store *store, struct meta_bytes key, bool *is_found)
{
	size_t low = 0, high = store->nr_pairs;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (memory_store_compare(store->pairs[middle].key, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*is_found = low < store->nr_pairs && memory_store_compare(store->pairs[low].key, key) == 0;
	return low;
}

static struct meta_bytes copy_bytes(struct meta_bytes bytes)
{
	void *copy = malloc(bytes.length + 1);

	assert_non_null(copy);
	memcpy(copy, bytes.data, bytes.length);
	return (struct meta_bytes){copy, bytes.length};
}

static void free_bytes(struct meta_bytes bytes)
{
	free((void *)(uintptr_t)bytes.data);
}

static int memory_get(struct metastore *base, struct meta_bytes key, void **value, size_t *length)
{
	struct memory_store *store = (struct memory_store *)base;
	struct meta_bytes copy;
	bool is_found;
	size_t at = find_pair(store, key, &is_found);

	if (!is_found)
		return -ENOENT;
	copy = copy_bytes(store->pairs[at].value);
	*value = (void *)(uintptr_t)copy.data;
	*length = copy.length;
	return 0;
}

static int
memory_range(struct metastore *base, struct meta_bytes prefix, struct meta_bytes after, size_t max,
	     int (*visit)(void *argument, struct meta_bytes key, struct meta_bytes value),
	     void *argument)
{
	struct memory_store *store = (struct memory_store *)base;
	bool is_after = after.length != 0 && memory_store_compare(after, prefix) >= 0;
	bool is_found;
	size_t at;
	int rc = 0;

	if (prefix.length > METASTORE_KEY_MAX || after.length > METASTORE_KEY_MAX)
		return error_fail(-EINVAL, "range: a key is too long");
	at = find_pair(store, is_after ? after : prefix, &is_found);
	at += is_after && is_found;
	for (; at < store->nr_pairs && max > 0 && rc == 0; at++, max--) {
		const struct memory_pair *pair = &store->pairs[at];

		if (pair->key.length < prefix.length ||
		    (prefix.length != 0 && memcmp(pair->key.data, prefix.data, prefix.length) != 0))
			break;
		rc = visit(argument, pair->key, pair->value);
	}
	return rc;
}

struct checking {
	int (*visit)(void *argument, struct meta_bytes key, bool is_damaged);
	void *argument;
};

static int check_pair(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	const struct checking *checking = argument;

	(void)value;
	return checking->visit(checking->argument, key, false);
}

static int memory_check(struct metastore *base, struct meta_bytes prefix, struct meta_bytes after,
			size_t max,
			int (*visit)(void *argument, struct meta_bytes key, bool is_damaged),
			void *argument)
{
	struct checking checking = {visit, argument};

	return memory_range(base, prefix, after, max, check_pair, &checking);
}

static void memory_put(struct memory_store *store, const struct meta_put *put)
{
	bool is_found;
	size_t at = find_pair(store, put->key, &is_found);

	if (is_found) {
		free_bytes(store->pairs[at].value);
	} else {
		store->pairs =
			reallocarray(store->pairs, store->nr_pairs + 1, sizeof(*store->pairs));
		assert_non_null(store->pairs);
		memmove(&store->pairs[at + 1], &store->pairs[at],
			(store->nr_pairs - at) * sizeof(*store->pairs));
		store->nr_pairs++;
		store->pairs[at].key = copy_bytes(put->key);
	}
	store->pairs[at].value = copy_bytes(put->value);
}

static void memory_delete(struct memory_store *store, struct meta_bytes key)
{
	bool is_found;
	size_t at = find_pair(store, key, &is_found);

	if (!is_found)
		return;
	free_bytes(store->pairs[at].key);
	free_bytes(store->pairs[at].value);
	store->nr_pairs--;
	memmove(&store->pairs[at], &store->pairs[at + 1],
		(store->nr_pairs - at) * sizeof(*store->pairs));
}

static int memory_commit(struct metastore *base, const struct meta_compare *compares,
			 size_t nr_compares, const struct meta_put *puts, size_t nr_puts,
			 const struct meta_bytes *deletes, size_t nr_deletes)
{
	struct memory_store *store = (struct memory_store *)base;

	(void)compares;
	assert_int_equal(nr_compares, 0);
	store->nr_commits++;
	if (store->hold != NULL)
		store->hold(store->hold_argument, false);
	if (store->is_broken || (store->fail_at != 0 && --store->fail_at == 0))
		return error_fail(store->failure, "commit: the disk is full; make room on it");
	if (store->does_forget)
		return 0;
	for (size_t i = 0; i < nr_deletes; i++)
		memory_delete(store, deletes[i]);
	for (size_t i = 0; i < nr_puts; i++)
		memory_put(store, &puts[i]);
	if (store->hold != NULL)
		store->hold(store->hold_argument, true);
	return 0;
}

static const struct metastore_ops memory_ops = {
	.name = "memory",
	.get = memory_get,
	.range = memory_range,
	.check = memory_check,
	.commit = memory_commit,
};

void memory_store_open(struct memory_store *store)
{
	*store = (struct memory_store){.base = {&memory_ops}, .failure = -ENOSPC};
}

void memory_store_close(struct memory_store *store)
{
	for (size_t i = 0; i < store->nr_pairs; i++) {
		free_bytes(store->pairs[i].key);
		free_bytes(store->pairs[i].value);
	}
	free(store->pairs);
}

void memory_store_save(const struct memory_store *store, struct memory_store *saved)
{
	memory_store_open(saved);
	for (size_t i = 0; i < store->nr_pairs; i++)
		memory_put(saved, &(struct meta_put){store->pairs[i].key, store->pairs[i].value});
}

void memory_store_restore(struct memory_store *store, struct memory_store *saved)
{
	memory_store_close(store);
	store->pairs = saved->pairs;
	store->nr_pairs = saved->nr_pairs;
}
