/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's side of being in a cluster. It joins the manager, and joins again whenever the
 * connection was lost. It has the manager's requests carried out, and reports the numbers by which
 * the manager places.
 */
#ifndef SERVER_MEMBERSHIP_H
#define SERVER_MEMBERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "rpc/rpc.h"
#include "server/control/fence.h"
#include "server/control/identity.h"
#include "server/control/incarnation.h"
#include "server/data/lanes.h"
#include "server/memory/extent.h"

struct membership;

/* All pointers but that to the key file's name must outlive membership_close(). */
struct membership_options {
	struct rpc_loop *loop;
	const char *name;
	const char *manager_host;
	uint16_t manager_port;
	const struct key *key; /* of the first attempt, if there is no file */
	const char *key_file;  /* NULL: none */
	const char *folder;    /* of the file with the server's number; NULL: none */
	const struct incarnation *incarnation;
	const char *control_address; /* as listened on; a wildcard host is replaced */
	struct lanes *lanes;
	struct extent_pool *pool;
	const struct fence *fence;
	struct stores *stores;
	/* Runs once, on the membership's thread, when it gives up joining. May be NULL. */
	void (*gave_up)(void *context);
	void *context;
};

/* Reads the file with the server's number. Errors, with a sentence: -EINVAL (it is damaged), those
 * of reading. */
int membership_open(const struct membership_options *options, struct membership **out);
void membership_close(struct membership *membership);

/* Starts the thread, which joins and keeps joining. */
int membership_start(struct membership *membership);
/* Ends the thread and the connection, and refuses requests that have not begun. Not on the loop's
 * thread. */
void membership_stop(struct membership *membership);

/* Who it is, as of its last join. Any thread may call it. */
void membership_identity(struct membership *membership, struct server_identity *out);
bool membership_is_joined(struct membership *membership);
/* The manager's records are older than what this server or a store of it has seen: it tries on, and an operator decides. */
bool membership_is_kept_out(struct membership *membership);
/* Returns 0, or why it gave up, with a sentence: the manager does not accept its key (-AFAR_EAUTH,
 * -EACCES), or has removed the server (-AFAR_ELOST). */
int membership_failure(struct membership *membership);
/* Has the thread read the key file anew, and join anew if its first key is another one. Any thread may call it. */
void membership_renew_key(struct membership *membership);
/* Call it when the numbers may have changed: a report will go out. Any thread may call it. */
void membership_changed(struct membership *membership);

#endif
