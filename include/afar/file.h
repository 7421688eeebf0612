/* SPDX-License-Identifier: BSD-3-Clause */
/* Open files: read, written, locked, on queues, and many small ones at once; fs.h has file systems and names, and the rules. */
#ifndef AFAR_FILE_H
#define AFAR_FILE_H

#include <afar/fs.h>

#ifdef __cplusplus
extern "C" {
#endif

struct afar_file; /* an open file */

/* ---- Open files -------------------------------------------------------------------------------- */

/*
 * Opens a file. `flags`: O_RDONLY, O_WRONLY or O_RDWR, with O_TRUNC, O_APPEND, O_DSYNC or O_SYNC; others of
 * open(2) are ignored. The handle is good whatever happens to the file's names and permissions. `out`
 * is the caller's until afar_file_close(); the file system cannot be closed before.
 * Errors: -ESTALE (gone), -EISDIR, -EACCES, -EROFS; -EINVAL if it is neither file nor directory.
 */
int afar_file_open(struct afar_fs *fs, const struct afar_who *who, uint64_t ino, int flags,
		   struct afar_file **out);
/* Makes a file and opens it, in one call of the manager. If it is there, opens that, or fails with
 * -EEXIST if `flags` has O_EXCL. `out` and `stat` may be NULL. With O_TMPFILE `name` is NULL: the file has no name, and goes when it is
 * closed, unless afar_fs_link() has given it one, which O_EXCL forbids. */
int afar_file_create(struct afar_fs *fs, const struct afar_who *who, uint64_t dir, const char *name,
		     uint32_t mode, int flags, struct afar_file **out, struct afar_file_stat *stat);

struct afar_open_options {
	size_t size;   /* sizeof(struct afar_open_options) */
	uint32_t mode; /* permissions of a file that is made */
	/* Its layout: over so many servers, or stores, it is striped; and the stripe unit, a power of two from 64 KiB to 1 GiB. One that is 0: as the
	 * file system's pool is; both: as the directory says. A stripe for which there is no room in its place goes elsewhere. */
	uint32_t width;
	uint64_t stripe_bytes;
};

/*
 * Opens what a path leads to, from the directory `dir`, or from the root if it begins with '/'. `flags` as for
 * afar_file_open(), and O_CREAT (makes the file if it is not there), O_EXCL (with O_CREAT: fails if it is) and O_NOFOLLOW.
 * `options` may be NULL: mode 0666. No umask changes the mode. Asks the manager two or three times. `out` as of afar_file_open().
 * Errors: those of afar_fs_walk(), afar_file_open() and afar_file_create(). With O_CREAT -EISDIR: the path ends with '/'. Likewise
 * -EINVAL: its last name is a symbolic link to what is not there, or no file can have the layout. A file that is there keeps its
 * layout; afar_file_stat() says which.
 */
int afar_file_open_path(struct afar_fs *fs, const struct afar_who *who, uint64_t dir,
			const char *path, int flags, const struct afar_open_options *options,
			struct afar_file **out);
/*
 * Commits the size and times, and closes the handle, also if it fails. It fails when something that
 * was written is known to be lost. Does not make the data durable. Blocks for the manager. If a
 * server may still carry out a write whose connection has ended, it also asks that server, for a
 * second at most. If that does not answer, the handle is closed, and the manager has the file open
 * until the write cannot land any more.
 */
int afar_file_close(struct afar_file *file);

/*
 * Closes the handle without waiting for the manager: its part goes along with the next call about files, at the latest
 * after 20 ms. Until then the size and times are as told, not committed. For a file with locks, or that is open through other
 * handles, too, this is afar_file_close(). Call afar_file_flush() before, which fails where closing would. Errors: something
 * that was written is known to be lost.
 */
int afar_file_close_later(struct afar_file *file);

/* Has everybody see the size and times as they are after all writes through handles of this
 * session. Fails as closing does, but leaves the handle open. They are committed later, at the
 * latest when the last handle is closed. */
int afar_file_flush(struct afar_file *file);

uint64_t afar_file_ino(const struct afar_file *file);

/*
 * Gives the file as a target of operations on queues (struct afar_op) of its session; the same one
 * each time. It ends with the file, and afar_file_close() answers -EBUSY while operations are in
 * flight. Call afar_queue_connect() to connect a queue to the file system's servers, once for all
 * its files. The target takes these operations; others, AFAR_OP_DRIVEN and AFAR_OP_CHECKED answer
 * -EOPNOTSUPP:
 *
 * AFAR_OP_READ    as afar_file_pread(). The result says how much: less than was asked at the end of the file.
 * AFAR_OP_WRITE   as afar_file_pwrite(), and makes the file longer if need be. With O_APPEND the offset does not
 *                 matter. When it completes, the manager knows of the new end.
 * AFAR_OP_FLUSH   as on a region.
 * AFAR_OP_SYNC    waits for the writes of the queue to this target, and then does what afar_file_sync() does.
 *
 * An operation whose bytes are there, and inside the size that this process knows, goes directly, as on a region.
 * All others are carried out by threads of the file system, as many as 8 at once. So submitting never waits for
 * the manager. Such an operation takes as long as the blocking call may, also beyond the session's timeout;
 * afar_queue_cancel() ends it only before it has begun. Operations that failed with a server are tried again so, too.
 * After that, and after the file system has got more servers, call afar_queue_connect() again.
 * Until then operations on servers that the queue has no connection to take a thread.
 *
 * A program must reap: whoever makes a file shorter or punches a hole waits until no operation on it has anything posted.
 * In the meantime new ones wait for that. If nobody reaps, that answers -EBUSY.
 * Returns NULL, and afar_last_error() says why: a directory, or no thread could be made.
 */
struct afar_target *afar_file_target(struct afar_file *file);
/* Describes it as it is now. */
int afar_file_stat(struct afar_file *file, struct afar_file_stat *out);
/* Likewise, and gives up when the manager has not answered for so long: -ETIMEDOUT, -AFAR_EMANAGER. 0: it is not asked;
 * negative: no limit. */
int afar_file_stat_within(struct afar_file *file, int timeout_ms, struct afar_file_stat *out);
/* With AFAR_FS_KEEP_PAGES. Returns 1 if what is read through it may be kept as long as afar_fs_quiet_since() says. 0: another session had it open to
 * write when it was opened, or it is open with O_APPEND. */
int afar_file_may_keep(const struct afar_file *file);

/* Read into, or write from, any memory. Reading returns how much: less than `length` at the end of
 * the file alone. Writing returns `length`, and makes the file longer if need be; with O_APPEND
 * `offset` does not matter. When it returns, whoever reads reads that. -ENOSPC, -EDQUOT, -EFBIG:
 * nothing was written. Errors of the data path: -EIO (a part is lost, with a server that held it in
 * memory), -AFAR_ESERVER, -EBADMSG, -ETIMEDOUT. */
ssize_t afar_file_pread(struct afar_file *file, void *data, size_t length, uint64_t offset);
ssize_t afar_file_pwrite(struct afar_file *file, const void *data, size_t length, uint64_t offset);

#define AFAR_ADVICE_NORMAL     0U /* read what is asked for, when it is: so it is opened */
#define AFAR_ADVICE_SEQUENTIAL 1U /* it is read from front to back */

/* Says how a file that is open to read will be read through this handle, as posix_fadvise(2) does. With
 * AFAR_ADVICE_SEQUENTIAL two afar_file_pread() that go on where the last one ended begin to read ahead, up to some MiB, into
 * memory of the library. Reads see what they see without it: bytes are given from there only while no other session can have
 * written them since they were read. Reads beside another session's writer gain nothing. Does not block.
 * Errors: -EINVAL (unknown advice), -EBADF, -EISDIR. */
int afar_file_advise(struct afar_file *file, unsigned advice);

#define AFAR_APPEND_MORE 0x1U /* more belongs to it, and follows at once */

/* Writes at the end of the file, whatever flags that was opened with. After one with AFAR_APPEND_MORE no other session appends
 * before this one has done so again without it. This lasts for 100 ms at most, and 500 ms in all.
 * `offset` becomes where it was written; may be NULL. */
ssize_t afar_file_append(struct afar_file *file, const void *data, size_t length, unsigned flags,
			 uint64_t *offset);

/* A range of a file, and the memory that it is read into or written from. */
struct afar_file_vector {
	uint64_t offset;
	void *data;
	size_t length;
};

/* List I/O: carries out all of the transfers together, in no order, with as many of them in flight as the
 * transport takes. Short ones that touch in the file are one transfer. The session's timeout begins anew when one of them
 * has completed. Return the sum of the bytes: for reading, less than was asked if some lie behind
 * the end; memory for these is not written. Errors as above; some may have been done then. */
ssize_t afar_file_readx(struct afar_file *file, const struct afar_file_vector *vectors,
			unsigned nr);
ssize_t afar_file_writex(struct afar_file *file, const struct afar_file_vector *vectors,
			 unsigned nr);

/* On flash: all that had completed on the file survives the end of servers and of the manager, and
 * the loss of power. -AFAR_EUNSYNCED, once for each open file: some of it may have been lost
 * before, whoever of this session wrote it. If it was closed, whoever opens it next and syncs hears
 * that. On dram: commits the size and times. */
int afar_file_sync(struct afar_file *file);
/* Makes it shorter, or longer with zeros. Other sessions that have it open go on with what is left. -EBUSY: one
 * of them has operations in flight that it does not reap. One that was stopped, or is cut off, is waited for until its session has ended. */
int afar_file_truncate(struct afar_file *file, uint64_t bytes);

#define AFAR_ALLOCATE_KEEP_SIZE 0x1U
#define AFAR_ALLOCATE_PUNCH	0x2U /* the range becomes a hole; with KEEP_SIZE */
#define AFAR_ALLOCATE_ZERO	0x4U /* the range reads as zeros, and has room */

/* Like fallocate(2); but room behind the end goes back when the last one closes the file. */
int afar_file_allocate(struct afar_file *file, unsigned flags, uint64_t offset, uint64_t length);
/* The next byte at `offset` or behind that is in data (is_hole false) or in a hole (true). -ENXIO: there
 * is none. The end of a file counts as a hole. */
int64_t afar_file_seek(struct afar_file *file, uint64_t offset, bool is_hole);

/* ---- Locks ------------------------------------------------------------------------------------- */

#define AFAR_LOCK_NONE	    0U
#define AFAR_LOCK_SHARED    1U
#define AFAR_LOCK_EXCLUSIVE 2U

/*
 * A lock of a file, held at the manager: all sessions see it. Locks are advice: they keep nobody from reading and
 * writing. Two kinds know nothing of each other: locks of ranges of bytes, as fcntl(2) has them,
 * and of whole files, as flock(2) has them.
 *
 * A lock belongs to an owner, a number of the program's choice. Locks of one owner of a session never exclude each
 * other. In its range a lock takes the place of all that its owner had locked there.
 */
struct afar_lock {
	size_t size;	   /* sizeof(struct afar_lock) */
	uint32_t mode;	   /* AFAR_LOCK_…; NONE unlocks */
	uint32_t is_whole; /* not 0: of the whole file; start and length do not matter */
	uint64_t owner;
	uint64_t start;	 /* bytes */
	uint64_t length; /* bytes; 0: to the end, however long the file becomes */
	uint32_t pid;	 /* whatever the program wants to be told of who is in the way */
	uint32_t reserved;
	uint32_t *is_cancelled; /* for afar_file_lock_cancel(); may be NULL */
};

/*
 * Locks or unlocks. While another owner's lock is in the way, waits for `timeout_ms` milliseconds (0: not at all, -1:
 * no limit); who came first is first. A shared range needs a file
 * that is open to read, an exclusive one a file that is open to write. A lock of the whole file
 * takes any. One that changes its mode is given up first, as flock(2) says, also if the call fails
 * then.
 *
 * Locks go when the file that they were taken through is closed. Those of a session that ends go when nothing that
 * it has written under them can land any more. A manager that restarts is told of them again.
 * Errors: -EAGAIN (timeout_ms is 0, and another owner's lock is in the way), -ETIMEDOUT (the time is over),
 * -EDEADLK (of ranges: all would wait for each other), -EINTR (it was cancelled), -ENOLCK (the session has locked
 * 16 384 ranges), -EBADF (not open for that), -EINVAL.
 */
int afar_file_lock(struct afar_file *file, const struct afar_lock *lock, int timeout_ms);
/*
 * Sets `*is_cancelled`, which was 0, to 1. An afar_file_lock() with this address that waits in another thread, or is
 * about to wait, ends then: with -EINTR, or because it has the lock. A program may set it by itself, atomically; then the
 * wait ends within seconds. Does not wait. Errors: -EINVAL.
 */
int afar_file_lock_cancel(struct afar_file *file, uint32_t *is_cancelled);
/* Says in `*lock` which other owner's lock is in the way of `*lock`; its mode becomes NONE if there is none. Owner
 * and pid become 0 if it is another session's. */
int afar_file_lock_stat(struct afar_file *file, struct afar_lock *lock);
/* Returns how many ranges are locked through this file, a whole file being one. Asks nobody, also when the session has
 * ended. */
int afar_file_nr_locks(struct afar_file *file);

/* ---- Many small files at once ------------------------------------------------------------------- */

struct afar_small_file {
	size_t size;	    /* sizeof(struct afar_small_file), set by the caller */
	uint64_t dir;	    /* writing: the directory, and */
	const char *name;   /* the name in it, which must not exist */
	uint64_t ino;	    /* reading: which; writing: set by the call */
	uint32_t mode;	    /* writing: permissions */
	uint32_t uid, gid;  /* writing: its owner */
	uint32_t has_owner; /* writing: not 0: uid and gid count, else those of `who` */
	int64_t mtime;	    /* writing: 0: now */
	void *data;	    /* written, or room for what is read */
	size_t length; /* of that; reading: becomes the file's length, at most what there is room for */
	int status; /* set: 0, or a negative code */
};

/* Make files with their content, or read whole files: open, transfer and close, a round of each for up to
 * 256 files. All have the same `size`. Return 0, or the first status that is not 0; the rest go on.
 * afar_last_error() is of one that failed. */
int afar_fs_write_files(struct afar_fs *fs, const struct afar_who *who,
			struct afar_small_file *files, unsigned nr);
int afar_fs_read_files(struct afar_fs *fs, const struct afar_who *who,
		       struct afar_small_file *files, unsigned nr);

#ifdef __cplusplus
}
#endif
#endif
