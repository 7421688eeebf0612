/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers programs from what is delegated to the session of a file system, and learns from the answers to questions. See
 * fs_known.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/error.h"
#include "client/base/abi.h"
#include "client/files/inode/fs_drop.h"
#include "client/files/inode/fs_known_table.h"
#include "rpc/delegation.h"

#define KNOWN_MAX 524288U /* inodes and names; more are forgotten together */

static uint64_t now_ns(void)
{
	struct timespec now;

	/* It goes on while the machine sleeps. */
	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* ---- Who asks */

static bool is_same_who(const struct fs_who *a, const struct fs_who *b)
{
	return a->message.uid == b->message.uid && a->message.gid == b->message.gid &&
	       a->message.n_groups == b->message.n_groups &&
	       memcmp(a->groups, b->groups, a->message.n_groups * sizeof(a->groups[0])) == 0;
}

static bool has_who(const struct fs_known *known, const struct fs_who *who)
{
	for (unsigned i = 0; i < known->nr_whos; i++)
		if (is_same_who(&known->whos[i], who))
			return true;
	return false;
}

static void add_who(struct fs_known *known, const struct fs_who *who)
{
	if (has_who(known, who))
		return;
	if (!known->whos)
		known->whos = calloc(KNOWN_WHOS, sizeof(*known->whos));
	if (!known->whos)
		return;
	fs_who_copy(&known->whos[known->next_who], who);
	known->next_who = (known->next_who + 1) % KNOWN_WHOS;
	if (known->nr_whos < KNOWN_WHOS)
		known->nr_whos++;
}

/* Returns whether `who` may look names of a directory up: the manager's rule (who_may()). */
static bool may_search(const struct fs_who *who, const struct afar_file_stat *dir)
{
	const Afar__FileWho *message = &who->message;
	bool is_member = message->gid == dir->gid;

	if (message->uid == 0)
		return true;
	if (message->uid == dir->uid)
		return dir->mode & S_IXUSR;
	for (size_t i = 0; i < message->n_groups && !is_member; i++)
		is_member = message->groups[i] == dir->gid;
	return dir->mode & (is_member ? S_IXGRP : S_IXOTH);
}

/* ---- Answering programs */

static bool lasts(const struct fs_known *known, uint64_t ms)
{
	return known->number != 0 && now_ns() + ms * 1000000U - known->renewed_at <
					     (uint64_t)DELEGATION_USED_MS * 1000000U;
}

static bool is_usable(const struct fs_known *known)
{
	return lasts(known, 0);
}

bool known_lasts(struct fs_known *known, uint64_t ms)
{
	bool is_so;

	pthread_mutex_lock(&known->lock);
	is_so = lasts(known, ms);
	pthread_mutex_unlock(&known->lock);
	return is_so;
}

void known_wrote(struct fs_known *known, uint64_t ino, int64_t at)
{
	struct known_inode *inode;

	pthread_mutex_lock(&known->lock);
	inode = known_find(known, ino);
	if (inode && inode->is_known && inode->stat.mtime < at)
		inode->stat.mtime = at;
	if (inode && inode->is_known && inode->stat.ctime < at)
		inode->stat.ctime = at;
	pthread_mutex_unlock(&known->lock);
}

/* Changes of our own make no difference: others cannot change it. */
uint64_t known_since(struct fs_known *known, uint64_t ino)
{
	const struct known_inode *inode;
	uint64_t since = 0;

	pthread_mutex_lock(&known->lock);
	inode = is_usable(known) ? known_find(known, ino) : NULL;
	if (inode && inode->is_known)
		since = inode->since;
	pthread_mutex_unlock(&known->lock);
	return since;
}

/* NULL: the manager has to be asked about it. */
static const struct known_inode *find_settled(const struct fs_known *known, uint64_t ino)
{
	const struct known_inode *inode = known_find(known, ino);

	return inode && inode->is_known && inode->nr_changing == 0 && known->nr_blind == 0 ? inode
											   : NULL;
}

/* Gives the attributes of an inode: 0, or 1. */
static int give(const struct fs_known *known, uint64_t ino, struct afar_file_stat *out)
{
	const struct known_inode *inode = find_settled(known, ino);

	if (!inode)
		return 1;
	abi_give(out, out->size, &inode->stat, sizeof(inode->stat));
	return 0;
}

static int lookup(const struct fs_known *known, const struct fs_who *who, uint64_t dir,
		  const char *name, struct afar_file_stat *out)
{
	const struct known_inode *directory = known_find(known, dir);
	const struct known_name *found = known_find_name(known, dir, name);

	if (!directory || !directory->is_known || !has_who(known, who) ||
	    !may_search(who, &directory->stat))
		return 1;
	if (!found)
		return directory->is_whole && known_is_plain(name) ? -ENOENT : 1;
	if (found->ino == UNKNOWN)
		return 1;
	return found->ino != 0 ? give(known, found->ino, out) : -ENOENT;
}

int known_lookup(struct afar_fs *fs, const struct fs_who *who, uint64_t dir, const char *name,
		 struct afar_file_stat *out)
{
	struct fs_known *known = &fs->known;
	int ret = 1;

	pthread_mutex_lock(&known->lock);
	if (is_usable(known))
		ret = lookup(known, who, dir, name, out);
	pthread_mutex_unlock(&known->lock);
	return ret == -ENOENT ? error_fail(ret, "find '%s': there is no such name", name) : ret;
}

int known_stat(struct afar_fs *fs, uint64_t ino, struct afar_file_stat *out)
{
	struct fs_known *known = &fs->known;
	int ret = 1;

	pthread_mutex_lock(&known->lock);
	if (is_usable(known))
		ret = give(known, ino, out);
	pthread_mutex_unlock(&known->lock);
	return ret;
}

bool known_no_xattrs(struct afar_fs *fs, uint64_t ino)
{
	struct fs_known *known = &fs->known;
	const struct known_inode *inode;
	bool has_none;

	pthread_mutex_lock(&known->lock);
	inode = is_usable(known) ? find_settled(known, ino) : NULL;
	has_none = inode && inode->has_no_xattrs;
	pthread_mutex_unlock(&known->lock);
	return has_none;
}

/* ---- Learning */

struct known_mark known_mark(struct fs_known *known)
{
	struct known_mark mark = {.at = now_ns()};

	pthread_mutex_lock(&known->lock);
	mark.nr_events = known->nr_events;
	pthread_mutex_unlock(&known->lock);
	return mark;
}

uint64_t known_take_dropped(struct fs_known *known)
{
	uint64_t dropped;

	pthread_mutex_lock(&known->lock);
	dropped = known->dropped;
	known->dropped = 0;
	pthread_mutex_unlock(&known->lock);
	return dropped;
}

void known_put_dropped(struct fs_known *known, uint64_t dropped)
{
	pthread_mutex_lock(&known->lock);
	if (known->dropped < dropped)
		known->dropped = dropped;
	pthread_mutex_unlock(&known->lock);
}

static bool is_usable_answer(const struct fs_known *known, const struct known_mark *mark,
			     const Afar__FileAttributes *attributes)
{
	return attributes && fs_check_attributes(attributes) == 0 &&
	       !known_is_old(known, mark, attributes->ino);
}

/* Takes a name that a question has found, or not. False: it is not known. */
static bool put_found(struct fs_known *known, const struct known_mark *mark,
		      const Afar__FileAttributes *dir, const char *name,
		      const Afar__FileAttributes *found)
{
	const struct known_inode *directory = known_find(known, dir->ino);

	if (found && is_usable_answer(known, mark, found))
		known_put_delegated(known, found);
	/* A change of this name may be under way, and have been carried out since. */
	return is_usable_answer(known, mark, dir) && directory && directory->nr_changing == 0 &&
	       known_is_plain(name) &&
	       known_put_name(known, dir->ino, name, found ? found->ino : 0, dir->change);
}

/* Takes what a directory was listed as. */
static void put_entries(struct fs_known *known, const struct known_mark *mark,
			const Afar__FileList *ask, const Afar__FileResult *result)
{
	bool is_whole = ask->after[0] == '\0' && !result->is_more;
	struct known_inode *directory;

	for (size_t i = 0; i < result->n_entries; i++) {
		const Afar__FileEntry *entry = result->entries[i];

		is_whole &= entry->attributes &&
			    put_found(known, mark, result->dir, entry->name, entry->attributes);
	}
	directory = known_find(known, ask->dir);
	if (is_whole && directory && directory->is_known && directory->nr_changing == 0 &&
	    directory->stat.change == result->dir->change)
		directory->is_whole = true;
}

static void take_look(struct fs_known *known, const struct known_mark *mark,
		      const Afar__FileLook *ask, const Afar__FileResult *result)
{
	const Afar__FileAttributes *found = result->status == 0 ? result->attributes : NULL;

	if (!result->is_delegated)
		return;
	if (is_usable_answer(known, mark, result->dir))
		known_put_delegated(known, result->dir);
	if (ask->what_case == AFAR__FILE_LOOK__WHAT_STAT && is_usable_answer(known, mark, found))
		known_put_delegated(known, found);
	if (!result->dir)
		return;
	if (ask->what_case == AFAR__FILE_LOOK__WHAT_LOOKUP && result->dir->ino == ask->lookup->dir)
		put_found(known, mark, result->dir, ask->lookup->name, found);
	if (ask->what_case == AFAR__FILE_LOOK__WHAT_LIST && result->dir->ino == ask->list->dir)
		put_entries(known, mark, ask->list, result);
}

/* Takes the delegation's number. False: what came with it was asked for under another one. */
static bool renew(struct fs_known *known, const struct known_mark *mark,
		  const Afar__FileResults *results)
{
	if (known_is_void(known, mark))
		return false;
	if (results->delegation == 0)
		return true;
	if (results->delegation <= known->refused)
		return false;
	if (results->delegation != known->number) {
		/* One that is smaller is of before: its answer was overtaken. */
		if (results->delegation < known->number)
			return false;
		known_forget_all(known);
		known->number = results->delegation;
		known->renewed_at = mark->at;
		return false;
	}
	if (mark->at > known->renewed_at)
		known->renewed_at = mark->at;
	return true;
}

void known_looked(struct afar_fs *fs, const struct known_mark *mark, const struct fs_who *who,
		  Afar__FileLook *const *operations, const Afar__FileResults *results)
{
	struct fs_known *known = &fs->known;

	pthread_mutex_lock(&known->lock);
	if (who)
		add_who(known, who);
	if (renew(known, mark, results))
		for (size_t i = 0; i < results->n_results; i++)
			take_look(known, mark, operations[i], results->results[i]);
	if (known->number != 0 && (results->is_delegation_full || known->nr > KNOWN_MAX)) {
		known->dropped = known->refused = known->number;
		known_forget_all(known);
	}
	pthread_mutex_unlock(&known->lock);
}

/* ---- Dropping */

void known_revoke(struct afar_session *session, const Afar__FileRevoke *ask, struct rpc_call *call)
{
	struct afar_drop *drop = NULL;
	struct afar_fs *fs;
	int ret = 0;

	pthread_mutex_lock(&session->lock);
	cds_list_for_each_entry (fs, &session->file_systems, node) {
		struct fs_known *known = &fs->known;

		if (fs->ns->number != ask->fs)
			continue;
		pthread_mutex_lock(&known->lock);
		known->revoked[ask->ino % KNOWN_EVENTS] = ++known->nr_events;
		known_forget(known, known_find(known, ask->ino));
		pthread_mutex_unlock(&known->lock);
		drop = drop_new(&fs->drops, ask->ino, call);
		/* The manager waits, and asks again. */
		if (!drop && fs->drops.tell)
			ret = error_code(-ENOMEM);
		break;
	}
	pthread_mutex_unlock(&session->lock);
	if (drop)
		drop_tell(drop);
	else
		rpc_reply_status(call, 0, ret);
}
