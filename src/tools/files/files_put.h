/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the parts of `afar put`: files_put.c takes the arguments, files_put_tree.c puts trees and
 * small files, files_large.c large ones. */
#ifndef TOOLS_FILES_PUT_H
#define TOOLS_FILES_PUT_H

#include <sys/stat.h>

#include "tree.h"

extern const struct tree_ops put_ops;

/* Puts a file by pieces, which become jobs of the pool. */
void put_large(struct tree_entry *entry, struct pool_worker *worker);

/* Fills in what a local file has. */
void put_stat(const struct stat *from, struct tree_entry *entry);
/* Opens a local file to read it. Returns the descriptor or a negative errno. */
int put_open(const struct tree_entry *entry);
/* Looks whether a file may take its name, and which permissions it gets. Returns 0, or an error;
 * -ECANCELED: a line has been written. */
int put_look(const struct tree_entry *entry, uint32_t *mode);
/* Gives what is whole under the name `aside` its own, or removes it. */
int put_rename(const struct tree_entry *entry, const char *aside);
/* Gives it the source's times, permissions and owner, if it should have them. */
int put_attributes(const struct tree_entry *entry, uint64_t ino);

#endif
