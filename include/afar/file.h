/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files: a POSIX file system whose bytes are on the cluster's servers, on both tiers. Names and
 * permissions are the manager's. Data goes between the program's memory and the servers one-sided,
 * as a region's does.
 *
 * A file system is a namespace that holds one pool, out of which files get their bytes. So both share
 * their names, and rights on it are granted with afar_namespace_grant(): whoever may write there may
 * write every file's bytes, and may say that it is any user. Permissions of files keep users of
 * programs that ask honestly apart, as NFS does. docs/files.md says what this means.
 *
 * Files and directories are known by their inode numbers, which are never used again. Names are 1 to
 * 255 bytes without '/' and NUL. All calls block, and any number of threads may make them.
 *
 * Errors beyond those of each comment: those of POSIX for the call of like name, negated, and those
 * that afar.h says every function may return.
 */
#ifndef AFAR_FILE_H
#define AFAR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include <afar/afar.h>

#ifdef __cplusplus
extern "C" {
#endif

struct afar_fs;	  /* an open file system */
struct afar_file; /* an open file */

#define AFAR_FILE_NAME_MAX 255U	 /* bytes of a name */
#define AFAR_FILE_PATH_MAX 4095U /* bytes of a path, and of a symbolic link's target */
#define AFAR_FILE_BLOCK	   4096U /* files get room in multiples of it */

/* Returns the time in nanoseconds since 1970, which is how files have theirs. One before 1677 or after 2262 becomes the nearest
 * that there is. */
static inline int64_t afar_file_time(struct timespec time)
{
	const int64_t second = 1000000000, max = INT64_MAX / second;

	if (time.tv_sec >= max)
		return max * second;
	return time.tv_sec < -max ? -max * second : time.tv_sec * second + time.tv_nsec;
}

/* ---- File systems ------------------------------------------------------------------------------ */

struct afar_fs_policy {
	size_t size; /* sizeof(struct afar_fs_policy) */
	struct afar_policy pool;
	uint32_t uid, gid; /* of the root directory */
	uint32_t mode;	   /* its permissions; 0: 0755 */
	uint32_t reserved;
	uint64_t
		max_inodes; /* files and directories, besides the root; 0: as many as there is room for */
};

/*
 * Makes a file system with an empty root directory. It takes room as files need it, up to the pool's
 * max_bytes: more is -EDQUOT, as more files than max_inodes are. `policy` may be NULL: dram tier, defaults, a root directory of uid 0.
 * Errors: -EINVAL (name, policy), -EEXIST, -ENOSPC, -AFAR_ENOSERVER, -EOPNOTSUPP (tier).
 */
int afar_fs_create(struct afar_session *session, const char *name,
		   const struct afar_fs_policy *policy);

struct afar_fs_limits {
	size_t size; /* sizeof(struct afar_fs_limits) */
	uint64_t max_bytes, max_inodes;
};

/* Sets what a file system may have at most, both as in its policy; for its owner and operators. What it
 * has stays, also beyond that. Errors: -ENOENT, -EACCES, -EINVAL. */
int afar_fs_set_limits(struct afar_session *session, const char *name,
		       const struct afar_fs_limits *limits);

/*
 * Gives whole extents of its pool back in which no file has anything, for its owner and operators; others may have it open. Waits for
 * what files have just given back to be zeroed. `*released`, which may be NULL: bytes. What stays free is in extents in which files
 * have something. Errors: -ENOENT, -EACCES.
 */
int afar_fs_shrink(struct afar_session *session, const char *name, uint64_t *released);

/* Deletes a file system with all that is in it; for its owner and operators. Errors: -ENOENT,
 * -EBUSY (somebody has it open: the sentence says who). */
int afar_fs_delete(struct afar_session *session, const char *name);

struct afar_fs_stat {
	size_t size; /* sizeof(struct afar_fs_stat), set by the caller */
	char name[AFAR_NAME_MAX + 1];
	uint64_t root;		/* inode number of its root directory */
	uint64_t pool_bytes;	/* that it has */
	uint64_t free_bytes;	/* of these, for files */
	uint64_t pending_bytes; /* of these, given back by files, not yet zeroed */
	uint64_t room_bytes;	/* that the cluster could add */
	uint64_t nr_inodes;
	uint64_t max_bytes;  /* that it may have; 0: no limit */
	uint64_t max_inodes; /* besides the root; 0: no limit */
	uint64_t stripe_bytes;
	uint32_t tier;	     /* enum afar_tier */
	uint32_t width;	     /* servers, or stores, that it is striped over */
	uint32_t rights;     /* the caller's: AFAR_RIGHT_… bits */
	uint32_t nr_clients; /* sessions that have it open */
	uint8_t is_lost;     /* a part of it is gone for good */
	uint8_t reserved8[7];
	char owner[AFAR_PRINCIPAL_MAX + 1];
	uint64_t lost_bytes; /* that files had in the memory of servers that have ended */
};

/* Lists file systems in order of name. Puts up to `max` entries after the name `after` (NULL: from
 * the first) into `out`; the caller has set the first entry's `size`. Returns how many; 0 at the
 * end. */
int afar_fs_list(struct afar_session *session, const char *after, struct afar_fs_stat *out,
		 unsigned max);
/* Describes the file system of this name. Errors: -ENOENT. */
int afar_fs_look(struct afar_session *session, const char *name, struct afar_fs_stat *out);

#define AFAR_FS_READ_ONLY  0x1U /* for reading alone; needs no right to write */
#define AFAR_FS_COUNT_USES 0x2U /* inodes stay while they are in use: afar_fs_forget() */
#define AFAR_FS_SYNC_ALL   0x4U /* the first sync asks all stores: a session with writes has ended */
#define AFAR_FS_KEEP_PAGES 0x8U /* the program keeps what it has read of files: afar_fs_drop */

/* Is told that the last name of an inode in use has gone, for programs that remember names: it was `name` in directory `dir`. It must return at once, and not
 * call the library. */
typedef void (*afar_fs_gone)(void *argument, uint64_t dir, const char *name, uint64_t ino);

struct afar_drop;
/* Is told to drop what the program keeps of an inode's bytes: another session is about to open it to write, or has written. That one waits, a second
 * at most, until afar_fs_dropped() was called with `drop`. It must return at once, and call nothing else of the library. */
typedef void (*afar_fs_drop)(void *argument, uint64_t ino, struct afar_drop *drop);
/* Once for each, from any thread, also after afar_fs_close(). */
void afar_fs_dropped(struct afar_drop *drop);

struct afar_fs_options {
	size_t size; /* sizeof(struct afar_fs_options) */
	uint32_t flags;
	/* While the manager, or a server whose bytes they need, cannot be reached, calls wait for it up
	 * to so long, and then go on. 0: they fail with -AFAR_EMANAGER or -AFAR_ESERVER after the session's timeout. */
	uint32_t retry_ms;
	/* With AFAR_FS_COUNT_USES; may be NULL. */
	afar_fs_gone gone;
	void *argument;	   /* of that, and of the next */
	afar_fs_drop drop; /* with AFAR_FS_KEEP_PAGES */
};

/* Opens a file system. `options` may be NULL. It is the caller's until afar_fs_close(); the session
 * cannot be closed before. Errors: -ENOENT, -EACCES, -EBUSY (this session has it open already),
 * -AFAR_ELOST, -AFAR_ESERVER. */
int afar_fs_open(struct afar_session *session, const char *name,
		 const struct afar_fs_options *options, struct afar_fs **out);
/* For programs that keep inode numbers, as a kernel does, of a file system that is open with AFAR_FS_COUNT_USES. There
 * each call that finds or makes an inode by its name, and tells its attributes, is one more use of it: afar_fs_lookup(), afar_fs_make(), afar_fs_link() and
 * afar_file_create(); and so is afar_fs_use(). An inode that is in use stays when its last name goes, as one does
 * that is open: with its attributes (0 links) and its bytes, and it can be opened. afar_fs_forget() takes `nr` uses back. All end with the
 * file system's handle. Neither waits for anybody. Both return 0; -EINVAL: `fs` is null, or closed. */
int afar_fs_use(struct afar_fs *fs, uint64_t ino);
int afar_fs_forget(struct afar_fs *fs, uint64_t ino, uint64_t nr);
/* Closes the handle. -EBUSY while files of it are open. */
int afar_fs_close(struct afar_fs *fs);
/* Returns a number that no other file system has, of this cluster or another: whoever opens one again by its name sees by that
 * whether it is the same. 0: `fs` is null. */
uint64_t afar_fs_identity(const struct afar_fs *fs);
/* Describes the file system as it is now. */
int afar_fs_stat(struct afar_fs *fs, struct afar_fs_stat *out);

typedef void (*afar_fs_say)(void *argument, const char *line);

/* For its owner and operators. Compares what the manager has stored of the file system with itself: names, links, and what each file has
 * of the pool. Tells `say` a line for each thing that is wrong, at most 100. Returns how many it told. Takes
 * a second for some 100 000 files, for which other calls wait. */
int afar_fs_check(struct afar_fs *fs, afar_fs_say say, void *argument);

/* A name of a file that has lost bytes, because a server that held them in memory has ended. */
struct afar_lost_file {
	size_t size; /* sizeof(struct afar_lost_file) */
	uint64_t ino;
	uint64_t lost_bytes;
	uint64_t
		dir; /* inode number of the directory that has the name; 0: it has none, and is open */
	const char *
		name; /* this and the next are the library's, until the call returns; "": it has none */
	const char *path; /* from the root of the file system: "/dir/name" */
};

typedef void (*afar_fs_say_lost)(void *argument, const struct afar_lost_file *file);

/* For its owner and operators. Tells `say` of each name of each file that has lost bytes: reading them
 * answers -EIO, and so does writing there until the file has been made shorter than that, or a hole is
 * punched. Returns how many it told. Takes as long as afar_fs_check() if there are any. */
int64_t afar_fs_list_lost(struct afar_fs *fs, afar_fs_say_lost say, void *argument);

/* On flash: all that this handle's files had written survives the end of servers, and the loss of power;
 * -AFAR_EUNSYNCED, once, if some of it may have been lost before. Sizes and times of files that are
 * open are not committed. On dram: nothing. */
int afar_fs_sync(struct afar_fs *fs);

/* ---- Names and inodes -------------------------------------------------------------------------- */

/* Who asks: permissions are checked against it, and it owns what is made. NULL where one is asked for:
 * the process's own effective uid and gid, and its groups. uid 0 may do everything. */
struct afar_who {
	size_t size; /* sizeof(struct afar_who) */
	uint32_t uid, gid;
	const uint32_t *groups; /* further ones; may be NULL */
	uint32_t nr_groups;	/* at most 64 count */
	uint32_t reserved;
};

/*
 * Makes a principal whose key is for one user: it may say that it is `who`, with these groups or fewer of
 * them, and nobody else. Otherwise as afar_key_add(), whose keys are for nobody without
 * AFAR_KEY_ANY_UID: they use regions and volumes, but no files. Operators may say that they are
 * anybody.
 */
int afar_key_add_user(struct afar_session *session, const char *name, const struct afar_who *who,
		      char secret[AFAR_KEY_HEX_MAX]);

/* Of an inode. Times are nanoseconds since 1970, of the manager's clock. */
struct afar_file_stat {
	size_t size; /* sizeof(struct afar_file_stat), set by the caller */
	uint64_t ino;
	uint64_t rdev;
	uint64_t
		bytes; /* its length. Of what others write: at least what they were told is written */
	uint64_t allocated; /* bytes of the pool */
	int64_t atime, mtime, ctime;
	uint64_t change; /* grows with each change of the inode */
	uint32_t mode;	 /* type and permissions, as st_mode */
	uint32_t nlink;
	uint32_t uid, gid;
};

/* Finds a name in a directory; "." and "..", too. */
int afar_fs_lookup(struct afar_fs *fs, const struct afar_who *who, uint64_t dir, const char *name,
		   struct afar_file_stat *out);

#define AFAR_WALK_NOFOLLOW 0x1U /* the last name is not followed if it is a symbolic link */

/* Finds what a path leads to, from the directory `dir`, or from the root if it begins with '/'; in one
 * call of the manager. `access`: R_OK, W_OK, X_OK, that `who` must have there. Errors: -ENOENT,
 * -ENOTDIR, -EACCES, -ELOOP, -ENAMETOOLONG. */
int afar_fs_walk(struct afar_fs *fs, const struct afar_who *who, uint64_t dir, const char *path,
		 unsigned flags, unsigned access, struct afar_file_stat *out);

/* Describes an inode. Errors: -ESTALE (it is gone). */
int afar_fs_getattr(struct afar_fs *fs, uint64_t ino, struct afar_file_stat *out);
/* For programs that keep what they have read. Returns a number if no other session changes the inode, nor has it open to write: the manager has promised to
 * ask this one first. What was read is good while the number is the same. 0: one may. Asks nobody. */
uint64_t afar_fs_quiet_since(struct afar_fs *fs, uint64_t ino);
/* Asks for that promise, unless it is there and lasts for another 250 ms; it lasts for half a second. Errors: as afar_fs_getattr(). */
int afar_fs_keep_quiet(struct afar_fs *fs, uint64_t ino);

#define AFAR_SET_MODE	   0x1U
#define AFAR_SET_UID	   0x2U
#define AFAR_SET_GID	   0x4U
#define AFAR_SET_SIZE	   0x8U
#define AFAR_SET_ATIME	   0x10U
#define AFAR_SET_MTIME	   0x20U
#define AFAR_SET_ATIME_NOW 0x40U
#define AFAR_SET_MTIME_NOW 0x80U

/* Sets what `mask` (AFAR_SET_…) names to what `to` has. `out` may be NULL. */
int afar_fs_setattr(struct afar_fs *fs, const struct afar_who *who, uint64_t ino, unsigned mask,
		    const struct afar_file_stat *to, struct afar_file_stat *out);

/* Makes what `mode` (as st_mode) says: S_IFREG (empty), S_IFDIR, S_IFLNK (to `target`), S_IFIFO,
 * S_IFSOCK, S_IFCHR and S_IFBLK (of `rdev`): devices are for uid 0 alone, but whiteouts (S_IFCHR, 0) for all. `target` is NULL for all but symbolic links. `out` may be
 * NULL. */
int afar_fs_make(struct afar_fs *fs, const struct afar_who *who, uint64_t dir, const char *name,
		 uint32_t mode, uint64_t rdev, const char *target, struct afar_file_stat *out);
/* Removes a name that is no directory's. The file goes when its last name has gone, and nobody has it
 * open any more. */
int afar_fs_unlink(struct afar_fs *fs, const struct afar_who *who, uint64_t dir, const char *name);
/* Removes a name of a file that has lost bytes likewise. -ESTALE: another file has it now. */
int afar_fs_unlink_lost(struct afar_fs *fs, const struct afar_who *who,
			const struct afar_lost_file *file);
/* Removes an empty directory. */
int afar_fs_rmdir(struct afar_fs *fs, const struct afar_who *who, uint64_t dir, const char *name);
/* Gives a file one more name. `out` may be NULL. */
int afar_fs_link(struct afar_fs *fs, const struct afar_who *who, uint64_t ino, uint64_t dir,
		 const char *name, struct afar_file_stat *out);

#define AFAR_RENAME_NOREPLACE 0x1U /* -EEXIST if the new name is there */
#define AFAR_RENAME_EXCHANGE  0x2U /* both names are there, and change places */
#define AFAR_RENAME_WHITEOUT \
	0x4U /* a whiteout (S_IFCHR, rdev 0) takes the old name; not with EXCHANGE */

/* Renames at once: nobody sees both names, or none. What had the new name goes. */
int afar_fs_rename(struct afar_fs *fs, const struct afar_who *who, uint64_t dir, const char *name,
		   uint64_t new_dir, const char *new_name, unsigned flags);
/* Puts the target of a symbolic link into `out`, of `size` bytes, without a NUL. Returns its length. */
ssize_t afar_fs_readlink(struct afar_fs *fs, uint64_t ino, char *out, size_t size);

struct afar_dirent {
	char name[AFAR_FILE_NAME_MAX + 1];
	struct afar_file_stat stat; /* without attributes asked for: ino, and the type in mode */
};

/* Lists a directory in order of its names, without "." and "..". Puts up to `max` entries behind the
 * name `after` (NULL: from the first) into `out`. Returns how many; 0 at the end. A name that is there
 * all the time comes once. */
int afar_fs_readdir(struct afar_fs *fs, const struct afar_who *who, uint64_t dir, const char *after,
		    bool with_attributes, struct afar_dirent *out, unsigned max);

/* Extended attributes: names of "user.", "trusted." (uid 0 alone), "security.". `flags` as of setxattr(2).
 * Sizes and results as of getxattr(2) and listxattr(2). -ENODATA: there is none of that name. */
ssize_t afar_fs_getxattr(struct afar_fs *fs, const struct afar_who *who, uint64_t ino,
			 const char *name, void *out, size_t size);
ssize_t afar_fs_listxattr(struct afar_fs *fs, const struct afar_who *who, uint64_t ino, char *out,
			  size_t size);
int afar_fs_setxattr(struct afar_fs *fs, const struct afar_who *who, uint64_t ino, const char *name,
		     const void *value, size_t length, int flags);
int afar_fs_removexattr(struct afar_fs *fs, const struct afar_who *who, uint64_t ino,
			const char *name);

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
 * -EEXIST if `flags` has O_EXCL. `stat` may be NULL. With O_TMPFILE `name` is NULL: the file has no name, and goes when it is
 * closed, unless afar_fs_link() has given it one, which O_EXCL forbids. */
int afar_file_create(struct afar_fs *fs, const struct afar_who *who, uint64_t dir, const char *name,
		     uint32_t mode, int flags, struct afar_file **out, struct afar_file_stat *stat);
/*
 * Commits the size and times, and closes the handle: also if it fails, which it does when something
 * that was written is known to be lost. Does not make the data durable. Blocks for the manager. If a server
 * may still carry out a write whose connection has ended, it also asks that server, for a second at most; if that does not
 * answer, the handle is closed, and the manager has the file open until the write cannot land any more.
 */
int afar_file_close(struct afar_file *file);

/*
 * Closes the handle without waiting for the manager: its part goes along with the next call about files, at the latest
 * after 20 ms. Until then the size and times are as told, not committed. For a file with locks, or that is open through other
 * handles, too, this is afar_file_close(). Call afar_file_flush() before, which fails where closing would. Errors: something
 * that was written is known to be lost.
 */
int afar_file_close_later(struct afar_file *file);

/* Has everybody see the size and times as they are after what was written through any handle of this
 * session, and fails as closing does, but leaves the handle open. They are committed later, at the
 * latest when the last handle is closed. */
int afar_file_flush(struct afar_file *file);

uint64_t afar_file_ino(const struct afar_file *file);

/*
 * Gives the file as a target of operations on queues (struct afar_op) of its session; the same one each time. It is the
 * file's: it ends with it, and afar_file_close() answers -EBUSY while operations are in flight. afar_queue_connect()
 * connects a queue to the file system's servers, once for all its files. It takes these operations; others, AFAR_OP_DRIVEN and
 * AFAR_OP_CHECKED answer -EOPNOTSUPP:
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
 * After that, and after the file system has got more servers, call afar_queue_connect() again: until then
 * operations on servers that the queue has no connection to take a thread.
 *
 * A program must reap: whoever makes a file shorter or punches a hole waits until no operation on it has anything posted.
 * In the meantime new ones wait for that. If nobody reaps, that answers -EBUSY.
 * Returns NULL, and afar_last_error() says why: a directory, or no thread could be made.
 */
struct afar_target *afar_file_target(struct afar_file *file);
/* Describes it as it is now. */
int afar_file_stat(struct afar_file *file, struct afar_file_stat *out);
/* Likewise, and gives up when the manager has not answered for so long: -ETIMEDOUT, -AFAR_EMANAGER. 0: it is not asked. */
int afar_file_stat_within(struct afar_file *file, uint32_t timeout_ms, struct afar_file_stat *out);
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

#define AFAR_APPEND_MORE 0x1U /* more belongs to it, and follows at once */

/* Writes at the end of the file, whatever flags that was opened with. After one with AFAR_APPEND_MORE no other session appends
 * before this one has done so again without it, for 100 ms at most, and 500 ms in all. `offset` becomes where it was written; may be NULL. */
ssize_t afar_file_append(struct afar_file *file, const void *data, size_t length, unsigned flags,
			 uint64_t *offset);

/* A range of a file, and the memory that it is read into or written from. */
struct afar_file_vector {
	uint64_t offset;
	void *data;
	size_t length;
};

/* List I/O: carries out all of the transfers together, in no order, with as many of them in flight as the
 * transport takes. Return the sum of the bytes: for reading, less than was asked if some lie behind
 * the end; memory for these is not written. Errors as above; some may have been done then. */
ssize_t afar_file_readx(struct afar_file *file, const struct afar_file_vector *vectors,
			unsigned nr);
ssize_t afar_file_writex(struct afar_file *file, const struct afar_file_vector *vectors,
			 unsigned nr);

/* On flash: all that had completed on the file survives the end of servers and of the manager, and
 * the loss of power; -AFAR_EUNSYNCED, once for each open file, if some of it may have been lost
 * before, whoever of this session wrote it. If it was closed, whoever opens it next and syncs hears that.
 * On dram: commits the size and times. */
int afar_file_sync(struct afar_file *file);
/* Makes it shorter, or longer with zeros. Other sessions that have it open go on with what is left. -EBUSY: one
 * of them has operations in flight that it does not reap. One that was stopped, or is cut off, is waited for until its session has ended. */
int afar_file_truncate(struct afar_file *file, uint64_t bytes);

#define AFAR_ALLOCATE_KEEP_SIZE 0x1U
#define AFAR_ALLOCATE_PUNCH	0x2U /* the range becomes a hole; with KEEP_SIZE */
#define AFAR_ALLOCATE_ZERO	0x4U /* the range reads as zeros, and has room */

/* As fallocate(2); but room behind the end goes back when the last one closes the file. */
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
 * writing. They are of two kinds, which know nothing of each other: of ranges of bytes, as fcntl(2) has them,
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
 * that is open to read, an exclusive one a file that is open to write; a lock of the whole file any. A lock of the whole
 * file that changes its mode is given up first, as flock(2) says, also if the call fails then.
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
int afar_file_lock_look(struct afar_file *file, struct afar_lock *lock);
/* Returns how many ranges are locked through this file, a whole file being one. Asks nobody, also when the session has
 * ended. */
int afar_file_nr_locks(struct afar_file *file);

/* ---- Many small files at once ------------------------------------------------------------------- */

struct afar_small_file {
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
 * 256 files. Return 0, or the first status that is not 0; the rest go on. afar_last_error() is of
 * one that failed. */
int afar_fs_write_files(struct afar_fs *fs, const struct afar_who *who,
			struct afar_small_file *files, unsigned nr);
int afar_fs_read_files(struct afar_fs *fs, const struct afar_who *who,
		       struct afar_small_file *files, unsigned nr);

#ifdef __cplusplus
}
#endif
#endif
