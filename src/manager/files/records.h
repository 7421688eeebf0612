/* SPDX-License-Identifier: BSD-3-Clause */
/* File systems as records of the metastore. Each is put and deleted in the batch that runs. */
#ifndef MANAGER_FILES_RECORDS_H
#define MANAGER_FILES_RECORDS_H

#include "manager/files/table.h"

int record_get_inode(struct fs *fs, uint64_t ino, struct inode **out);
void record_put_inode(struct fs *fs, uint64_t ino, const struct inode *inode);
void record_delete_inode(struct fs *fs, uint64_t ino);
/* -ENOENT. */
int record_get_name(struct fs *fs, uint64_t dir, const char *name, uint64_t *ino, uint32_t *type);
void record_put_name(struct fs *fs, uint64_t dir, const char *name, uint64_t ino, uint32_t type);
void record_delete_name(struct fs *fs, uint64_t dir, const char *name);
/* Visits names behind `after`, as of the last commit. */
int record_range_names(struct fs *fs, uint64_t dir, const char *after, size_t max,
		       int (*visit)(void *argument, const char *name, uint64_t ino, uint32_t type),
		       void *argument);
void record_put_run(struct fs *fs, uint64_t ino, const struct run *run);
void record_delete_run(struct fs *fs, uint64_t ino, uint64_t unit);
int record_get_runs(struct fs *fs, uint64_t ino, struct runs **out);
/* -ENODATA. */
int record_get_xattr(struct fs *fs, uint64_t ino, const char *name, void **value, size_t *length);
void record_put_xattr(struct fs *fs, uint64_t ino, const char *name, const void *value,
		      size_t length);
void record_delete_xattr(struct fs *fs, uint64_t ino, const char *name);
int record_range_xattrs(struct fs *fs, uint64_t ino, int (*visit)(void *argument, const char *name),
			void *argument);
void record_put_unlinked(struct fs *fs, uint64_t ino);
void record_delete_unlinked(struct fs *fs, uint64_t ino);
void record_put_ahead(struct fs *fs, uint64_t ino);
void record_delete_ahead(struct fs *fs, uint64_t ino);
void record_put_scrub(const struct scrub *scrub);
void record_delete_scrub(const struct scrub *scrub);
#define SPACE_SEGMENT_BYTES ((uint64_t)4096 * FILE_UNIT)
/* Puts the records of the segments of the pool that the range touches. */
void record_put_space(struct fs *fs, uint64_t offset, uint64_t length);
void record_put_system(const struct fs *fs);
void record_delete_system(const struct fs *fs);
/* Reads all of a file system but its inodes. */
int record_load_system(struct fs *fs);
/* Returns whether the inode was open when the manager ended, perhaps, and that has not been looked at yet. */
bool fs_has_left(const struct fs *fs, uint64_t ino);
/* Visit all that is stored of a kind, as of the last commit. `inode` is the visitor's to free. */
int record_range_inodes(struct fs *fs,
			int (*visit)(void *argument, uint64_t ino, struct inode *inode),
			void *argument);
int record_range_all_names(struct fs *fs,
			   int (*visit)(void *argument, uint64_t dir, const char *name,
					uint64_t ino, uint32_t type),
			   void *argument);
int record_range_all_runs(struct fs *fs,
			  int (*visit)(void *argument, uint64_t ino, const struct run *run),
			  void *argument);
/* Those behind this unit of an inode; 0: all. */
int record_range_runs_behind(struct fs *fs, uint64_t ino, uint64_t unit,
			     int (*visit)(void *argument, uint64_t ino, const struct run *run),
			     void *argument);
/* Tells of each record whether it is damaged, as of the last commit. */
int record_check(struct fs *fs,
		 int (*visit)(void *argument, struct meta_bytes key, bool is_damaged),
		 void *argument);
int record_range_unlinked(struct fs *fs, int (*visit)(void *argument, uint64_t ino),
			  void *argument);
/* Notes that a deleted file system's records are to be deleted; then deletes some. True: none are
 * left. */
void record_put_emptied(struct core *core, uint64_t fs);
int record_load_emptied(struct core *core, int (*visit)(void *argument, uint64_t fs),
			void *argument);
int record_empty(struct core *core, uint64_t fs, bool *is_over);

#endif
