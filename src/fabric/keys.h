/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys of registered memory: 64 random bits each, that mean something in one domain. For the transports
 * that hand out keys of their own; who owns a book guards it by a lock.
 */
#ifndef AFAR_FABRIC_KEYS_H
#define AFAR_FABRIC_KEYS_H

#include <stdint.h>

/* What has a key begins with this. */
struct keyed {
	uint64_t key; /* never 0 */
};

/* {0} is an empty one. */
struct key_book {
	void *tree;
};

/* Gives `keyed` a key that nobody can guess, and enters it. 0, -EIO or -ENOMEM. */
int key_book_add(struct key_book *book, struct keyed *keyed);
void key_book_remove(struct key_book *book, struct keyed *keyed);
/* NULL: there is none. */
struct keyed *key_book_find(const struct key_book *book, uint64_t key);

#endif
