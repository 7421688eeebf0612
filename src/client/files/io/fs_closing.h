/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Closing files for which nobody waits (afar_file_close_later()). Their closing goes along with the next call
 * about files, in the same message and the same commit. A thread sends those that no call has taken along
 * for CLOSING_MS. Until then they are open as far as the manager knows, and are reclaimed like all that is
 * open.
 *
 * A server may still carry out writes of a connection that has ended (target_is_in_doubt()). While it may, the manager must
 * not take a file that was open to write for closed. It would give the file's room to others, and such a write would
 * land in theirs. So these closings are held back, however the program closes, until the servers have closed those
 * connections. The thread asks them to. With the file system itself they are dropped, and the manager has the files
 * open until the session ends, which fences it.
 */
#ifndef CLIENT_FS_CLOSING_H
#define CLIENT_FS_CLOSING_H

#include <pthread.h>
#include <stdbool.h>

#include <urcu/list.h>

#include "client/files/inode/fs_commits.h"
#include "rpc/rpc.h"

#define CLOSING_MS 20

struct afar_file;
struct afar_fs;

/* A file that is being closed, and its part of a call. */
struct late_close {
	struct cds_list_head node; /* of those that no call has taken yet */
	struct afar_file *file;
	bool is_change; /* its size and times are to be committed: FilesChange; else FilesHold */
	bool is_trimmed;
	bool is_again; /* the call that it went along with first has failed */
	int touched;   /* enum inode_touched: what is put back if it fails */
	uint64_t nr_reclaims;
	struct inode_commit commit;
	Afar__FileSync sync; /* fill_sync() */
	Afar__FileChange change;
	Afar__FileClose close;
	Afar__FileHold hold;
};

/* Calls about files take closings along (fs_call.c). Closing a file makes such calls itself, so they know it by this alone. */
struct closing_calls {
	/* Takes up to `max` of a kind for a call, whose operations they become: closing->change, or ->hold. Returns how
	 * many. Then they are the caller's to end. */
	unsigned (*take)(struct afar_fs *fs, bool are_changes, struct late_close **out,
			 unsigned max);
	/* Ends them as the call did: `ret` of the call as a whole, and a result for each. If it failed as a whole, which may be
	 * for what else was in it, they are sent once more. */
	void (*end)(struct afar_fs *fs, struct late_close *const *taken, unsigned nr, int ret,
		    Afar__FileResult *const *results);
};

struct fs_closings {
	const struct closing_calls *calls;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct cds_list_head changes, holds; /* struct late_close, of both kinds */
	unsigned nr_changes, nr_holds;
	struct cds_list_head held_back; /* struct late_close, of either kind; no call takes them */
	uint64_t ask_after; /* clock_ns(): no server is asked to close connections before */
	unsigned nr_taken;  /* by calls that are under way */
	pthread_t thread;   /* that sends what no call takes */
	bool has_forgotten; /* used_tell() has something to tell */
	bool has_thread, is_ending;
};

void closings_init(struct fs_closings *closings);
void closings_free(struct fs_closings *closings);

/* Adds a file that its program has closed. On -ENOMEM, and -EAGAIN if there are many, the caller closes it itself. */
int late_close_add(struct afar_file *file);
/* Has a file that its program has closed closed as soon as no write can land in it any more. False: none can, the caller
 * closes it. May wait for a server, for a second at most. */
bool closings_hold_back(struct afar_file *file);
/* Sends all that are not held back, and waits until they have ended. */
void closings_flush(struct afar_fs *fs);
/* Returns whether any have not ended that are not held back. */
bool closings_are_pending(struct afar_fs *fs);
/* Flushes, and then drops what is held back still, after a last try. */
void closings_flush_last(struct afar_fs *fs);
/* Ends the thread; all have ended. The next one begins another. */
void closings_stop(struct afar_fs *fs);

/* Has the thread call used_tell() in a while. */
void closings_wake(struct afar_fs *fs);

#endif
