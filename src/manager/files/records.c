/* SPDX-License-Identifier: BSD-3-Clause */
/* Inodes, with all that they have, as records of the metastore, and their keys. Numbers in keys are big-endian, so that what belongs together
 * lies together and in order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "manager/files/records_private.h"
#include "manager/stored.pb-c.h"

int record_damaged(const struct fs *fs, const char *what)
{
	return error_fail(-EIO,
			  "read %s of file system %llu from the metastore: the record is damaged; "
			  "restore the folder from a backup",
			  what, (unsigned long long)fs->number);
}

/* ---- Inodes */

static struct inode *inode_from(const Stored__Inode *record)
{
	size_t length = strlen(record->target);
	struct inode *inode = calloc(1, sizeof(*inode) + length + 1);

	if (!inode)
		return NULL;
	inode->mode = record->mode;
	inode->uid = record->uid;
	inode->gid = record->gid;
	inode->nlink = record->nlink;
	inode->rdev = record->rdev;
	inode->size = record->size;
	inode->nr_units = record->nr_units;
	inode->atime = record->atime;
	inode->mtime = record->mtime;
	inode->ctime = record->ctime;
	inode->change = record->change;
	inode->layout = record->layout;
	inode->parent = record->parent;
	inode->nr_entries = record->nr_entries;
	inode->nr_xattrs = record->nr_xattrs;
	inode->xattr_names_length = record->xattr_names_length;
	inode->xattr_values_length = record->xattr_values_length;
	inode->is_linkable = record->is_linkable;
	inode->stripe_bytes = record->stripe_bytes;
	inode->width = record->width;
	if (record->nr_xattrs != 0 && record->xattr_names_length == 0) {
		inode->xattr_names_length = record->nr_xattrs * XATTR_NAME_BYTES;
		inode->xattr_values_length = record->nr_xattrs * XATTR_VALUE_BYTES;
	}
	memcpy(inode->target, record->target, length + 1);
	return inode;
}

int record_get_inode(struct fs *fs, uint64_t ino, struct inode **out)
{
	Stored__Inode *record;
	size_t length;
	void *value;
	int ret =
		store_get(store_of(fs), STORE_KEY(RECORD_INODE, fs->number, ino), &value, &length);

	if (ret < 0)
		return ret;
	record = stored__inode__unpack(NULL, length, value);
	free(value);
	if (!record)
		return record_damaged(fs, "an inode");
	*out = inode_from(record);
	stored__inode__free_unpacked(record, NULL);
	return *out ? 0 : error_code(-ENOMEM);
}

void record_put_inode(struct fs *fs, uint64_t ino, const struct inode *inode)
{
	Stored__Inode record = STORED__INODE__INIT;

	record.mode = inode->mode;
	record.uid = inode->uid;
	record.gid = inode->gid;
	record.nlink = inode->nlink;
	record.rdev = inode->rdev;
	record.size = inode->size;
	record.nr_units = inode->nr_units;
	record.atime = inode->atime;
	record.mtime = inode->mtime;
	record.ctime = inode->ctime;
	record.change = inode->change;
	record.layout = inode->layout;
	record.parent = inode->parent;
	record.nr_entries = inode->nr_entries;
	record.nr_xattrs = inode->nr_xattrs;
	record.xattr_names_length = inode->xattr_names_length;
	record.xattr_values_length = inode->xattr_values_length;
	record.is_linkable = inode->is_linkable;
	record.stripe_bytes = inode->stripe_bytes;
	record.width = inode->width;
	record.target = (char *)(uintptr_t)inode->target;
	store_put_message(store_of(fs), STORE_KEY(RECORD_INODE, fs->number, ino), &record.base);
}

void record_delete_inode(struct fs *fs, uint64_t ino)
{
	store_delete(store_of(fs), STORE_KEY(RECORD_INODE, fs->number, ino));
}

/* ---- Names */

int record_get_name(struct fs *fs, uint64_t dir, const char *name, uint64_t *ino, uint32_t *type)
{
	Stored__Dirent *record;
	size_t length;
	void *value;
	int ret = store_get(store_of(fs), STORE_KEY_NAMED(RECORD_NAME, name, fs->number, dir),
			    &value, &length);

	if (ret < 0)
		return ret;
	record = stored__dirent__unpack(NULL, length, value);
	free(value);
	if (!record)
		return record_damaged(fs, "a name");
	*ino = record->ino;
	*type = record->type;
	stored__dirent__free_unpacked(record, NULL);
	return 0;
}

void record_put_name(struct fs *fs, uint64_t dir, const char *name, uint64_t ino, uint32_t type)
{
	Stored__Dirent record = STORED__DIRENT__INIT;

	record.ino = ino;
	record.type = type;
	store_put_message(store_of(fs), STORE_KEY_NAMED(RECORD_NAME, name, fs->number, dir),
			  &record.base);
}

void record_delete_name(struct fs *fs, uint64_t dir, const char *name)
{
	store_delete(store_of(fs), STORE_KEY_NAMED(RECORD_NAME, name, fs->number, dir));
}

/* A text at the end of a key, behind two numbers. */
static bool key_text(struct meta_bytes key, char out[STORE_NAME_MAX + 1])
{
	size_t before = 1 + 2 * sizeof(uint64_t);
	size_t length = key.length > before ? key.length - before : 0;

	if (length == 0 || length > STORE_NAME_MAX)
		return false;
	memcpy(out, (const char *)key.data + before, length);
	out[length] = '\0';
	return true;
}

struct names_visit {
	struct fs *fs;
	int (*visit)(void *argument, const char *name, uint64_t ino, uint32_t type);
	void *argument;
};

static int visit_name(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	const struct names_visit *visit = argument;
	Stored__Dirent *record = stored__dirent__unpack(NULL, value.length, value.data);
	char name[STORE_NAME_MAX + 1];
	int ret;

	if (!record || !key_text(key, name)) {
		ret = record_damaged(visit->fs, "a name");
		goto out_free;
	}
	ret = visit->visit(visit->argument, name, record->ino, record->type);
out_free:
	if (record)
		stored__dirent__free_unpacked(record, NULL);
	return ret;
}

int record_range_names(struct fs *fs, uint64_t dir, const char *after, size_t max,
		       int (*visit)(void *argument, const char *name, uint64_t ino, uint32_t type),
		       void *argument)
{
	struct names_visit names = {fs, visit, argument};

	return store_range(store_of(fs), STORE_KEY(RECORD_NAME, fs->number, dir),
			   STORE_KEY_NAMED(RECORD_NAME, after, fs->number, dir), max, visit_name,
			   &names);
}

/* ---- Runs */

void record_put_run(struct fs *fs, uint64_t ino, const struct run *run)
{
	Stored__Run record = STORED__RUN__INIT;

	record.pool_unit = run->pool_unit;
	record.nr = run->nr;
	store_put_message(store_of(fs), STORE_KEY(RECORD_RUN, fs->number, ino, run->unit),
			  &record.base);
}

void record_delete_run(struct fs *fs, uint64_t ino, uint64_t unit)
{
	store_delete(store_of(fs), STORE_KEY(RECORD_RUN, fs->number, ino, unit));
}

struct runs_visit {
	struct fs *fs;
	struct runs *runs;
};

static int add_run(struct runs **runs, const struct run *run)
{
	if ((*runs)->nr == (*runs)->max) {
		size_t max = (*runs)->max * 2 + 4;
		struct runs *more = realloc(*runs, sizeof(*more) + max * sizeof(more->run[0]));

		if (!more)
			return error_code(-ENOMEM);
		more->max = max;
		*runs = more;
	}
	(*runs)->run[(*runs)->nr++] = *run;
	return 0;
}

static int visit_run(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	struct runs_visit *visit = argument;
	Stored__Run *record = stored__run__unpack(NULL, value.length, value.data);
	struct run run;

	if (!record || key.length != 1 + 3 * sizeof(uint64_t)) {
		if (record)
			stored__run__free_unpacked(record, NULL);
		return record_damaged(visit->fs, "a run of a file");
	}
	run = (struct run){key_number(key, 2), record->pool_unit, record->nr};
	stored__run__free_unpacked(record, NULL);
	return add_run(&visit->runs, &run);
}

int record_get_runs(struct fs *fs, uint64_t ino, struct runs **out)
{
	struct runs_visit visit = {.fs = fs, .runs = calloc(1, sizeof(struct runs))};
	int ret;

	if (!visit.runs)
		return error_code(-ENOMEM);
	ret = store_range(store_of(fs), STORE_KEY(RECORD_RUN, fs->number, ino),
			  (struct store_key){0}, SIZE_MAX, visit_run, &visit);
	if (ret < 0) {
		free(visit.runs);
		return ret;
	}
	*out = visit.runs;
	return 0;
}

/* ---- Extended attributes */

int record_get_xattr(struct fs *fs, uint64_t ino, const char *name, void **value, size_t *length)
{
	int ret = store_get(store_of(fs), STORE_KEY_NAMED(RECORD_XATTR, name, fs->number, ino),
			    value, length);

	return ret == -ENOENT ? error_code(-ENODATA) : ret;
}

void record_put_xattr(struct fs *fs, uint64_t ino, const char *name, const void *value,
		      size_t length)
{
	store_put_bytes(store_of(fs), STORE_KEY_NAMED(RECORD_XATTR, name, fs->number, ino), value,
			length);
}

void record_delete_xattr(struct fs *fs, uint64_t ino, const char *name)
{
	store_delete(store_of(fs), STORE_KEY_NAMED(RECORD_XATTR, name, fs->number, ino));
}

struct xattrs_visit {
	struct fs *fs;
	int (*visit)(void *argument, const char *name);
	void *argument;
};

static int visit_xattr(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	const struct xattrs_visit *visit = argument;
	char name[STORE_NAME_MAX + 1];

	(void)value;
	if (!key_text(key, name))
		return record_damaged(visit->fs, "an extended attribute");
	return visit->visit(visit->argument, name);
}

int record_range_xattrs(struct fs *fs, uint64_t ino, int (*visit)(void *argument, const char *name),
			void *argument)
{
	struct xattrs_visit xattrs = {fs, visit, argument};

	return store_range(store_of(fs), STORE_KEY(RECORD_XATTR, fs->number, ino),
			   (struct store_key){0}, SIZE_MAX, visit_xattr, &xattrs);
}

/* ---- Files without a name, and what was given back */

void record_put_unlinked(struct fs *fs, uint64_t ino)
{
	store_put_bytes(store_of(fs), STORE_KEY(RECORD_UNLINKED, fs->number, ino), "", 0);
}

void record_delete_unlinked(struct fs *fs, uint64_t ino)
{
	store_delete(store_of(fs), STORE_KEY(RECORD_UNLINKED, fs->number, ino));
}

void record_put_ahead(struct fs *fs, uint64_t ino)
{
	store_put_bytes(store_of(fs), STORE_KEY(RECORD_AHEAD, fs->number, ino), "", 0);
}

void record_delete_ahead(struct fs *fs, uint64_t ino)
{
	store_delete(store_of(fs), STORE_KEY(RECORD_AHEAD, fs->number, ino));
}

void record_put_scrub(const struct scrub *scrub)
{
	Stored__Scrub record = STORED__SCRUB__INIT;
	uint64_t *numbers = calloc(2 * scrub->nr + 1, sizeof(*numbers));

	if (!numbers) {
		undo_fail(fs_core(scrub->fs)->undo, error_code(-ENOMEM));
		return;
	}
	for (size_t i = 0; i < scrub->nr; i++) {
		numbers[2 * i] = scrub->runs[i].pool_unit;
		numbers[2 * i + 1] = scrub->runs[i].nr;
	}
	record.runs = numbers;
	record.n_runs = 2 * scrub->nr;
	store_put_message(store_of(scrub->fs),
			  STORE_KEY(RECORD_SCRUB, scrub->fs->number, scrub->number), &record.base);
	free(numbers);
}

void record_delete_scrub(const struct scrub *scrub)
{
	store_delete(store_of(scrub->fs),
		     STORE_KEY(RECORD_SCRUB, scrub->fs->number, scrub->number));
}

/* ---- All records of a kind, for comparing them */

struct all_visit {
	struct fs *fs;
	void *argument;
	int (*inode)(void *argument, uint64_t ino, struct inode *inode);
	int (*name)(void *argument, uint64_t dir, const char *name, uint64_t ino, uint32_t type);
	int (*run)(void *argument, uint64_t ino, const struct run *run);
	int (*unlinked)(void *argument, uint64_t ino);
};

static int visit_any_inode(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	const struct all_visit *all = argument;
	Stored__Inode *record = stored__inode__unpack(NULL, value.length, value.data);
	struct inode *inode;

	if (!record)
		return record_damaged(all->fs, "an inode");
	inode = inode_from(record);
	stored__inode__free_unpacked(record, NULL);
	return inode ? all->inode(all->argument, key_number(key, 1), inode) : error_code(-ENOMEM);
}

struct name_visit {
	const struct all_visit *all;
	uint64_t dir;
};

static int pass_name(void *argument, const char *name, uint64_t ino, uint32_t type)
{
	const struct name_visit *visit = argument;

	return visit->all->name(visit->all->argument, visit->dir, name, ino, type);
}

static int visit_any_name(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	const struct all_visit *all = argument;
	struct name_visit visit = {all, key_number(key, 1)};
	struct names_visit names = {all->fs, pass_name, &visit};

	return visit_name(&names, key, value);
}

static int visit_any_run(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	const struct all_visit *all = argument;
	Stored__Run *record = stored__run__unpack(NULL, value.length, value.data);
	struct run run;

	if (!record || key.length != 1 + 3 * sizeof(uint64_t)) {
		if (record)
			stored__run__free_unpacked(record, NULL);
		return record_damaged(all->fs, "a run of a file");
	}
	run = (struct run){key_number(key, 2), record->pool_unit, record->nr};
	stored__run__free_unpacked(record, NULL);
	return all->run(all->argument, key_number(key, 1), &run);
}

static int visit_any_unlinked(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	const struct all_visit *all = argument;

	(void)value;
	return all->unlinked(all->argument, key_number(key, 1));
}

static int range_all(struct all_visit *all, char kind,
		     int (*visit)(void *argument, struct meta_bytes key, struct meta_bytes value))
{
	return store_range(store_of(all->fs), STORE_KEY(kind, all->fs->number),
			   (struct store_key){0}, SIZE_MAX, visit, all);
}

int record_range_inodes(struct fs *fs,
			int (*visit)(void *argument, uint64_t ino, struct inode *inode),
			void *argument)
{
	struct all_visit all = {.fs = fs, .argument = argument, .inode = visit};

	return range_all(&all, RECORD_INODE, visit_any_inode);
}

int record_range_all_names(struct fs *fs,
			   int (*visit)(void *argument, uint64_t dir, const char *name,
					uint64_t ino, uint32_t type),
			   void *argument)
{
	struct all_visit all = {.fs = fs, .argument = argument, .name = visit};

	return range_all(&all, RECORD_NAME, visit_any_name);
}

int record_range_all_runs(struct fs *fs,
			  int (*visit)(void *argument, uint64_t ino, const struct run *run),
			  void *argument)
{
	struct all_visit all = {.fs = fs, .argument = argument, .run = visit};

	return range_all(&all, RECORD_RUN, visit_any_run);
}

int record_range_runs_behind(struct fs *fs, uint64_t ino, uint64_t unit,
			     int (*visit)(void *argument, uint64_t ino, const struct run *run),
			     void *argument)
{
	struct all_visit all = {.fs = fs, .argument = argument, .run = visit};

	return store_range(store_of(fs), STORE_KEY(RECORD_RUN, fs->number),
			   ino == 0 ? (struct store_key){0}
				    : STORE_KEY(RECORD_RUN, fs->number, ino, unit),
			   SIZE_MAX, visit_any_run, &all);
}

int record_range_unlinked(struct fs *fs, int (*visit)(void *argument, uint64_t ino), void *argument)
{
	struct all_visit all = {.fs = fs, .argument = argument, .unlinked = visit};

	return range_all(&all, RECORD_UNLINKED, visit_any_unlinked);
}

int record_check(struct fs *fs,
		 int (*visit)(void *argument, struct meta_bytes key, bool is_damaged),
		 void *argument)
{
	static const char kinds[] = {RECORD_SYSTEM, RECORD_INODE,    RECORD_NAME,  RECORD_RUN,
				     RECORD_XATTR,  RECORD_UNLINKED, RECORD_AHEAD, RECORD_SCRUB,
				     RECORD_SPACE,  RECORD_EMPTIED};
	int ret = 0;

	for (size_t i = 0; i < sizeof(kinds) && ret == 0; i++) {
		const struct store_key prefix = STORE_KEY(kinds[i], fs->number);

		ret = store_check(store_of(fs), (struct meta_bytes){prefix.bytes, prefix.length},
				  (struct meta_bytes){"", 0}, SIZE_MAX, visit, argument);
	}
	return ret;
}
