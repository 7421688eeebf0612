/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which inodes have writes that no sync covers, and which may have lost some. A program writes, and another
 * one syncs, as databases do; or the writer closes its file, and somebody opens it again to sync. So this is
 * kept by inode, and outlives its open files.
 *
 *   unsynced → syncing → settled, if nothing was lost, or somebody was told of it
 *
 * A sync is of the whole pool. It says that something was lost, and not what: so all that were unsynced may
 * have lost something. All of this is guarded by the fs's lock.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "client/files/fs.h"

#define CLOSED_MAX 65536U /* records of inodes that are not open, of each kind */

enum writes_state { SETTLED, UNSYNCED, SYNCING };

struct file_writes {
	struct cds_list_head node; /* of its bucket */
	struct cds_list_head turn; /* in the list of its state; settled, and told of: in none */
	enum writes_state state;
	struct file_inode *inode; /* NULL: it is not open */
	uint64_t ino;
	uint64_t nr_losses; /* that may have been of this inode */
	uint64_t nr_told;   /* of these, by a sync */
};

void writes_init(struct fs_writes *all)
{
	CDS_INIT_LIST_HEAD(&all->unsynced);
	CDS_INIT_LIST_HEAD(&all->syncing);
	CDS_INIT_LIST_HEAD(&all->settled);
	for (unsigned i = 0; i < FS_BUCKETS; i++)
		CDS_INIT_LIST_HEAD(&all->buckets[i]);
}

/* ---- Records */

static bool is_needed(const struct file_writes *writes)
{
	return writes->inode || writes->state != SETTLED || writes->nr_told < writes->nr_losses;
}

static void forget(struct fs_writes *all, struct file_writes *writes)
{
	all->nr_closed -= !writes->inode;
	cds_list_del(&writes->node);
	cds_list_del(&writes->turn);
	free(writes);
}

static void move(struct fs_writes *all, struct file_writes *writes, enum writes_state state)
{
	struct cds_list_head *lists[] = {&all->settled, &all->unsynced, &all->syncing};

	writes->state = state;
	cds_list_del(&writes->turn);
	cds_list_add_tail(&writes->turn, lists[state]);
}

void writes_free(struct fs_writes *all)
{
	struct file_writes *writes, *next;

	for (unsigned i = 0; i < FS_BUCKETS; i++)
		cds_list_for_each_entry_safe (writes, next, &all->buckets[i], node)
			forget(all, writes);
}

void writes_attach(struct file_inode *inode)
{
	struct fs_writes *all = &inode->fs->writes;
	struct file_writes *writes;

	cds_list_for_each_entry (writes, &all->buckets[inode->ino % FS_BUCKETS], node) {
		if (writes->ino != inode->ino)
			continue;
		writes->inode = inode;
		inode->writes = writes;
		all->nr_closed--;
		return;
	}
}

void writes_detach(struct file_inode *inode)
{
	struct fs_writes *all = &inode->fs->writes;
	struct file_writes *writes = inode->writes;

	if (!writes)
		return;
	writes->inode = NULL;
	inode->writes = NULL;
	all->nr_closed++;
	if (!is_needed(writes))
		forget(all, writes);
}

/* ---- Writing */

/* Returns the inode's record, made if need be; NULL: no memory. */
static struct file_writes *get(struct file_inode *inode)
{
	struct fs_writes *all = &inode->fs->writes;
	struct file_writes *writes = inode->writes;

	if (writes)
		return writes;
	writes = calloc(1, sizeof(*writes));
	if (!writes)
		return NULL;
	writes->inode = inode;
	writes->ino = inode->ino;
	cds_list_add(&writes->node, &all->buckets[inode->ino % FS_BUCKETS]);
	cds_list_add_tail(&writes->turn, &all->settled);
	inode->writes = writes;
	return writes;
}

int inode_note_write(struct file_inode *inode)
{
	struct afar_fs *fs = inode->fs;
	struct file_writes *writes;

	if (atomic_load_explicit(&inode->is_unsynced, memory_order_relaxed))
		return 0;
	pthread_mutex_lock(&fs->lock);
	/* In memory nothing is synced. */
	writes = fs_pool(fs)->is_flash ? get(inode) : NULL;
	if (writes)
		move(&fs->writes, writes, UNSYNCED);
	if (writes || !fs_pool(fs)->is_flash)
		atomic_store(&inode->is_unsynced, true);
	pthread_mutex_unlock(&fs->lock);
	return writes || !fs_pool(fs)->is_flash ? 0 : error_code(-ENOMEM);
}

/* ---- Syncs */

void writes_begin_sync(struct fs_writes *all)
{
	struct file_writes *writes, *next;

	cds_list_for_each_entry_safe (writes, next, &all->unsynced, turn) {
		/* A thread that writes from now on notes it again. */
		if (writes->inode)
			atomic_store(&writes->inode->is_unsynced, false);
		move(all, writes, SYNCING);
	}
}

/* Forgets the oldest losses of inodes that nobody opens any more. */
static void limit_settled(struct fs_writes *all)
{
	struct file_writes *writes, *next;

	cds_list_for_each_entry_safe (writes, next, &all->settled, turn) {
		if (all->nr_closed <= CLOSED_MAX)
			break;
		if (!writes->inode)
			forget(all, writes);
	}
}

void writes_end_sync(struct fs_writes *all, bool is_done, bool has_lost)
{
	struct file_writes *writes, *next;

	/* Writes beside the sync may have been lost before they were noted. */
	cds_list_for_each_entry (writes, &all->unsynced, turn)
		writes->nr_losses += has_lost;
	cds_list_for_each_entry_safe (writes, next, &all->syncing, turn) {
		writes->nr_losses += has_lost;
		move(all, writes, is_done ? SETTLED : UNSYNCED);
		if (!is_needed(writes))
			forget(all, writes);
	}
	limit_settled(all);
}

bool fs_has_many_unsynced(struct afar_fs *fs)
{
	bool has_many;

	pthread_mutex_lock(&fs->lock);
	has_many = fs->writes.nr_closed > CLOSED_MAX;
	pthread_mutex_unlock(&fs->lock);
	return has_many;
}

/* ---- Telling of losses */

void file_begin_losses(struct afar_file *file)
{
	struct afar_fs *fs = file->fs;

	pthread_mutex_lock(&fs->lock);
	if (file->inode->writes) {
		file->losses_synced = file->inode->writes->nr_told;
		file->losses_flushed = file->inode->writes->nr_losses;
	}
	pthread_mutex_unlock(&fs->lock);
}

bool file_take_loss(struct afar_file *file, bool is_sync)
{
	struct afar_fs *fs = file->fs;
	struct file_writes *writes;
	bool is_lost = false;

	pthread_mutex_lock(&fs->lock);
	writes = file->inode->writes;
	if (writes) {
		is_lost =
			writes->nr_losses > (is_sync ? file->losses_synced : file->losses_flushed);
		file->losses_flushed = writes->nr_losses;
	}
	if (writes && is_sync)
		file->losses_synced = writes->nr_told = writes->nr_losses;
	pthread_mutex_unlock(&fs->lock);
	return is_lost;
}
