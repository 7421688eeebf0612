/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles of open files, and of the targets that queues use them by. */
#include <errno.h>

#include "base/error.h"
#include "client/files/file.h"

int file_check_handle(const struct afar_file *file)
{
	if (!handle_is(file, HANDLE_FILE))
		return error_fail(-EINVAL, "use a file: the handle is null or closed");
	return session_check(file->fs->ns->session);
}

int file_enter(struct afar_file *file)
{
	int ret = file_check_handle(file);

	if (ret)
		return ret;
	return handle_enter(&file->handle) ? 0
					   : error_fail(-EINVAL, "use a file: it is being closed");
}

int file_check(const struct afar_file *file, uint32_t access, const char *asked)
{
	if ((file->access & access) != access)
		return error_fail(-EBADF, "%s inode %llu: it is not open for that", asked,
				  (unsigned long long)file->inode->ino);
	if (file->is_directory)
		return error_fail(-EISDIR, "%s inode %llu: it is a directory", asked,
				  (unsigned long long)file->inode->ino);
	return 0;
}

int file_note_write(struct afar_file *file)
{
	int ret = inode_note_write(file->inode);

	if (ret == 0)
		inode_touch(file->inode);
	return ret;
}

/* ---- Targets */

void file_list_target(struct afar_file *file)
{
	_Atomic uint32_t *word = &file->target.handle.nr_users;

	cds_list_add(&file->target_node, &file->inode->targets);
	if (file->inode->nr_holding_up != 0)
		atomic_fetch_or(word, HANDLE_GATE);
	else
		atomic_fetch_and(word, ~HANDLE_GATE);
}

static bool has_operations(const struct afar_file *file)
{
	return file_nr_posted(file) != 0 ||
	       atomic_load_explicit(&file->nr_idle, memory_order_acquire) != 0;
}

/* Closes the handle, unless there are operations. The inode's lock is held. */
static int close_handle(struct afar_file *file)
{
	int ret = has_operations(file) ? -EBUSY : handle_close(&file->target, HANDLE_FILE_TARGET);

	if (ret)
		return ret;
	/* One may have become idle meanwhile. */
	if (has_operations(file)) {
		handle_reopen(&file->target, HANDLE_FILE_TARGET);
		return -EBUSY;
	}
	cds_list_del(&file->target_node);
	return 0;
}

int file_close_target(struct afar_file *file)
{
	int ret;

	if (!file->target.kind)
		return 0;
	pthread_mutex_lock(&file->inode->lock);
	ret = close_handle(file);
	pthread_mutex_unlock(&file->inode->lock);
	if (ret == -EBUSY)
		return error_fail(ret,
				  "close inode %llu: operations on it are in flight on queues; "
				  "reap them first",
				  (unsigned long long)file->inode->ino);
	return ret ? error_fail(ret, "close a file: it is closed already") : 0;
}

void file_reopen_target(struct afar_file *file)
{
	if (!file->target.kind)
		return;
	pthread_mutex_lock(&file->inode->lock);
	file_list_target(file);
	handle_reopen(&file->target, HANDLE_FILE_TARGET);
	pthread_mutex_unlock(&file->inode->lock);
}
