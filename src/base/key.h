/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Key files: a line "IDENTITY:64 HEX DIGITS" per principal, mode 0600. The identity is the TLS
 * pre-shared key's, the 32 bytes are the key.
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

/* Parses the text of a key file: up to `max` keys. Returns how many, or -EINVAL with a sentence that
 * names `path` and the line. */
int key_parse(const char *text, size_t length, const char *path, struct key *out, size_t max);

/* Some keys, the caller's. */
struct key_list {
	const struct key *keys;
	size_t nr_keys;
};
/* The key of `identity` in a struct key_list: true and its secret. Fits a struct rpc_keyring. */
bool key_list_find(void *list, const char *identity, uint8_t secret[KEY_BYTES]);

/* A principal's name: 1 to 32 of A-Z a-z 0-9 . _ @ - (identities of other forms are made up by
 * daemons for their own purposes). */
#define KEY_PRINCIPAL_MAX 32
bool key_is_principal(const char *name);

/*
 * Reads up to `max` keys of a key file. Returns how many (at least 1). Errors, with a sentence: -ENOENT,
 * -EACCES, -EPERM (others than the owner can read it), -EINVAL (malformed or empty).
 */
int key_load(const char *path, struct key *out, size_t max);

/*
 * Makes the file with one fresh random key for `identity` if it does not exist — written aside with
 * mode 0600, synced, then linked into place, so that two daemons that start at once agree — and reads
 * it. Errors as key_load(), or of creating a file.
 */
int key_load_or_make(const char *path, const char *identity, struct key *out);

#endif
