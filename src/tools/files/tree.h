/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by putting, getting and removing trees. It says who lists which directory, and when a
 * directory has ended. It handles small files in rounds, names of one file, failures, and progress on
 * a terminal. Each of the three says how by its `struct tree_ops`, whose functions many threads call
 * at once.
 */
#ifndef TOOLS_TREE_H
#define TOOLS_TREE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "files.h"
#include "inodes.h"
#include "pool.h"

#define TREE_ROUND_FILES  256U
#define TREE_ROUND_BYTES  ((uint64_t)8 << 20)
#define TREE_BUFFER_BYTES (TREE_ROUND_BYTES + 4096) /* of each thread: a round, and some more */
#define TREE_SMALL_BYTES  ((uint64_t)1 << 20)	    /* larger files go alone */
#define TREE_SPARSE_BYTES \
	((uint64_t)64 << 10) /* and so do smaller ones from here on that have holes */

struct tree;

/* A directory, kept until the last of its entries is done. */
struct tree_dir {
	struct tree *tree;
	struct tree_dir *parent; /* NULL: of an argument */
	atomic_uint references;
	char *source, *target; /* paths, for people and for this machine's calls; may be NULL */
	uint64_t ino; /* in the file system: put: of the target; get and rm: of the source */
	struct afar_fs *fs;
	struct afar_file_stat stat; /* the source's */
	bool is_new;		    /* it was made at the target */
	atomic_bool has_failed;	    /* something below it has not been done */
};

/* A name in a directory, and what it has. */
struct tree_entry {
	struct pool_job job;
	struct tree_entry *next;
	struct tree_dir *dir;
	char *name;		    /* in dir->source */
	char *as;		    /* in dir->target */
	struct afar_file_stat stat; /* of the source */
	uint64_t device;	    /* put: of the source */
	struct tree_file *file;	    /* of a file with several names; NULL: it has one */
};

struct tree_ops {
	const char *what;	/* "put" */
	const char *local_what; /* the same about a path of this machine: "get into" */
	bool is_local_target;	/* the target is this machine's, not the source */
	/* Makes the directory `as` of entry->dir, if it is a copy's, fills in `dir`, and adds its entries.
	 * Returns 0, or CLI_FAILED with a line. */
	int (*list)(struct tree_entry *entry, struct tree_dir *dir, struct pool_worker *worker);
	/* Does small files and symbolic links. The list is the function's; each must come to tree_done(). */
	void (*round)(struct tree *tree, struct tree_entry *entries, struct pool_worker *worker);
	/* Does one file alone; may add work. It must come to tree_done(). */
	void (*large)(struct tree_entry *entry, struct pool_worker *worker);
	/* All that is in the directory is done. */
	void (*leave)(struct tree_dir *dir);
	/* Gives a file that has been done one more name. Returns 0 or a negative error. NULL: they are not kept. */
	int (*link)(struct tree_entry *entry);
	unsigned round_files;
};

/* A file with several names, which is copied once. */
struct tree_file {
	uint64_t ino; /* put: of the copy; 0: it has failed, or is not there yet */
	char *path;   /* get: of the copy */
};

struct tree {
	const struct tree_ops *ops;
	struct files *files;
	bool is_recursive;
	bool is_exact; /* -p */
	bool is_root;
	uint32_t umask;

	struct pool pool;
	pthread_mutex_t lock;
	struct inodes inodes;
	struct tree_entry *links;
	struct tree_round *round; /* that is being filled */
	atomic_bool is_stopping;  /* interrupted, or no more can be done */
	atomic_bool has_failed;
	atomic_ullong nr_files, nr_bytes;
	atomic_uint next_aside;
	uint64_t started_ns;
	bool is_terminal, is_shown;
};

/* Begins; the caller has set the first part of it. Returns 0, or CLI_FAILED with a line. */
int tree_begin(struct tree *tree);
/* Waits until all is done, with progress. Returns the exit status: CLI_FAILED if anything has failed. */
int tree_end(struct tree *tree);

/* Makes a directory for an argument's entry, which holds one reference for it. NULL: no memory. */
struct tree_dir *tree_dir_new(struct tree *tree, struct tree_dir *parent);
void tree_dir_drop(struct tree_dir *dir);
/* Makes an entry, which takes a reference to the directory. NULL: no memory. */
struct tree_entry *tree_entry_new(struct tree_dir *dir, const char *name, const char *as);
/* Hands an entry in, whose stat is set. `worker` is NULL in the main thread. */
void tree_add(struct tree_entry *entry, struct pool_worker *worker);
/* It is done, if `error` is 0; otherwise fails it with a line. `bytes` are for the progress. */
void tree_done(struct tree_entry *entry, int error, uint64_t bytes);
/* Writes the line about it, not more. `is_local`: a call of this machine's has failed; -ENODATA: its file ended too early. */
void tree_fail_entry(const struct tree_entry *entry, int error, bool is_local);
/* It has failed, by a call of this machine's. */
void tree_done_local(struct tree_entry *entry, int error);
/* It has failed, and a line has been written. */
void tree_done_failed(struct tree_entry *entry);

/* Write a line, with the progress out of the way. Return CLI_FAILED, and have the tree end with it. The
 * first is about the library's call that has just failed, the second about one of this machine's.
 * -ECANCELED: a line has been written already. */
int tree_fail(struct tree *tree, const char *what, const char *path, int error);
int tree_fail_local(struct tree *tree, const char *what, const char *path, int error);
__attribute__((format(printf, 2, 3))) int tree_fail_text(struct tree *tree, const char *format,
							 ...);
__attribute__((format(printf, 2, 3))) void tree_note(struct tree *tree, const char *format, ...);

/* Return the allocated path of an entry; NULL: no memory. */
char *tree_source(const struct tree_entry *entry);
char *tree_target(const struct tree_entry *entry);

/* Returns the permissions that a copy gets. */
uint32_t tree_mode(const struct tree *tree, uint32_t mode);
/* Makes a name for what is not whole yet. */
void tree_aside(struct tree *tree, char out[32]);

#endif
