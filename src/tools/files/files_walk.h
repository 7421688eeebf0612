/* SPDX-License-Identifier: BSD-3-Clause */
/* Walks over a tree in a file system, one directory after the other, for commands that look at it or
 * change attributes. Copying and removing are files_pool.h's. */
#ifndef TOOLS_FILES_WALK_H
#define TOOLS_FILES_WALK_H

#include "files.h"

struct files_walker {
	struct files *files;
	const char *what; /* for failures: "list" */
	/* Called for each entry before those below it. Returns 0, or an exit status, which the walk keeps. */
	int (*entry)(struct files_walker *walker, struct afar_fs *fs, const char *path,
		     const struct afar_file_stat *stat);
	/* Called before and after those below a directory. May be NULL. If the first returns something else
	 * than 0, an exit status, that directory is left out. */
	int (*enter)(struct files_walker *walker, const char *path);
	void (*leave)(struct files_walker *walker, const char *path);
	void *context;
};

/* Walks over what `text` names and all below it. It is followed if it is a symbolic link and `follows`;
 * links below are not. Goes on after a failure. Returns 0, or the first exit status that is not 0. */
int files_walk_tree(struct files_walker *walker, const char *text, bool follows);

/* Lists a directory to its end. Calls `entry` until it returns something else than 0. Returns 0, what that
 * returned, or the library's error. Without attributes an entry has the inode and the type. If the manager cannot tell an entry's
 * attributes, that one is left out: the listing goes on, and ends with the error. */
typedef int files_list_entry(const struct afar_dirent *entry, void *context);
int files_list(struct afar_fs *fs, uint64_t dir, bool with_attributes, files_list_entry *entry,
	       void *context);

#endif
