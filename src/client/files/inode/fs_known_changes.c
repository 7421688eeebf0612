/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps what is delegated up to date with changes of our own. See fs_known.h. */
#include <string.h>
#include <sys/stat.h>

#include "client/files/inode/fs_known_table.h"

static void begin_inode(struct fs_known *known, uint64_t ino, bool is_sure)
{
	struct known_inode *inode = known_get(known, ino);

	if (inode)
		inode->nr_changing++;
	else
		known_forget_all(known);
	(void)is_sure;
}

static void end_inode(struct fs_known *known, uint64_t ino, bool is_sure)
{
	struct known_inode *inode = known_find(known, ino);

	known->changed[ino % KNOWN_EVENTS] = ++known->nr_events;
	/* There was no memory to note that it was being changed. */
	if (!inode || inode->nr_changing == 0)
		return;
	inode->nr_changing--;
	if (!is_sure || !inode->is_known)
		known_forget(known, inode);
}

typedef void visit_inode(struct fs_known *known, uint64_t ino, bool is_sure);

/* Visits the inodes that a change is of, as far as its caller can name them. */
static void visit(struct fs_known *known, const Afar__FileChange *ask, bool is_sure,
		  visit_inode *visit_one)
{
	switch (ask->what_case) {
	case AFAR__FILE_CHANGE__WHAT_MAKE:
		visit_one(known, ask->make->dir, is_sure);
		break;
	case AFAR__FILE_CHANGE__WHAT_REMOVE:
		visit_one(known, ask->remove->dir, is_sure);
		break;
	case AFAR__FILE_CHANGE__WHAT_RENAME:
		visit_one(known, ask->rename->dir, is_sure);
		visit_one(known, ask->rename->new_dir, is_sure);
		break;
	case AFAR__FILE_CHANGE__WHAT_LINK:
		visit_one(known, ask->link->dir, is_sure);
		visit_one(known, ask->link->ino, is_sure);
		break;
	case AFAR__FILE_CHANGE__WHAT_SET:
		visit_one(known, ask->set->ino, is_sure);
		break;
	case AFAR__FILE_CHANGE__WHAT_EXTEND:
		visit_one(known, ask->extend->ino, is_sure);
		break;
	case AFAR__FILE_CHANGE__WHAT_PUNCH:
		visit_one(known, ask->punch->ino, is_sure);
		break;
	case AFAR__FILE_CHANGE__WHAT_SYNC:
		visit_one(known, ask->sync->ino, is_sure);
		break;
	case AFAR__FILE_CHANGE__WHAT_SET_XATTR:
		visit_one(known, ask->set_xattr->ino, is_sure);
		break;
	case AFAR__FILE_CHANGE__WHAT_REMOVE_XATTR:
		visit_one(known, ask->remove_xattr->ino, is_sure);
		break;
	default:
		break;
	}
}

/* The names that it is of have to be asked for until it has ended. */
static void doubt_names(struct fs_known *known, const Afar__FileChange *ask)
{
	switch (ask->what_case) {
	case AFAR__FILE_CHANGE__WHAT_MAKE:
		if (!ask->make->is_nameless)
			known_doubt_name(known, ask->make->dir, ask->make->name);
		break;
	case AFAR__FILE_CHANGE__WHAT_REMOVE:
		known_doubt_name(known, ask->remove->dir, ask->remove->name);
		break;
	case AFAR__FILE_CHANGE__WHAT_RENAME:
		known_doubt_name(known, ask->rename->dir, ask->rename->name);
		known_doubt_name(known, ask->rename->new_dir, ask->rename->new_name);
		break;
	case AFAR__FILE_CHANGE__WHAT_LINK:
		known_doubt_name(known, ask->link->dir, ask->link->name);
		break;
	default:
		break;
	}
}

/* The caller knows the name of what goes, and not which inode that is. */
static bool is_blind(const Afar__FileChange *ask)
{
	return ask->what_case == AFAR__FILE_CHANGE__WHAT_REMOVE ||
	       ask->what_case == AFAR__FILE_CHANGE__WHAT_RENAME;
}

void known_begin_change(struct afar_fs *fs, Afar__FileChange *const *operations, unsigned nr)
{
	struct fs_known *known = &fs->known;

	pthread_mutex_lock(&known->lock);
	for (unsigned i = 0; i < nr; i++) {
		visit(known, operations[i], true, begin_inode);
		doubt_names(known, operations[i]);
		known->nr_blind += is_blind(operations[i]);
	}
	pthread_mutex_unlock(&known->lock);
}

static const Afar__FileAttributes *find_changed(const Afar__FileResult *result, uint64_t ino)
{
	for (size_t i = 0; i < result->n_changed; i++)
		if (result->changed[i]->ino == ino)
			return result->changed[i];
	return NULL;
}

/* Takes whether the name is there that a change was of. `ino`: 0: it is gone. */
static void put_changed_name(struct fs_known *known, const Afar__FileResult *result, uint64_t dir,
			     const char *name, uint64_t ino)
{
	const Afar__FileAttributes *directory = find_changed(result, dir);

	if (directory)
		known_put_name(known, dir, name, ino, directory->change);
}

/* Takes what was just made. A directory is empty, and who changes that is we, or has this dropped before. */
static void put_made(struct fs_known *known, const Afar__FileAttributes *attributes)
{
	struct known_inode *inode;

	/* In case a change of it is under way already. */
	bool is_new = !known_find(known, attributes->ino);

	known_put_delegated(known, attributes);
	inode = known_find(known, attributes->ino);
	if (inode && is_new)
		inode->is_whole = S_ISDIR(attributes->mode);
}

static void take_change(struct fs_known *known, const struct known_mark *mark,
			const Afar__FileChange *ask, const Afar__FileResult *result)
{
	const Afar__FileAttributes *attributes = result->attributes;
	uint64_t ino = attributes ? attributes->ino : 0;

	if (result->is_more_changed) {
		known_forget_all(known);
		return;
	}
	if (result->is_delegated && attributes && fs_check_attributes(attributes) == 0 &&
	    !known_is_old(known, mark, ino))
		put_made(known, attributes);
	known_put_changed(known, attributes);
	for (size_t i = 0; i < result->n_changed; i++)
		known_put_changed(known, result->changed[i]);
	if (ask->what_case == AFAR__FILE_CHANGE__WHAT_MAKE && ino != 0)
		put_changed_name(known, result, ask->make->dir, ask->make->name, ino);
	else if (ask->what_case == AFAR__FILE_CHANGE__WHAT_REMOVE)
		put_changed_name(known, result, ask->remove->dir, ask->remove->name, 0);
	else if (ask->what_case == AFAR__FILE_CHANGE__WHAT_LINK && ino != 0)
		put_changed_name(known, result, ask->link->dir, ask->link->name, ino);
}

void known_end_change(struct afar_fs *fs, const struct known_mark *mark,
		      Afar__FileChange *const *operations, unsigned nr,
		      const Afar__FileResults *results)
{
	struct fs_known *known = &fs->known;

	pthread_mutex_lock(&known->lock);
	for (unsigned i = 0; i < nr; i++) {
		if (results && results->results[i]->status == 0 && !known_is_void(known, mark))
			take_change(known, mark, operations[i], results->results[i]);
		visit(known, operations[i], results, end_inode);
		known->nr_blind -= is_blind(operations[i]);
		/* One of these may have been removed. */
		if (!results && is_blind(operations[i]))
			known_forget_all(known);
	}
	pthread_mutex_unlock(&known->lock);
}

void known_begin_hold(struct afar_fs *fs, Afar__FileHold *const *operations, unsigned nr)
{
	struct fs_known *known = &fs->known;

	pthread_mutex_lock(&known->lock);
	for (unsigned i = 0; i < nr; i++)
		if (operations[i]->what_case == AFAR__FILE_HOLD__WHAT_END)
			begin_inode(known, operations[i]->end->ino, true);
	pthread_mutex_unlock(&known->lock);
}

void known_end_hold(struct afar_fs *fs, const struct known_mark *mark,
		    Afar__FileHold *const *operations, unsigned nr,
		    const Afar__FileResults *results)
{
	struct fs_known *known = &fs->known;

	pthread_mutex_lock(&known->lock);
	for (unsigned i = 0; i < nr; i++) {
		if (operations[i]->what_case != AFAR__FILE_HOLD__WHAT_END)
			continue;
		if (results && results->results[i]->status == 0 && !known_is_void(known, mark))
			known_put_changed(known, results->results[i]->attributes);
		end_inode(known, operations[i]->end->ino, results);
	}
	pthread_mutex_unlock(&known->lock);
}
