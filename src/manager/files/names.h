/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and attributes: what calls find, tell, and change of directories and inodes. */
#ifndef MANAGER_FILES_NAMES_H
#define MANAGER_FILES_NAMES_H

#include "manager/files/table.h"

/* ---- names.c */

int name_make(struct fs *fs, const struct who *who, const Afar__FileMake *ask, struct file **out,
	      bool *is_made);
int name_remove(struct fs *fs, const struct who *who, const Afar__FileRemove *ask);
int name_rename(struct fs *fs, const struct who *who, const Afar__FileRename *ask);
int name_link(struct fs *fs, const struct who *who, const Afar__FileLink *ask, struct file **out);

/* ---- walk.c */

/* -EINVAL, -ENAMETOOLONG. */
int check_name(const char *name);
int name_lookup(struct fs *fs, const struct who *who, uint64_t dir, const char *name,
		struct file **out);
int name_walk(struct fs *fs, const struct who *who, const Afar__FileWalk *ask, struct file **out);
/* Names of one listing at most. */
size_t list_max(const Afar__FileList *ask);
int name_list(struct fs *fs, const struct who *who, const struct session *session,
	      const Afar__FileList *ask, Afar__FileResult *result);

/* ---- attributes.c */

bool who_may(const struct who *who, const struct inode *inode, uint32_t access);
bool who_is_in(const struct who *who, uint32_t gid);
/* -EACCES. */
int check_access(const struct who *who, const struct inode *inode, uint32_t access);
/* Fills in attributes; NULL: no memory. */
Afar__FileAttributes *attributes_of(const struct file *file);
/* Returns as file_set() if that is refused. */
int file_check_set(const struct file *file, const struct who *who, const struct session *session,
		   const Afar__FileSet *ask);
int file_set(struct fs *fs, const struct who *who, const struct session *session,
	     const Afar__FileSet *ask, struct file **out);
int file_get_xattr(struct fs *fs, const struct who *who, const Afar__FileGetXattr *ask,
		   Afar__FileResult *result);
int file_list_xattrs(struct fs *fs, const struct who *who, const Afar__FileListXattrs *ask,
		     Afar__FileResult *result);
int file_set_xattr(struct fs *fs, const struct who *who, const Afar__FileSetXattr *ask);
int file_remove_xattr(struct fs *fs, const struct who *who, const Afar__FileRemoveXattr *ask);

/* ---- check.c */

/* Puts a line for each thing that is wrong into the result's data, each ended by 0. */
int files_check(struct fs *fs, Afar__FileResult *result);

#endif
