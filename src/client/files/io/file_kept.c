/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that are opened again. Closing a file that was read leaves the manager's hold (fs_kept.h), as long as the file is delegated to us. The next
 * opening takes that hold. It asks nobody if the file is delegated still: any other session that changes the file has us let the hold go first.
 */
#include <fcntl.h>
#include <unistd.h>

#include "client/files/file.h"
#include "rpc/manager_features.h"

/* Takes the size that is known. False: what is known is of another layout. */
static bool take_size(struct file_inode *inode, uint64_t size, uint64_t layout)
{
	bool is_same;

	pthread_mutex_lock(&inode->lock);
	is_same = inode->layout == layout;
	if (is_same)
		inode_take_size(inode, size);
	pthread_mutex_unlock(&inode->lock);
	return is_same;
}

int file_take_kept(struct afar_file *file, uint64_t ino)
{
	struct afar_fs *fs = file->fs;
	uint64_t size, layout;

	if (file->access & W_OK)
		return 0;
	file->hold = kept_take(fs, ino, file_hold_access(file));
	if (!file->hold)
		return 0;
	file->inode = file->hold->inode;
	/* In this order: if a revoke comes between, it finds no hold to let go, and we find nothing delegated. */
	return attr_cache_may_read(&fs->attr_cache, &file->who, ino, &size, &layout) &&
	       take_size(file->inode, size, layout);
}

/* False: it is as it was. */
static bool leave_hold(struct afar_file *file)
{
	const uint64_t ino = file->inode->ino;
	struct afar_fs *fs = file->fs;

	if (!kept_add(file->hold))
		return false;
	/* In this order, too. */
	if (!attr_cache_is_delegated(&fs->attr_cache, ino))
		kept_drop(fs, ino);
	return true;
}

bool file_leave_kept(struct afar_file *file)
{
	if (!leave_hold(file))
		return false;
	file->hold = NULL;
	file->inode = NULL;
	return true;
}

/* An older manager would not have it closed when the delegation has run out. */
static bool may_keep(struct afar_session *session)
{
	return session_has_feature(session, RPC_FEATURE_KEPT) && !session_has_ended(session);
}

bool file_keep(struct afar_file *file)
{
	struct afar_fs *fs = file->fs;

	/* One that was opened beside a writer has another access. */
	if (file->is_directory || file->access & W_OK ||
	    file->hold->access != file_hold_access(file) || !may_keep(fs->ns->session) ||
	    !attr_cache_is_delegated(&fs->attr_cache, file->inode->ino) || !leave_hold(file))
		return false;
	handle_unuse(&fs->handle);
	handle_retire(file);
	return true;
}

/* From now on nothing of it is kept. The last one to close a file that was written gives room back. */
void file_let_writer(struct afar_file *file)
{
	if (file->access & W_OK)
		kept_drop(file->fs, file->inode->ino);
}
