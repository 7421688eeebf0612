/* SPDX-License-Identifier: BSD-3-Clause */
/* See fs_commits.h. */
#include "client/files/inode/fs_commits.h"
#include "client/files/fs.h"

void inode_begin_commit(struct file_inode *inode, struct inode_commit *commit)
{
	struct afar_fs *fs = inode->fs;

	pthread_mutex_lock(&fs->lock);
	commit->number = ++fs->nr_commits;
	commit->next = inode->commits;
	inode->commits = commit;
	pthread_mutex_unlock(&fs->lock);
}

void inode_end_commit(struct file_inode *inode, struct inode_commit *commit)
{
	struct afar_fs *fs = inode->fs;
	struct inode_commit **at = &inode->commits;

	if (commit->number == 0)
		return;
	pthread_mutex_lock(&fs->lock);
	while (*at != commit)
		at = &(*at)->next;
	*at = commit->next;
	commit->number = 0;
	if (fs->nr_recalls != 0)
		pthread_cond_broadcast(&fs->changed);
	pthread_mutex_unlock(&fs->lock);
}

/* Returns whether one is under way that began when no more than `nr` had. The fs's lock is held. */
static bool is_under_way(struct afar_fs *fs, uint64_t ino, uint64_t nr)
{
	const struct file_inode *inode = inode_cached(fs, ino);
	const struct inode_commit *commit;

	for (commit = inode ? inode->commits : NULL; commit; commit = commit->next)
		if (commit->number <= nr)
			return true;
	return false;
}

bool inode_is_committing(struct afar_fs *fs, uint64_t ino, uint64_t *nr)
{
	bool is;

	pthread_mutex_lock(&fs->lock);
	*nr = fs->nr_commits;
	is = is_under_way(fs, ino, *nr);
	pthread_mutex_unlock(&fs->lock);
	return is;
}

void inode_await_commits(struct afar_fs *fs, uint64_t ino, uint64_t nr)
{
	pthread_mutex_lock(&fs->lock);
	while (is_under_way(fs, ino, nr))
		pthread_cond_wait(&fs->changed, &fs->lock);
	pthread_mutex_unlock(&fs->lock);
}
