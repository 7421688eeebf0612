/* SPDX-License-Identifier: BSD-3-Clause */
/* See attr_cache_table.h. */
#include "client/files/inode/attr_cache_table.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS 16384U /* of inodes, and of names */

static uint64_t hash_of(uint64_t ino, const char *name)
{
	uint64_t hash = ino * UINT64_C(0x9e3779b97f4a7c15);

	for (; name && *name; name++)
		hash = (hash ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
	return hash ^ hash >> 32;
}

/* ---- The tables */

struct attr_cache_inode *attr_cache_find(const struct attr_cache *cache, uint64_t ino)
{
	struct attr_cache_inode *inode;

	if (!cache->inodes)
		return NULL;
	cds_list_for_each_entry (inode, &cache->inodes[hash_of(ino, NULL) % BUCKETS], node)
		if (inode->ino == ino)
			return inode;
	return NULL;
}

struct attr_cache_name *attr_cache_find_name(const struct attr_cache *cache, uint64_t dir,
					     const char *name)
{
	struct attr_cache_name *found;

	if (!cache->names)
		return NULL;
	cds_list_for_each_entry (found, &cache->names[hash_of(dir, name) % BUCKETS], node)
		if (found->dir == dir && strcmp(found->name, name) == 0)
			return found;
	return NULL;
}

static struct cds_list_head *new_buckets(void)
{
	struct cds_list_head *buckets = malloc(BUCKETS * sizeof(*buckets));

	for (size_t i = 0; buckets && i < BUCKETS; i++)
		CDS_INIT_LIST_HEAD(&buckets[i]);
	return buckets;
}

struct attr_cache_inode *attr_cache_get(struct attr_cache *cache, uint64_t ino)
{
	struct attr_cache_inode *inode = attr_cache_find(cache, ino);

	if (inode)
		return inode;
	if (!cache->inodes)
		cache->inodes = new_buckets();
	inode = cache->inodes ? calloc(1, sizeof(*inode)) : NULL;
	if (!inode)
		return NULL;
	inode->ino = ino;
	CDS_INIT_LIST_HEAD(&inode->names);
	cds_list_add(&inode->node, &cache->inodes[hash_of(ino, NULL) % BUCKETS]);
	cache->nr++;
	return inode;
}

static void forget_name(struct attr_cache *cache, struct attr_cache_name *name)
{
	if (!name)
		return;
	cds_list_del(&name->node);
	cds_list_del(&name->sibling);
	free(name);
	cache->nr--;
}

void attr_cache_forget(struct attr_cache *cache, struct attr_cache_inode *inode)
{
	struct attr_cache_name *name, *next;

	if (!inode)
		return;
	cds_list_for_each_entry_safe (name, next, &inode->names, sibling)
		forget_name(cache, name);
	inode->is_known = inode->is_whole = false;
	if (inode->nr_changing != 0)
		return;
	cds_list_del(&inode->node);
	free(inode);
	cache->nr--;
}

bool attr_cache_is_void(const struct attr_cache *cache, const struct attr_cache_mark *mark)
{
	return cache->reset_at > mark->nr_events;
}

bool attr_cache_is_revoked(const struct attr_cache *cache, const struct attr_cache_mark *mark,
			   uint64_t ino)
{
	return attr_cache_is_void(cache, mark) ||
	       cache->revoked[ino % ATTR_CACHE_EVENTS] > mark->nr_events;
}

bool attr_cache_is_old(const struct attr_cache *cache, const struct attr_cache_mark *mark,
		       uint64_t ino)
{
	return attr_cache_is_revoked(cache, mark, ino) ||
	       cache->changed[ino % ATTR_CACHE_EVENTS] > mark->nr_events;
}

void attr_cache_forget_all(struct attr_cache *cache)
{
	struct attr_cache_inode *inode, *next;

	cache->number = 0;
	cache->reset_at = ++cache->nr_events;
	for (size_t i = 0; cache->inodes && i < BUCKETS; i++)
		cds_list_for_each_entry_safe (inode, next, &cache->inodes[i], node)
			attr_cache_forget(cache, inode);
}

void attr_cache_init(struct attr_cache *cache)
{
	pthread_mutex_init(&cache->lock, NULL);
}

void attr_cache_free(struct attr_cache *cache)
{
	struct attr_cache_inode *inode, *next;

	attr_cache_forget_all(cache);
	for (size_t i = 0; cache->inodes && i < BUCKETS; i++)
		cds_list_for_each_entry_safe (inode, next, &cache->inodes[i], node)
			free(inode);
	free(cache->inodes);
	free(cache->names);
	free(cache->whos);
	pthread_mutex_destroy(&cache->lock);
}

void attr_cache_reset(struct attr_cache *cache)
{
	pthread_mutex_lock(&cache->lock);
	attr_cache_forget_all(cache);
	pthread_mutex_unlock(&cache->lock);
}

/* ---- Taking what was told */

bool attr_cache_is_ordinary(const char *name)
{
	return name[0] && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static void set_attributes(struct attr_cache *cache, struct attr_cache_inode *inode,
			   const Afar__FileAttributes *attributes)
{
	/* Larger numbers are newer, also if their answers come earlier. */
	if (inode->is_known && inode->stat.change > attributes->change)
		return;
	if (!inode->is_known)
		inode->since = ++cache->nr_learned;
	inode->stat.size = sizeof(inode->stat);
	fs_give_attributes(attributes, &inode->stat);
	inode->has_no_xattrs = attributes->has_no_xattrs;
	inode->layout = attributes->layout;
	inode->is_known = true;
}

void attr_cache_put_delegated(struct attr_cache *cache, const Afar__FileAttributes *attributes)
{
	struct attr_cache_inode *inode = attr_cache_get(cache, attributes->ino);

	if (inode)
		set_attributes(cache, inode, attributes);
}

void attr_cache_put_changed(struct attr_cache *cache, const Afar__FileAttributes *attributes)
{
	struct attr_cache_inode *inode =
		attributes ? attr_cache_find(cache, attributes->ino) : NULL;

	if (!inode || !inode->is_known)
		return;
	if (attributes->nlink == 0 || fs_check_attributes(attributes))
		attr_cache_forget(cache, inode);
	else
		set_attributes(cache, inode, attributes);
}

/* False: no memory. */
static bool set_name(struct attr_cache *cache, struct attr_cache_inode *directory, const char *text,
		     uint64_t ino)
{
	struct attr_cache_name *name = attr_cache_find_name(cache, directory->ino, text);
	size_t length = strlen(text);

	if (name) {
		name->ino = ino;
		return true;
	}
	if (!cache->names)
		cache->names = new_buckets();
	name = cache->names ? malloc(sizeof(*name) + length + 1) : NULL;
	if (!name)
		return false;
	name->dir = directory->ino;
	name->ino = ino;
	memcpy(name->name, text, length + 1);
	cds_list_add(&name->node, &cache->names[hash_of(name->dir, text) % BUCKETS]);
	cds_list_add(&name->sibling, &directory->names);
	cache->nr++;
	return true;
}

void attr_cache_doubt_name(struct attr_cache *cache, uint64_t dir, const char *text)
{
	struct attr_cache_inode *directory = attr_cache_find(cache, dir);

	if (directory && directory->is_whole)
		directory->is_whole = set_name(cache, directory, text, UNKNOWN);
	else
		forget_name(cache, attr_cache_find_name(cache, dir, text));
}

bool attr_cache_put_name(struct attr_cache *cache, uint64_t dir, const char *text, uint64_t ino,
			 uint64_t change)
{
	struct attr_cache_inode *directory = attr_cache_find(cache, dir);

	if (!directory || !directory->is_known)
		return false;
	/* Another change of ours came later, perhaps of this name. */
	if (directory->stat.change > change) {
		attr_cache_doubt_name(cache, dir, text);
		return false;
	}
	if (set_name(cache, directory, text, ino))
		return true;
	directory->is_whole = false;
	return false;
}
