/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding and listing names. Changes nothing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "manager/files/holds.h"
#include "manager/files/names.h"
#include "manager/files/records.h"
#include "manager/files/table.h"

#define NAME_MAX_BYTES 255U
#define PATH_BYTES_MAX 8192U /* of what is left to walk, with the targets of symbolic links */
#define LINKS_FOLLOWED 40U
#define LIST_MAX       1000U

int check_name(const char *name)
{
	size_t length = strlen(name);

	if (length == 0)
		return error_fail(-ENOENT, "use a name: it is empty");
	if (length > NAME_MAX_BYTES)
		return error_fail(-ENAMETOOLONG, "use a name of %zu bytes: it has at most %u",
				  length, NAME_MAX_BYTES);
	if (strchr(name, '/'))
		return error_fail(-EINVAL, "use the name '%s': it has a '/'", name);
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return error_fail(-EINVAL, "use the name '%s': it is always there", name);
	return 0;
}

int name_lookup(struct fs *fs, const struct who *who, uint64_t dir, const char *name,
		struct file **out)
{
	uint32_t type;
	uint64_t ino;
	int ret = file_get_directory(fs, dir, out);

	if (ret == 0)
		ret = check_access(who, (*out)->inode, X_OK);
	if (ret < 0 || strcmp(name, ".") == 0)
		return ret;
	if (strcmp(name, "..") == 0)
		return file_get_directory(fs, (*out)->inode->parent, out);
	ret = check_name(name);
	if (ret == 0)
		ret = record_get_name(fs, dir, name, &ino, &type);
	if (ret == -ENOENT)
		return error_fail(ret, "find '%s': there is no such name", name);
	return ret != 0 ? ret : file_get(fs, ino, out);
}

/* A path that is being walked. */
struct walk {
	struct fs *fs;
	const struct who *who;
	char rest[PATH_BYTES_MAX];
	unsigned nr_links;
	struct file *at;
};

/* Takes the next name off the path; false: there is none. `*is_last`: no other follows. A path that
 * ends with '/' means a directory. */
static bool take_name(char *rest, char name[PATH_BYTES_MAX], bool *is_last, bool *wants_directory)
{
	const char *begin = rest + strspn(rest, "/");
	size_t length = strcspn(begin, "/");
	const char *behind = begin + length;

	if (length == 0)
		return false;
	memcpy(name, begin, length);
	name[length] = '\0';
	*wants_directory = *behind == '/';
	behind += strspn(behind, "/");
	*is_last = *behind == '\0';
	memmove(rest, behind, strlen(behind) + 1);
	return true;
}

static int follow(struct walk *walk, struct file *dir, const struct inode *link, bool is_directory)
{
	char old[PATH_BYTES_MAX];
	int length;

	if (++walk->nr_links > LINKS_FOLLOWED)
		return error_fail(-ELOOP, "follow a path: more than %u symbolic links are on it",
				  LINKS_FOLLOWED);
	memcpy(old, walk->rest, strlen(walk->rest) + 1);
	length = snprintf(walk->rest, sizeof(walk->rest), "%s%s%s", link->target,
			  old[0] != '\0' || is_directory ? "/" : "", old);
	if (length < 0 || (size_t)length >= sizeof(walk->rest))
		return error_fail(
			-ENAMETOOLONG,
			"follow a path: with its symbolic links it is longer than %u bytes",
			PATH_BYTES_MAX);
	walk->at = dir;
	return link->target[0] == '/' ? file_get_directory(walk->fs, walk->fs->root, &walk->at) : 0;
}

static int step(struct walk *walk, const char *name, bool is_following, bool is_directory)
{
	struct file *dir = walk->at;
	int ret = name_lookup(walk->fs, walk->who, dir->ino, name, &walk->at);

	if (ret != 0)
		return ret;
	if (S_ISLNK(walk->at->inode->mode) && is_following)
		return follow(walk, dir, walk->at->inode, is_directory);
	if (is_directory && !inode_is_directory(walk->at->inode))
		return error_fail(-ENOTDIR, "follow a path: '%s' is no directory", name);
	return 0;
}

int name_walk(struct fs *fs, const struct who *who, const Afar__FileWalk *ask, struct file **out)
{
	struct walk walk = {.fs = fs, .who = who};
	char name[PATH_BYTES_MAX];
	bool is_last, is_directory;
	int ret;

	if (strlen(ask->path) >= PATH_BYTES_MAX / 2)
		return error_fail(-ENAMETOOLONG, "follow a path: it has %zu bytes; at most %u",
				  strlen(ask->path), PATH_BYTES_MAX / 2 - 1);
	strcpy(walk.rest, ask->path);
	ret = file_get_directory(fs, ask->path[0] == '/' ? fs->root : ask->dir, &walk.at);
	while (ret == 0 && take_name(walk.rest, name, &is_last, &is_directory))
		ret = step(&walk, name, !is_last || is_directory || ask->is_following,
			   !is_last || is_directory);
	if (ret == 0)
		ret = check_access(who, walk.at->inode, ask->access);
	*out = walk.at;
	return ret;
}

/* ---- Listing */

struct listing {
	struct fs *fs;
	const struct session *session;
	Afar__FileResult *result;
	size_t max;
	bool with_attributes;
};

static int list_one(void *argument, const char *name, uint64_t ino, uint32_t type)
{
	struct listing *listing = argument;
	Afar__FileEntry *entry;

	if (listing->result->n_entries == listing->max) {
		listing->result->is_more = true;
		return 0;
	}
	entry = MESSAGE_NEW(afar__file_entry, Afar__FileEntry);
	if (!entry)
		return error_code(-ENOMEM);
	listing->result->entries[listing->result->n_entries++] = entry;
	entry->name = strdup(name);
	entry->attributes = MESSAGE_NEW(afar__file_attributes, Afar__FileAttributes);
	if (!entry->name || !entry->attributes)
		return error_code(-ENOMEM);
	entry->attributes->ino = ino;
	entry->attributes->mode = type;
	return 0;
}

/* Behind the listing, because the store allows no other reading while it is ranged over. */
static int add_attributes(const struct listing *listing)
{
	for (size_t i = 0; i < listing->result->n_entries; i++) {
		Afar__FileEntry *entry = listing->result->entries[i];
		Afar__FileAttributes *attributes;
		struct file *file;
		int ret = file_get(listing->fs, entry->attributes->ino, &file);

		if (ret < 0)
			return ret;
		/* Where it ends cannot be told, so nothing is: whoever wants that asks for it alone. */
		if (end_check_known(file, listing->session) < 0)
			continue;
		attributes = attributes_of(file);
		if (!attributes)
			return error_code(-ENOMEM);
		afar__file_attributes__free_unpacked(entry->attributes, NULL);
		entry->attributes = attributes;
	}
	return 0;
}

size_t list_max(const Afar__FileList *ask)
{
	return ask->max != 0 && ask->max < LIST_MAX ? ask->max : LIST_MAX;
}

int name_list(struct fs *fs, const struct who *who, const struct session *session,
	      const Afar__FileList *ask, Afar__FileResult *result)
{
	struct listing listing = {.fs = fs,
				  .result = result,
				  .max = list_max(ask),
				  .session = session,
				  .with_attributes = ask->with_attributes};
	struct file *dir;
	int ret = file_get_directory(fs, ask->dir, &dir);

	if (ret == 0)
		ret = check_access(who, dir->inode, R_OK);
	if (ret != 0)
		return ret;
	result->entries = calloc(listing.max + 1, sizeof(*result->entries));
	if (!result->entries)
		return error_code(-ENOMEM);
	ret = record_range_names(fs, ask->dir, ask->after, listing.max + 1, list_one, &listing);
	return ret == 0 && ask->with_attributes ? add_attributes(&listing) : ret;
}
