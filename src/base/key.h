/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Key files: a line "IDENTITY:64 HEX DIGITS" per principal, mode 0600. The identity is that of the
 * TLS pre-shared key, and the 32 bytes are the key.
 */
#ifndef BASE_KEY_H
#define BASE_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_BYTES	 32
#define KEY_IDENTITY_MAX 63

struct key {
	char identity[KEY_IDENTITY_MAX + 1];
	uint8_t secret[KEY_BYTES];
};

/* Parses the text of a key file: up to `max` keys. Returns how many. -EINVAL, with a sentence that
 * names `path` and the line. */
int key_parse(const char *text, size_t length, const char *path, struct key *out, size_t max);

/* The caller owns the keys. */
struct key_list {
	const struct key *keys;
	size_t nr_keys;
};
/* Finds the key of `identity` in a struct key_list. True: `secret` has it. It fits a struct
 * rpc_keyring. */
bool key_list_find(void *list, const char *identity, uint8_t secret[KEY_BYTES]);

/* True for a principal's name: 1 to 32 of A-Z a-z 0-9 . _ @ -. Daemons make up identities of other
 * forms for their own purposes. */
#define KEY_PRINCIPAL_MAX 32
bool key_is_principal(const char *name);

/*
 * Reads up to `max` keys of a key file. Returns how many, at least 1. Errors, with a sentence:
 * -ENOENT, -EACCES, -EPERM (others than the owner can read it), -EINVAL (it is malformed or empty).
 */
int key_load(const char *path, struct key *out, size_t max);
/* Like key_load(), for a file whose keys must be principals', not a kind of identity that daemons make: else
 * -EINVAL. */
int key_load_principals(const char *path, struct key *out, size_t max);

/*
 * Reads the key file. If there is none, it first makes one with a fresh random key for `identity`.
 * It writes that aside with mode 0600, syncs it, and links it into place, so that two daemons that
 * start at once agree. Errors are those of key_load(), and of creating a file.
 */
int key_load_or_make(const char *path, const char *identity, struct key *out);

#endif
