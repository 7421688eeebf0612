/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys of registered memory. A key is 64 random bits that mean something in one domain. Transports
 * that hand out their own keys use these books. A book's owner guards it with a lock.
 */
#ifndef AFAR_FABRIC_KEYS_H
#define AFAR_FABRIC_KEYS_H

#include <stdint.h>

/* The first member of a struct that has a key. */
struct keyed {
	uint64_t key; /* never 0 */
};

/* The keys of one domain. {0} is an empty book. */
struct key_book {
	void *tree;
};

/* Gives `keyed` a key that nobody can guess, and enters it. Returns 0, -EIO or -ENOMEM. */
int key_book_add(struct key_book *book, struct keyed *keyed);
void key_book_remove(struct key_book *book, struct keyed *keyed);
/* NULL: there is none. */
struct keyed *key_book_find(const struct key_book *book, uint64_t key);

#endif
