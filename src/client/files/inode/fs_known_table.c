/* SPDX-License-Identifier: BSD-3-Clause */
/* See fs_known_table.h. */
#include "client/files/inode/fs_known_table.h"

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

struct known_inode *known_find(const struct fs_known *known, uint64_t ino)
{
	struct known_inode *inode;

	if (!known->inodes)
		return NULL;
	cds_list_for_each_entry (inode, &known->inodes[hash_of(ino, NULL) % BUCKETS], node)
		if (inode->ino == ino)
			return inode;
	return NULL;
}

struct known_name *known_find_name(const struct fs_known *known, uint64_t dir, const char *name)
{
	struct known_name *found;

	if (!known->names)
		return NULL;
	cds_list_for_each_entry (found, &known->names[hash_of(dir, name) % BUCKETS], node)
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

struct known_inode *known_get(struct fs_known *known, uint64_t ino)
{
	struct known_inode *inode = known_find(known, ino);

	if (inode)
		return inode;
	if (!known->inodes)
		known->inodes = new_buckets();
	inode = known->inodes ? calloc(1, sizeof(*inode)) : NULL;
	if (!inode)
		return NULL;
	inode->ino = ino;
	CDS_INIT_LIST_HEAD(&inode->names);
	cds_list_add(&inode->node, &known->inodes[hash_of(ino, NULL) % BUCKETS]);
	known->nr++;
	return inode;
}

static void forget_name(struct fs_known *known, struct known_name *name)
{
	if (!name)
		return;
	cds_list_del(&name->node);
	cds_list_del(&name->sibling);
	free(name);
	known->nr--;
}

void known_forget(struct fs_known *known, struct known_inode *inode)
{
	struct known_name *name, *next;

	if (!inode)
		return;
	cds_list_for_each_entry_safe (name, next, &inode->names, sibling)
		forget_name(known, name);
	inode->is_known = inode->is_whole = false;
	if (inode->nr_changing != 0)
		return;
	cds_list_del(&inode->node);
	free(inode);
	known->nr--;
}

bool known_is_void(const struct fs_known *known, const struct known_mark *mark)
{
	return known->reset_at > mark->nr_events;
}

bool known_is_revoked(const struct fs_known *known, const struct known_mark *mark, uint64_t ino)
{
	return known_is_void(known, mark) || known->revoked[ino % KNOWN_EVENTS] > mark->nr_events;
}

bool known_is_old(const struct fs_known *known, const struct known_mark *mark, uint64_t ino)
{
	return known_is_revoked(known, mark, ino) ||
	       known->changed[ino % KNOWN_EVENTS] > mark->nr_events;
}

void known_forget_all(struct fs_known *known)
{
	struct known_inode *inode, *next;

	known->number = 0;
	known->reset_at = ++known->nr_events;
	for (size_t i = 0; known->inodes && i < BUCKETS; i++)
		cds_list_for_each_entry_safe (inode, next, &known->inodes[i], node)
			known_forget(known, inode);
}

void known_init(struct fs_known *known)
{
	pthread_mutex_init(&known->lock, NULL);
}

void known_free(struct fs_known *known)
{
	struct known_inode *inode, *next;

	known_forget_all(known);
	for (size_t i = 0; known->inodes && i < BUCKETS; i++)
		cds_list_for_each_entry_safe (inode, next, &known->inodes[i], node)
			free(inode);
	free(known->inodes);
	free(known->names);
	free(known->whos);
	pthread_mutex_destroy(&known->lock);
}

void known_reset(struct fs_known *known)
{
	pthread_mutex_lock(&known->lock);
	known_forget_all(known);
	pthread_mutex_unlock(&known->lock);
}

/* ---- Taking what was told */

bool known_is_plain(const char *name)
{
	return name[0] && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static void set_attributes(struct fs_known *known, struct known_inode *inode,
			   const Afar__FileAttributes *attributes)
{
	/* Larger numbers are newer, also if their answers come earlier. */
	if (inode->is_known && inode->stat.change > attributes->change)
		return;
	if (!inode->is_known)
		inode->since = ++known->nr_learned;
	inode->stat.size = sizeof(inode->stat);
	fs_give_attributes(attributes, &inode->stat);
	inode->has_no_xattrs = attributes->has_no_xattrs;
	inode->is_known = true;
}

void known_put_delegated(struct fs_known *known, const Afar__FileAttributes *attributes)
{
	struct known_inode *inode = known_get(known, attributes->ino);

	if (inode)
		set_attributes(known, inode, attributes);
}

void known_put_changed(struct fs_known *known, const Afar__FileAttributes *attributes)
{
	struct known_inode *inode = attributes ? known_find(known, attributes->ino) : NULL;

	if (!inode || !inode->is_known)
		return;
	if (attributes->nlink == 0 || fs_check_attributes(attributes))
		known_forget(known, inode);
	else
		set_attributes(known, inode, attributes);
}

/* False: no memory. */
static bool set_name(struct fs_known *known, struct known_inode *directory, const char *text,
		     uint64_t ino)
{
	struct known_name *name = known_find_name(known, directory->ino, text);
	size_t length = strlen(text);

	if (name) {
		name->ino = ino;
		return true;
	}
	if (!known->names)
		known->names = new_buckets();
	name = known->names ? malloc(sizeof(*name) + length + 1) : NULL;
	if (!name)
		return false;
	name->dir = directory->ino;
	name->ino = ino;
	memcpy(name->name, text, length + 1);
	cds_list_add(&name->node, &known->names[hash_of(name->dir, text) % BUCKETS]);
	cds_list_add(&name->sibling, &directory->names);
	known->nr++;
	return true;
}

void known_doubt_name(struct fs_known *known, uint64_t dir, const char *text)
{
	struct known_inode *directory = known_find(known, dir);

	if (directory && directory->is_whole)
		directory->is_whole = set_name(known, directory, text, UNKNOWN);
	else
		forget_name(known, known_find_name(known, dir, text));
}

bool known_put_name(struct fs_known *known, uint64_t dir, const char *text, uint64_t ino,
		    uint64_t change)
{
	struct known_inode *directory = known_find(known, dir);

	if (!directory || !directory->is_known)
		return false;
	/* Another change of ours came later, perhaps of this name. */
	if (directory->stat.change > change) {
		known_doubt_name(known, dir, text);
		return false;
	}
	if (set_name(known, directory, text, ino))
		return true;
	directory->is_whole = false;
	return false;
}
