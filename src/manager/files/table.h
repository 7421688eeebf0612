/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * File systems and inodes in memory. An inode's fields and its runs are never changed in place: a
 * change makes a copy, and the batch's notes (undo.h) say which of the two goes. So taking a batch
 * back costs what it changed.
 *
 * Who holds a file is in memory alone. After a restart the sessions of before tell it again.
 */
#ifndef MANAGER_FILES_TABLE_H
#define MANAGER_FILES_TABLE_H

#include <sys/stat.h>

#include "manager/files/files.h"

#define FILE_SET_SIZE	 8U	/* FileSet.mask */
#define FILE_SET_MTIME	 0xa0U	/* to a time, or to now */
#define FILE_UNIT	 4096U	/* bytes */
#define FILES_CACHED_MAX 65536U /* inodes that nobody has open */
#define FILES_GROUPS_MAX 64U
#define FILE_SIZE_MAX	 ((uint64_t)1 << 56)
#define FS_EDITED_MAX	 8U  /* inodes that one operation changes */
#define FILE_KEEPS_PAGES 16U /* FileOpen.access */
/* With an inode's number: the handle of a session that uses it by that number, and has not opened it. */
#define FILE_USED (UINT64_C(1) << 63)

/* Who asks. */
struct who {
	uint32_t uid, gid;
	const uint32_t *groups;
	size_t nr_groups;
};

struct inode {
	uint32_t mode; /* type and permissions */
	uint32_t uid, gid;
	uint32_t nlink;
	uint64_t rdev;
	uint64_t size;
	uint64_t nr_units; /* of its runs, together */
	/* Units that it has got before anybody wrote there, as long as the size does not reach them. In
	 * memory alone: after a restart they count as any others. */
	uint64_t spare_from, spare_to;
	/* Likewise units that it got ahead, and that writers have passed by. */
	uint64_t nr_behind;
	int64_t atime, mtime, ctime;
	uint64_t change;
	uint64_t layout; /* grows when runs go away */
	uint64_t parent;
	uint64_t nr_entries;
	uint32_t nr_xattrs;
	/* Of them together: names, each ended by 0, and values. What an older record did not count, counts as much as it can
	 * be. */
	uint32_t xattr_names_length, xattr_values_length;
	bool is_linkable; /* it was made without a name, and may get one */
	char target[];	  /* of a symbolic link; else empty */
};

struct run {
	uint64_t unit; /* in the file */
	uint64_t pool_unit;
	uint64_t nr;
};

/* In order; they do not overlap, and two that touch on both sides are one. */
struct runs {
	size_t nr, max;
	struct run run[];
};

/* An inode that was wanted. */
struct file {
	struct fs *fs;
	uint64_t ino;
	struct inode *inode; /* NULL: there is none, or none any more */
	struct runs *runs;   /* NULL: not read yet */
	/* Marks (store.h): of the inode and its runs; of its holds, locks and appender. */
	uint64_t mark, holds_mark;
	bool is_dirty;		    /* its record is older than `inode`: put when it is closed */
	bool is_ahead;		    /* it has a record that it has room ahead */
	struct cds_list_head holds; /* struct hold */
	struct cds_list_head locks; /* struct lock: locks.c. In memory alone */
	uint64_t locks_version;	    /* of these: never the same again. Never taken back */
	/* The session that has its end for itself; 0: none. And until when, if it appends nothing just now. In memory alone */
	uint64_t appender, appender_until;
	uint64_t appender_since; /* it has kept the end for what follows */
	/* Who takes parts of it away waits until others have given it up: recalls.c. In memory alone, and
	 * never taken back. */
	uint64_t recaller, recall_request; /* his session, and which request of it; 0: nobody */
	uint64_t recall;		   /* its number */
	uint64_t recall_until;
	/* Sessions that it is delegated to, and until when it is to nobody more: delegations.c. */
	uint64_t delegates;
	uint64_t revoked_until;
	bool is_pinned; /* delegated, and in no list of idle ones */
	/* Its last name has gone. Sessions are being asked whether they use it; or all of these hold it. */
	bool is_gone, is_asked;
	char *gone_name; /* that name, and its directory. NULL: not known. Never taken back */
	uint64_t gone_dir;
	struct cds_list_head idle; /* of the fs: the last used at the end */
};

/* A session has a file open, under a number that it chose. */
struct hold {
	struct cds_list_head node; /* of the file */
	struct file *file;
	uint64_t session;
	uint64_t handle;
	uint32_t access; /* R_OK, W_OK, FILE_KEEPS_PAGES */
	/* The last recall that its session was asked for, over which connection, and has answered. */
	uint64_t asked, recalled, asked_since;
	const void *asked_at;
	bool is_probed; /* whether its session answers anything at all */
	struct hold_ask {
		/* The last question, and the last that was answered; since when it owes an answer, and over which connection. */
		uint64_t asked, answered, since;
		const void *asked_at;
	} asks[3]; /* HOLD_… */
};

enum {
	HOLD_DROPS,  /* pages that it keeps */
	HOLD_CLOSES, /* it tells of what it has closed */
	HOLD_TIMES,  /* and of writes */
};

/* Runs of the pool that were given back together. */
struct scrub {
	struct cds_list_head node;
	struct fs *fs;
	uint64_t number;
	bool is_told; /* in the sweep that is under way; never taken back */
	size_t nr;
	struct run runs[]; /* `unit` does not matter */
};

/* Inodes without a name that nobody has open: gone.c. In memory alone, and never taken back but for two. */
struct gone {
	struct gone_inode {
		uint64_t ino, nr_units;
	} * list; /* the oldest at the beginning */
	size_t nr, max;
	size_t nr_asked;   /* of them, in the round that is under way; 0: there is none */
	size_t nr_left;	   /* of these, that have not ended. Taken back */
	uint64_t nr_units; /* of those that have not ended. Taken back */
	uint64_t round;	   /* the number of the last one */
	uint64_t begun_at;
	uint64_t due_at; /* nobody is asked before */
};

struct fs {
	struct cds_list_head node; /* of the files */
	struct files *files;
	uint64_t number; /* of its namespace */
	uint64_t root;
	uint64_t next_ino;
	uint64_t nr_inodes;
	uint64_t max_inodes; /* besides the root; 0: no limit */
	uint64_t next_scrub;
	bool is_deleted;

	struct space space; /* of the pool, in bytes: what no file has, and is zeros */
	struct cds_list_head scrubs;
	uint64_t pending_bytes; /* in them */
	uint64_t nr_lost_units; /* of the pool, that files have (lost.c) */
	uint64_t sweep;		/* that is under way: its number; 0: none. Never taken back */
	uint64_t last_sweep;
	size_t nr_awaited; /* servers of the sweep */
	bool has_failed;   /* one of them */
	bool is_resting;   /* there is no sweep before retry_at because one has just ended */
	uint64_t retry_at;
	/* The least that was free since then, and what of it is to go back: shrink.c. Never taken back. */
	uint64_t least_free, watched_since;
	uint64_t surplus;

	void *files_by_ino; /* tree of struct file */
	size_t nr_files, nr_pinned;
	size_t max_cached; /* of those that nobody has open, nor delegated */
	struct cds_list_head idle;
	void *holds_by_handle; /* tree of struct hold, by session and handle */
	uint64_t *unclaimed; /* sessions of before a restart, which have not told what they hold */
	size_t nr_unclaimed;
	struct cds_list_head delegates;
	struct cds_list_head users; /* sessions that are asked which inodes they use */
	struct gone gone;
	uint64_t
		quiet_until; /* changes wait: somebody may have something delegated by a manager of before */
	/* Inodes that the operation under way has edited, for its result. */
	struct file *edited[FS_EDITED_MAX];
	size_t nr_edited;
	/* Unlinked files, and those with room ahead, that somebody may have open, when that is not known yet. */
	uint64_t *left;
	size_t nr_left;
};

struct files {
	struct core *core;
	struct cds_list_head systems; /* struct fs */
	uint64_t *emptied;	      /* numbers of deleted ones whose records are still there */
	size_t nr_emptied;
	uint64_t last_recall;
	uint64_t last_delegation; /* begins with the time, so it grows over restarts, too */
	uint64_t last_locks_version;
	uint64_t last_search; /* for those who wait for each other: locks.c */
	uint64_t retry_at;    /* work that failed is tried again then; 0: none has */
};

struct fs *files_find(const struct core *core, uint64_t number);
struct namespace *fs_namespace(const struct fs *fs);
static inline struct core *fs_core(const struct fs *fs)
{
	return fs->files->core;
}

/* Finds an inode, reading it if need be. -ESTALE: there is none. Or as a metastore's get. */
int file_get(struct fs *fs, uint64_t ino, struct file **out);
/* The same, if it is in memory; else NULL. */
struct file *file_cached(const struct fs *fs, uint64_t ino);
/* The same, of a directory: else -ENOTDIR. */
int file_get_directory(struct fs *fs, uint64_t ino, struct file **out);
/* A new inode, not yet stored. Of a symbolic link with its target, else NULL. -ENOMEM, -ENOSPC (numbers
 * are used up). */
int file_new(struct fs *fs, uint32_t mode, const char *target, struct file **out);
/* A copy of its inode to change, which is the inode from now on. NULL: no memory. */
struct inode *file_edit(struct file *file);
/* Its record is put, with all that was changed since it was put last. */
void file_put(struct file *file);
/* It has been changed, and its record need not be put before it is closed. -ENOMEM. */
int file_set_dirty(struct file *file);
/* Deletes it, with all that it has: it has no name, and nobody holds it. */
int file_destroy(struct file *file);
/* Ends it if nothing is left of it: no name, no holder. Called when one of these goes. */
int file_settle(struct file *file);
/* Ends with `ret` what began at the mark and gives back what nobody uses. If that has failed, it is taken back and logged, and
 * the rest goes on: one damaged record holds up nothing else. -ENOMEM: it is to be tried again. */
int fs_may_fail(struct fs *fs, uint64_t ino, size_t mark, int ret);
/* Its records are an older copy's, and nobody has accepted that: what they say is free stays as it is. */
bool fs_is_suspect(const struct fs *fs);
/* The fs's own record is put. */
void fs_put(struct fs *fs);
/* Drops inodes that were not used for longest. Nothing may be noted. */
void fs_forget_idle(struct fs *fs);
/* It may be dropped from memory when nobody uses it. */
void file_unpin(struct file *file);

static inline bool file_is_held(const struct file *file)
{
	return file->holds.next != &file->holds;
}
static inline bool inode_is_directory(const struct inode *inode)
{
	return S_ISDIR(inode->mode);
}

/* Real time in nanoseconds, never the same twice. */
int64_t files_now(void);
/* mtime and ctime are now, and the change counts. */
void inode_touch(struct inode *inode);
/* ctime alone. */
void inode_touch_change(struct inode *inode);

/* Of one extended attribute, its name ended by 0. */
#define XATTR_NAME_BYTES  256U
#define XATTR_VALUE_BYTES 65536U

/* ---- records.c */

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
/* Puts the records of the segments of the pool that the range touches. */
void record_put_space(struct fs *fs, uint64_t offset, uint64_t length);
void record_put_system(const struct fs *fs);
void record_delete_system(const struct fs *fs);
/* Reads all of a file system but its inodes. */
int record_load_system(struct fs *fs);
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

/* ---- runs.c */

/* Reads them if need be. */
int file_load_runs(struct file *file);
/* Adds runs where nothing is, each behind the one before; at least one. Stores them. Copies the file's runs once, so
 * give it all that are added together. */
int file_add_runs(struct file *file, const struct run *run, size_t nr);
/* Takes [from, to) units out, and lists what of the pool that was; the caller frees the list. Stores
 * it. */
int file_cut_runs(struct file *file, uint64_t from, uint64_t to, struct run **out, size_t *nr);
/* The first run that ends behind `unit`: its index, or the number of runs. */
size_t runs_find(const struct runs *runs, uint64_t unit);

/* ---- pool.c */

/* From where room is taken. */
struct pool_wish {
	uint64_t near;	  /* the unit that is best; 0: none */
	bool is_anywhere; /* also at servers that are away */
};
/* Takes `nr` units in few runs, the first at `near` if that is free. Each run is given to `take`. It
 * takes fewer if there are not so many, and returns how many; negative: `take` failed, or -ENOMEM. */
int64_t pool_take(struct fs *fs, const struct pool_wish *wish, uint64_t nr,
		  int (*take)(void *argument, uint64_t pool_unit, uint64_t nr), void *argument);
/* Returns whether servers that are there have room for so many bytes. */
bool pool_has_room(const struct fs *fs, uint64_t bytes);
/* Returns whether all servers of the pool are there, or none: then it does not matter which of them gives
 * room. */
bool pool_is_whole(const struct fs *fs);
/* Gives runs back, which are free when they are zeroed. Takes the list over. */
int pool_give(struct fs *fs, struct run *runs, size_t nr);
/* Gives back what has been zeroed. */
int pool_give_zeroed(struct scrub *scrub);
/* The pool may have grown since. -ENOMEM. */
int pool_look(struct fs *fs);

/* ---- lost.c */

/* Takes out of a list of runs what is lost, and says how many units that was. The list stays the caller's,
 * and may be another one afterwards. */
int lost_leave_out(const struct fs *fs, struct run **runs, size_t *nr, uint64_t *nr_lost);
/* Takes it out of what is free. -ENOMEM. */
int lost_leave_space(struct fs *fs);
/* The same when the file system has just been read: nothing is noted. */
int lost_load(struct fs *fs);
/* Files have so many lost units from now on. -ENOMEM. */
int lost_count(struct fs *fs, uint64_t nr_units);

/* ---- lost_list.c */

/* Lists the names of files that have lost something, of inodes above `after`. */
int lost_list(struct fs *fs, const Afar__FileSystemLost *ask, Afar__FileResult *result);

/* ---- attributes.c */

bool who_may(const struct who *who, const struct inode *inode, uint32_t access);
bool who_is_in(const struct who *who, uint32_t gid);
/* -EACCES. */
int check_access(const struct who *who, const struct inode *inode, uint32_t access);
int file_set(struct fs *fs, const struct who *who, const struct session *session,
	     const Afar__FileSet *ask, struct file **out);
int file_get_xattr(struct fs *fs, const struct who *who, const Afar__FileGetXattr *ask,
		   Afar__FileResult *result);
int file_list_xattrs(struct fs *fs, const struct who *who, const Afar__FileListXattrs *ask,
		     Afar__FileResult *result);
int file_set_xattr(struct fs *fs, const struct who *who, const Afar__FileSetXattr *ask);
int file_remove_xattr(struct fs *fs, const struct who *who, const Afar__FileRemoveXattr *ask);

/* ---- names.c */

/* -EINVAL, -ENAMETOOLONG. */
int check_name(const char *name);
int name_make(struct fs *fs, const struct who *who, const Afar__FileMake *ask, struct file **out,
	      bool *is_made);
int name_remove(struct fs *fs, const struct who *who, const Afar__FileRemove *ask);
int name_rename(struct fs *fs, const struct who *who, const Afar__FileRename *ask);
int name_link(struct fs *fs, const struct who *who, const Afar__FileLink *ask, struct file **out);

/* ---- walk.c */

int name_lookup(struct fs *fs, const struct who *who, uint64_t dir, const char *name,
		struct file **out);
int name_walk(struct fs *fs, const struct who *who, const Afar__FileWalk *ask, struct file **out);
int name_list(struct fs *fs, const struct who *who, const Afar__FileList *ask,
	      Afar__FileResult *result);

/* ---- limits.c */

bool limits_allow_inode(const struct fs *fs);
/* -EDQUOT: no inode can be made. */
int limits_check_inodes(const struct fs *fs);
/* Returns how many units more its files may have. */
uint64_t limits_room(const struct fs *fs);
/* -EDQUOT: they may not have so many more. */
int limits_check_units(const struct fs *fs, uint64_t nr);

/* ---- lengths.c */

struct file_wish {
	uint64_t offset;
	uint64_t length;
	bool is_exact;	  /* no more than that */
	bool is_anywhere; /* also at servers that are away */
	/* So many units have been written of those that came ahead and end there; 0: not known. */
	uint64_t ahead_to, ahead_used;
};
int file_extend(struct file *file, const struct file_wish *wish);
/* Makes room at the beginning of a new file, which it is not yet told of as its own. */
int file_prepare(struct file *file, uint64_t bytes);
/* Returns whether a range of an empty file is room that nobody has asked for, or written, since it was made. */
bool file_is_spare(const struct file *file, uint64_t offset, uint64_t length);
/* Returns how many units a file has, without those that nobody has asked for yet. */
uint64_t inode_asked_units(const struct inode *inode);
/* Has others give the file up before its end is zeroed. -EBUSY: another session has it open, and has not. */
int file_give_up(struct file *file, const struct session *session);
/* Sets a size. A smaller one gives units back. -EBUSY: another session has it open. */
int file_resize(struct file *file, const struct session *session, uint64_t size);
int file_punch(struct file *file, const struct session *session, uint64_t offset, uint64_t length);
/* Gives back units behind the end. */
int file_trim(struct file *file, const struct session *session);
/* The same when nobody has it open any more. */
int file_trim_closed(struct file *file);
/* Notes in its record whether it has room ahead, so that this goes back also if the manager ends. -ENOMEM. */
int file_note_ahead(struct file *file, bool is_ahead);

/* ---- holds.c */

int hold_open(struct fs *fs, const struct who *who, const struct session *session,
	      const Afar__FileOpen *ask, struct file **out);
/* Without asking whether it may. */
int hold_add(struct file *file, const struct session *session, uint64_t handle, uint32_t access);
struct hold *hold_find(const struct fs *fs, uint64_t session, uint64_t handle);
int hold_close(struct fs *fs, const struct session *session, uint64_t handle);
int hold_end(struct fs *fs, const struct session *session, const Afar__FileEnd *ask,
	     struct file **out);
/* Takes the end of a file for the session, and lets it go, or keeps it for a moment for what follows. -EBUSY: another one has
 * it. */
int hold_append(struct fs *fs, const struct session *session, uint64_t ino, struct file **out);
int hold_appended(struct fs *fs, const struct session *session, const Afar__FileAppended *ask);
/* Until when another session has the end of a file; 0: none has. */
uint64_t hold_append_until(const struct file *file, uint64_t session);
int hold_claim(struct fs *fs, const struct session *session, const Afar__FileClaim *ask);
/* The session does not use inodes by their number any more. */
int hold_forget(struct fs *fs, const struct session *session, const Afar__FileForget *ask);
/* True: another session has it open. */
bool file_is_shared(const struct file *file, const struct session *session);
bool file_is_written_elsewhere(const struct file *file, uint64_t session);

/* ---- recalls.c */

/* True: another session has it open, and has not given it up for a change. */
bool file_is_kept(const struct file *file, const struct session *session);
/* The change is done, or has failed. */
void recall_end(struct file *file);
/* What others gave up they do without until the session has asked for more, or for 10 s. */
void recall_keep(struct file *file, const struct session *session);
bool recall_is_kept(const struct file *file, const struct session *session);
/* Until when a change waits for others to give files up; asks them. */
uint64_t recalls_wait(struct core *core, const struct event *event, const struct fs *fs);
/* Until when a call waits for others to drop pages that they keep of what it is about; asks them. */
uint64_t drops_wait_to_look(struct core *core, struct event *event, const struct fs *fs);
uint64_t drops_wait_to_hold(struct core *core, struct event *event, const struct fs *fs);
uint64_t drops_wait_to_change(struct core *core, struct event *event, struct fs *fs);
/* Returns whether another session keeps pages of it. */
bool file_has_kept_pages(const struct file *file, uint64_t session);
/* Until when somebody waits who asks where a file's bytes are. */
uint64_t recall_wait_for(struct core *core, const struct event *event, const struct fs *fs,
			 uint64_t ino);

/* ---- gone.c */

/* A session is asked from now on, until it leaves. -EINVAL: it has not opened the pool. */
int gone_join(struct fs *fs, const struct session *session);
/* -ENOMEM. */
int gone_leave(struct fs *fs, uint64_t session);
void gone_free(struct fs *fs);
/* Returns whether sessions are to be asked before a file without a name, that nobody holds, ends. Then it is added: -ENOMEM. */
bool gone_must_ask(const struct file *file);
int gone_add(struct file *file);
/* One of its names goes. */
void gone_note_name(struct file *file, uint64_t dir, const char *name);
/* Asks, between batches; ends, in one, what nobody uses. */
void gone_drive(struct fs *fs);
int gone_work(struct fs *fs);
uint64_t gone_next(const struct fs *fs);
/* Until when somebody waits who needs room, or an inode. Asks at once. */
uint64_t gone_wait(struct fs *fs, uint64_t session);

/* ---- delegations.c */

/* A session asks, and takes delegations. `dropped`: the number of the one that it has dropped; 0: none. */
void delegation_begin(struct fs *fs, const struct session *session, uint64_t dropped);
/* Delegates an inode, if the session takes delegations. Returns whether the session may answer from what it is told
 * now, until it is asked to drop that. */
bool delegation_give(struct file *file, const struct session *session);
/* Renews all that the session has delegated, and says so in the results. */
void delegation_renew(struct fs *fs, const struct session *session, Afar__FileResults *results);
/* A file leaves memory. */
void delegation_forget(struct file *file);
/* The session does not use the file system any more, and was told so or has said it itself; otherwise it may
 * go on with what it has until that has run out. */
void delegations_leave(struct fs *fs, uint64_t session, bool was_told);
/* A session of before the manager's start has ended without a word. */
void delegations_await_silent(struct fs *fs);
/* Until when a change, or an opening to write, waits for others to drop what it concerns. Asks them. */
uint64_t delegations_wait_to_change(const struct event *event, struct fs *fs);
uint64_t delegations_wait_to_hold(struct core *core, const struct event *event, struct fs *fs);
void delegations_free(struct fs *fs);

/* ---- locks.c */

/* -EAGAIN, -EDEADLK, -ENOLCK, -EBADF. */
int lock_set(struct fs *fs, const struct session *session, const Afar__FileLock *ask);
/* Tells what is in the way. */
int lock_look(struct fs *fs, const struct session *session, const Afar__FileLock *ask,
	      Afar__FileResult *result);
void lock_cancel(struct fs *fs, const struct session *session, const Afar__FileLockCancel *ask);
/* What the session has had before a restart. */
int lock_claim(struct fs *fs, const struct session *session, const Afar__FileLock *ask);
/* Unlocks what was locked through a handle that is being closed. -ENOMEM. */
int locks_drop(const struct hold *hold);
/* Frees all of a file that is being forgotten. */
void locks_free(struct file *file);
/* Until when somebody waits for a lock. */
uint64_t lock_wait_for(struct core *core, struct event *event, struct fs *fs,
		       const Afar__FileLock *ask);

/* ---- scrubs.c */

void scrubs_drive(struct fs *fs);
/* Whether the next sweep can begin at once, and that it does, because somebody waits for what is to be zeroed. */
bool scrubs_can_hurry(const struct fs *fs);
void scrubs_hurry(struct fs *fs);

/* ---- shrink.c */

/* Watches what is free, between batches; gives back, in one, what nobody has needed for long. */
void shrink_drive(struct fs *fs);
int shrink_work(struct fs *fs);
uint64_t shrink_next(const struct fs *fs);

/* ---- check.c */

/* Puts a line for each thing that is wrong into the result's data, each ended by 0. */
int files_check(struct fs *fs, Afar__FileResult *result);

/* ---- waits.c */

/* -EBUSY: a call has waited in vain for sessions of before a restart, which may have open what it concerns. */
int files_check_claimed(const struct fs *fs, const Afar__Request *request);

/* ---- calls.c */

/* Fills in attributes; NULL: no memory. */
Afar__FileAttributes *attributes_of(const struct file *file);

#endif
