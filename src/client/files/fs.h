/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file system as the client knows it: a namespace, its pool, the inodes that this process has
 * open, and the manager's handles for those.
 *
 * All open files of an inode share one struct file_inode, with its cached runs. Runs go away only
 * when this process says so, or when it has given the file up for another (fs_recall.c).
 * A thread that moves bytes is inside the inode's gate; one that has runs taken away has shut it.
 * So nothing that was posted lands in what has become another file's.
 *
 * Locks, in the order in which they are taken: an inode's gate; its extending; the session's lock; the
 * fs's lock; an inode's lock. The last three are held for moments, and not over calls.
 */
#ifndef CLIENT_FS_H
#define CLIENT_FS_H

#include <pthread.h>
#include <stdatomic.h>

#include <afar/file.h>

#include "client/files/inode/attr_cache.h"
#include "client/files/inode/file_ahead.h"
#include "client/files/inode/file_around.h"
#include "client/files/inode/file_ends.h"
#include "client/files/inode/file_map.h"
#include "client/files/inode/file_view.h"
#include "client/files/inode/fs_drop.h"
#include "client/files/inode/fs_hold.h"
#include "client/files/inode/fs_kept.h"
#include "client/files/inode/fs_losses.h"
#include "client/files/inode/stream.h"
#include "client/files/io/file_stream.h"
#include "client/files/io/fs_closing.h"
#include "client/files/io/fs_transfer.h"
#include "client/files/io/fs_used.h"
#include "client/files/io/fs_work.h"
#include "client/namespace/region.h"

#define FS_WHO_GROUPS_MAX 64U
#define FS_CALL_MAX	  256U /* operations of one call */

/* The user who asks, as a message. */
struct fs_who {
	Afar__FileWho message; /* its groups are those below: fs_who_copy() */
	uint32_t groups[FS_WHO_GROUPS_MAX];
};

/* Tells whether an inode was written since its size and times were committed. */
enum inode_touched {
	INODE_UNTOUCHED,
	INODE_TOLD,    /* and the manager knows when, but has not committed it */
	INODE_TELLING, /* and the manager is being told when, and has not answered */
	INODE_UNTOLD,  /* and the manager does not know when */
};

/* Other sessions may keep pages of an inode. They drop these when we say that it was written. */
enum inode_kept {
	INODE_NOT_KEPT,
	INODE_KEPT,
	INODE_KEPT_OLD, /* and it was written since */
};

#define FS_LOCK_RANGE 1U
#define FS_LOCK_FILE  2U

/* A lock that an owner has on a file. The manager is told it again, too. */
struct fs_lock {
	struct cds_list_head node; /* of the inode */
	uint64_t handle, owner;
	uint32_t kind; /* FS_LOCK_… */
	uint32_t mode; /* AFAR_LOCK_… */
	uint32_t pid;
	uint64_t first, last; /* bytes, both are in it */
};

struct file_inode {
	struct cds_list_head node;    /* of its bucket; guarded by the fs's lock, as the next two */
	unsigned nr_users;	      /* open files, those that are being opened, and kept holds */
	atomic_uint nr_references;    /* to its memory: one of all users, and inode_ref() */
	bool is_ending;		      /* its last file is being closed */
	atomic_bool has_grown;	      /* it may have room that we asked for, and have not written */
	atomic_bool has_unsure_locks; /* of a call whose outcome is unknown */
	struct cds_list_head locks;   /* struct fs_lock; guarded by the fs's lock, too */
	/* Holds that are kept (fs_kept.h), and how many holds may write. Guarded by the fs's lock. */
	struct cds_list_head kept_holds;
	unsigned nr_writers;
	_Atomic enum inode_touched touched;
	_Atomic uint64_t telling;     /* number of the last FileEnd for INODE_TELLING */
	struct inode_commit *commits; /* under way; guarded by the fs's lock */
	_Atomic enum inode_kept kept;
	atomic_uint nr_long_ways; /* reads and writes that might have gone by the view */
	atomic_bool is_prepared; /* its first unit came with the making; nobody has written there */
	atomic_bool is_unsynced; /* written since the last sync began: inode_note_write() */
	struct file_writes *writes; /* fs_losses.c's; NULL: none yet. Guarded by the fs's lock */
	_Atomic int64_t written_at; /* the last time, by this machine's clock: ns since 1970 */
	uint64_t ino;
	struct afar_fs *fs;

	/* Where operations on queues, and copies on this host, find the bytes. Made from inside the gate; NULL: they go the long way. */
	struct file_view *_Atomic view;
	struct streams streams;	   /* what its files have read ahead */
	pthread_mutex_t appending; /* held over a write at the end */
	pthread_mutex_t extending; /* held over calls that make room */

	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t told;
	pthread_cond_t gate_changed;
	unsigned nr_inside; /* the gate: threads that move bytes */
	unsigned
		nr_holding_up; /* threads that shut it, or have: operations on queues begin nothing */
	bool is_shut;
	bool has_been_shut;	      /* so parts of it may have been taken away */
	bool is_telling;	      /* the manager: where it ends */
	struct cds_list_head targets; /* of its files, by their target_node */
	struct file_map map;
	struct file_ahead ahead;
	struct file_around around;
	struct file_ends ends;
	uint64_t layout;       /* the number that the map goes by */
	uint64_t size;	       /* as far as we know: it may be more, if others write */
	uint64_t appending_to; /* where an append of ours ends that is under way; 0: none */
	bool appends_more;     /* the last one said that more follows; under `appending` */
	uint64_t end;	 /* that we have told the manager, or the slot; not more than the size */
	uint64_t wanted; /* ends that writers have reached, and wait for being told */
};

struct afar_fs {
	struct handle handle;	   /* in use during calls, and by open files */
	struct cds_list_head node; /* in the session's list; guarded by its lock */
	struct afar_namespace *ns;
	struct afar_region *region; /* the pool */
	bool is_read_only;
	atomic_bool has_other_writers; /* each sync asks all stores */
	uint64_t instance;	       /* no other file system that this process opens has it */
	uint64_t retry_ns;	       /* 0: calls do not wait longer than usual */
	uint64_t root;
	pthread_mutex_t growing;      /* held by the one who makes the pool larger */
	struct attr_cache attr_cache; /* names and attributes that are delegated to us */
	struct fs_used used;	      /* inodes that the program uses by their number */
	struct fs_closings closings;
	struct fs_drops drops;
	struct fs_work work; /* operations on queues that take a thread */
	struct fs_streams streams;

	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t changed;
	struct cds_list_head holds;
	struct fs_kept kept;
	struct cds_list_head lock_waits; /* struct fs_lock_wait: fs_lock.c */
	uint64_t nr_reclaims;		 /* times that the manager was told of all holds */
	/* Events after which the manager's earlier answers about an inode may be wrong, because parts
	 * of the pool were taken from it. It was trimmed or cut here and closed, or given up. */
	uint64_t nr_outdated;
	uint64_t outdated[FS_BUCKETS]; /* nr_outdated at the last one of a bucket */
	unsigned nr_recalls;	       /* files that are being given up now */
	/* How often inodes were opened to write, by this session, that have a bucket in common. */
	uint64_t nr_writings[FS_BUCKETS];
	uint64_t nr_commits; /* fs_commits.h: that have begun */
	struct fs_syncs syncs;
	struct fs_writes writes;
	struct cds_list_head inodes[FS_BUCKETS];
};

/* Let kept holds of inodes go; 0: all. The first with the session's lock held. */
static inline void kept_let_go(struct afar_fs *fs, const uint64_t *inos, size_t nr)
{
	/* A thread that keeps one asks afterwards whether we have been here. */
	if (atomic_load(&fs->kept.nr) != 0)
		fs->kept.calls->let_go(fs, inos, nr);
}
static inline void kept_drop(struct afar_fs *fs, uint64_t ino)
{
	if (atomic_load(&fs->kept.nr) != 0)
		fs->kept.calls->drop(fs, ino);
}

struct afar_file {
	struct handle handle; /* in use during calls */
	struct afar_fs *fs;
	struct file_inode *inode;
	struct fs_hold *hold;
	uint32_t access; /* R_OK, W_OK */
	bool is_directory;
	struct fs_who who; /* that opened it */
	int flags;	   /* of open(2) */
	/* For queues; its handle is open if it was asked for, and in use by operations that may have something posted:
	 * file_queue.c. */
	struct afar_target target;
	struct cds_list_head target_node; /* of its inode */
	_Atomic uint32_t nr_idle;	  /* operations that have nothing posted */
	struct file_reading reading;
	_Atomic uint64_t promise_asked_at; /* and not given: file_cached.c; by clock_coarse_ns() */
	/* Losses of the inode that syncs need not tell of here, and those that flushes need not. */
	uint64_t losses_synced, losses_flushed;
};

/* ---- fs_handle.c */

/* Returns 0, or why the handle cannot be used. */
int fs_check_handle(const struct afar_fs *fs);
/* Counts a call in, against a close in another thread; handle_unuse() counts it out. 0, or why the handle
 * cannot be used. */
int fs_enter(struct afar_fs *fs);
static inline struct afar_target *fs_pool(const struct afar_fs *fs)
{
	return &fs->region->target;
}
/* -EROFS, if it is open to read alone. */
int fs_check_writable(const struct afar_fs *fs, const char *asked);
/* When a call that begins now gives up. */
uint64_t fs_deadline(const struct afar_fs *fs);
/* Checks what a program calls a file system by. */
int fs_check_name(const struct afar_session *session, const char *name);

/* ---- fs_grow.c */

/* Makes the pool larger by at least so many bytes, after the manager has said that it is full. It was
 * `pool_bytes` long then: if it has grown since, that is enough. -ENOSPC, -EDQUOT. */
int fs_grow(struct afar_fs *fs, uint64_t pool_bytes, uint64_t bytes);
/* Makes the pool of a file system that has just been made, a small one. */
int fs_make_pool(struct afar_namespace *ns);

/* ---- fs_lock.c */

/* Forgets what was locked through a handle that is closed. The fs's lock is held. */
void fs_locks_end(const struct fs_hold *hold);
void fs_lock_message(const struct fs_lock *lock, Afar__FileLock *out);

/* ---- fs_recall.c */

/* The manager asks for a file to be given up. Takes the call over. On the control thread. */
void fs_recall(struct afar_session *session, const Afar__FileRecall *ask, struct rpc_call *call);
/* Somebody is about to open a file that is open here to write: tells the manager first of what programs have closed. Takes the call over. On
 * the control thread. */
void fs_tell_closings(struct afar_session *session, const Afar__FileRevoke *ask,
		      struct rpc_call *call);
/* Likewise that a file was written, if the manager does not know. */
void fs_tell_times(struct afar_session *session, const Afar__FileRevoke *ask,
		   struct rpc_call *call);
/* Likewise where it ends, which the manager has left to us. */
void fs_tell_ends(struct afar_session *session, const Afar__FileRevoke *ask, struct rpc_call *call);
/* Waits until none is under way, of a file system that has left the session. */
void fs_await_recalls(struct afar_fs *fs);

/* ---- fs_end.c */

/* The ends of files that the manager has left to us are not ours any more, because it may have restarted. */
void fs_stop_ends(struct afar_fs *fs);
/* Likewise of one file, because it is being closed: the manager leaves its end to nobody whom it does not know to write. */
void inode_tell_ends(struct file_inode *inode);
/* Fills a message that gives up the end of an inode, which is not ours any more. False: it is not open. */
bool inode_give_end(struct afar_fs *fs, uint64_t ino, Afar__FileEnd *message);
/* Returns whether an append is under way that relies on the end's being ours. From then on it is not. */
bool inode_stop_end(struct afar_fs *fs, uint64_t ino);
/* Waits until there is no such append. The inode may be closed meanwhile. */
void inode_await_append(struct afar_fs *fs, uint64_t ino);
/* Adds to what the manager says of an inode where it ends, if only the slot knows that. */
void inode_add_end(struct file_inode *inode, struct afar_file_stat *stat);
/* Has the manager know where the file ends. A change of its layout is about to follow, and then the slot says nothing any more. */
int inode_know_end(struct file_inode *inode);
/* Likewise if it is open, and a slot alone knows. Its times are about to be set, and no end that is told later may change them. */
int fs_know_end(struct afar_fs *fs, uint64_t ino);
/* The message of inode_give_end(), or of inode_begin_telling() that gives the end, is on its way, or has failed. */
void inode_end_giving(struct afar_fs *fs, uint64_t ino);

/* ---- fs_inode.c */

/* Gets the inode for a file that is being opened, which is one more user. Waits while its last file is
 * being closed. NULL: no memory. */
struct file_inode *inode_get(struct afar_fs *fs, uint64_t ino);
/* Finds one that is open, or being opened, or whose hold is kept; else NULL. The fs's lock is held. */
struct file_inode *inode_cached(struct afar_fs *fs, uint64_t ino);
/* Finds one that files are open of, and that is not ending, for a recall: the caller is one more user,
 * and counted in nr_recalls. Else NULL. Does not wait. */
struct file_inode *inode_find(struct afar_fs *fs, uint64_t ino);
/* Goes through the gate, waiting while it is shut, and out again. One thread may be inside the gates of
 * several inodes, if it waits for none of them. */
void inode_enter(struct file_inode *inode);
bool inode_try_enter(struct file_inode *inode);
void inode_leave(struct file_inode *inode);
/*
 * Waits until operations on queues have nothing posted, then shuts the gate, and waits until nobody is inside, and no write can
 * land any more. -EBUSY: operations were not reaped until `deadline`, or a server may still carry out a write whose connection
 * has ended; then the gate stays open.
 */
int inode_shut(struct file_inode *inode, uint64_t deadline);
/* Fails as that does if a write can land: -EBUSY. */
int inode_fail_in_doubt(uint64_t ino);
/* When one gives up shutting that a program waits for. */
uint64_t inode_shut_deadline(const struct file_inode *inode);
void inode_reopen(struct file_inode *inode);
/* Wakes who shuts the gate. */
void inode_wake(struct file_inode *inode);
/* Lets operations on queues see what is known of the inode now. From outside the gate. */
void inode_show(struct file_inode *inode);
/* Likewise lets copies on this host see it, by the view. From inside the gate. */
void inode_show_near(struct file_inode *inode);
/* Forgets where its bytes are. The gate is shut. */
void inode_forget(struct file_inode *inode);
/* Drops a user. */
void inode_put(struct file_inode *inode);
/* Likewise. Returns whether that was the last one: then the caller calls inode_unref(). */
bool inode_leave_users(struct file_inode *inode);
/* Keeps its memory, though it may have no user any more; nobody finds it then. */
void inode_ref(struct file_inode *inode);
void inode_unref(struct file_inode *inode);
/* Returns whether the caller, a user, is the last one: then nobody becomes one before
 * inode_put(). */
bool inode_end(struct file_inode *inode);
/* Takes back inode_end(): it may be opened again. */
void inode_go_on(struct file_inode *inode);
/* Returns whether the caller is the only user now. */
bool inode_is_alone(struct file_inode *inode);
/* Returns whether the caller is the only one that may write, beside others that read. */
bool inode_is_only_writer(struct file_inode *inode);
/* Returns whether it may have room that this process asked for, and has not written. */
bool inode_has_spare(struct file_inode *inode);
/* Returns whether this process may have made it longer, or written it, and not committed that. */
bool inode_is_written(struct file_inode *inode);
/* Notes that the manager's earlier answers about the inode may be wrong from now on. */
void inode_set_outdated(struct afar_fs *fs, uint64_t ino);
uint64_t inode_count_outdated(struct afar_fs *fs);
/* Returns whether an answer may be wrong that the manager gave when that count was `before`. From
 * inside the gate the result stays right. */
bool inode_is_outdated(struct file_inode *inode, uint64_t before);

/* Notes that an inode is being written. */
void inode_touch(struct file_inode *inode);
/* Returns whether a write from `offset` on has nothing to note that takes a lock or memory. */
static inline bool inode_has_noted_write(const struct file_inode *inode, uint64_t offset)
{
	return atomic_load_explicit(&inode->is_unsynced, memory_order_relaxed) &&
	       !(offset < FILE_UNIT &&
		 atomic_load_explicit(&inode->is_prepared, memory_order_relaxed));
}
/* The bytes of a write have arrived. A commit may have begun meanwhile: it told of the write, and had others drop what they keep, too early. */
static inline void inode_note_arrival(struct file_inode *inode)
{
	enum inode_kept kept = INODE_KEPT;

	if (atomic_load_explicit(&inode->kept, memory_order_relaxed) != INODE_NOT_KEPT)
		atomic_compare_exchange_strong(&inode->kept, &kept, INODE_KEPT_OLD);
	if (atomic_load_explicit(&inode->touched, memory_order_relaxed) != INODE_UNTOLD)
		inode_touch(inode);
}
/* The manager need not be told any more that an inode was written, if it is open, because its times are
 * being set. Returns whether that was so; inode_touch_again() takes it back. */
bool inode_untouch(struct afar_fs *fs, uint64_t ino);
void inode_touch_again(struct afar_fs *fs, uint64_t ino);
/* Around telling the manager that an inode was written, if it is open, and the manager does not know. The first returns
 * whether that is so, and what to tell. The inode may be closed meanwhile. */
bool inode_begin_telling(struct afar_fs *fs, uint64_t ino, Afar__FileEnd *message,
			 int64_t *written_at);
/* `number`: the message's. */
void inode_end_telling(struct afar_fs *fs, uint64_t ino, uint64_t number, bool is_told);
/* Returns whether its attributes may change though the program calls nothing more. The manager has to be told of a write, or gets spare room
 * back. */
bool inode_is_changing(struct afar_fs *fs, uint64_t ino);
/* Adds to what the manager says of an inode what it has not been told yet: when we wrote it. */
void inode_add_writes(struct afar_fs *fs, struct afar_file_stat *stat);

/* Takes what a result says: attributes, and runs if there are any. With runs, the caller has been inside the gate, or
 * has had it shut, since before it asked the manager. Errors: -AFAR_EMALFORMED, -ENOMEM, those of a call, if the pool
 * has grown meanwhile. */
int inode_take(struct file_inode *inode, const Afar__FileResult *result);
/* Takes the result of opening it, which is from outside the gate. `before`: inode_count_outdated(),
 * before the manager was asked. Asks anew if that is out of date. */
int inode_adopt(struct file_inode *inode, const Afar__FileResult *result, uint64_t before);
/* Takes the result of a change that may have taken parts of the pool away, and says the size. The gate
 * is shut. */
int inode_retake(struct file_inode *inode, const Afar__FileResult *result);
/* Asks for the attributes, and the runs of a range. From inside the gate, or with it shut. */
int inode_fetch(struct file_inode *inode, uint64_t offset, uint64_t length);
/* Asks for the attributes. */
int inode_look(struct file_inode *inode);
/* Takes a size that the manager has told, of the layout that we know: it only grows meanwhile. The
 * lock is held. */
static inline void inode_take_size(struct file_inode *inode, uint64_t size)
{
	if (size > inode->size)
		inode->size = size;
}

#endif
