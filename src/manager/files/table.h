/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * File systems and inodes in memory. An inode's fields and its runs are never changed in place. A
 * change makes a copy, and the batch's notes (undo.h) say which of the two goes. So taking a batch
 * back costs what it changed.
 *
 * Holds of a file are in memory alone. After a restart the sessions of before tell them again.
 */
#ifndef MANAGER_FILES_TABLE_H
#define MANAGER_FILES_TABLE_H

#include <sys/stat.h>

#include "manager/files/files.h"

#define FILE_SET_SIZE	 8U	  /* FileSet.mask */
#define FILE_SET_MTIME	 0xa0U	  /* to a time, or to now */
#define FILE_UNIT	 4096U	  /* bytes */
#define FILES_CACHED_MAX 65536U	  /* inodes that nobody has open */
#define FILES_SHARED_MAX 1048576U /* shares (delegates.h): each is kept in memory */
#define FILES_GROUPS_MAX 64U
#define FILE_SIZE_MAX	 ((uint64_t)1 << 56)
#define FS_EDITED_MAX	 8U  /* inodes that one operation changes */
#define FILE_KEEPS_PAGES 16U /* FileOpen.access */
#define FILE_HAS_SLOT	 32U /* FileReclaim.accesses */
/* Behind all that a file can have: its slot (ends.c). */
#define FILE_SLOT_UNIT (FILE_SIZE_MAX / FILE_UNIT)
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
	/* Likewise units that came around others in holes, or that came ahead and were passed by. Those count no more that somebody
	 * says he has written. */
	uint64_t nr_behind;
	bool has_slot; /* one of its units is that; false also as long as its runs are not read */
	int64_t atime, mtime, ctime;
	uint64_t change;
	uint64_t layout; /* grows when runs go away */
	uint64_t parent;
	uint64_t nr_entries;
	uint32_t nr_xattrs;
	/* Their lengths together: names, each ended by 0, and values. If an older record did not
	 * count them, they are as large as they can be. */
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
	bool is_appender_forced; /* it did not ask for that: ends.c */
	/* The session that need not tell where it ends, and until when; 0: none. Nobody else becomes that before `end_quiet_until`. */
	uint64_t ender, ender_until;
	bool is_ender_asked;   /* for the end that it has */
	bool may_ender_append; /* without asking for that */
	/* The session that was the ender when its slot was read, and has not answered since; 0: there is none. If its machine slept, it may
	 * still write there. */
	uint64_t silent_ender;
	uint64_t end_quiet_until;
	uint64_t
		slot_owner; /* the session that was given its slot, and has it open to write; 0: none. In memory alone */
	/* Since it got this number, no other session has had it open to write: hold_alone(). In memory alone, and never taken back. */
	uint64_t alone, alone_number;
	/* A session that takes parts of it away waits until others have given it up: recalls.c. In
	 * memory alone, and never taken back. */
	uint64_t recaller, recall_request; /* his session, and which request of it; 0: nobody */
	uint64_t recall;		   /* its number */
	uint64_t recall_until;
	/* Sessions that it is delegated to (NULL: none), and until when it is to nobody more: delegations.c. */
	struct shares *shares;
	uint64_t revoked_until;
	bool is_pinned; /* delegated, and in no list of idle ones */
	/* Its last name has gone. Sessions are being asked whether they use it; or all of these hold it. */
	bool is_gone, is_asked;
	char *gone_name; /* that name, and its directory. NULL: not known. Never taken back */
	uint64_t gone_dir;
	struct cds_list_head idle; /* of the fs: the last used at the end */
};

/* Questions about an inode, to sessions that hold it; the last one to those that it is delegated to. */
enum {
	HOLD_DROPS,  /* pages that it keeps */
	HOLD_CLOSES, /* it tells of what it has closed */
	HOLD_TIMES,  /* and of writes */
	HOLD_KEPT,   /* it closes what it has open to read, and its programs have closed */
	HOLD_ENDS,   /* it gives up the end of the file */
	ASK_REVOKES, /* it drops what was delegated to it */
	NR_QUESTIONS,
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
	bool is_probed;	      /* whether its session answers anything at all */
	bool has_missed_drop; /* its session was not asked, because it answers nothing */
	struct hold_ask {
		/* The last question, and the last that was answered; since when it owes an answer, and over which connection. */
		uint64_t asked, answered, since;
		const void *asked_at;
	} asks[ASK_REVOKES]; /* HOLD_… */
	uint64_t told;	     /* the greatest number of a FileEnd of its session's */
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

/* Ends that are read from slots, or were just now. In memory alone, and never taken back. */
struct lost_ends {
	void *by_ino; /* tree of struct lost_end: enders.c */
	/* Each is in one of these, unless its server is being asked. `fresh`: to be asked for; `later`: likewise when its time has come. `over`: not to
	 * be had any more. `told`: that counts when the batch is committed. */
	struct cds_list_head fresh, later, over, told;
	unsigned nr_asked;
	uint64_t nr_down; /* of the core, when sessions were last asked to tell their ends */
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
	uint64_t
		*unreclaimed; /* sessions of before a restart, which have not told what they hold */
	size_t nr_unreclaimed;
	void *delegates_by_session;	/* tree of struct delegate: delegates.h */
	struct cds_list_head delegates; /* that have shares */
	struct cds_list_head returned;	/* that answer again: silence.c */
	struct cds_list_head questions; /* that are to be sent: questions.c */
	struct cds_list_head owing;	/* that have not answered: the first of them first */
	size_t nr_shared, max_shared;	/* inodes, each as often as it is delegated */
	size_t nr_enders;		/* files that have an ender */
	struct lost_ends lost_ends;	/* ends.c */
	struct cds_list_head users;	/* sessions that are asked which inodes they use */
	struct gone gone;
	uint64_t
		quiet_until; /* changes wait: somebody may have something delegated by a manager of before */
	/* Inodes that the operation under way has edited, for its result. */
	struct file *edited[FS_EDITED_MAX];
	size_t nr_edited;
	/* Unlinked files, and those with room ahead, that somebody may have open, when that is not known yet. They ascend. */
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
	uint64_t last_alone;  /* begins with the time, too */
	uint64_t last_search; /* for those who wait for each other: locks.c */
	uint64_t retry_at;    /* work that failed is tried again then; 0: none has */
};

struct fs *files_find(const struct core *core, uint64_t number);
struct namespace *fs_namespace(const struct fs *fs);
static inline struct core *fs_core(const struct fs *fs)
{
	return fs->files->core;
}
static inline struct undo *fs_undo(const struct fs *fs)
{
	return fs_core(fs)->undo;
}

/* Finds an inode, reading it if need be. -ESTALE: there is none. Or as a metastore's get. */
int file_get(struct fs *fs, uint64_t ino, struct file **out);
/* Finds it if it is in memory; else NULL. */
struct file *file_cached(const struct fs *fs, uint64_t ino);
/* Finds a directory as file_get() does. -ENOTDIR: it is none. */
int file_get_directory(struct fs *fs, uint64_t ino, struct file **out);
/* A new inode, not yet stored. `target` is a symbolic link's, else NULL. -ENOMEM, -ENOSPC (numbers
 * are used up). For a user the limit is checked before: limits_check_inodes(). */
int file_new(struct fs *fs, uint32_t mode, const char *target, struct file **out);
/* A copy of its inode to change, which is the inode from now on. NULL: no memory. */
struct inode *file_edit(struct file *file);
/* Its record is put, with all that was changed since it was put last. */
void file_put(struct file *file);
/* It has been changed, and its record need not be put before it is closed. -ENOMEM. */
int file_set_dirty(struct file *file);
/* Its records are an older copy's, and nobody has accepted that: what they say is free stays as it is. */
bool fs_is_suspect(const struct fs *fs);
/* The fs's own record is put. */
void fs_put(struct fs *fs);
/* It may be dropped from memory when nobody uses it. */
void file_unpin(struct file *file);
/* Its record goes, and its inode and runs: file_destroy() has given back what it had. -ENOMEM. */
int file_delete_record(struct file *file);
/* Takes it out of memory; the caller frees it. */
void file_forget(struct file *file);

static inline bool file_is_held(const struct file *file)
{
	return file->holds.next != &file->holds;
}
/* True: another session has it open. */
static inline bool file_is_shared(const struct file *file, const struct session *session)
{
	const struct hold *hold;

	cds_list_for_each_entry (hold, &file->holds, node)
		if (hold->session != session->number)
			return true;
	return false;
}
/* The order of an fs's holds. */
int holds_compare(const void *left, const void *right);
struct hold *hold_find(const struct fs *fs, uint64_t session, uint64_t handle);
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

/* The most that one extended attribute has, its name ended by 0. */
#define XATTR_NAME_BYTES  256U
#define XATTR_VALUE_BYTES 65536U

/* ---- systems.c */

/* Drops inodes that were not used for longest. Nothing may be noted. */
void fs_forget_idle(struct fs *fs);

/* ---- endings.c */

/* Deletes it, with all that it has: it has no name, and nobody holds it. */
int file_destroy(struct file *file);
/* Ends it if nothing is left of it: no name, no holder. Called when one of these goes. */
int file_settle(struct file *file);
/* Ends with `ret` what began at the mark and gives back what nobody uses. If that has failed, it is taken back and logged, and
 * the rest goes on: one damaged record holds up nothing else. -ENOMEM: it is to be tried again. */
int fs_may_fail(struct fs *fs, uint64_t ino, size_t mark, int ret);

#endif
