/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the parts of `afar get`: files_get.c takes the arguments, files_get_tree.c gets trees and
 * small files, files_large.c large ones. */
#ifndef TOOLS_FILES_GET_H
#define TOOLS_FILES_GET_H

#include "tree.h"

extern const struct tree_ops get_ops;

/* Gets a file by pieces, which become jobs of the pool. */
void get_large(struct tree_entry *entry, struct pool_worker *worker);

/* A local file that has a name of its own until it is whole. */
struct get_sink {
	char *path;  /* its final name */
	char *aside; /* its name until then */
	int fd;
	uint32_t mode;
};

/* Opens one for the entry. Returns 0 or a negative errno; -ECANCELED: a line has been written. */
int get_sink_open(const struct tree_entry *entry, struct get_sink *out);
/* Gives it its attributes and its name, or removes it if `error` is not 0. Returns `error`, or its own. */
int get_sink_close(const struct tree_entry *entry, struct get_sink *sink, int error);

/* Copies a file to a descriptor from its beginning on. Returns an exit status, with a line that begins with
 * `what` if it fails, and tells `path`. Call catch_interrupts() before. */
int get_stream(struct afar_fs *fs, uint64_t ino, const char *what, const char *path, int fd,
	       const char *target);

#endif
