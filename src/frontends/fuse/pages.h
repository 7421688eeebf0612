/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's pages of files that are open without them (`--direct`, O_APPEND). Programs reach them all the same by sendfile(2),
 * splice(2) and mappings. The kernel asks nobody about those that it has. So they are dropped when somebody elsewhere may write the
 * file: right after they were read, and within 100 ms if he comes later.
 */
#ifndef FUSE_PAGES_H
#define FUSE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mount;

/* An open file's view of its inode's pages. */
struct open_pages {
	bool may_be_there; /* some have been read since they were dropped */
	bool was_quiet;	   /* nobody else could write the file when that was asked last */
	uint64_t change;   /* the inode's then */
};

struct used_pages {
	uint64_t ino, change;
	bool was_quiet;
};

/* Some of a file have been read, and files.c has noted which. */
void pages_filled(struct mount *mount);
/* files.c: lists the files of which there may be some, which the caller frees. Notes of one that they are about to be dropped, and what is
 * known of it; returns whether there may be any. */
size_t files_with_pages(struct used_pages **out);
bool files_note_pages(const struct used_pages *used, uint64_t change, bool is_quiet);
/* When no request is served any more. False: the kernel still keeps the thread, so libfuse's session must stay. */
bool pages_end(void);

#endif
