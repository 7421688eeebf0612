/* SPDX-License-Identifier: BSD-3-Clause */
/* Gives back ends of files that the manager has left to us (io/fs_ends.h). It asks for them, or has restarted, or a file is cut or closed. */
#include <errno.h>

#include "base/error.h"
#include "client/files/fs.h"
#include "client/files/inode/fs_call.h"

/* The lock is held. */
static void fill_end(struct file_inode *inode, Afar__FileEnd *message)
{
	ends_begin_giving(&inode->ends);
	message->ino = inode->ino;
	message->end = inode->end;
	message->layout = inode->layout;
	message->gives_end = true;
	message->keeps_times = true;
	message->voids_slot = inode->ends.has_failed;
}

bool inode_give_end(struct afar_fs *fs, uint64_t ino, Afar__FileEnd *message)
{
	struct file_inode *inode;

	pthread_mutex_lock(&fs->lock);
	inode = inode_cached(fs, ino);
	if (inode) {
		pthread_mutex_lock(&inode->lock);
		fill_end(inode, message);
		pthread_mutex_unlock(&inode->lock);
	}
	pthread_mutex_unlock(&fs->lock);
	return inode;
}

bool inode_stop_end(struct afar_fs *fs, uint64_t ino)
{
	struct file_inode *inode;
	bool is_appending = false;

	pthread_mutex_lock(&fs->lock);
	inode = inode_cached(fs, ino);
	if (inode) {
		pthread_mutex_lock(&inode->lock);
		ends_stop(&inode->ends);
		is_appending = inode->ends.is_appending;
		pthread_mutex_unlock(&inode->lock);
	}
	pthread_mutex_unlock(&fs->lock);
	return is_appending;
}

void inode_await_append(struct afar_fs *fs, uint64_t ino)
{
	struct file_inode *inode;

	pthread_mutex_lock(&fs->lock);
	inode = inode_cached(fs, ino);
	if (inode)
		inode_ref(inode);
	pthread_mutex_unlock(&fs->lock);
	if (!inode)
		return;
	pthread_mutex_lock(&inode->lock);
	while (inode->ends.is_appending)
		pthread_cond_wait(&inode->told, &inode->lock);
	pthread_mutex_unlock(&inode->lock);
	inode_unref(inode);
}

void fs_stop_ends(struct afar_fs *fs)
{
	struct file_inode *inode;

	pthread_mutex_lock(&fs->lock);
	for (unsigned i = 0; i < FS_BUCKETS; i++)
		cds_list_for_each_entry (inode, &fs->inodes[i], node) {
			pthread_mutex_lock(&inode->lock);
			ends_stop(&inode->ends);
			pthread_mutex_unlock(&inode->lock);
		}
	pthread_mutex_unlock(&fs->lock);
}

void inode_end_giving(struct afar_fs *fs, uint64_t ino)
{
	struct file_inode *inode;

	pthread_mutex_lock(&fs->lock);
	inode = inode_cached(fs, ino);
	if (inode) {
		pthread_mutex_lock(&inode->lock);
		ends_end_giving(&inode->ends);
		pthread_mutex_unlock(&inode->lock);
	}
	pthread_mutex_unlock(&fs->lock);
}

int inode_know_end(struct file_inode *inode)
{
	Afar__FileEnd message = AFAR__FILE_END__INIT;
	bool is_known;
	int ret = 0;

	pthread_mutex_lock(&inode->lock);
	is_known = inode->ends.until == 0 && inode->ends.untold == 0;
	fill_end(inode, &message);
	/* An append that relies on its being ours gives it when its bytes have arrived. */
	message.gives_end = !inode->ends.is_appending;
	pthread_mutex_unlock(&inode->lock);
	if (!is_known)
		ret = fs_hold_one(inode->fs, NULL, FILE_HOLD(END, end, &message), NULL);
	/* It is not open to write any more: who has closed it has told. */
	ret = ret == -EBADF ? 0 : ret;
	pthread_mutex_lock(&inode->lock);
	ends_end_giving(&inode->ends);
	if (ret == 0)
		inode->ends.untold = 0;
	pthread_mutex_unlock(&inode->lock);
	return ret;
}

int fs_know_end(struct afar_fs *fs, uint64_t ino)
{
	struct file_inode *inode;
	bool is_untold = false;
	int ret = 0;

	pthread_mutex_lock(&fs->lock);
	inode = inode_cached(fs, ino);
	if (inode) {
		pthread_mutex_lock(&inode->lock);
		is_untold = inode->ends.untold != 0;
		pthread_mutex_unlock(&inode->lock);
	}
	if (is_untold)
		inode_ref(inode);
	pthread_mutex_unlock(&fs->lock);
	if (is_untold) {
		ret = inode_know_end(inode);
		inode_unref(inode);
	}
	return ret;
}

void inode_tell_ends(struct file_inode *inode)
{
	pthread_mutex_lock(&inode->lock);
	ends_stop(&inode->ends);
	pthread_mutex_unlock(&inode->lock);
}

void inode_add_end(struct file_inode *inode, struct afar_file_stat *stat)
{
	pthread_mutex_lock(&inode->lock);
	if (inode->ends.untold > stat->bytes)
		stat->bytes = inode->ends.untold;
	pthread_mutex_unlock(&inode->lock);
}
