/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The manager delegates attributes of inodes, and which names are in directories, to this session of a file
 * system. Programs are answered from it without a question, as if the manager had answered.
 *
 * A delegation holds for DELEGATION_USED_MS after the last question that renewed it; the next question
 * renews all. It ends earlier when the manager has an inode dropped (FileRevoke), because another session is
 * about to change that.
 *
 * Changes of our own change what is known with their answers. While one is under way, nobody is answered from
 * what it concerns, since the manager may have carried it out already.
 */
#ifndef CLIENT_FS_KNOWN_H
#define CLIENT_FS_KNOWN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rpc/rpc.h"

#define ATTR_CACHE_EVENTS 1024U /* buckets of inodes that events are told apart by */
#define KNOWN_WHOS	  8U

struct afar_file_stat;
struct afar_fs;
struct afar_session;
struct fs_who;

struct attr_cache {
	pthread_mutex_t lock; /* guards all; held for moments, and no other is taken under it */
	uint64_t number;      /* of the delegation; 0: there is none */
	uint64_t dropped;     /* what the manager is to be told with the next question */
	uint64_t refused;     /* the last one that was dropped: it is not taken up again */
	uint64_t renewed_at;
	/* Events after which the answer to a question from before may be out of date. */
	uint64_t nr_events;
	uint64_t reset_at;		      /* nr_events when all was forgotten last */
	uint64_t revoked[ATTR_CACHE_EVENTS];  /* when an inode of the bucket was dropped last */
	uint64_t changed[ATTR_CACHE_EVENTS];  /* when a change of ours ended last */
	unsigned nr_blind;		      /* changes under way of inodes that we cannot name */
	uint64_t nr_learned;		      /* inodes that became known */
	size_t nr;			      /* inodes and names */
	struct cds_list_head *inodes, *names; /* buckets; NULL: none yet */
	/* Whom the manager has let ask: it may refuse to hear of others. */
	struct fs_who *whos;
	unsigned nr_whos, next_who;
};

/* When something was asked. */
struct attr_cache_mark {
	uint64_t nr_events, at;
};

void attr_cache_init(struct attr_cache *cache);
void attr_cache_free(struct attr_cache *cache);
/* Forgets everything. */
void attr_cache_reset(struct attr_cache *cache);

/* ---- Answering programs */

/* Looks a name up. Returns 0 or -ENOENT as the manager would; 1: it has to be asked. `out` has its size. */
int attr_cache_lookup(struct afar_fs *fs, const struct fs_who *who, uint64_t dir, const char *name,
		      struct afar_file_stat *out);
/* Returns when it became known what is known of an inode, if that is delegated; else 0. Never the same again. */
uint64_t attr_cache_since(struct attr_cache *cache, uint64_t ino);
/* Returns whether what is delegated stays so for as many ms, if nobody has it dropped. */
bool attr_cache_lasts(struct attr_cache *cache, uint64_t ms);
/* Notes that the manager was told of a write of ours. */
void attr_cache_wrote(struct attr_cache *cache, uint64_t ino, int64_t at);
/* Describes an inode: 0 or 1. */
int attr_cache_stat(struct afar_fs *fs, uint64_t ino, struct afar_file_stat *out);
/* Returns whether an inode that has a name is delegated. The delegation may have run out. */
bool attr_cache_is_delegated(struct attr_cache *cache, uint64_t ino);
/* Returns whether the manager would let `who` open a file to read now, and gives its size and its layout's number. False: it has to be asked. */
bool attr_cache_may_read(struct attr_cache *cache, const struct fs_who *who, uint64_t ino,
			 uint64_t *size, uint64_t *layout);
/* Gives the size of a file, if that is known. */
bool attr_cache_size(struct attr_cache *cache, uint64_t ino, uint64_t *size);
/* Returns the inode that a name leads to, if that is known; else 0. The delegation may have run out. */
uint64_t attr_cache_ino(struct attr_cache *cache, uint64_t dir, const char *name);
/* Returns whether an inode is known to have no extended attributes. */
bool attr_cache_no_xattrs(struct afar_fs *fs, uint64_t ino);

/* ---- Learning from calls: fs_call.c does that for all of them */

/* Before anything is asked. */
struct attr_cache_mark attr_cache_mark(struct attr_cache *cache);
/* The number that a question tells; see FilesLook. */
uint64_t attr_cache_take_dropped(struct attr_cache *cache);
/* The manager may not have been told it: the next question tells it again, unless there is a newer one. */
void attr_cache_put_dropped(struct attr_cache *cache, uint64_t dropped);
/* After a question was answered. */
void attr_cache_looked(struct afar_fs *fs, const struct attr_cache_mark *mark,
		       const struct fs_who *who, Afar__FileLook *const *operations,
		       const Afar__FileResults *results);
/* After files were opened, some of which wanted delegations. */
void attr_cache_opened(struct afar_fs *fs, const struct attr_cache_mark *mark,
		       const struct fs_who *who, Afar__FileHold *const *operations,
		       const Afar__FileResults *results);
/* Around a change, and around telling where a file ends. `results`: NULL: it is unknown what was done. */
void attr_cache_begin_change(struct afar_fs *fs, Afar__FileChange *const *operations, unsigned nr);
void attr_cache_end_change(struct afar_fs *fs, const struct attr_cache_mark *mark,
			   Afar__FileChange *const *operations, unsigned nr,
			   const Afar__FileResults *results);
void attr_cache_begin_hold(struct afar_fs *fs, Afar__FileHold *const *operations, unsigned nr);
void attr_cache_end_hold(struct afar_fs *fs, const struct attr_cache_mark *mark,
			 Afar__FileHold *const *operations, unsigned nr,
			 const Afar__FileResults *results);

/* The manager has an inode dropped. Takes the call over. On the control thread. */
void attr_cache_revoke(struct afar_session *session, const Afar__FileRevoke *ask,
		       struct rpc_call *call);

#endif
