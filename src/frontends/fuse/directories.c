/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open directories. A handle keeps all names that it has shown. An offset is a place in that list, so
 * it stays good while names come and go. Only names behind the list are asked for, by the last name.
 * On rewinddir() a new list begins.
 *
 * libfuse's threads call this; each handle has a lock.
 */
#include "mount.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "session.h"

#define BATCH	256U	    /* names that are asked for at once */
#define UNKNOWN 0xffffffffU /* an inode number that nobody looks at; 0 would hide the name */
#define NR_DOTS 2	    /* "." and ".." are the first two places */

struct shown {
	uint64_t ino;
	uint32_t mode; /* the type */
	size_t name;   /* where in the handle's texts */
};

struct open_directory {
	pthread_mutex_t mutex;
	struct asker asker; /* who opened it: the handle outlives changes of the mode */
	uint64_t ino;
	struct shown *shown;
	size_t nr_shown, max_shown;
	char *texts;
	size_t texts_length, texts_max;
	bool is_whole; /* the list has all */
	/* Attributes of the places from batch_from on, as they were just now. */
	struct afar_dirent *batch;
	size_t batch_from, batch_nr;
};

static struct open_directory *directory_of(const struct fuse_file_info *info)
{
	return (struct open_directory *)(uintptr_t)info->fh;
}

static void destroy(struct open_directory *directory)
{
	pthread_mutex_destroy(&directory->mutex);
	free(directory->shown);
	free(directory->texts);
	free(directory->batch);
	free(directory);
}

void do_opendir(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *info)
{
	struct open_directory *directory = calloc(1, sizeof(*directory));

	if (directory)
		directory->batch = malloc(BATCH * sizeof(*directory->batch));
	if (!directory || !directory->batch) {
		free(directory);
		fuse_reply_err(req, ENOMEM);
		return;
	}
	pthread_mutex_init(&directory->mutex, NULL);
	find_asker(req, &directory->asker);
	directory->ino = ino_of(mount_of(req), node);
	info->fh = (uintptr_t)directory;
	/* If the call was interrupted, nobody will ever release it. */
	if (fuse_reply_open(req, info) == -ENOENT)
		destroy(directory);
}

void do_releasedir(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *info)
{
	(void)node;
	destroy(directory_of(info));
	fuse_reply_err(req, 0);
}

/* Names are durable when the call that made or removed them has been answered. */
void do_fsyncdir(fuse_req_t req, fuse_ino_t node, int is_data_only, struct fuse_file_info *info)
{
	(void)node;
	(void)is_data_only;
	(void)info;
	fuse_reply_err(req, 0);
}

/* ---- The list */

static void begin_again(struct open_directory *directory)
{
	directory->nr_shown = 0;
	directory->texts_length = 0;
	directory->batch_nr = 0;
	directory->is_whole = false;
}

/* Makes room for `nr` elements of `size` bytes. */
static int make_room(void **array, size_t *max, size_t nr, size_t size)
{
	size_t more = *max ? *max : 64;
	void *larger;

	if (nr <= *max)
		return 0;
	while (more < nr)
		more *= 2;
	larger = reallocarray(*array, more, size);
	if (!larger)
		return -ENOMEM;
	*array = larger;
	*max = more;
	return 0;
}

static int append(struct open_directory *directory, const struct afar_dirent *entry)
{
	const size_t length = strlen(entry->name) + 1;
	int ret = make_room((void **)&directory->shown, &directory->max_shown,
			    directory->nr_shown + 1, sizeof(*directory->shown));

	if (!ret)
		ret = make_room((void **)&directory->texts, &directory->texts_max,
				directory->texts_length + length, 1);
	if (ret)
		return ret;
	memcpy(directory->texts + directory->texts_length, entry->name, length);
	directory->shown[directory->nr_shown++] =
		(struct shown){entry->stat.ino, entry->stat.mode, directory->texts_length};
	directory->texts_length += length;
	return 0;
}

static const char *name_at(const struct open_directory *directory, size_t place)
{
	return directory->texts + directory->shown[place].name;
}

/* Asks for the names behind the list. */
static int extend(struct mount *mount, struct open_directory *directory, bool is_plus)
{
	const size_t before = directory->nr_shown;
	const char *after = before ? name_at(directory, before - 1) : NULL;
	int64_t nr;
	int ret = 0;

	directory->batch_nr = 0;
	directory->batch[0].size = sizeof(directory->batch[0]);
	nr = CALL(mount, afar_fs_readdir(mount->fs, &directory->asker.who, directory->ino, after,
					 is_plus, directory->batch, BATCH));
	if (nr < 0)
		return (int)nr;
	directory->is_whole = nr == 0;
	for (int i = 0; i < nr && !ret; i++)
		ret = append(directory, &directory->batch[i]);
	if (ret) {
		directory->nr_shown = before;
		return ret;
	}
	directory->batch_from = before;
	directory->batch_nr = is_plus ? (size_t)nr : 0;
	return 0;
}

/* ---- Answers */

/* An answer while it is being filled. */
struct page {
	fuse_req_t req;
	struct mount *mount;
	char *bytes;
	size_t size, length;
	bool is_plus;
};

/* Returns whether there was room. Without attributes the kernel looks the name up when it needs them:
 * node 0 says so. */
static bool put(struct page *page, const char *name, const struct stat *type,
		const struct afar_file_stat *attributes, off_t next)
{
	char *at = page->bytes + page->length;
	const size_t room = page->size - page->length;
	struct fuse_entry_param entry = {.attr = *type};
	size_t taken;

	if (page->is_plus && attributes)
		fill_entry(page->mount, attributes, &entry);
	taken = page->is_plus ? fuse_add_direntry_plus(page->req, at, room, name, &entry, next)
			      : fuse_add_direntry(page->req, at, room, name, type, next);
	if (taken > room)
		return false;
	/* The kernel knows it as if it had looked it up. */
	if (page->is_plus && attributes)
		CALL(page->mount, afar_fs_use(page->mount->fs, attributes->ino));
	page->length += taken;
	return true;
}

static bool put_dot(struct page *page, const struct open_directory *directory, size_t place)
{
	const struct stat type = {.st_ino = place == 0 ? directory->ino : UNKNOWN,
				  .st_mode = S_IFDIR};

	return put(page, place == 0 ? "." : "..", &type, NULL, (off_t)place + 1);
}

static bool put_shown(struct page *page, const struct open_directory *directory, size_t place)
{
	const struct shown *shown = &directory->shown[place];
	const struct stat type = {.st_ino = shown->ino, .st_mode = shown->mode};
	const size_t in_batch = place - directory->batch_from;
	const struct afar_file_stat *attributes = NULL;

	if (place >= directory->batch_from && in_batch < directory->batch_nr)
		attributes = &directory->batch[in_batch].stat;
	/* The manager could not tell it just now. A look-up waits. */
	if (attributes && attributes->nlink == 0)
		attributes = NULL;
	return put(page, name_at(directory, place), &type, attributes,
		   (off_t)(place + NR_DOTS) + 1);
}

/* Fills the page from `offset` on. Names that were put before an error are shown; the error comes
 * again. */
static int fill(struct page *page, struct open_directory *directory, off_t offset)
{
	int ret;

	for (size_t place = (size_t)offset;; place++) {
		if (place < NR_DOTS) {
			if (!put_dot(page, directory, place))
				return 0;
			continue;
		}
		while (place - NR_DOTS >= directory->nr_shown) {
			/* One answer waits for the manager once. */
			if (directory->is_whole || page->length > page->size / 2)
				return 0;
			ret = extend(page->mount, directory, page->is_plus);
			if (ret)
				return page->length ? 0 : ret;
		}
		if (!put_shown(page, directory, place - NR_DOTS))
			return 0;
	}
}

static void show(fuse_req_t req, size_t size, off_t offset, struct fuse_file_info *info,
		 bool is_plus)
{
	struct open_directory *directory = directory_of(info);
	struct page page = {.req = req, .mount = mount_of(req), .size = size, .is_plus = is_plus};
	int ret = -ENOMEM;

	page.bytes = malloc(size);
	if (page.bytes) {
		pthread_mutex_lock(&directory->mutex);
		if (offset == 0)
			begin_again(directory);
		ret = fill(&page, directory, offset);
		pthread_mutex_unlock(&directory->mutex);
	}
	if (ret)
		answer(req, ret);
	else
		fuse_reply_buf(req, page.bytes, page.length);
	free(page.bytes);
}

void do_readdir(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset,
		struct fuse_file_info *info)
{
	(void)node;
	show(req, size, offset, info, false);
}

void do_readdirplus(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset,
		    struct fuse_file_info *info)
{
	(void)node;
	show(req, size, offset, info, true);
}
