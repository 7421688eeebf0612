/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open files: each handle of the kernel's has files of the library's, which are opened again after a session
 * has ended. Owns the list of handles.
 */
#include "open_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "pages.h"

static CDS_LIST_HEAD(all_open);
static pthread_mutex_t all_open_mutex = PTHREAD_MUTEX_INITIALIZER;

void open_file_advise(const struct open_file *open, struct afar_file *file)
{
	if ((open->flags & O_ACCMODE) != O_WRONLY && (open->is_direct || open->flags & O_DIRECT))
		afar_file_advise(file, AFAR_ADVICE_SEQUENTIAL);
}

/* Opens what its user has open already, so the mode does not matter any more. A key that is for one user may
 * not say that it is the superuser. */
static int open_again(const struct mount *mount, const struct open_file *open, int flags,
		      struct afar_file **out)
{
	int ret = afar_file_open(mount->fs, &superuser, open->ino, flags, out);

	if (ret == -EACCES)
		ret = afar_file_open(mount->fs, &open->asker.who, open->ino, flags, out);
	if (!ret)
		open_file_advise(open, *out);
	return ret;
}

int open_file_find(const struct mount *mount, struct open_file *open, bool is_append,
		   struct afar_file **out)
{
	int flags = (open->flags & (O_ACCMODE | O_SYNC | O_DSYNC)) | (is_append ? O_APPEND : 0);
	struct afar_file **file =
		is_append == !!(open->flags & O_APPEND) ? &open->first : &open->second;
	int ret = 0;

	/* Others may have locked and changed what its program believes to have for itself. */
	if (open->has_lost_locks)
		return -EIO;
	pthread_mutex_lock(&open->mutex);
	if (!*file)
		ret = open_again(mount, open, flags, file);
	*out = *file;
	pthread_mutex_unlock(&open->mutex);
	return ret;
}

int open_file_find_first(const struct mount *mount, struct open_file *open, struct afar_file **out)
{
	return open_file_find(mount, open, open->flags & O_APPEND, out);
}

int file_of(const struct mount *mount, const struct fuse_file_info *info, struct afar_file **out)
{
	*out = NULL;
	return info && info->fh ? open_file_find_first(mount, open_file_of(info), out) : 0;
}

bool file_has_pages(const struct fuse_file_info *info)
{
	return info && info->fh && !open_file_of(info)->is_direct;
}

struct afar_file *file_if_open(const struct fuse_file_info *info)
{
	struct open_file *open = open_file_of(info);
	struct afar_file *file;

	pthread_mutex_lock(&open->mutex);
	file = open->first;
	pthread_mutex_unlock(&open->mutex);
	return file;
}

/* ---- Coming and going */

struct open_file *open_file_new(fuse_req_t req, int flags)
{
	struct open_file *open = calloc(1, sizeof(*open));

	if (!open)
		return NULL;
	open->flags = flags;
	find_asker(req, &open->asker);
	pthread_mutex_init(&open->mutex, NULL);
	return open;
}

void open_file_free(struct open_file *open)
{
	if (open->pages)
		pages_close(open->pages);
	pthread_mutex_destroy(&open->mutex);
	free(open);
}

static int close_one(struct afar_file **file)
{
	int ret = *file ? afar_file_close(*file) : 0;

	*file = NULL;
	return ret;
}

static int close_files(struct open_file *open)
{
	int second = close_one(&open->second), ret = close_one(&open->first);

	return ret ? ret : second;
}

void open_file_add(struct open_file *open)
{
	pthread_mutex_lock(&all_open_mutex);
	cds_list_add(&open->link, &all_open);
	pthread_mutex_unlock(&all_open_mutex);
}

void open_file_remove(struct open_file *open)
{
	pthread_mutex_lock(&all_open_mutex);
	cds_list_del(&open->link);
	pthread_mutex_unlock(&all_open_mutex);
	open_file_free(open);
}

int open_file_close_later(struct open_file *open)
{
	int second = close_one(&open->second);
	struct afar_file *first = open->first;

	open->first = NULL;
	return first ? afar_file_close_later(first) : second;
}

/* ---- Flushing, syncing, and the end of a session */

/* Makes the call for what is open. Says once that something may be lost. */
static int call_both(struct open_file *open, int (*call)(struct afar_file *file))
{
	int second, ret;

	pthread_mutex_lock(&open->mutex);
	second = open->second ? call(open->second) : 0;
	ret = open->first ? call(open->first) : 0;
	pthread_mutex_unlock(&open->mutex);
	ret = ret ? ret : second;
	return !ret && atomic_exchange(&open->has_lost, false) ? -EIO : ret;
}

int open_file_sync(struct open_file *open)
{
	const bool is_written = atomic_exchange(&open->is_written, false);
	const int ret = call_both(open, afar_file_sync);

	if (ret && is_written)
		open->is_written = true;
	return ret;
}

int file_flush(const struct fuse_file_info *info)
{
	struct open_file *open = open_file_of(info);

	return open->is_written || open->has_lost ? call_both(open, afar_file_flush) : 0;
}

void files_leave(void)
{
	struct open_file *open;

	pthread_mutex_lock(&all_open_mutex);
	cds_list_for_each_entry (open, &all_open, link) {
		if (open->first && afar_file_nr_locks(open->first) > 0)
			open->has_lost_locks = true;
		close_files(open);
		if (open->is_written)
			open->has_lost = true;
	}
	pthread_mutex_unlock(&all_open_mutex);
}

int files_end(void)
{
	struct open_file *open, *next;
	int first = 0, ret;

	cds_list_for_each_entry_safe (open, next, &all_open, link) {
		ret = open->is_written ? open_file_sync(open) : 0;
		first = first ? first : ret;
		ret = close_files(open);
		first = first ? first : ret;
		cds_list_del(&open->link);
		open_file_free(open);
	}
	return first;
}
