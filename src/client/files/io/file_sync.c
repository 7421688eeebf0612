/* SPDX-License-Identifier: BSD-3-Clause */
/* Open files: syncing and flushing them. */
#include <errno.h>
#include <unistd.h>

#include "client/base/call.h"
#include "client/files/file.h"
#include "client/files/inode/fs_call.h"

/* Has the data made durable. Says once if something of it is lost. */
static int sync_data(struct afar_file *file)
{
	int ret = fs_sync_pool(file->fs);

	return ret == 0 && file_take_loss(file, true) ? file_fail_lost(file->fs, file->inode->ino)
						      : ret;
}

/* Has committed what the manager has been told of an inode that is open here to read. */
static int commit_told(struct afar_file *file)
{
	Afar__FileSync message = AFAR__FILE_SYNC__INIT;
	struct fs_answer answer;
	int ret;

	message.ino = file->inode->ino;
	ret = fs_change_one(file->fs, &file->who, FILE_CHANGE(SYNC, sync, &message), &answer);
	if (ret)
		return ret;
	ret = inode_take(file->inode, answer.results[0]);
	fs_answer_free(&answer);
	return ret;
}

int file_sync(struct afar_file *file)
{
	int ret = sync_data(file);

	if (ret || file->is_directory)
		return ret;
	if (file->access & W_OK)
		return file_commit(file);
	/* Others of this process may have written, and not committed that yet. */
	return inode_is_written(file->inode) ? commit_told(file) : 0;
}

PUBLIC_CALL(int, afar_file_sync, (struct afar_file *file), (file))
{
	int ret = file_enter(file);

	if (ret)
		return ret;
	ret = file_sync(file);
	handle_unuse(&file->handle);
	return ret;
}

PUBLIC_CALL(int, afar_file_flush, (struct afar_file *file), (file))
{
	int ret = file_enter(file);

	if (ret)
		return ret;
	if ((file->access & W_OK) && (atomic_load(&file->inode->touched) == INODE_UNTOLD ||
				      atomic_load(&file->inode->kept) == INODE_KEPT_OLD))
		ret = file_commit(file);
	if (ret == 0 && file_take_loss(file, false))
		ret = file_fail_lost(file->fs, file->inode->ino);
	handle_unuse(&file->handle);
	return ret;
}
