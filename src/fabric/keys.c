/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/keys.h"

#include <errno.h>
#include <search.h>
#include <stddef.h>
#include <sys/random.h>

static int compare_keys(const void *a, const void *b)
{
	const struct keyed *left = a, *right = b;

	return (left->key > right->key) - (left->key < right->key);
}

int key_book_add(struct key_book *book, struct keyed *keyed)
{
	struct keyed *const *entered = NULL;

	while (!entered || *entered != keyed) {
		if (getrandom(&keyed->key, sizeof(keyed->key), 0) != (ssize_t)sizeof(keyed->key))
			return -EIO;
		if (keyed->key == 0)
			continue;
		entered = tsearch(keyed, &book->tree, compare_keys);
		if (!entered)
			return -ENOMEM;
	}
	return 0;
}

void key_book_remove(struct key_book *book, struct keyed *keyed)
{
	tdelete(keyed, &book->tree, compare_keys);
}

struct keyed *key_book_find(const struct key_book *book, uint64_t key)
{
	const struct keyed wanted = {.key = key};
	struct keyed *const *found = tfind(&wanted, &book->tree, compare_keys);

	return found ? *found : NULL;
}
