/* SPDX-License-Identifier: BSD-3-Clause */
/* File systems as a whole: loaded, made, deleted, told of, and freed with all that their rooms have put into them. */
#include <errno.h>
#include <stdlib.h>

#include <afar/afar.h>

#include "manager/connections/live.h"
#include "manager/files/holds.h"
#include "manager/files/pool.h"
#include "manager/files/records.h"
#include "manager/files/table.h"

#define ROOT_INO       1U
#define ROOT_MODE      0755U
#define FORGET_AT_ONCE 1024U /* inodes, in one run */

/* ---- Memory */

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
	fs->max_shared = FILES_SHARED_MAX;
	fs->files = files;
	fs->number = number;
	CDS_INIT_LIST_HEAD(&fs->node);
	CDS_INIT_LIST_HEAD(&fs->scrubs);
	CDS_INIT_LIST_HEAD(&fs->idle);
	CDS_INIT_LIST_HEAD(&fs->delegates);
	CDS_INIT_LIST_HEAD(&fs->owing);
	CDS_INIT_LIST_HEAD(&fs->returned);
	CDS_INIT_LIST_HEAD(&fs->questions);
	CDS_INIT_LIST_HEAD(&fs->users);
	lost_ends_init(fs);
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
	delegations_free(fs);
	tree_walk(fs->files_by_ino, free_file, NULL);
	tree_close(&fs->files_by_ino);
	space_end(&fs->space);
	gone_free(fs);
	lost_ends_free(fs);
	free(fs->unreclaimed);
	free(fs->left);
	free(fs);
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
		    (file->shares && file->inode))
			continue;
		delegation_forget(file);
		file_forget(file);
		file_free(file);
	}
}

/* ---- Making and deleting */

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

/* ---- Telling */

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
	/* Allocations look at what the pool has grown by; nobody need have done so yet. */
	if (info->pool_bytes > fs->space.length)
		info->free_bytes += info->pool_bytes - fs->space.length;
	info->lost_bytes = fs->nr_lost_units * FILE_UNIT;
	if (region)
		info->pool_bytes -= layout_lost_bytes(region->layout);
	info->pending_bytes = fs->pending_bytes;
	info->room_bytes = limits_pool_room(core, ns);
	info->nr_inodes = fs->nr_inodes;
	info->max_inodes = fs->max_inodes;
	info->region_address = region ? region->address : 0;
	info->now = files_now();
	return info;
}

/* ---- The whole */

/* Those that had the pool open when the manager ended. They tell what they hold (hold_reclaim()). */
static int find_unreclaimed(struct fs *fs, const struct region *region)
{
	const struct reference *reference;
	size_t max = 0;

	cds_list_for_each_entry (reference, &region->references, region_node)
		max++;
	fs->unreclaimed = calloc(max + 1, sizeof(*fs->unreclaimed));
	if (!fs->unreclaimed)
		return error_code(-ENOMEM);
	cds_list_for_each_entry (reference, &region->references, region_node)
		fs->unreclaimed[fs->nr_unreclaimed++] = reference->session->number;
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
		ret = find_unreclaimed(fs, region);
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
	files->last_alone = files->last_delegation;
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
