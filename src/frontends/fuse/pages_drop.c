/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dropping pages. Threads of their own tell the kernel, since its answer may wait for a page whose reader waits for us. There are several, so
 * that a page of a server that is away holds up no other file.
 */
#include <errno.h>
#include <stdlib.h>

#include "leases.h"
#include "pages_table.h"

#define DROPPERS     4U
#define DROPPERS_MAX 256U /* when others wait for pages whose servers are away */
#define FILL_SLOW_MS 20

/* A request, or the manager, waits until the pages of a file are dropped. */
struct waiting {
	struct waiting *next;
	fuse_req_t req;
	struct afar_file_stat stat;
	struct afar_drop *drop; /* NULL: a request */
};

static CDS_LIST_HEAD(queue);
static unsigned nr_droppers, nr_idle;

/* ---- Telling the kernel */

static void answer_all(struct waiting *waiting)
{
	struct waiting *next;

	for (; waiting; waiting = next) {
		next = waiting->next;
		if (waiting->drop)
			afar_fs_dropped(waiting->drop);
		else
			answer_attributes(waiting->req, 0, &waiting->stat);
		free(waiting);
	}
}

/* The kernel drops its attributes, too. It may be about to learn of an inode that it does not know. */
static void tell_kernel(const struct mount *mount, uint64_t ino, bool has_pages)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	const off_t from = has_pages ? 0 : -1; /* -1: attributes alone */

	while (fuse_lowlevel_notify_inval_inode(mount->fuse, node_of(mount, ino), from, 0) ==
		       -ENOENT &&
	       lease_is_there(ino))
		nanosleep(&pause, NULL);
}

/* The mutex is held, but not while the kernel is told. */
static void drop(struct mount *mount, struct pages *pages)
{
	const bool were_there = pages->may_be_there;
	struct waiting *waiting = pages->waiting;
	uint64_t since;

	pages->waiting = NULL;
	pages->is_queued = false;
	pages->is_dropping = true;
	pages->nr_filled = 0;
	pages_set_present(pages, false);
	pthread_mutex_unlock(&pages_mutex);
	since = pages_quiet_since(mount, pages->ino);
	pthread_mutex_lock(&pages_mutex);
	pages->since = since;
	pages_threads.nr_in_kernel++;
	pthread_mutex_unlock(&pages_mutex);
	if (were_there || lease_is_there(pages->ino))
		tell_kernel(mount, pages->ino, were_there);
	pthread_mutex_lock(&pages_mutex);
	pages_threads.nr_in_kernel--;
	pages->dropped_at = pages_now_ms();
	pages->is_dropping = false;
	if (pages->is_queued)
		cds_list_add_tail(&pages->queued, &queue);
	else
		pages_put(pages);
	pthread_mutex_unlock(&pages_mutex);
	answer_all(waiting);
	pthread_mutex_lock(&pages_mutex);
}

/* Takes one from the queue that no slow read fills: the kernel would wait for that, and not even end with this process. NULL: there is none. */
static struct pages *take_queued(void)
{
	const uint64_t now = pages_now_ms();
	struct pages *pages;

	cds_list_for_each_entry (pages, &queue, queued) {
		if (pages->nr_filling != 0 && pages->filling_since + FILL_SLOW_MS <= now)
			continue;
		cds_list_del(&pages->queued);
		return pages;
	}
	return NULL;
}

/* The mutex is held. */
static void wait_for_queue(void)
{
	const struct timespec until = pages_after_ms(FILL_SLOW_MS);

	nr_idle++;
	if (cds_list_empty(&queue))
		pthread_cond_wait(&pages_threads.queued, &pages_mutex);
	else
		pthread_cond_timedwait(&pages_threads.queued, &pages_mutex, &until);
	nr_idle--;
}

static void *drop_queued(void *argument)
{
	struct pages *pages;

	(void)argument;
	pthread_mutex_lock(&pages_mutex);
	while (pages_threads.serving) {
		pages = take_queued();
		if (pages)
			drop(pages_threads.serving, pages);
		else
			wait_for_queue();
	}
	pages_end_thread();
	return NULL;
}

bool drops_are_possible(void)
{
	if (nr_idle == 0 && nr_droppers < DROPPERS)
		nr_droppers += pages_start(drop_queued);
	return nr_droppers != 0;
}

void drops_help(void)
{
	if (nr_idle == 0 && nr_droppers < DROPPERS_MAX && !cds_list_empty(&queue))
		nr_droppers += pages_start(drop_queued);
}

void drops_add(struct pages *pages, struct waiting *waiting)
{
	if (waiting) {
		waiting->next = pages->waiting;
		pages->waiting = waiting;
	}
	if (pages->is_queued)
		return;
	pages->is_queued = true;
	/* Else whoever drops it puts it into the queue again. */
	if (!pages->is_dropping) {
		pages->nr_users++;
		cds_list_add_tail(&pages->queued, &queue);
	}
	drops_are_possible();
	pthread_cond_signal(&pages_threads.queued);
}

/* ---- Those who wait */

/* Returns false where there is no memory, or no thread: then nothing is dropped. */
static bool add_waiting(struct mount *mount, struct pages *pages, const struct waiting *model)
{
	struct waiting *waiting;

	pages_serve(mount);
	waiting = pages_threads.serving && drops_are_possible() ? malloc(sizeof(*waiting)) : NULL;
	if (!waiting)
		return false;
	*waiting = *model;
	drops_add(pages, waiting);
	return true;
}

void pages_drop_and_answer(struct mount *mount, struct pages *pages, fuse_req_t req,
			   const struct afar_file_stat *stat)
{
	const struct waiting waiting = {.req = req, .stat = *stat};
	bool is_added;

	pthread_mutex_lock(&pages_mutex);
	is_added = add_waiting(mount, pages, &waiting);
	pthread_mutex_unlock(&pages_mutex);
	if (!is_added)
		answer(req, -ENOMEM);
}

void pages_drop_again(struct mount *mount, uint64_t ino)
{
	struct pages *pages;

	pthread_mutex_lock(&pages_mutex);
	pages_serve(mount);
	pages = pages_threads.serving ? pages_get(ino) : NULL;
	if (pages) {
		if (pages->is_closed)
			pages_set_closed(pages, false);
		drops_add(pages, NULL);
	}
	pthread_mutex_unlock(&pages_mutex);
}

/* Returns whether that waits for the kernel. The mutex is held. */
static bool add_drop(struct mount *mount, uint64_t ino, struct afar_drop *drop, bool is_leased)
{
	const struct waiting waiting = {.drop = drop};
	struct pages *pages = pages_find(ino);
	bool is_added = false;

	/* The kernel drops its pages when it is opened next. */
	if (pages && pages->is_closed) {
		pages_forget_unused(pages);
		pages = NULL;
	}
	if (!pages && is_leased)
		pages = pages_get(ino);
	if (!pages)
		return false;
	if (is_leased || pages->may_be_there || pages->is_dropping)
		is_added = add_waiting(mount, pages, &waiting);
	pages_forget_unused(pages);
	return is_added;
}

/* Nothing waits if the kernel has neither a page of it nor a lease. If it has a lease, and nobody can tell it, then the manager waits
 * until that is over. */
void pages_drop(void *mount, uint64_t ino, struct afar_drop *drop)
{
	const bool is_leased = lease_is_there(ino);
	bool is_waiting;

	pthread_mutex_lock(&pages_mutex);
	is_waiting =
		add_drop(mount, ino, drop, is_leased) || (is_leased && !pages_threads.has_ended);
	pthread_mutex_unlock(&pages_mutex);
	if (!is_waiting)
		afar_fs_dropped(drop);
}
