/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions, inodes, and which of these are delegated to which; see delegates.h. All of it is in memory alone, and never taken back. */
#include "manager/files/delegates.h"

#include <stdlib.h>
#include <string.h>

#include "manager/files/holds.h"

COMPARE_BY(compare_delegates, delegate, session)

/* ---- Shares */

/* The place of a number in the list, or where it would be. */
static size_t find_place(const struct shares *shares, uint64_t number)
{
	size_t low = 0, high = shares ? shares->nr : 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (shares->list[middle]->delegate->number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct share *share_find(const struct file *file, const struct delegate *delegate)
{
	const struct shares *shares = file->shares;
	size_t place = find_place(shares, delegate->number);

	return shares && place < shares->nr && shares->list[place]->delegate == delegate
		       ? shares->list[place]
		       : NULL;
}

static bool resize(struct file *file, size_t max)
{
	struct shares *shares =
		realloc(file->shares, sizeof(*shares) + max * sizeof(struct share *));

	if (!shares)
		return false;
	if (!file->shares)
		shares->nr = 0;
	shares->max = max;
	file->shares = shares;
	return true;
}

static bool make_room(struct file *file)
{
	const struct shares *shares = file->shares;

	return (shares && shares->nr < shares->max) || resize(file, shares ? 2 * shares->max : 1);
}

static void pin(struct file *file)
{
	if (file->is_pinned)
		return;
	cds_list_del(&file->idle);
	file->is_pinned = true;
	file->fs->nr_pinned++;
}

bool share_add(struct file *file, struct delegate *delegate)
{
	struct share *share = malloc(sizeof(*share));
	struct shares *shares;
	size_t place;

	if (!share || !make_room(file)) {
		free(share);
		return false;
	}
	*share = (struct share){.delegate = delegate, .file = file};
	shares = file->shares;
	place = find_place(shares, delegate->number);
	memmove(&shares->list[place + 1], &shares->list[place],
		(shares->nr - place) * sizeof(struct share *));
	shares->list[place] = share;
	shares->nr++;
	shares->are_asked = false;
	pin(file);
	cds_list_add_tail(&share->node, &delegate->shares);
	if (delegate->nr++ == 0)
		cds_list_add_tail(&delegate->node, &file->fs->delegates);
	file->fs->nr_shared++;
	return true;
}

void share_remove(struct share *share)
{
	struct delegate *delegate = share->delegate;
	struct file *file = share->file;
	struct shares *shares = file->shares;
	size_t place = find_place(shares, delegate->number);

	shares->nr--;
	memmove(&shares->list[place], &shares->list[place + 1],
		(shares->nr - place) * sizeof(struct share *));
	if (shares->nr == 0) {
		free(shares);
		file->shares = NULL;
		file_unpin(file);
	} else if (shares->nr <= shares->max / 4) {
		resize(file, shares->max / 2);
	}
	cds_list_del(&share->node);
	if (--delegate->nr == 0)
		cds_list_del(&delegate->node);
	file->fs->nr_shared--;
	free(share);
}

void delegation_forget(struct file *file)
{
	while (file->shares) {
		struct share *share = file->shares->list[file->shares->nr - 1];
		struct delegate *delegate = share->delegate;

		share_remove(share);
		if (delegate->has_left && delegate->nr == 0)
			delegate_end(file->fs, delegate);
	}
}

/* ---- Delegates */

struct delegate *delegate_find(const struct fs *fs, uint64_t session)
{
	const struct delegate wanted = {.session = session};

	return tree_find(&fs->delegates_by_session, &wanted, compare_delegates);
}

static struct delegate *delegate_new(struct fs *fs, uint64_t session)
{
	struct delegate *delegate = calloc(1, sizeof(*delegate));
	void *hidden;

	if (!delegate)
		return NULL;
	delegate->session = session;
	delegate->number = ++fs->files->last_delegation;
	CDS_INIT_LIST_HEAD(&delegate->shares);
	CDS_INIT_LIST_HEAD(&delegate->revoked);
	CDS_INIT_LIST_HEAD(&delegate->owing);
	CDS_INIT_LIST_HEAD(&delegate->returned);
	if (tree_add(&fs->delegates_by_session, delegate, compare_delegates, &hidden) == 0)
		return delegate;
	free(delegate);
	return NULL;
}

struct delegate *delegate_get(struct fs *fs, const struct session *session)
{
	const struct region *pool = volume_region(fs_namespace(fs));
	struct delegate *delegate;

	/* One that has the pool open is heard of when it leaves. */
	if (fs->nr_unreclaimed != 0 || !pool || !session_reference(session, pool->generation))
		return NULL;
	delegate = delegate_find(fs, session->number);
	return delegate ?: delegate_new(fs, session->number);
}

void delegate_renew(struct fs *fs, struct delegate *delegate)
{
	delegate->renewed_at = core_now(fs_core(fs));
	if (delegate->nr == 0)
		return;
	cds_list_del(&delegate->node);
	cds_list_add_tail(&delegate->node, &fs->delegates);
}

bool delegate_has_run_out(const struct fs *fs, const struct delegate *delegate)
{
	return core_now(fs_core(fs)) >= delegate->renewed_at + DELEGATION_KEPT_NS;
}

static void remove_all(struct cds_list_head *list)
{
	struct share *share, *next;

	cds_list_for_each_entry_safe (share, next, list, node)
		share_remove(share);
}

void delegate_clear(struct fs *fs, struct delegate *delegate)
{
	remove_all(&delegate->shares);
	remove_all(&delegate->revoked);
	delegate->number = ++fs->files->last_delegation;
}

void delegate_forget_debt(struct delegate *delegate)
{
	cds_list_del(&delegate->owing);
	CDS_INIT_LIST_HEAD(&delegate->owing);
}

/* Nobody finds it by its session any more. */
static void take_out(struct fs *fs, struct delegate *delegate)
{
	if (delegate->has_left)
		return;
	delegate_forget_debt(delegate);
	cds_list_del(&delegate->returned);
	tree_hide(&fs->delegates_by_session, delegate, compare_delegates);
	tree_remove_hidden(&fs->delegates_by_session, delegate, compare_delegates);
}

void delegate_end(struct fs *fs, struct delegate *delegate)
{
	delegate_clear(fs, delegate);
	take_out(fs, delegate);
	free(delegate);
}

void delegate_expire(struct fs *fs, struct delegate *delegate)
{
	if (delegate->has_left)
		delegate_end(fs, delegate);
	else
		delegate_clear(fs, delegate);
}

void delegate_leave(struct fs *fs, struct delegate *delegate)
{
	if (delegate->nr == 0) {
		delegate_end(fs, delegate);
		return;
	}
	take_out(fs, delegate);
	delegate->has_left = true;
}

static bool free_delegate(void *argument, void *row)
{
	(void)argument;
	free(row);
	return true;
}

void delegations_free(struct fs *fs)
{
	struct delegate *delegate, *next;

	cds_list_for_each_entry_safe (delegate, next, &fs->delegates, node)
		delegate_expire(fs, delegate);
	tree_walk(fs->delegates_by_session, free_delegate, NULL);
	tree_close(&fs->delegates_by_session);
}
