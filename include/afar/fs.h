/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files: a POSIX file system whose bytes are on the cluster's servers, on both tiers. Names and
 * permissions are the manager's. Data goes between the program's memory and the servers one-sided,
 * as a region's does.
 *
 * A file system is a namespace that holds one pool, out of which files get their bytes. So both share
 * their names, and rights on it are granted with afar_namespace_grant(). A principal that may write
 * there may write every file's bytes. Its key says as whom it may use files (afar_key_add_user()).
 * Permissions of files keep users of programs that ask honestly apart, as NFS does. docs/files.md
 * says what this means.
 *
 * Files and directories are known by their inode numbers, which are never used again. Names are 1 to
 * 255 bytes without '/' and NUL. All calls block, and any number of threads may make them.
 *
 * Errors beyond those of each comment: those of POSIX for the call of like name, negated, and those
 * that afar.h says every function may return.
 */
#ifndef AFAR_FS_H
#define AFAR_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include <afar/afar.h>

#ifdef __cplusplus
extern "C" {
#endif

struct afar_fs; /* an open file system */

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
	size_t size;			/* sizeof(struct afar_fs_policy) */
	const struct afar_policy *pool; /* NULL: dram tier, defaults */
	uint32_t uid, gid;		/* of the root directory */
	uint32_t mode;			/* its permissions; 0: 0755 */
	uint32_t reserved;
	uint64_t
		max_inodes; /* files and directories, besides the root; 0: as many as there is room for */
};

/*
 * Makes a file system with an empty root directory, and opens it as afar_fs_open() does without
 * options; `out` may be NULL. It takes room as files need it, up to the pool's max_bytes: more is
 * -EDQUOT, as more files than max_inodes are. `policy` may be NULL: dram tier, defaults, a root
 * directory of uid 0. Errors: -EINVAL (name, policy), -EEXIST, -ENOSPC, -AFAR_ENOSERVER, -EOPNOTSUPP
 * (tier); those of afar_fs_open(), and then it stays.
 */
int afar_fs_create(struct afar_session *session, const char *name,
		   const struct afar_fs_policy *policy, struct afar_fs **out);

struct afar_fs_limits {
	size_t size; /* sizeof(struct afar_fs_limits) */
	uint64_t max_bytes, max_inodes;
};

/* Sets what a file system may have at most, both as in its policy; for its owner and operators. It
 * keeps what it has, also beyond that. Errors: -ENOENT, -EACCES, -EINVAL. */
int afar_fs_set_limits(struct afar_session *session, const char *name,
		       const struct afar_fs_limits *limits);

/*
 * Gives whole extents of its pool back in which no file has anything, for its owner and operators; others may have it open. Waits for
 * what files have just given back to be zeroed. `*released`, which may be NULL: bytes. Room that
 * stays free is in extents in which files have something. Errors: -ENOENT, -EACCES.
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
int afar_fs_stat_by_name(struct afar_session *session, const char *name, struct afar_fs_stat *out);

#define AFAR_FS_READ_ONLY  0x1U /* for reading alone; needs no right to write */
#define AFAR_FS_COUNT_USES 0x2U /* inodes stay while they are in use: afar_fs_forget() */
#define AFAR_FS_SYNC_ALL   0x4U /* the first sync asks all stores: a session with writes has ended */
#define AFAR_FS_KEEP_PAGES 0x8U /* the program keeps what it has read of files: afar_fs_drop */

/* Is told that the last name of an inode in use has gone, for programs that remember names: it was `name` in directory `dir`. It must return at once, and not
 * call the library. */
typedef void (*afar_fs_gone)(void *argument, uint64_t dir, const char *name, uint64_t ino);

struct afar_drop;
/* Is told to drop the bytes of an inode that the program keeps: another session is about to open it to write, or has written.
 * The other one waits, a second at most, until afar_fs_dropped() was called with `drop`. This must return at once, and call nothing
 * else of the library. */
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
 * each call that finds or makes an inode by its name, and tells its attributes, is one more use of
 * it. These are afar_fs_lookup(), afar_fs_make(), afar_fs_link() and afar_file_create(). So is
 * afar_fs_use(). An inode in use stays when its last name goes, as an open one does, with its
 * attributes (0 links) and its bytes. It can be opened. Call afar_fs_forget() to take `nr` uses
 * back. All uses end with the file system's handle. Neither waits for anybody. Both return 0;
 * -EINVAL: `fs` is null, or closed. */
int afar_fs_use(struct afar_fs *fs, uint64_t ino);
int afar_fs_forget(struct afar_fs *fs, uint64_t ino, uint64_t nr);
/* Closes the handle. -EBUSY while files of it are open. */
int afar_fs_close(struct afar_fs *fs);
/* Returns a number that no other file system has, of this cluster or another. It tells whether one
 * that is opened again by its name is the same. 0: `fs` is null. */
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

/* For its owner and operators. Tells `say` of each name of each file that has lost bytes. Reading
 * them answers -EIO. So does writing there, until the file has been made shorter than that, or a
 * hole is punched. Returns how many it told. Takes as long as afar_fs_check() if there are any. */
int64_t afar_fs_list_lost(struct afar_fs *fs, afar_fs_say_lost say, void *argument);

/* On flash: all that this handle's files had written survives the end of servers, and the loss of
 * power. -AFAR_EUNSYNCED, once: some of it may have been lost before. Sizes and times of files that
 * are open are not committed. On dram: nothing. */
int afar_fs_sync(struct afar_fs *fs);
/* Says that other sessions write for whom this program syncs, as those that a mount lets past it. From now on each sync through this
 * handle asks all stores, not only those to which it has written itself. Only the writer hears that a store has lost what was not
 * synced. Returns 0; -EINVAL: `fs` is null, or closed. */
int afar_fs_sync_others(struct afar_fs *fs);

/* ---- Names and inodes -------------------------------------------------------------------------- */

/* The user who asks: permissions are checked against it, and it owns what is made. NULL where one
 * is asked for: the process's own effective uid and gid, and its groups. uid 0 may do all. */
struct afar_who {
	size_t size; /* sizeof(struct afar_who) */
	uint32_t uid, gid;
	const uint32_t *groups; /* further ones; may be NULL */
	uint32_t nr_groups;	/* at most 64 count */
	uint32_t reserved;
};

/*
 * Makes a principal whose key is for one user. It may say that it is `who`, with these groups or
 * fewer of them, and nobody else. Otherwise as afar_key_add(), whose keys are for nobody without
 * AFAR_KEY_ANY_UID: they use regions and volumes, but no files. Operators may say that they are
 * anybody.
 */
int afar_key_add_user(struct afar_session *session, const char *name, const struct afar_who *who,
		      char secret[AFAR_KEY_HEX_MAX]);

/* Attributes of an inode. Times are nanoseconds since 1970, of the manager's clock. */
struct afar_file_stat {
	size_t size; /* sizeof(struct afar_file_stat), set by the caller */
	uint64_t ino;
	uint64_t rdev;
	uint64_t
		bytes; /* its length; counts at least the writes of others that they were told are done */
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
/* For programs that keep what they have read. Returns a number if no other session changes the inode, nor has it open to write:
 * the manager has promised to ask this one first. Bytes that were read are good while the number stays. 0: another session may
 * write. Asks nobody. */
uint64_t afar_fs_quiet_since(struct afar_fs *fs, uint64_t ino);
/* Asks for that promise, which lasts for half a second, unless it is there for another 250 ms. Errors: as afar_fs_getattr(). */
int afar_fs_keep_quiet(struct afar_fs *fs, uint64_t ino);
/* Describes an inode, and returns for how many ms that is right, unless afar_fs_drop says so earlier. 0: it is not known to be right
 * for any time, and `out` is undefined. Asks nobody. */
int afar_fs_keep_attributes(struct afar_fs *fs, uint64_t ino, struct afar_file_stat *out);

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
 * S_IFSOCK, S_IFCHR and S_IFBLK (of `rdev`). Devices are for uid 0 alone, but whiteouts (S_IFCHR,
 * 0) for all. `target` is NULL for all but symbolic links. `out` may be NULL. */
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

/* Renames at once: nobody sees both names, or none. It replaces what had the new name. */
int afar_fs_rename(struct afar_fs *fs, const struct afar_who *who, uint64_t dir, const char *name,
		   uint64_t new_dir, const char *new_name, unsigned flags);
/* Puts the target of a symbolic link into `out`, of `size` bytes, without a NUL. Returns its length. */
ssize_t afar_fs_readlink(struct afar_fs *fs, uint64_t ino, char *out, size_t size);

struct afar_dirent {
	size_t size; /* sizeof(struct afar_dirent), set by the caller */
	char name[AFAR_FILE_NAME_MAX + 1];
	/* Without attributes asked for: ino, and the type in mode. An entry has no more, and nlink is 0, if the manager cannot tell where the
	 * file ends: afar_fs_getattr() waits for that. The last member, because it may grow. */
	struct afar_file_stat stat;
};

/* Lists a directory in order of its names, without "." and "..". Puts up to `max` entries behind the
 * name `after` (NULL: from the first) into `out`; the caller has set the first entry's `size`. Returns how many; 0 at the
 * end. A name that is there all the time comes once. */
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

#ifdef __cplusplus
}
#endif
#endif
