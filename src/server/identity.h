/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file "server.id" in the server's folder: the number that a cluster's manager gave it, and which
 * cluster that was. A number means nothing elsewhere: taken for that of another server there, it would
 * make the other's data lost.
 */
#ifndef SERVER_IDENTITY_H
#define SERVER_IDENTITY_H

#include <stdint.h>

#define IDENTITY_CLUSTER_MAX 63

struct server_identity {
	uint64_t number; /* 0: it has not joined yet */
	char cluster[IDENTITY_CLUSTER_MAX + 1];
};

/* What the file says; number 0 when there is none yet. With a sentence: -EINVAL (damaged), those of
 * reading. */
int identity_load(const char *folder, struct server_identity *out);
/* Writes it aside, syncs, renames: after a crash it is the old one or the new one. With a sentence. */
int identity_save(const char *folder, const struct server_identity *identity);

#endif
