/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requests of one mount share this: the open file system, who asks, and how answers are given.
 *
 * The kernel's node numbers are Afar's inode numbers, but for 1, which is the mount's root. Inode
 * numbers are never used twice. The library counts which of them the kernel knows (AFAR_FS_COUNT_USES).
 */
#ifndef FUSE_MOUNT_H
#define FUSE_MOUNT_H

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include <pthread.h>
#include <stdatomic.h>

#include <afar/file.h>

#include "options.h"

#define GROUPS_MAX  64U
#define REQUEST_MAX (1U << 20) /* bytes of a read or a write */
#define SECOND_NS   1000000000

struct mount {
	const struct mount_options *options;
	struct fuse_session *fuse;
	uint64_t root; /* inode number of what the mount shows as its root */
	/* session.c's; calls use `fs` inside of CALL() */
	pthread_rwlock_t lock;
	struct afar_session *session; /* NULL: not open */
	struct afar_fs *fs;	      /* NULL: not open */
	unsigned epoch;		      /* which session it is */
	char *cluster;	   /* the URI that leads there from anywhere; NULL: as the options say */
	uint64_t identity; /* of the file system */
	bool is_another;   /* it has gone, and what has its name now is another one */
	atomic_bool has_other_writers; /* programs that go past the mount: bypass.c */
};

static inline struct mount *mount_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static inline uint64_t ino_of(const struct mount *mount, fuse_ino_t node)
{
	return node == FUSE_ROOT_ID ? mount->root : node;
}

static inline fuse_ino_t node_of(const struct mount *mount, uint64_t ino)
{
	return ino == mount->root ? FUSE_ROOT_ID : ino;
}

/* ---- Who asks (mount.c) */

struct asker {
	struct afar_who who;
	uint32_t groups[GROUPS_MAX];
};

/* Returns who the request is from, in `*asker`. */
const struct afar_who *find_asker(fuse_req_t req, struct asker *asker);
/* May do everything: for what the kernel has checked by rules that the manager does not know. */
extern const struct afar_who superuser;

/* ---- Answers (mount.c): each ends its request */

/* Returns the errno for a library's negative code. */
int errno_of(int error);
/* Answers with success alone, or with the error if `ret` is negative. */
void answer(fuse_req_t req, int64_t ret);
/* Answers with attributes, or with the error if `ret` is not 0. */
void answer_attributes(fuse_req_t req, int64_t ret, const struct afar_file_stat *stat);
/* The kernel may answer from the attributes for so long. */
void answer_attributes_for(fuse_req_t req, const struct afar_file_stat *stat, double seconds);

void fill_entry(const struct mount *mount, const struct afar_file_stat *stat,
		struct fuse_entry_param *out);
void fill_stat(const struct afar_file_stat *stat, struct stat *out);

/* ---- The requests, by rooms; each is as libfuse says of the one of its name */

/* names.c */
void do_forget(fuse_req_t req, fuse_ino_t node, uint64_t nr);
void do_forget_multi(fuse_req_t req, size_t nr, struct fuse_forget_data *nodes);
/* The kernel does not know the node of an answer that it did not take, or so many fewer times. */
void forget_node(struct mount *mount, fuse_ino_t node, uint64_t nr);
void do_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void do_readlink(fuse_req_t req, fuse_ino_t node);
void do_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void do_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void do_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void do_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void do_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
void do_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
	       const char *new_name, unsigned flags);
void do_link(fuse_req_t req, fuse_ino_t node, fuse_ino_t parent, const char *name);

/* attributes.c */
void do_getattr(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *info);
void do_setattr(fuse_req_t req, fuse_ino_t node, struct stat *to, int mask,
		struct fuse_file_info *info);
void do_statfs(fuse_req_t req, fuse_ino_t node);
void do_setxattr(fuse_req_t req, fuse_ino_t node, const char *name, const char *value, size_t size,
		 int flags);
void do_getxattr(fuse_req_t req, fuse_ino_t node, const char *name, size_t size);
void do_listxattr(fuse_req_t req, fuse_ino_t node, size_t size);
void do_removexattr(fuse_req_t req, fuse_ino_t node, const char *name);

/* directories.c */
void do_opendir(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *info);
void do_readdir(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset,
		struct fuse_file_info *info);
void do_readdirplus(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset,
		    struct fuse_file_info *info);
void do_releasedir(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *info);
void do_fsyncdir(fuse_req_t req, fuse_ino_t node, int is_data_only, struct fuse_file_info *info);

/* files.c */
void do_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *info);
void do_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode, struct fuse_file_info *info);
void do_open(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *info);
void do_read(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset,
	     struct fuse_file_info *info);
void do_write(fuse_req_t req, fuse_ino_t node, const char *data, size_t size, off_t offset,
	      struct fuse_file_info *info);
void do_flush(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *info);
void do_fsync(fuse_req_t req, fuse_ino_t node, int is_data_only, struct fuse_file_info *info);
void do_release(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *info);
void do_fallocate(fuse_req_t req, fuse_ino_t node, int mode, off_t offset, off_t length,
		  struct fuse_file_info *info);
void do_lseek(fuse_req_t req, fuse_ino_t node, off_t offset, int whence,
	      struct fuse_file_info *info);

/* bypass.c */
void do_ioctl(fuse_req_t req, fuse_ino_t node, unsigned command, void *argument,
	      struct fuse_file_info *info, unsigned flags, const void *data, size_t size,
	      size_t out_size);

/* The kernel's request for attributes before a program reads. */
void do_getattr_to_read(fuse_req_t req, const struct fuse_file_info *info);

/* open_files.c */

/* Returns whether the kernel has pages of what is read through it. */
bool file_has_pages(const struct fuse_file_info *info);
/* The library's file of a request, inside of CALL(). NULL, and 0: it has none. */
int file_of(const struct mount *mount, const struct fuse_file_info *info, struct afar_file **out);
/* Like file_of(), if the file is open just now, without asking for that; else NULL. */
struct afar_file *file_if_open(const struct fuse_file_info *info);
/* Has others see what was written through it, if something was: size and times. Inside of CALL(). */
int file_flush(const struct fuse_file_info *info);
/* The session of all open files has ended: closes them, to be opened again when they are used. */
void files_leave(void);
/* Syncs and closes what is still open, once no request is under way. Returns 0 or the first error. */
int files_end(void);

#endif
