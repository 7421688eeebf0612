/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The key that a server joins with. Its file is read anew before each attempt, and its keys are
 * tried in turn. So an operator can change the key of a server that runs. For a while the file, and
 * the cluster, have the old one and the new one. Used by the membership's thread alone.
 */
#ifndef SERVER_JOIN_KEY_H
#define SERVER_JOIN_KEY_H

#include <limits.h>
#include <stdbool.h>

#include "base/key.h"

struct join_key {
	char path[PATH_MAX]; /* empty: the key stays as it is */
	struct key key;	     /* for this attempt */
	unsigned turn;	     /* of the file's keys; grows with each refusal */
	unsigned nr_keys;
	unsigned nr_refused; /* in a row */
	char complaint[256]; /* the last one about the file; empty: it could be read */
};

/* `path` NULL: there is no file. -ENAMETOOLONG with a sentence. */
int join_key_init(struct join_key *join_key, const char *path, const struct key *key);
void join_key_wipe(struct join_key *join_key);
/* Reads the file, and takes the key whose turn it is. If it cannot be read, that is logged, once, and the last key stays. */
void join_key_choose(struct join_key *join_key);
/* Takes the file's first key. Returns whether that is another one than before. */
bool join_key_renew(struct join_key *join_key);
/* The manager takes the key. */
void join_key_accepted(struct join_key *join_key);
/* The manager does not. Returns whether the file has another key, which has not been refused since the last one was taken. */
bool join_key_refused(struct join_key *join_key);

#endif
