/* SPDX-License-Identifier: BSD-3-Clause */
/* See files_walk.h. Called by `afar ls`, find, du, chmod and chown. */
#include "files_walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct listing {
	struct afar_fs *fs;
	bool with_attributes;
	files_list_entry *entry;
	void *context;
	int missing; /* why attributes of an entry were not to be had; 0: all were */
};

/* Has the attributes of an entry that came without. The call waits for them, so after one that failed no other is asked for. */
static int complete(struct listing *listing, struct afar_dirent *entry)
{
	int ret = listing->missing;

	if (!ret)
		ret = afar_fs_getattr(listing->fs, entry->stat.ino, &entry->stat);
	/* It has been removed meanwhile. */
	if (ret && ret != -ESTALE)
		listing->missing = ret;
	return ret;
}

static int give(struct listing *listing, struct afar_dirent *entry)
{
	if (listing->with_attributes && entry->stat.nlink == 0 && complete(listing, entry))
		return 0;
	return listing->entry(entry, listing->context);
}

int files_list(struct afar_fs *fs, uint64_t dir, bool with_attributes, files_list_entry *entry,
	       void *context)
{
	struct listing listing = {fs, with_attributes, entry, context, 0};
	struct afar_dirent *entries = calloc(FILES_LIST_MAX, sizeof(*entries));
	char after[AFAR_FILE_NAME_MAX + 1] = "";
	int n, ret = 0;

	if (!entries)
		return -ENOMEM;
	do {
		entries[0].size = sizeof(entries[0]);
		n = afar_fs_readdir(fs, NULL, dir, *after ? after : NULL, with_attributes, entries,
				    FILES_LIST_MAX);
		for (int i = 0; i < n && !ret; i++)
			ret = give(&listing, &entries[i]);
		if (n > 0)
			memcpy(after, entries[n - 1].name, sizeof(after));
	} while (n > 0 && !ret);
	free(entries);
	if (n < 0 || ret)
		return n < 0 ? n : ret;
	return listing.missing;
}

/* The subdirectories of one directory, which are visited once it has been listed. */
struct level {
	struct files_walker *walker;
	struct afar_fs *fs;
	const char *path;
	int status; /* the first that is not 0 */
	struct child {
		char *path;
		uint64_t ino;
	} * children;
	size_t nr, room;
};

static int add_child(struct level *level, char *path, uint64_t ino)
{
	if (level->nr == level->room) {
		size_t room = level->room ? 2 * level->room : 16;
		struct child *children = reallocarray(level->children, room, sizeof(*children));

		if (!children)
			return -ENOMEM;
		level->children = children;
		level->room = room;
	}
	level->children[level->nr++] = (struct child){path, ino};
	return 0;
}

static int take_entry(const struct afar_dirent *entry, void *context)
{
	struct level *level = context;
	char *path = files_join(level->path, entry->name);
	int ret = 0, status;

	if (!path)
		return -ENOMEM;
	status = level->walker->entry(level->walker, level->fs, path, &entry->stat);
	if (!level->status)
		level->status = status;
	if (S_ISDIR(entry->stat.mode))
		ret = add_child(level, path, entry->stat.ino);
	if (ret || !S_ISDIR(entry->stat.mode))
		free(path);
	return ret;
}

/* Visits what is in a directory. Returns an exit status. */
static int visit(struct files_walker *walker, struct afar_fs *fs, const char *path, uint64_t dir)
{
	struct level level = {.walker = walker, .fs = fs, .path = path};
	int ret, status;

	status = walker->enter ? walker->enter(walker, path) : 0;
	if (status)
		return status;
	ret = files_list(fs, dir, true, take_entry, &level);
	status = ret ? files_fail(walker->what, path, ret) : 0;
	if (!level.status)
		level.status = status;
	for (size_t i = 0; i < level.nr; i++) {
		status = visit(walker, fs, level.children[i].path, level.children[i].ino);
		if (!level.status)
			level.status = status;
		free(level.children[i].path);
	}
	free(level.children);
	if (walker->leave)
		walker->leave(walker, path);
	return level.status;
}

int files_walk_tree(struct files_walker *walker, const char *text, bool follows)
{
	struct afar_file_stat stat;
	struct afar_fs *fs;
	int below, status;

	status = files_find_inode(walker->files, walker->what, text,
				  follows ? 0 : AFAR_WALK_NOFOLLOW, &fs, &stat);
	if (status)
		return status;
	status = walker->entry(walker, fs, text, &stat);
	if (!S_ISDIR(stat.mode))
		return status;
	below = visit(walker, fs, text, stat.ino);
	return status ? status : below;
}
