/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of what is delegated: inodes, and which names directories have. For attr_cache.c and attr_cache_changes.c
 * alone. The lock of struct attr_cache is held for all of these.
 */
#ifndef CLIENT_FS_KNOWN_TABLE_H
#define CLIENT_FS_KNOWN_TABLE_H

#include "client/files/inode/fs_call.h"

/* An inode that something is known of, or that changes of ours are under way of. */
struct attr_cache_inode {
	struct cds_list_head node;  /* of its bucket */
	struct cds_list_head names; /* of a directory: struct attr_cache_name */
	uint64_t ino;
	unsigned nr_changing; /* changes under way */
	bool is_known;	      /* `stat` is: then it is delegated */
	uint64_t since;	      /* it became known: a number of its own */
	bool is_whole;	      /* all names of it are known: others are not there */
	bool has_no_xattrs;   /* false: it may have some */
	struct afar_file_stat stat;
	uint64_t layout; /* its number */
};

#define UNKNOWN UINT64_MAX /* the number of no inode */

/* A name, and whether it is there, in a directory that is known. */
struct attr_cache_name {
	struct cds_list_head node;    /* of its bucket */
	struct cds_list_head sibling; /* of the directory */
	uint64_t dir;
	uint64_t ino; /* 0: it is not there; UNKNOWN: it may be */
	char name[];
};

/* NULL: nothing is known of it. */
struct attr_cache_inode *attr_cache_find(const struct attr_cache *cache, uint64_t ino);
/* Finds it, or makes it. NULL: no memory. */
struct attr_cache_inode *attr_cache_get(struct attr_cache *cache, uint64_t ino);
struct attr_cache_name *attr_cache_find_name(const struct attr_cache *cache, uint64_t dir,
					     const char *name);
/* Forgets what is known of an inode, but not that it is being changed. NULL does nothing. */
void attr_cache_forget(struct attr_cache *cache, struct attr_cache_inode *inode);
void attr_cache_forget_all(struct attr_cache *cache);
/* The manager has a word of its own for all other names. */
bool attr_cache_is_ordinary(const char *name);

/* Return whether the answer to a question is of no use. `mark` is from before it was asked. The first: all
 * was forgotten since. The second: also if what was delegated may have been dropped again. The third: also
 * if a change of ours may have overtaken it. */
bool attr_cache_is_void(const struct attr_cache *cache, const struct attr_cache_mark *mark);
bool attr_cache_is_revoked(const struct attr_cache *cache, const struct attr_cache_mark *mark,
			   uint64_t ino);
bool attr_cache_is_old(const struct attr_cache *cache, const struct attr_cache_mark *mark,
		       uint64_t ino);

/* Takes attributes that are delegated. They have been checked. */
void attr_cache_put_delegated(struct attr_cache *cache, const Afar__FileAttributes *attributes);
/* Takes what a change of ours has made of an inode, if that is delegated. */
void attr_cache_put_changed(struct attr_cache *cache, const Afar__FileAttributes *attributes);
/* Takes whether a name is there. `ino`: 0: it is not. `change`: the directory's when that was so. False: it is not
 * known. */
bool attr_cache_put_name(struct attr_cache *cache, uint64_t dir, const char *text, uint64_t ino,
			 uint64_t change);
/* It has to be asked for, whether the name is there. */
void attr_cache_doubt_name(struct attr_cache *cache, uint64_t dir, const char *text);

#endif
