/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kept holds. A program has closed a file that it read, and the manager is not told: for it the session has the file open. The next program that
 * opens the file gets the hold. If the file's attributes are delegated to us then, nobody asks the manager.
 *
 * The manager ends a kept hold when it has the inode dropped (FileRevoke) or given up (FileRecall). We end it when we open the file to write, or
 * remove it. We end the oldest when more than KEPT_MAX are kept, and all when the connection to the manager is lost, or the file system closed.
 * Time ends none, because a client may sleep. The manager must not give the file's room to another one before the client knows.
 *
 * Ending a hold waits for nobody. The manager is told behind all calls that were made before, and told again if that may be lost. So our answer to
 * a revoke, and our next call, arrive after it.
 */
#ifndef CLIENT_FS_KEPT_H
#define CLIENT_FS_KEPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <urcu/list.h>

#define KEPT_MAX 16384U

struct afar_fs;
struct afar_session;
struct fs_hold;

/* Guarded by the fs's lock, but for what says otherwise. */
struct fs_kept {
	struct cds_list_head
		holds;	     /* struct fs_hold; the one that was kept first at the beginning */
	_Atomic unsigned nr; /* of these */
	unsigned max;
	uint64_t *owed; /* handles that the manager is to close */
	size_t nr_owed, max_owed;
	const struct kept_calls *calls;
};

/* Let the holds of inodes go; 0: all. Those who learn of other sessions' changes, and make ours, know them by this alone: kept_let_go(),
 * kept_drop(). */
struct kept_calls {
	/* The session's lock is held. */
	void (*let_go)(struct afar_fs *fs, const uint64_t *inos, size_t nr);
	void (*drop)(struct afar_fs *fs, uint64_t ino);
};

void kept_init(struct fs_kept *kept);
/* Nothing is kept any more. */
void kept_free(struct fs_kept *kept);

/* Keeps the hold of a file that is being closed, whose user of the inode goes along. False: the manager has to be told. Afterwards ask whether the
 * inode is still delegated: if not, the manager may have had it dropped already. */
bool kept_add(struct fs_hold *hold);
/* Gives a kept hold, with this access, to a file that is being opened: its user of the inode, too. NULL: there is none. */
struct fs_hold *kept_take(struct afar_fs *fs, uint64_t ino, uint32_t access);
/* The session has resumed: lets all go, and tells the manager, which may be another one, of what is owed. On the control thread; the session's lock
 * is held. */
void kept_resumed(struct afar_fs *fs);

#endif
