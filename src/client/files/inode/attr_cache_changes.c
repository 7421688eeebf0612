/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps what is delegated up to date with changes of our own. See attr_cache.h. */
#include <string.h>
#include <sys/stat.h>

#include "client/files/inode/attr_cache_table.h"

static void begin_inode(struct attr_cache *cache, uint64_t ino, bool is_sure)
{
	struct attr_cache_inode *inode = attr_cache_get(cache, ino);

	if (inode)
		inode->nr_changing++;
	else
		attr_cache_forget_all(cache);
	(void)is_sure;
}

static void end_inode(struct attr_cache *cache, uint64_t ino, bool is_sure)
{
	struct attr_cache_inode *inode = attr_cache_find(cache, ino);

	cache->changed[ino % ATTR_CACHE_EVENTS] = ++cache->nr_events;
	/* There was no memory to note that it was being changed. */
	if (!inode || inode->nr_changing == 0)
		return;
	inode->nr_changing--;
	if (!is_sure || !inode->is_known)
		attr_cache_forget(cache, inode);
}

typedef void visit_inode(struct attr_cache *cache, uint64_t ino, bool is_sure);

/* Visits the inodes that a change is of, as far as its caller can name them. */
static void visit(struct attr_cache *cache, const Afar__FileChange *ask, bool is_sure,
		  visit_inode *visit_one)
{
	switch (ask->what_case) {
	case AFAR__FILE_CHANGE__WHAT_MAKE:
		visit_one(cache, ask->make->dir, is_sure);
		break;
	case AFAR__FILE_CHANGE__WHAT_REMOVE:
		visit_one(cache, ask->remove->dir, is_sure);
		break;
	case AFAR__FILE_CHANGE__WHAT_RENAME:
		visit_one(cache, ask->rename->dir, is_sure);
		visit_one(cache, ask->rename->new_dir, is_sure);
		break;
	case AFAR__FILE_CHANGE__WHAT_LINK:
		visit_one(cache, ask->link->dir, is_sure);
		visit_one(cache, ask->link->ino, is_sure);
		break;
	case AFAR__FILE_CHANGE__WHAT_SET:
		visit_one(cache, ask->set->ino, is_sure);
		break;
	case AFAR__FILE_CHANGE__WHAT_EXTEND:
		visit_one(cache, ask->extend->ino, is_sure);
		break;
	case AFAR__FILE_CHANGE__WHAT_PUNCH:
		visit_one(cache, ask->punch->ino, is_sure);
		break;
	case AFAR__FILE_CHANGE__WHAT_SYNC:
		visit_one(cache, ask->sync->ino, is_sure);
		break;
	case AFAR__FILE_CHANGE__WHAT_SET_XATTR:
		visit_one(cache, ask->set_xattr->ino, is_sure);
		break;
	case AFAR__FILE_CHANGE__WHAT_REMOVE_XATTR:
		visit_one(cache, ask->remove_xattr->ino, is_sure);
		break;
	default:
		break;
	}
}

/* The names that it is of have to be asked for until it has ended. */
static void doubt_names(struct attr_cache *cache, const Afar__FileChange *ask)
{
	switch (ask->what_case) {
	case AFAR__FILE_CHANGE__WHAT_MAKE:
		if (!ask->make->is_nameless)
			attr_cache_doubt_name(cache, ask->make->dir, ask->make->name);
		break;
	case AFAR__FILE_CHANGE__WHAT_REMOVE:
		attr_cache_doubt_name(cache, ask->remove->dir, ask->remove->name);
		break;
	case AFAR__FILE_CHANGE__WHAT_RENAME:
		attr_cache_doubt_name(cache, ask->rename->dir, ask->rename->name);
		attr_cache_doubt_name(cache, ask->rename->new_dir, ask->rename->new_name);
		break;
	case AFAR__FILE_CHANGE__WHAT_LINK:
		attr_cache_doubt_name(cache, ask->link->dir, ask->link->name);
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

void attr_cache_begin_change(struct afar_fs *fs, Afar__FileChange *const *operations, unsigned nr)
{
	struct attr_cache *cache = &fs->attr_cache;

	pthread_mutex_lock(&cache->lock);
	for (unsigned i = 0; i < nr; i++) {
		visit(cache, operations[i], true, begin_inode);
		doubt_names(cache, operations[i]);
		cache->nr_blind += is_blind(operations[i]);
	}
	pthread_mutex_unlock(&cache->lock);
}

static const Afar__FileAttributes *find_changed(const Afar__FileResult *result, uint64_t ino)
{
	for (size_t i = 0; i < result->n_changed; i++)
		if (result->changed[i]->ino == ino)
			return result->changed[i];
	return NULL;
}

/* Takes whether the name is there that a change was of. `ino`: 0: it is gone. */
static void put_changed_name(struct attr_cache *cache, const Afar__FileResult *result, uint64_t dir,
			     const char *name, uint64_t ino)
{
	const Afar__FileAttributes *directory = find_changed(result, dir);

	if (directory)
		attr_cache_put_name(cache, dir, name, ino, directory->change);
}

/* Takes what was just made. A directory is empty, and who changes that is we, or has this dropped before. */
static void put_made(struct attr_cache *cache, const Afar__FileAttributes *attributes)
{
	struct attr_cache_inode *inode;

	/* In case a change of it is under way already. */
	bool is_new = !attr_cache_find(cache, attributes->ino);

	attr_cache_put_delegated(cache, attributes);
	inode = attr_cache_find(cache, attributes->ino);
	if (inode && is_new)
		inode->is_whole = S_ISDIR(attributes->mode);
}

static void take_change(struct attr_cache *cache, const struct attr_cache_mark *mark,
			const Afar__FileChange *ask, const Afar__FileResult *result)
{
	const Afar__FileAttributes *attributes = result->attributes;
	uint64_t ino = attributes ? attributes->ino : 0;

	if (result->is_more_changed) {
		attr_cache_forget_all(cache);
		return;
	}
	if (result->is_delegated && attributes && fs_check_attributes(attributes) == 0 &&
	    !attr_cache_is_old(cache, mark, ino))
		put_made(cache, attributes);
	attr_cache_put_changed(cache, attributes);
	for (size_t i = 0; i < result->n_changed; i++) {
		/* Its caller may not have named it. An answer from before may come yet. */
		cache->changed[result->changed[i]->ino % ATTR_CACHE_EVENTS] = ++cache->nr_events;
		attr_cache_put_changed(cache, result->changed[i]);
	}
	if (ask->what_case == AFAR__FILE_CHANGE__WHAT_MAKE && ino != 0)
		put_changed_name(cache, result, ask->make->dir, ask->make->name, ino);
	else if (ask->what_case == AFAR__FILE_CHANGE__WHAT_REMOVE)
		put_changed_name(cache, result, ask->remove->dir, ask->remove->name, 0);
	else if (ask->what_case == AFAR__FILE_CHANGE__WHAT_LINK && ino != 0)
		put_changed_name(cache, result, ask->link->dir, ask->link->name, ino);
}

void attr_cache_end_change(struct afar_fs *fs, const struct attr_cache_mark *mark,
			   Afar__FileChange *const *operations, unsigned nr,
			   const Afar__FileResults *results)
{
	struct attr_cache *cache = &fs->attr_cache;

	pthread_mutex_lock(&cache->lock);
	for (unsigned i = 0; i < nr; i++) {
		if (results && results->results[i]->status == 0 && !attr_cache_is_void(cache, mark))
			take_change(cache, mark, operations[i], results->results[i]);
		visit(cache, operations[i], results, end_inode);
		cache->nr_blind -= is_blind(operations[i]);
		/* One of these may have been removed. */
		if (!results && is_blind(operations[i]))
			attr_cache_forget_all(cache);
	}
	pthread_mutex_unlock(&cache->lock);
}

void attr_cache_begin_hold(struct afar_fs *fs, Afar__FileHold *const *operations, unsigned nr)
{
	struct attr_cache *cache = &fs->attr_cache;

	pthread_mutex_lock(&cache->lock);
	for (unsigned i = 0; i < nr; i++)
		if (operations[i]->what_case == AFAR__FILE_HOLD__WHAT_END)
			begin_inode(cache, operations[i]->end->ino, true);
	pthread_mutex_unlock(&cache->lock);
}

void attr_cache_end_hold(struct afar_fs *fs, const struct attr_cache_mark *mark,
			 Afar__FileHold *const *operations, unsigned nr,
			 const Afar__FileResults *results)
{
	struct attr_cache *cache = &fs->attr_cache;

	pthread_mutex_lock(&cache->lock);
	for (unsigned i = 0; i < nr; i++) {
		if (operations[i]->what_case != AFAR__FILE_HOLD__WHAT_END)
			continue;
		if (results && results->results[i]->status == 0 && !attr_cache_is_void(cache, mark))
			attr_cache_put_changed(cache, results->results[i]->attributes);
		end_inode(cache, operations[i]->end->ino, results);
	}
	pthread_mutex_unlock(&cache->lock);
}
