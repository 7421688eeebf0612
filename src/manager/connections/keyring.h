/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keys that the manager takes: those of its key files, which never change while it runs, and
 * those that operators add. The rpc loop's thread looks keys up in handshakes; the core's thread
 * changes them. All functions may be called from any thread.
 *
 * The core looks up what a principal is at each request, not at the handshake. It asks its tables
 * for those that were added, and the keyring for those of the files.
 */
#ifndef MANAGER_KEYRING_H
#define MANAGER_KEYRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/key.h"

enum principal_kind {
	PRINCIPAL_UNKNOWN,
	PRINCIPAL_CLIENT,
	PRINCIPAL_SERVER,
	PRINCIPAL_OPERATOR, /* a client that may do everything */
};

struct keyring;

/* Copies the keys of the files. -EINVAL with a sentence: an identity has two keys. -ENOMEM. */
int keyring_open(const struct key_list *operators, const struct key_list *servers,
		 struct keyring **out);
void keyring_close(struct keyring *keyring);

/* The secret of an identity, or false. Fits a struct rpc_keyring. */
bool keyring_find(void *keyring, const char *identity, uint8_t secret[KEY_BYTES]);
/* True: the key that was found last is still the identity's. For a connection that opens, whose key
 * was looked up just before on the same thread. It may have been revoked since, and another one
 * made. */
bool keyring_is_current(struct keyring *keyring, const char *identity);

/* The keys of the files, by index, operators first; NULL: past the last. Valid as long as the
 * keyring. */
const struct key *keyring_file(const struct keyring *keyring, size_t index,
			       enum principal_kind *kind);
/* PRINCIPAL_UNKNOWN: no file has it. */
enum principal_kind keyring_file_kind(const struct keyring *keyring, const char *identity);

/* -EEXIST: it has a key, maybe of a file, which stays. -ENOMEM. */
int keyring_add(struct keyring *keyring, const char *identity, const uint8_t secret[KEY_BYTES]);
/* Does nothing to a file's. */
void keyring_remove(struct keyring *keyring, const char *identity);

#endif
