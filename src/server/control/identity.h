/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file "server.id" in the server's folder. It has the number that a cluster's manager gave the
 * server, and which cluster that was. In another cluster the number may be another server's. If
 * that manager believed it, it would declare the other server's data lost.
 */
#ifndef SERVER_IDENTITY_H
#define SERVER_IDENTITY_H

#include <stdint.h>

#define IDENTITY_CLUSTER_MAX 63

struct server_identity {
	uint64_t number; /* 0: it has not joined yet */
	char cluster[IDENTITY_CLUSTER_MAX + 1];
};

/* Reads the file; without one the number is 0. With a sentence: -EINVAL (damaged), those of
 * reading. */
int identity_load(const char *folder, struct server_identity *out);
/* Writes the file aside, syncs it and renames it, so that after a crash it is the old one or the
 * new one. Errors, with a sentence: those of writing. */
int identity_save(const char *folder, const struct server_identity *identity);

#endif
