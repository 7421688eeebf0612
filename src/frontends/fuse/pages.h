/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's pages of open files, and the attributes that it was told last. The kernel asks nobody about a page that it has. So we
 * have it drop pages before they could be older than what others have written:
 *
 *   - before a read of a program goes on, if others may have written since its pages were read. The kernel asks for attributes before it
 *     looks at pages, unless it has a lease (leases.h), and that answer waits until they are dropped
 *   - when a file is opened, if others may have written since the last program closed it
 *   - when the manager asks, because somebody elsewhere opens the file to write, or has written and says so. He waits for that
 *   - every 50 ms while somebody elsewhere may write it, because nobody asks before a mapping is used
 *   - as soon as they have been read, if sendfile(2) or splice(2) read them through a handle that is open without pages
 *
 * A page is good as long as nobody elsewhere could have written the file since before it was read: afar_fs_quiet_since().
 */
#ifndef FUSE_PAGES_H
#define FUSE_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

struct afar_drop;
struct afar_file_stat;
struct mount;
struct pages;

/* For each open file: those of its inode. `*are_good`: the kernel may go on with pages that it has, and drops them else. NULL: no memory. */
struct pages *pages_open(struct mount *mount, uint64_t ino, bool *are_good);
void pages_close(struct pages *pages);

/* A request that leaves pages with the kernel. */
struct filling {
	uint64_t since, began_at;
};

/* Begins it, and ends it before it is answered: a read, a read on a handle that is open without pages, a write. */
void pages_begin(struct mount *mount, struct pages *pages, bool is_write, struct filling *out);
void pages_end_filling(struct mount *mount, struct pages *pages, const struct filling *filling);
void pages_end_passing(struct mount *mount, struct pages *pages, const struct filling *filling);
void pages_end_writing(struct mount *mount, struct pages *pages, const struct filling *filling);
/* The file was written on a handle that is open without pages. */
void pages_passed_by(struct pages *pages);

/* Returns whether a program may read what the kernel has. */
bool pages_are_good(struct mount *mount, struct pages *pages);
/* Returns whether programs may read, without our being asked, what the kernel has of an inode. `since`: afar_fs_quiet_since(), with the session
 * in it. */
bool pages_may_lease(struct mount *mount, uint64_t ino, uint64_t since);
/* Has pages dropped, and answers a request with attributes then. */
void pages_drop_and_answer(struct mount *mount, struct pages *pages, fuse_req_t req,
			   const struct afar_file_stat *stat);
/* Has the kernel drop what it has of an inode, when it does. */
void pages_drop_again(struct mount *mount, uint64_t ino);
/* For the library: afar_fs_drop. */
void pages_drop(void *mount, uint64_t ino, struct afar_drop *drop);

/* Notes what the kernel is told of an inode, if it is open. When the time of the last change moves, the kernel drops pages by itself. */
void pages_note_attributes(const struct afar_file_stat *stat);
/* Changes what it is told before a program reads. The time becomes what it was told before, because we have old pages dropped. So our
 * own writes cost no pages, and none are dropped between being filled by a program and being written. */
void pages_note_to_read(struct pages *pages, struct afar_file_stat *stat);
/* The file has been written up to there. */
void pages_note_end(struct pages *pages, uint64_t end);
/* False: it has not been told. */
bool pages_last_attributes(struct pages *pages, struct afar_file_stat *out);
/* The manager has not answered in time when it was asked for an inode's attributes, or has. While it is silent, nobody waits for it who can do
 * without: a thread of its own asks. */
void pages_set_silent(struct mount *mount, struct pages *pages, bool is);
/* How many ms somebody waits for it who can do without. 0: he does not ask. */
int pages_patience(void);

/* When no request is served any more. False: the kernel still keeps a thread, so libfuse's session must stay. */
bool pages_end(void);

#endif
