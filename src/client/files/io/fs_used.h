/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which inodes a program uses by their number, as a mount's kernel does (AFAR_FS_COUNT_USES). The manager keeps no note of them. It asks when
 * the last name of some has gone (FilesGone), and keeps those that are used, until it is told that they are forgotten.
 *
 * A call that finds an inode by its name may have been answered before the name went, and count it after we were asked. So an answer
 * waits until all such calls have ended that were under way.
 */
#ifndef CLIENT_FS_USED_H
#define CLIENT_FS_USED_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <afar/file.h>

#include "rpc/rpc.h"

struct used_inode;

struct fs_used {
	bool is_on;	   /* these never change */
	afar_fs_gone gone; /* NULL: there is nobody to tell */
	void *argument;
	pthread_mutex_t
		lock; /* guards all below; held for moments, and none but the connection's is taken under it */
	struct used_inode *table; /* by inode number */
	size_t nr, max;
	bool is_unsure; /* there was no memory to count one: all are used */
	/* Calls under way, of two kinds: those that began since the manager asked last, and those from before. */
	unsigned nr_finding[2];
	unsigned kind;	       /* of those that begin now */
	struct rpc_call *call; /* that waits for its answer; NULL: none does */
	bool is_again;	       /* it came while an earlier one waited */
	Afar__FilesGone *asked;
	/* Inodes that are not used any more, of which the manager is yet to be told. */
	uint64_t *forgotten;
	size_t nr_forgotten, max_forgotten;
};

void used_init(struct fs_used *used, const struct afar_fs_options *options);
void used_free(struct fs_used *used);

/* Around each call that may find an inode. The latter takes what the former gave, and the inode; 0: none was found. */
unsigned used_begin(struct afar_fs *fs);
void used_end(struct afar_fs *fs, unsigned kind, uint64_t ino);
/* Returns whether a call that made nothing, with this status, is to be tried again, which it counts in `*nr`, from 0. A
 * file that was removed just now leaves its room only when we have answered about it, and have told that it is
 * forgotten. So this tells that, and waits for 5 ms. Call it after used_end(). */
bool used_again(struct afar_fs *fs, int status, unsigned *nr);
/* Takes uses back. */
void used_forget(struct afar_fs *fs, uint64_t ino, uint64_t nr);
/* Tells the manager what is not used any more, of what it keeps. */
void used_tell(struct afar_fs *fs);

/* The manager asks. Takes the call over, and what is asked out of the request. On the control thread. */
void used_ask(struct afar_session *session, Afar__Request *request, struct rpc_call *call);

#endif
