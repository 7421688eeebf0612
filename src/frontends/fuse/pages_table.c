/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of files, what the kernel was told of them, and threads. See pages.h and pages_table.h. */
#include "pages_table.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define BUCKETS	   4096U
#define MS_NS	   1000000
#define CLOSED_MAX 16384U /* files that are not open */

pthread_mutex_t pages_mutex = PTHREAD_MUTEX_INITIALIZER;
CDS_LIST_HEAD(pages_present);
struct pages_threads pages_threads;

static struct cds_list_head buckets[BUCKETS];
static CDS_LIST_HEAD(closed); /* who was closed first is first */
static unsigned nr_closed;

uint64_t pages_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / MS_NS;
}

struct timespec pages_after_ms(long ms)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_nsec += ms % 1000 * MS_NS;
	at.tv_sec += ms / 1000 + at.tv_nsec / SECOND_NS;
	at.tv_nsec %= SECOND_NS;
	return at;
}

/* Numbers of different sessions differ, too. */
static int64_t since_of(const struct mount *mount, uint64_t ino)
{
	const uint64_t since = afar_fs_quiet_since(mount->fs, ino);

	return since ? (int64_t)(((uint64_t)(mount->epoch & 0x7fff) << 48) + since) : 0;
}

uint64_t pages_quiet_since(struct mount *mount, uint64_t ino)
{
	int64_t since;

	if (pthread_rwlock_tryrdlock(&mount->lock) != 0)
		return 0;
	since = mount->fs && !mount->is_another ? since_of(mount, ino) : 0;
	pthread_rwlock_unlock(&mount->lock);
	return since > 0 ? (uint64_t)since : 0;
}

/* ---- The table */

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void begin_all(void)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&pages_threads.changed, &attributes);
	pthread_cond_init(&pages_threads.queued, &attributes);
	pthread_condattr_destroy(&attributes);
	for (unsigned i = 0; i < BUCKETS; i++)
		CDS_INIT_LIST_HEAD(&buckets[i]);
}

void pages_begin_all(void)
{
	pthread_once(&once, begin_all);
}

static struct cds_list_head *bucket_of(uint64_t ino)
{
	pages_begin_all();
	return &buckets[ino * UINT64_C(0x9e3779b97f4a7c15) >> 52];
}

struct pages *pages_find(uint64_t ino)
{
	struct pages *pages;

	cds_list_for_each_entry (pages, bucket_of(ino), link)
		if (pages->ino == ino)
			return pages;
	return NULL;
}

void pages_for_each(void (*visit)(void *argument, struct pages *pages), void *argument)
{
	struct pages *pages;

	for (unsigned i = 0; i < BUCKETS; i++)
		cds_list_for_each_entry (pages, &buckets[i], link)
			visit(argument, pages);
}

void pages_set_present(struct pages *pages, bool is)
{
	if (is && !pages->may_be_there)
		cds_list_add_tail(&pages->present, &pages_present);
	else if (!is && pages->may_be_there)
		cds_list_del(&pages->present);
	pages->may_be_there = is;
}

struct pages *pages_get(uint64_t ino)
{
	struct pages *pages = pages_find(ino);

	if (pages)
		return pages;
	pages = calloc(1, sizeof(*pages));
	if (!pages)
		return NULL;
	pages->ino = ino;
	cds_list_add(&pages->link, bucket_of(ino));
	return pages;
}

void pages_set_closed(struct pages *pages, bool is)
{
	cds_list_del(&pages->present);
	cds_list_add_tail(&pages->present, is ? &closed : &pages_present);
	nr_closed += is;
	nr_closed -= !is;
	pages->is_closed = is;
}

void pages_forget_unused(struct pages *pages)
{
	if (pages->nr_users != 0)
		return;
	if (pages->is_closed)
		pages_set_closed(pages, false);
	pages_set_present(pages, false);
	cds_list_del(&pages->link);
	free(pages);
}

/* Pages that are queued have a user. */
void pages_put(struct pages *pages)
{
	if (--pages->nr_users != 0)
		return;
	if (!pages->may_be_there || pages->since == 0) {
		pages_forget_unused(pages);
		return;
	}
	pages_set_closed(pages, true);
	if (nr_closed > CLOSED_MAX)
		pages_forget_unused(cds_list_first_entry(&closed, struct pages, present));
}

void pages_close(struct pages *pages)
{
	pthread_mutex_lock(&pages_mutex);
	pages_put(pages);
	pthread_mutex_unlock(&pages_mutex);
}

/* ---- Attributes */

void pages_note_attributes(const struct afar_file_stat *stat)
{
	struct pages *pages;

	pthread_mutex_lock(&pages_mutex);
	pages = pages_find(stat->ino);
	if (pages) {
		if (pages->last.mtime != stat->mtime)
			pages->dropped_at = pages_now_ms();
		pages->last = *stat;
		pages->is_told = true;
	}
	pthread_mutex_unlock(&pages_mutex);
}

void pages_note_to_read(struct pages *pages, struct afar_file_stat *stat)
{
	pthread_mutex_lock(&pages_mutex);
	if (pages->is_told)
		stat->mtime = pages->last.mtime;
	pages->last = *stat;
	pages->is_told = true;
	pthread_mutex_unlock(&pages_mutex);
}

void pages_note_end(struct pages *pages, uint64_t end)
{
	pthread_mutex_lock(&pages_mutex);
	if (pages->last.bytes < end)
		pages->last.bytes = end;
	pthread_mutex_unlock(&pages_mutex);
}

bool pages_last_attributes(struct pages *pages, struct afar_file_stat *out)
{
	bool is_told;

	pthread_mutex_lock(&pages_mutex);
	is_told = pages->is_told;
	if (is_told)
		*out = pages->last;
	pthread_mutex_unlock(&pages_mutex);
	return is_told;
}

/* ---- Threads */

void pages_serve(struct mount *mount)
{
	if (!pages_threads.has_ended)
		pages_threads.serving = mount;
}

void pages_end_thread(void)
{
	pages_threads.nr_running--;
	pthread_cond_broadcast(&pages_threads.changed);
	pthread_mutex_unlock(&pages_mutex);
}

bool pages_start(void *(*run)(void *argument))
{
	sigset_t all, old;
	pthread_t thread;
	int ret;

	/* Signals are for libfuse's main thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret)
		return false;
	pages_threads.nr_running++;
	pthread_detach(thread);
	return true;
}
