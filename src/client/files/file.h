/* SPDX-License-Identifier: BSD-3-Clause */
/* Open files: what their calls are made of, for other parts of the client. */
#ifndef CLIENT_FILE_H
#define CLIENT_FILE_H

#include <fcntl.h>

#include "client/files/fs.h"

/* ---- file_handle.c */

/* Returns 0, or why the handle cannot be used. */
int file_check_handle(const struct afar_file *file);
/* Counts a call in, as fs_enter(). */
int file_enter(struct afar_file *file);
/* -EBADF, -EISDIR. */
int file_check(const struct afar_file *file, uint32_t access, const char *asked);
/* Lets the gate find its target. The inode's lock is held. */
void file_list_target(struct afar_file *file);
/* Closes the target of a file that is being closed, if it has one. -EBUSY, with a sentence. */
int file_close_target(struct afar_file *file);
void file_reopen_target(struct afar_file *file);

static inline struct afar_file *file_of(const struct afar_target *target)
{
	return caa_container_of(target, struct afar_file, target);
}

/* Returns how many of a file's operations may have something posted (file_queue.c). */
static inline unsigned file_nr_posted(const struct afar_file *file)
{
	return atomic_load_explicit(&file->target.handle.nr_users, memory_order_acquire) &
	       ~(HANDLE_GATE | HANDLE_SHUT);
}

/* Returns whether its program reads it from front to back, and has said so. */
static inline bool file_is_streamed(const struct afar_file *file)
{
	return atomic_load_explicit(&file->reading.is_sequential, memory_order_relaxed);
}

/* Returns what the manager is told that the file is opened for. */
static inline uint32_t file_hold_access(const struct afar_file *file)
{
	return file->access |
	       (file->fs->drops.tell && !(file->flags & O_APPEND) ? FS_KEEPS_PAGES : 0);
}

/* ---- file.c */

/* Notes that the file is being written, as inode_note_write(). */
int file_note_write(struct afar_file *file);
/* Opens, without being a public call. */
int file_open(struct afar_fs *fs, const struct fs_who *who, uint64_t ino, int flags,
	      struct afar_file **out);
int file_close(struct afar_file *file);
/* Makes and opens a file, as afar_file_create() does; the options are all there. For public calls that make public calls. */
int file_create(struct afar_fs *fs, const struct afar_who *who, uint64_t dir, const char *name,
		const struct afar_open_options *options, int flags, struct afar_file **out,
		struct afar_file_stat *stat);
/* Has the size and times committed. */
int file_commit(struct afar_file *file);
/* Returns whether closing it commits something. */
bool file_has_to_commit(const struct afar_file *file);
/* Before and after a call that closes a file. `result` is NULL if `ret` is negative. */
void file_begin_close(struct late_close *closing);
void file_end_close(struct late_close *closing, int ret, const Afar__FileResult *result);
/* Ends a file that its program has closed without telling the manager. */
void file_drop(struct afar_file *file);
/* The call that was begun has failed as a whole, and the file is as open as before. */
void file_undo_close(struct late_close *closing);
/* As afar_file_sync(). */
int file_sync(struct afar_file *file);

/* ---- file_kept.c */

/* Gives a file that is being opened a hold, and its inode, that an earlier one has left; else it has none. Returns 1 if the file is open with that.
 * 0: the manager has to be asked. */
int file_take_kept(struct afar_file *file, uint64_t ino);
/* Takes that back, because the manager has refused, or was not heard of. False: the manager has to be told. */
bool file_leave_kept(struct afar_file *file);
/* Ends a file that its program has closed, and keeps its hold. False: the manager has to be told, and the file is as it was. */
bool file_keep(struct afar_file *file);
/* A file that may be one to write has its hold, and is about to be opened. */
void file_let_writer(struct afar_file *file);

/* ---- file_change.c */

/* Does what afar_file_truncate() does, with `who`. */
int file_resize(struct afar_file *file, const struct fs_who *who, uint64_t bytes);
/* Gives back the first unit of a file that was prepared, because it gets its bytes elsewhere first. From outside
 * the gate. If that fails, a unit of zeros stays. */
void file_unprepare(struct afar_file *file);

/* ---- file_room.c */

/* Gives room back that has come, and that nobody has written. Returns whether any went. From outside the gate. */
bool file_give_back(struct afar_file *file);

/* ---- file_transfer.c */

ssize_t file_read(struct afar_file *file, const struct afar_file_vector *vectors, unsigned nr);
/* `is_durable`: as if it were open with O_DSYNC. */
ssize_t file_write(struct afar_file *file, const struct afar_file_vector *vectors, unsigned nr,
		   bool is_durable);

#endif
