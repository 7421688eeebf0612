/* SPDX-License-Identifier: BSD-3-Clause */
/* File systems and inodes in memory. See table.h. */
#include "manager/files/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <afar/afar.h>

#include "base/log.h"
#include "manager/quota.h"
#include "manager/servers.h"
#include "manager/volumes.h"

#define ROOT_INO       1U
#define ROOT_MODE      0755U
#define FORGET_AT_ONCE 1024U /* inodes, in one run */
#define END_AT_ONCE    256U  /* in one commit */

COMPARE_BY(compare_files, file, ino)

static struct undo *undo_of(const struct fs *fs)
{
	return fs_core(fs)->undo;
}

/* ---- Times */

int64_t files_now(void)
{
	static int64_t last; /* on the writer's thread alone */
	struct timespec time;
	int64_t now;

	clock_gettime(CLOCK_REALTIME, &time);
	now = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
	last = now > last ? now : last + 1;
	return last;
}

void inode_touch_change(struct inode *inode)
{
	inode->ctime = files_now();
	inode->change++;
}

void inode_touch(struct inode *inode)
{
	inode_touch_change(inode);
	inode->mtime = inode->ctime;
}

/* ---- File systems */

struct fs *files_find(const struct core *core, uint64_t number)
{
	struct fs *fs;

	cds_list_for_each_entry (fs, &core->files->systems, node)
		if (fs->number == number && !fs->is_deleted)
			return fs;
	return NULL;
}

struct namespace *fs_namespace(const struct fs *fs)
{
	return state_namespace(fs_core(fs)->state, fs->number);
}

static struct fs *fs_new(struct files *files, uint64_t number)
{
	struct fs *fs = calloc(1, sizeof(*fs));

	if (!fs)
		return NULL;
	if (space_begin(&fs->space, 0) < 0) {
		free(fs);
		return NULL;
	}
	fs->space.nr_runs = 0;
	fs->max_cached = FILES_CACHED_MAX;
	fs->files = files;
	fs->number = number;
	CDS_INIT_LIST_HEAD(&fs->node);
	CDS_INIT_LIST_HEAD(&fs->scrubs);
	CDS_INIT_LIST_HEAD(&fs->idle);
	CDS_INIT_LIST_HEAD(&fs->delegates);
	CDS_INIT_LIST_HEAD(&fs->users);
	return fs;
}

static void file_free(struct file *file)
{
	locks_free(file);
	free(file->inode);
	free(file->runs);
	free(file->gone_name);
	free(file);
}

static bool free_file(void *argument, void *row)
{
	(void)argument;
	file_free(row);
	return true;
}

static bool free_hold(void *argument, void *row)
{
	(void)argument;
	free(row);
	return true;
}

static void fs_free(void *argument)
{
	struct fs *fs = argument;
	struct scrub *scrub, *next;

	cds_list_for_each_entry_safe (scrub, next, &fs->scrubs, node)
		free(scrub);
	tree_walk(fs->holds_by_handle, free_hold, NULL);
	tree_close(&fs->holds_by_handle);
	tree_walk(fs->files_by_ino, free_file, NULL);
	tree_close(&fs->files_by_ino);
	space_end(&fs->space);
	delegations_free(fs);
	gone_free(fs);
	free(fs->unclaimed);
	free(fs->left);
	free(fs);
}

void fs_put(struct fs *fs)
{
	record_put_system(fs);
}

int files_create(struct core *core, const struct namespace *ns, const Afar__NamespaceCreate *ask)
{
	struct fs *fs = fs_new(core->files, ns->number);
	struct inode *inode;
	struct file *root;
	int ret = fs ? undo_room(core->undo, 2) : error_code(-ENOMEM);

	if (ret < 0) {
		if (fs)
			fs_free(fs);
		return ret;
	}
	undo_made(core->undo, fs, fs_free);
	undo_link(core->undo, &fs->node, &core->files->systems);
	fs->root = fs->next_ino = ROOT_INO;
	fs->next_scrub = 1;
	fs->max_inodes = ask->max_inodes;
	ret = file_new(fs, S_IFDIR | (ask->root_mode ? ask->root_mode & 07777U : ROOT_MODE), NULL,
		       &root);
	inode = ret == 0 ? file_edit(root) : NULL;
	if (!inode)
		return ret < 0 ? ret : error_code(-ENOMEM);
	inode->uid = ask->root_uid;
	inode->gid = ask->root_gid;
	inode->nlink = 2;
	inode->parent = ROOT_INO;
	file_put(root);
	return 0;
}

int files_delete(struct core *core, const struct namespace *ns)
{
	struct fs *fs = files_find(core, ns->number);
	uint64_t *more;
	int ret;

	if (!fs)
		return 0;
	more = reallocarray(core->files->emptied, core->files->nr_emptied + 1, sizeof(*more));
	if (!more)
		return error_code(-ENOMEM);
	core->files->emptied = more;
	ret = undo_room(core->undo, 4);
	if (ret < 0)
		return ret;
	more[core->files->nr_emptied] = fs->number;
	undo_set(core->undo, core->files->nr_emptied, core->files->nr_emptied + 1);
	undo_set(core->undo, fs->is_deleted, true);
	undo_unlink(core->undo, &fs->node);
	undo_gone(core->undo, fs, fs_free);
	record_delete_system(fs);
	record_put_emptied(core, fs->number);
	return 0;
}

static uint64_t pool_room(const struct pool *pool)
{
	uint64_t taken = pool->granted_bytes + pool->pending_bytes;

	return pool_is_writable(pool) && pool->capacity_bytes > taken ? pool->capacity_bytes - taken
								      : 0;
}

/* What servers, or stores, could still lend. */
static uint64_t room_of(const struct core *core, const struct namespace *ns)
{
	const struct flash_store *store;
	const struct server *server;
	uint64_t room = 0, limit = quota_room(core, ns);

	cds_list_for_each_entry (server, &core->state->servers, node)
		if (ns->tier == AFAR_TIER_DRAM)
			room += pool_room(&server->dram);
	cds_list_for_each_entry (store, &core->state->stores, node)
		if (ns->tier == AFAR_TIER_FLASH)
			room += pool_room(&store->pool);
	return room < limit ? room : limit;
}

Afar__FileSystemInfo *files_info(const struct core *core, const struct namespace *ns)
{
	Afar__FileSystemInfo *info = MESSAGE_NEW(afar__file_system_info, Afar__FileSystemInfo);
	const struct region *region = volume_region(ns);
	const struct fs *fs = files_find(core, ns->number);

	if (!info || !fs)
		return info;
	info->root = fs->root;
	info->pool_bytes = region ? region->length : 0;
	info->free_bytes = fs->space.free_bytes;
	/* What the pool has grown by is looked at when something is allocated. */
	if (info->pool_bytes > fs->space.length)
		info->free_bytes += info->pool_bytes - fs->space.length;
	info->lost_bytes = fs->nr_lost_units * FILE_UNIT;
	if (region)
		info->pool_bytes -= layout_lost_bytes(region->layout);
	info->pending_bytes = fs->pending_bytes;
	info->room_bytes = room_of(core, ns);
	info->nr_inodes = fs->nr_inodes;
	info->max_inodes = fs->max_inodes;
	info->region_address = region ? region->address : 0;
	info->now = files_now();
	return info;
}

/* ---- Inodes */

struct file *file_cached(const struct fs *fs, uint64_t ino)
{
	const struct file wanted = {.ino = ino};

	return tree_find(&fs->files_by_ino, &wanted, compare_files);
}

/* Finds its place in memory, or makes it one, which is not noted: it says nothing. */
static int find_place(struct fs *fs, uint64_t ino, struct file **out)
{
	struct file *file = file_cached(fs, ino);
	void *hidden;
	int ret;

	*out = file;
	if (file)
		return 0;
	file = calloc(1, sizeof(*file));
	if (!file)
		return error_code(-ENOMEM);
	file->fs = fs;
	file->ino = ino;
	CDS_INIT_LIST_HEAD(&file->holds);
	CDS_INIT_LIST_HEAD(&file->locks);
	ret = tree_add(&fs->files_by_ino, file, compare_files, &hidden);
	if (ret < 0) {
		free(file);
		return ret;
	}
	cds_list_add_tail(&file->idle, &fs->idle);
	fs->nr_files++;
	*out = file;
	return 0;
}

static int fail_gone(uint64_t ino)
{
	return error_fail(-ESTALE, "use inode %llu: it is gone", (unsigned long long)ino);
}

int file_get(struct fs *fs, uint64_t ino, struct file **out)
{
	struct file *file = file_cached(fs, ino);
	struct inode *inode;
	int ret;

	if (file) {
		*out = file;
		store_look(fs_core(fs)->store, file->mark);
		if (!file->is_pinned) {
			cds_list_del(&file->idle);
			cds_list_add_tail(&file->idle, &fs->idle);
		}
		return file->inode ? 0 : fail_gone(ino);
	}
	ret = record_get_inode(fs, ino, &inode);
	if (ret < 0)
		return ret == -ENOENT ? fail_gone(ino) : ret;
	ret = find_place(fs, ino, out);
	if (ret < 0) {
		free(inode);
		return ret;
	}
	(*out)->inode = inode;
	return 0;
}

int file_get_directory(struct fs *fs, uint64_t ino, struct file **out)
{
	int ret = file_get(fs, ino, out);

	/* As for a directory that was removed while somebody worked in it. */
	if (ret == -ESTALE)
		return error_fail(-ENOENT, "use directory %llu: it was removed",
				  (unsigned long long)ino);
	if (ret < 0 || inode_is_directory((*out)->inode))
		return ret;
	return error_fail(-ENOTDIR, "use inode %llu as a directory: it is none",
			  (unsigned long long)ino);
}

static int set_inode(struct file *file, struct inode *inode)
{
	struct undo *undo = undo_of(file->fs);
	int ret = undo_room(undo, 3);

	if (ret < 0) {
		free(inode);
		return ret;
	}
	if (inode)
		undo_made(undo, inode, free);
	if (file->inode)
		undo_gone(undo, file->inode, free);
	undo_set(undo, file->inode, inode);
	store_mark(fs_core(file->fs)->store, &file->mark);
	return 0;
}

static int set_runs(struct file *file, struct runs *runs)
{
	struct undo *undo = undo_of(file->fs);
	int ret = undo_room(undo, 3);

	if (ret < 0) {
		free(runs);
		return ret;
	}
	if (runs)
		undo_made(undo, runs, free);
	if (file->runs)
		undo_gone(undo, file->runs, free);
	undo_set(undo, file->runs, runs);
	store_mark(fs_core(file->fs)->store, &file->mark);
	return 0;
}

int file_new(struct fs *fs, uint32_t mode, const char *target, struct file **out)
{
	size_t length = target ? strlen(target) : 0;
	struct inode *inode = calloc(1, sizeof(*inode) + length + 1);
	struct runs *runs = calloc(1, sizeof(*runs));
	int ret = inode && runs ? undo_room(undo_of(fs), 2) : error_code(-ENOMEM);

	if (ret == 0)
		ret = limits_check_inodes(fs);
	if (ret == 0)
		ret = find_place(fs, fs->next_ino, out);
	if (ret != 0) {
		free(inode);
		free(runs);
		return ret;
	}
	undo_set(undo_of(fs), fs->next_ino, fs->next_ino + 1);
	undo_set(undo_of(fs), fs->nr_inodes, fs->nr_inodes + 1);
	fs_put(fs);
	inode->mode = mode;
	inode->nlink = 1;
	inode->size = length;
	if (target)
		memcpy(inode->target, target, length + 1);
	inode_touch(inode);
	inode->atime = inode->mtime;
	ret = set_runs(*out, runs);
	if (ret != 0) {
		free(inode);
		return ret;
	}
	return set_inode(*out, inode);
}

/* An operation that changes more does not say so, and its session forgets what it knows: calls.c. */
static void note_edited(struct file *file)
{
	struct fs *fs = file->fs;

	for (size_t i = 0; i < fs->nr_edited && i < FS_EDITED_MAX; i++)
		if (fs->edited[i] == file)
			return;
	if (fs->nr_edited < FS_EDITED_MAX)
		fs->edited[fs->nr_edited] = file;
	fs->nr_edited++;
}

struct inode *file_edit(struct file *file)
{
	size_t bytes = sizeof(struct inode) + strlen(file->inode->target) + 1;
	struct inode *copy = malloc(bytes);

	if (!copy)
		return NULL;
	memcpy(copy, file->inode, bytes);
	if (set_inode(file, copy) < 0)
		return NULL;
	note_edited(file);
	return copy;
}

void file_put(struct file *file)
{
	record_put_inode(file->fs, file->ino, file->inode);
	if (!file->is_dirty)
		return;
	if (undo_room(undo_of(file->fs), 1) < 0)
		undo_fail(undo_of(file->fs), error_code(-ENOMEM));
	else
		undo_set(undo_of(file->fs), file->is_dirty, false);
}

int file_set_dirty(struct file *file)
{
	int ret = undo_room(undo_of(file->fs), 1);

	if (ret == 0)
		undo_set(undo_of(file->fs), file->is_dirty, true);
	return ret;
}

/* ---- Ending */

struct xattrs_deletion {
	struct fs *fs;
	uint64_t ino;
};

static int delete_xattr(void *argument, const char *name)
{
	const struct xattrs_deletion *deletion = argument;

	record_delete_xattr(deletion->fs, deletion->ino, name);
	return 0;
}

static int give_runs(struct file *file)
{
	struct run *cuts;
	size_t nr;
	int ret = file_load_runs(file);

	if (ret == 0)
		ret = file_cut_runs(file, 0, UINT64_MAX, &cuts, &nr);
	return ret == 0 ? pool_give(file->fs, cuts, nr) : ret;
}

int file_destroy(struct file *file)
{
	struct xattrs_deletion deletion = {file->fs, file->ino};
	struct fs *fs = file->fs;
	int ret = 0;

	if (file->inode->nr_units != 0)
		ret = give_runs(file);
	if (ret == 0 && file->inode->nr_xattrs != 0)
		ret = record_range_xattrs(fs, file->ino, delete_xattr, &deletion);
	if (ret == 0)
		ret = undo_room(undo_of(fs), 2);
	if (ret < 0)
		return ret;
	undo_set(undo_of(fs), fs->nr_inodes, fs->nr_inodes - 1);
	undo_set(undo_of(fs), file->is_dirty, false);
	ret = file_note_ahead(file, false);
	if (ret < 0)
		return ret;
	fs_put(fs);
	record_delete_inode(fs, file->ino);
	ret = set_runs(file, NULL);
	/* It may leave memory, once that is committed. */
	file_unpin(file);
	return ret == 0 ? set_inode(file, NULL) : ret;
}

void file_unpin(struct file *file)
{
	if (!file->is_pinned)
		return;
	file->is_pinned = false;
	file->fs->nr_pinned--;
	cds_list_add_tail(&file->idle, &file->fs->idle);
}

bool fs_is_suspect(const struct fs *fs)
{
	const struct namespace *ns = fs_namespace(fs);

	return ns && ns->is_suspect;
}

int file_settle(struct file *file)
{
	if (!file->inode || file->inode->nlink != 0)
		return 0;
	/* After a restart others may have it open, and have still to tell: end_left(). */
	if (file_is_held(file) || file->fs->nr_unclaimed != 0) {
		record_put_unlinked(file->fs, file->ino);
		return 0;
	}
	/* Its units may be others' by now, until an operator says that they are not. */
	if (gone_must_ask(file) || fs_is_suspect(file->fs)) {
		record_put_unlinked(file->fs, file->ino);
		return gone_add(file);
	}
	record_delete_unlinked(file->fs, file->ino);
	return file_destroy(file);
}

int fs_may_fail(struct fs *fs, uint64_t ino, size_t mark, int ret)
{
	ret = undo_end(undo_of(fs), mark, ret);
	if (ret == 0 || ret == -ENOMEM)
		return ret;
	log_warn_some(
		"file system '%s': what inode %llu has and nobody uses is not given back: %s; "
		"the manager tries that again when it starts",
		fs_namespace(fs)->name, (unsigned long long)ino, error_last_line());
	return 0;
}

void fs_forget_idle(struct fs *fs)
{
	struct file *file, *next;
	unsigned nr = 0;

	if (fs->nr_files - fs->nr_pinned <= fs->max_cached)
		return;
	cds_list_for_each_entry_safe (file, next, &fs->idle, idle) {
		if (fs->nr_files - fs->nr_pinned <= fs->max_cached || nr++ == FORGET_AT_ONCE)
			return;
		if (file_is_held(file) || file->is_dirty || file->is_gone ||
		    (file->delegates && file->inode))
			continue;
		delegation_forget(file);
		cds_list_del(&file->idle);
		tree_hide(&fs->files_by_ino, file, compare_files);
		tree_remove_hidden(&fs->files_by_ino, file, compare_files);
		fs->nr_files--;
		file_free(file);
	}
}

/* ---- The whole */

/* Those that had the pool open when the manager ended. They tell what they hold (hold_claim()). */
static int find_unclaimed(struct fs *fs, const struct region *region)
{
	const struct reference *reference;
	size_t max = 0;

	cds_list_for_each_entry (reference, &region->references, region_node)
		max++;
	fs->unclaimed = calloc(max + 1, sizeof(*fs->unclaimed));
	if (!fs->unclaimed)
		return error_code(-ENOMEM);
	cds_list_for_each_entry (reference, &region->references, region_node)
		fs->unclaimed[fs->nr_unclaimed++] = reference->session->number;
	return 0;
}

static int load(struct files *files, const struct namespace *ns)
{
	const struct region *region = volume_region(ns);
	struct fs *fs = fs_new(files, ns->number);
	int ret = fs ? 0 : error_code(-ENOMEM);

	if (ret == 0 && region && region->length >= FILE_UNIT && !region->is_unfinished) {
		space_end(&fs->space);
		ret = space_begin(&fs->space, region->length / FILE_UNIT * FILE_UNIT);
	}
	if (ret == 0)
		ret = record_load_system(fs);
	if (ret == 0)
		ret = lost_load(fs);
	if (ret == 0 && region)
		ret = find_unclaimed(fs, region);
	if (ret < 0) {
		if (fs)
			fs_free(fs);
		return ret;
	}
	cds_list_add_tail(&fs->node, &files->systems);
	return 0;
}

static int add_emptied(void *argument, uint64_t fs)
{
	struct files *files = argument;
	uint64_t *more = reallocarray(files->emptied, files->nr_emptied + 1, sizeof(*more));

	if (!more)
		return error_code(-ENOMEM);
	files->emptied = more;
	files->emptied[files->nr_emptied++] = fs;
	return 0;
}

int files_start(struct core *core)
{
	struct files *files = calloc(1, sizeof(*files));
	const struct namespace *ns;
	int ret = files ? 0 : error_code(-ENOMEM);

	if (ret < 0)
		return ret;
	files->core = core;
	files->last_delegation = (uint64_t)files_now();
	CDS_INIT_LIST_HEAD(&files->systems);
	core->files = files;
	cds_list_for_each_entry (ns, &core->state->namespaces, node)
		if (ns->is_files && !ns->is_deleted && ret == 0)
			ret = load(files, ns);
	if (ret == 0)
		ret = record_load_emptied(core, add_emptied, files);
	return ret;
}

void files_close(struct core *core)
{
	struct fs *fs, *next;

	if (!core->files)
		return;
	cds_list_for_each_entry_safe (fs, next, &core->files->systems, node)
		fs_free(fs);
	free(core->files->emptied);
	free(core->files);
}

/* Ends one of whom nobody has told that he holds it, or what it has ahead. */
static int end_one(struct file *file)
{
	/* Whoever holds it closes it later; it may get a name before. */
	if (file_is_held(file))
		return file_note_ahead(file, true) ?: file_settle(file);
	record_delete_ahead(file->fs, file->ino);
	return file->inode->nlink != 0 ? file_trim_closed(file) : file_settle(file);
}

static int end_left(struct fs *fs)
{
	struct file *file;
	int ret;

	for (unsigned i = 0; i < END_AT_ONCE && fs->nr_left != 0; i++) {
		uint64_t ino = fs->left[fs->nr_left - 1];
		size_t mark = undo_mark(undo_of(fs));

		ret = file_get(fs, ino, &file);
		if (ret == 0) {
			ret = end_one(file);
		} else if (ret == -ESTALE) {
			record_delete_ahead(fs, ino);
			ret = 0;
		}
		ret = fs_may_fail(fs, ino, mark, ret);
		if (ret == 0)
			ret = undo_room(undo_of(fs), 1);
		if (ret < 0)
			return ret;
		undo_set(undo_of(fs), fs->nr_left, fs->nr_left - 1);
	}
	return 0;
}

/* Units of what older records have may be others' by now. */
static bool can_end_left(const struct fs *fs)
{
	const struct namespace *ns = fs_namespace(fs);

	return fs->nr_unclaimed == 0 && fs->nr_left != 0 && ns && !ns->is_suspect;
}

/* What failed is tried again, but not at once. It holds up nobody else. */
static void end_work(struct core *core, size_t mark, int ret)
{
	if (undo_end(core->undo, mark, ret) < 0)
		core->files->retry_at = core_now(core) + CORE_RETRY_NS;
}

void files_work(struct core *core)
{
	struct files *files = core->files;
	struct fs *fs;
	size_t mark;

	if (files->retry_at > core_now(core))
		return;
	files->retry_at = 0;
	cds_list_for_each_entry (fs, &files->systems, node) {
		mark = undo_mark(core->undo);
		if (can_end_left(fs))
			end_work(core, mark, end_left(fs));
		mark = undo_mark(core->undo);
		end_work(core, mark, gone_work(fs));
		mark = undo_mark(core->undo);
		end_work(core, mark, shrink_work(fs));
	}
	if (files->nr_emptied != 0) {
		bool is_over = false;
		int ret;

		mark = undo_mark(core->undo);
		ret = record_empty(core, files->emptied[files->nr_emptied - 1], &is_over);
		if (ret == 0 && is_over)
			ret = undo_room(core->undo, 1);
		if (ret == 0 && is_over)
			undo_set(core->undo, files->nr_emptied, files->nr_emptied - 1);
		end_work(core, mark, ret);
	}
}

void files_drive(struct core *core)
{
	struct fs *fs;

	cds_list_for_each_entry (fs, &core->files->systems, node) {
		gone_drive(fs);
		scrubs_drive(fs);
		fs_forget_idle(fs);
		shrink_drive(fs);
	}
}

/* When there is work of one to do. */
static uint64_t next_work(const struct fs *fs)
{
	uint64_t gone = gone_next(fs), shrink = shrink_next(fs);

	if (can_end_left(fs))
		return 0;
	return gone < shrink ? gone : shrink;
}

uint64_t files_next(const struct core *core)
{
	const struct files *files = core->files;
	uint64_t next = files->nr_emptied != 0 ? 0 : CORE_NEVER, work;
	const struct fs *fs;

	cds_list_for_each_entry (fs, &files->systems, node) {
		work = next_work(fs);
		next = work < next ? work : next;
	}
	if (next < files->retry_at)
		next = files->retry_at;
	cds_list_for_each_entry (fs, &files->systems, node)
		if (fs->retry_at != 0 && fs->retry_at < next)
			next = fs->retry_at;
	return next;
}
