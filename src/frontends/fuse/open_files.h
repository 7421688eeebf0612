/* SPDX-License-Identifier: BSD-3-Clause */
/* Open files, for requests about files and locks, and for the end of a session. */
#ifndef FUSE_OPEN_FILES_H
#define FUSE_OPEN_FILES_H

#include <pthread.h>
#include <stdatomic.h>
#include <urcu/list.h>

#include "mount.h"

struct pages;

struct open_file {
	struct cds_list_head link;
	uint64_t ino;
	int flags;	    /* as it was opened */
	struct asker asker; /* by whom */
	/* The second one is opened when it is first needed: without O_APPEND if the first is with. A program may take the
	 * flag away, and the kernel writes mapped pages to their place through any handle. Both are NULL after the session has ended. */
	struct afar_file *first, *second;
	pthread_mutex_t mutex;	    /* of both */
	atomic_bool is_written;	    /* since it was synced */
	atomic_bool has_lost;	    /* maybe: it was written when the session ended. Said once */
	atomic_bool has_lost_locks; /* when the session ended: it is of no use any more */
	struct pages *pages;	    /* of its inode */
	bool is_direct;		    /* its reads and writes pass the kernel's pages by */
};

static inline struct open_file *open_file_of(const struct fuse_file_info *info)
{
	return (struct open_file *)(uintptr_t)info->fh;
}

/* NULL: no memory. It is in no list yet. */
struct open_file *open_file_new(fuse_req_t req, int flags);
void open_file_free(struct open_file *open);
/* Has the end of a session find it. */
void open_file_add(struct open_file *open);
/* Frees it, once its files are closed. */
void open_file_remove(struct open_file *open);
/* Closes its files. It stays in the list until they are: an end of the session would find them there. Inside of CALL(). */
int open_file_close_later(struct open_file *open);

/* Reads ahead of programs that read from front to back. It makes no difference to others. */
void open_file_advise(const struct open_file *open, struct afar_file *file);
/* Gives the library's file that appends, or the one that does not. Inside of CALL(). */
int open_file_find(const struct mount *mount, struct open_file *open, bool is_append,
		   struct afar_file **out);
/* Gives the one that is as it was opened. */
int open_file_find_first(const struct mount *mount, struct open_file *open, struct afar_file **out);
/* Inside of CALL(). */
int open_file_sync(struct open_file *open);

#endif
