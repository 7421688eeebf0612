/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of files, and the threads that look after them: for pages.c, pages_drop.c, pages_watch.c and leases.c. See pages.h.
 *
 * No old page is ever taken for a good one. Each file has the number of the time in which all of its pages were read, undisturbed.
 * A read in another time makes it 0, before the kernel has the page. A new number is set before pages are dropped, and dropping
 * waits for those that are being read. So a page from before that stays must have been noted.
 */
#ifndef FUSE_PAGES_TABLE_H
#define FUSE_PAGES_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <urcu/list.h>

#include "mount.h"
#include "pages.h"

struct waiting;

struct pages {
	struct cds_list_head link; /* of its bucket */
	struct cds_list_head
		present; /* of those that the kernel may have pages of, and are open or not */
	struct cds_list_head queued;
	uint64_t ino;
	unsigned nr_users;
	bool may_be_there, is_queued, is_dropping;
	bool is_closed;	  /* it has no users: what is known of its pages is for who opens it next */
	uint64_t since;	  /* see above */
	uint64_t used_at; /* ms, as the next */
	uint64_t asked_at;
	unsigned nr_filling; /* reads that are under way, and since when there are any */
	uint64_t filling_since;
	uint64_t dropped_at; /* by us, or by the kernel itself because the file was opened */
	uint64_t nr_filled;  /* reads that left pages since then */
	bool is_awaited; /* somebody was told what was known last, because the manager was silent */
	bool is_told;
	struct afar_file_stat last; /* that the kernel was told */
	struct waiting *waiting;
};

/* ---- The table (pages_table.c). The mutex is held where nothing else is said */

extern pthread_mutex_t pages_mutex; /* guards all, but what is atomic */
/* Files with users that the kernel may have pages of. */
extern struct cds_list_head pages_present;

/* Call it before the mutex is taken for the first time. */
void pages_begin_all(void);
struct pages *pages_find(uint64_t ino);
/* Likewise, or one without users. NULL: no memory. */
struct pages *pages_get(uint64_t ino);
/* Forgets it if it has no users. */
void pages_forget_unused(struct pages *pages);
/* Drops a user. */
void pages_put(struct pages *pages);
void pages_set_present(struct pages *pages, bool is);
void pages_set_closed(struct pages *pages, bool is);
/* Calls `visit` for each. */
void pages_for_each(void (*visit)(void *argument, struct pages *pages), void *argument);

uint64_t pages_now_ms(void);
struct timespec pages_after_ms(long ms);
/* 0: somebody elsewhere may write the file, or nobody can say, because there is no session just now. Waits for nobody, not even for
 * the mutex. */
uint64_t pages_quiet_since(struct mount *mount, uint64_t ino);

/* ---- Threads (pages_table.c). The mutex is held */

struct pages_threads {
	pthread_cond_t changed; /* with the clock that nobody sets, as the next */
	pthread_cond_t queued;	/* a file to drop pages of */
	struct mount *serving;	/* NULL: there are no threads, or they are to end */
	bool has_ended;
	unsigned nr_running, nr_in_kernel;
	atomic_bool is_silent; /* the manager */
};

extern struct pages_threads pages_threads;

/* Lets threads run from now on. */
void pages_serve(struct mount *mount);
bool pages_start(void *(*run)(void *argument));
/* Ends the calling thread, and lets the mutex go. */
void pages_end_thread(void);

/* ---- Looking after files (pages_watch.c). The mutex is held */

/* Begins the threads. One that could not be begun is tried again with the next request. */
void pages_watch(struct mount *mount);

/* ---- Dropping (pages_drop.c). The mutex is held */

/* Has pages dropped. `waiting` is told then; may be NULL. */
void drops_add(struct pages *pages, struct waiting *waiting);
/* Returns whether somebody is there who drops pages. */
bool drops_are_possible(void);
/* All who drop pages may wait for some that are being read. */
void drops_help(void);

#endif
