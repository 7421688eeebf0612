/* SPDX-License-Identifier: BSD-3-Clause */
/* Gives room back that came beyond what writes asked for (file_around.h). A writer does that before the last one closes the file: when there is no
 * more room, or when others read on and nobody else may write. */
#include <errno.h>
#include <stdlib.h>

#include "client/files/file.h"
#include "client/files/inode/fs_call.h"

static int call_give_back(struct afar_file *file, uint64_t *list, size_t nr)
{
	Afar__FileSync message = AFAR__FILE_SYNC__INIT;
	Afar__FileChange operation = AFAR__FILE_CHANGE__INIT;
	struct fs_answer answer;
	int ret;

	message.ino = file->inode->ino;
	message.alone = file->inode->around.alone;
	message.unwritten = list;
	message.n_unwritten = nr;
	operation.what_case = AFAR__FILE_CHANGE__WHAT_SYNC;
	operation.sync = &message;
	ret = fs_change_one(file->fs, &file->who, &operation, &answer);
	if (ret)
		return ret;
	ret = inode_take(file->inode, answer.results[0]);
	fs_answer_free(&answer);
	return ret;
}

static uint64_t layout_of(struct file_inode *inode)
{
	uint64_t layout;

	pthread_mutex_lock(&inode->lock);
	layout = inode->layout;
	pthread_mutex_unlock(&inode->lock);
	return layout;
}

bool file_give_back(struct afar_file *file)
{
	struct file_inode *inode = file->inode;
	uint64_t *list, layout;
	bool gives;
	size_t nr;
	int ret = -EAGAIN;

	pthread_mutex_lock(&inode->lock);
	gives = file_around_gives(&inode->around);
	pthread_mutex_unlock(&inode->lock);
	if (!gives || inode_shut(inode, inode_shut_deadline(inode)))
		return false;
	/* While the gate is shut nobody gets room, and nobody writes. */
	layout = layout_of(inode);
	nr = file_around_list(&inode->around, &list);
	if (nr != 0)
		ret = call_give_back(file, list, nr);
	/* It may have been done: then the room is another file's. */
	if (ret)
		inode_forget(inode);
	free(list);
	inode_reopen(inode);
	return ret == 0 && layout_of(inode) != layout;
}
