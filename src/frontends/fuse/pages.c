/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See pages.h. Threads of their own tell the kernel, since its answer may wait for a page whose reader waits for us. There are several, so
 * that a page of a server that is away holds up no other file. One looks every 50 ms at the files that the kernel has pages of. It asks
 * nobody, so that it never waits for the manager. Another one has the manager promise again to ask before others write them. The
 * threads begin with the first page.
 *
 * No old page is ever taken for a good one. Each file has the number of the time in which all of its pages were read, undisturbed.
 * A read in another time makes it 0, before the kernel has the page. A new number is set before pages are dropped, and dropping
 * waits for those that are being read. So a page from before that stays must have been noted.
 */
#include "pages.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <urcu/list.h>

#include "base/clock.h"
#include "mount.h"
#include "session.h"

#define BUCKETS	      4096U
#define DROPPERS      4U
#define DROPPERS_MAX  256U /* when others wait for pages whose servers are away */
#define LOOK_MS	      50
#define RENEW_MS      100
#define ASK_AGAIN_MS  500U   /* about what others write */
#define IDLE_MS	      60000U /* pages that nobody has asked for so long are let go */
#define PATIENCE_MS   1000U  /* with a manager that does not answer */
#define TRY_AGAIN_MS  100U
#define TRY_MS	      2U
#define FILL_SLOW_MS  20
#define WRITE_LATE_MS 50 /* a write may come so long after its page was filled */
#define END_S	      1
#define MS_NS	      1000000

/* A request, or the manager, waits until the pages of a file are dropped. */
struct waiting {
	struct waiting *next;
	fuse_req_t req;
	struct afar_file_stat stat;
	struct afar_drop *drop; /* NULL: a request */
};

struct pages {
	struct cds_list_head link;    /* of its bucket */
	struct cds_list_head present; /* of those that the kernel may have pages of */
	struct cds_list_head queued;
	uint64_t ino;
	unsigned nr_users;
	bool may_be_there, is_queued, is_dropping;
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

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards all, but what is atomic */
static pthread_cond_t changed, added;			  /* with the clock that nobody sets */
static struct cds_list_head buckets[BUCKETS];
static CDS_LIST_HEAD(present);
static CDS_LIST_HEAD(queue);
static struct mount *serving; /* NULL: there are no threads, or they are to end */
static bool has_ended;
static unsigned nr_running, nr_droppers, nr_idle, nr_in_kernel;
static bool is_looking, is_renewing; /* their threads run */
static uint64_t renewing_since;	     /* 0: nothing is being asked */
static uint64_t tried_at;
static atomic_bool is_silent;

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / MS_NS;
}

static struct timespec after_ms(long ms)
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

/* 0: somebody elsewhere may write the file, or nobody can say, because there is no session just now. Waits for nobody. */
static uint64_t quiet_since(struct mount *mount, uint64_t ino)
{
	int64_t since;

	if (pthread_rwlock_tryrdlock(&mount->lock) != 0)
		return 0;
	since = mount->fs && !mount->is_another ? since_of(mount, ino) : 0;
	pthread_rwlock_unlock(&mount->lock);
	return since > 0 ? (uint64_t)since : 0;
}

/* ---- Files */

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void begin_all(void)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &attributes);
	pthread_cond_init(&added, &attributes);
	pthread_condattr_destroy(&attributes);
	for (unsigned i = 0; i < BUCKETS; i++)
		CDS_INIT_LIST_HEAD(&buckets[i]);
}

static struct cds_list_head *bucket_of(uint64_t ino)
{
	pthread_once(&once, begin_all);
	return &buckets[ino * UINT64_C(0x9e3779b97f4a7c15) >> 52];
}

static struct pages *find(uint64_t ino)
{
	struct pages *pages;

	cds_list_for_each_entry (pages, bucket_of(ino), link)
		if (pages->ino == ino)
			return pages;
	return NULL;
}

static void set_present(struct pages *pages, bool is)
{
	if (is && !pages->may_be_there)
		cds_list_add_tail(&pages->present, &present);
	else if (!is && pages->may_be_there)
		cds_list_del(&pages->present);
	pages->may_be_there = is;
}

struct pages *pages_open(uint64_t ino)
{
	struct pages *pages;

	pthread_mutex_lock(&mutex);
	pages = find(ino);
	if (!pages) {
		pages = calloc(1, sizeof(*pages));
		if (pages) {
			pages->ino = ino;
			cds_list_add(&pages->link, bucket_of(ino));
		}
	}
	if (pages) {
		pages->nr_users++;
		pages->dropped_at = now_ms();
	}
	pthread_mutex_unlock(&mutex);
	return pages;
}

/* Pages that are queued have a user. */
static void put(struct pages *pages)
{
	if (--pages->nr_users != 0)
		return;
	set_present(pages, false);
	cds_list_del(&pages->link);
	free(pages);
}

void pages_close(struct pages *pages)
{
	pthread_mutex_lock(&mutex);
	put(pages);
	pthread_mutex_unlock(&mutex);
}

/* ---- Attributes */

void pages_note_attributes(const struct afar_file_stat *stat)
{
	struct pages *pages;

	pthread_mutex_lock(&mutex);
	pages = find(stat->ino);
	if (pages) {
		if (pages->last.mtime != stat->mtime)
			pages->dropped_at = now_ms();
		pages->last = *stat;
		pages->is_told = true;
	}
	pthread_mutex_unlock(&mutex);
}

void pages_note_to_read(struct pages *pages, struct afar_file_stat *stat)
{
	pthread_mutex_lock(&mutex);
	if (pages->is_told)
		stat->mtime = pages->last.mtime;
	pages->last = *stat;
	pages->is_told = true;
	pthread_mutex_unlock(&mutex);
}

void pages_note_end(struct pages *pages, uint64_t end)
{
	pthread_mutex_lock(&mutex);
	if (pages->last.bytes < end)
		pages->last.bytes = end;
	pthread_mutex_unlock(&mutex);
}

bool pages_last_attributes(struct pages *pages, struct afar_file_stat *out)
{
	bool is_told;

	pthread_mutex_lock(&mutex);
	is_told = pages->is_told;
	if (is_told)
		*out = pages->last;
	pthread_mutex_unlock(&mutex);
	return is_told;
}

int pages_patience(void)
{
	const uint64_t now = now_ms();
	int patience_ms = 0;

	if (!is_silent)
		return PATIENCE_MS;
	pthread_mutex_lock(&mutex);
	if (now - tried_at >= TRY_AGAIN_MS) {
		tried_at = now;
		patience_ms = TRY_MS;
	}
	pthread_mutex_unlock(&mutex);
	return patience_ms;
}

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
	set_present(pages, false);
	pthread_mutex_unlock(&mutex);
	since = quiet_since(mount, pages->ino);
	pthread_mutex_lock(&mutex);
	pages->since = since;
	nr_in_kernel++;
	pthread_mutex_unlock(&mutex);
	if (were_there)
		fuse_lowlevel_notify_inval_inode(mount->fuse, node_of(mount, pages->ino), 0, 0);
	pthread_mutex_lock(&mutex);
	nr_in_kernel--;
	pages->dropped_at = now_ms();
	pages->is_dropping = false;
	if (pages->is_queued)
		cds_list_add_tail(&pages->queued, &queue);
	else
		put(pages);
	pthread_mutex_unlock(&mutex);
	answer_all(waiting);
	pthread_mutex_lock(&mutex);
}

/* The mutex is held. */
static void end_thread(void)
{
	nr_running--;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

/* Takes one from the queue that no slow read fills: the kernel would wait for that, and not even end with this process. NULL: there is none. */
static struct pages *take_queued(void)
{
	const uint64_t now = now_ms();
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
	const struct timespec until = after_ms(FILL_SLOW_MS);

	nr_idle++;
	if (cds_list_empty(&queue))
		pthread_cond_wait(&added, &mutex);
	else
		pthread_cond_timedwait(&added, &mutex, &until);
	nr_idle--;
}

static void *drop_queued(void *argument)
{
	struct pages *pages;

	(void)argument;
	pthread_mutex_lock(&mutex);
	while (serving) {
		pages = take_queued();
		if (pages)
			drop(serving, pages);
		else
			wait_for_queue();
	}
	end_thread();
	return NULL;
}

static bool start(void *(*run)(void *argument))
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
	nr_running++;
	pthread_detach(thread);
	return true;
}

/* Returns whether somebody is there who drops pages. The mutex is held. */
static bool find_dropper(void)
{
	if (nr_idle == 0 && nr_droppers < DROPPERS)
		nr_droppers += start(drop_queued);
	return nr_droppers != 0;
}

/* All may wait for pages that are being read. The mutex is held. */
static void help_droppers(void)
{
	if (nr_idle == 0 && nr_droppers < DROPPERS_MAX && !cds_list_empty(&queue))
		nr_droppers += start(drop_queued);
}

/* `waiting` may be NULL. The mutex is held. */
static void enqueue(struct pages *pages, struct waiting *waiting)
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
	find_dropper();
	pthread_cond_signal(&added);
}

/* ---- Looking after files */

/* Files to be visited, each with a user more. */
struct visits {
	struct pages **list;
	size_t nr, max;
};

static void add_visit(struct visits *visits, struct pages *pages)
{
	if (visits->nr == visits->max) {
		const size_t max = 2 * visits->max + 64;
		struct pages **more = reallocarray(visits->list, max, sizeof(*more));

		if (!more)
			return;
		visits->list = more;
		visits->max = max;
	}
	visits->list[visits->nr++] = pages;
	pages->nr_users++;
}

/* The mutex is held. */
static void find_visits(struct visits *visits, bool with_awaited)
{
	struct pages *pages;

	visits->nr = 0;
	cds_list_for_each_entry (pages, &present, present)
		add_visit(visits, pages);
	for (unsigned i = 0; with_awaited && is_silent && i < BUCKETS; i++)
		cds_list_for_each_entry (pages, &buckets[i], link)
			if (pages->is_awaited && !pages->may_be_there)
				add_visit(visits, pages);
}

/* Visits all, without the mutex, which is held before and after. */
static void visit_all(struct mount *mount, struct visits *visits,
		      void (*visit)(struct mount *mount, struct pages *pages))
{
	for (size_t i = 0; i < visits->nr; i++) {
		if (serving) {
			pthread_mutex_unlock(&mutex);
			visit(mount, visits->list[i]);
			pthread_mutex_lock(&mutex);
		}
		put(visits->list[i]);
	}
}

static void wait_ms(long ms)
{
	const struct timespec until = after_ms(ms);

	while (serving && pthread_cond_timedwait(&changed, &mutex, &until) != ETIMEDOUT)
		;
}

/* Has pages dropped that may be older than what somebody elsewhere has written. */
static void look_at(struct mount *mount, struct pages *pages)
{
	const uint64_t since = quiet_since(mount, pages->ino);

	pthread_mutex_lock(&mutex);
	if (pages->may_be_there && (since == 0 || pages->since != since))
		enqueue(pages, NULL);
	pthread_mutex_unlock(&mutex);
}

static void *look_at_all(void *argument)
{
	struct visits visits = {0};

	(void)argument;
	pthread_mutex_lock(&mutex);
	while (serving) {
		find_visits(&visits, false);
		visit_all(serving, &visits, look_at);
		if (renewing_since && now_ms() - renewing_since > PATIENCE_MS)
			is_silent = true;
		help_droppers();
		wait_ms(LOOK_MS);
	}
	free(visits.list);
	end_thread();
	return NULL;
}

/* Returns whether it is time to ask about a file. */
static bool is_due(struct pages *pages, bool is_quiet)
{
	const uint64_t now = now_ms();
	bool is;

	pthread_mutex_lock(&mutex);
	is = pages->is_awaited || (now - pages->used_at < IDLE_MS &&
				   (is_quiet || now - pages->asked_at >= ASK_AGAIN_MS));
	if (is && !is_quiet)
		pages->asked_at = now;
	renewing_since = is ? now : 0;
	pthread_mutex_unlock(&mutex);
	return is;
}

static void renew(struct mount *mount, struct pages *pages)
{
	int64_t ret;

	if (!is_due(pages, quiet_since(mount, pages->ino) != 0))
		return;
	ret = CALL(mount, afar_fs_keep_quiet(mount->fs, pages->ino));
	pthread_mutex_lock(&mutex);
	renewing_since = 0;
	if (!ret) {
		is_silent = false;
		pages->is_awaited = false;
	}
	pthread_mutex_unlock(&mutex);
}

static void *renew_all(void *argument)
{
	struct visits visits = {0};

	(void)argument;
	pthread_mutex_lock(&mutex);
	while (serving) {
		find_visits(&visits, true);
		visit_all(serving, &visits, renew);
		wait_ms(RENEW_MS);
	}
	free(visits.list);
	end_thread();
	return NULL;
}

/* A thread that could not be begun is tried again with the next request. The mutex is held. */
static void begin(struct mount *mount)
{
	if (has_ended)
		return;
	serving = mount;
	if (!is_looking)
		is_looking = start(look_at_all);
	if (!is_renewing)
		is_renewing = start(renew_all);
}

void pages_set_silent(struct mount *mount, struct pages *pages, bool is)
{
	if (!is && !is_silent)
		return;
	pthread_mutex_lock(&mutex);
	begin(mount);
	is_silent = is;
	pages->is_awaited = is;
	pthread_mutex_unlock(&mutex);
}

/* ---- Requests */

void pages_begin(struct mount *mount, struct pages *pages, bool is_write, struct filling *out)
{
	out->since = quiet_since(mount, pages->ino);
	out->began_at = now_ms();
	pthread_mutex_lock(&mutex);
	begin(mount);
	if (!pages->may_be_there && !pages->is_dropping)
		pages->since = out->since;
	if (!is_write && pages->nr_filling++ == 0)
		pages->filling_since = out->began_at;
	if (!is_write)
		pages->nr_filled++;
	set_present(pages, true);
	pages->used_at = out->began_at;
	pthread_mutex_unlock(&mutex);
}

/* The mutex is held. */
static void note_end(struct pages *pages, const struct filling *filling, uint64_t now_since)
{
	if (filling->since == 0 || now_since != filling->since || pages->since != filling->since)
		pages->since = 0;
}

void pages_end_filling(struct mount *mount, struct pages *pages, const struct filling *filling)
{
	const uint64_t since = quiet_since(mount, pages->ino);

	pthread_mutex_lock(&mutex);
	pages->nr_filling--;
	note_end(pages, filling, since);
	pthread_mutex_unlock(&mutex);
}

void pages_end_passing(struct mount *mount, struct pages *pages, const struct filling *filling)
{
	const uint64_t since = quiet_since(mount, pages->ino);

	pthread_mutex_lock(&mutex);
	pages->nr_filling--;
	note_end(pages, filling, since);
	if (pages->since == 0)
		enqueue(pages, NULL);
	pthread_mutex_unlock(&mutex);
}

/* The kernel has put the bytes into its page before it asked us. If that was dropped in between, and read again before they were at the server, it has old ones. */
void pages_end_writing(struct mount *mount, struct pages *pages, const struct filling *filling)
{
	const uint64_t since = quiet_since(mount, pages->ino);

	pthread_mutex_lock(&mutex);
	note_end(pages, filling, since);
	if (pages->nr_filled != 0 && pages->dropped_at + WRITE_LATE_MS > filling->began_at)
		pages->since = 0;
	pthread_mutex_unlock(&mutex);
}

void pages_passed_by(struct pages *pages)
{
	pthread_mutex_lock(&mutex);
	pages->since = 0;
	pthread_mutex_unlock(&mutex);
}

bool pages_are_good(struct mount *mount, struct pages *pages)
{
	const uint64_t since = quiet_since(mount, pages->ino);
	bool are_good;

	pthread_mutex_lock(&mutex);
	pages->used_at = now_ms();
	are_good = !pages->is_dropping && !pages->is_queued;
	if (are_good && pages->may_be_there)
		are_good = since != 0 && pages->since == since;
	pthread_mutex_unlock(&mutex);
	return are_good;
}

/* Returns false where there is no memory, or no thread: then nothing is dropped. */
static bool add_waiting(struct mount *mount, struct pages *pages, const struct waiting *model)
{
	struct waiting *waiting;

	begin(mount);
	waiting = serving && find_dropper() ? malloc(sizeof(*waiting)) : NULL;
	if (!waiting)
		return false;
	*waiting = *model;
	enqueue(pages, waiting);
	return true;
}

void pages_drop_and_answer(struct mount *mount, struct pages *pages, fuse_req_t req,
			   const struct afar_file_stat *stat)
{
	const struct waiting waiting = {.req = req, .stat = *stat};
	bool is_added;

	pthread_mutex_lock(&mutex);
	is_added = add_waiting(mount, pages, &waiting);
	pthread_mutex_unlock(&mutex);
	if (!is_added)
		answer(req, -ENOMEM);
}

/* Nothing waits if the kernel has no page of it. */
void pages_drop(void *mount, uint64_t ino, struct afar_drop *drop)
{
	const struct waiting waiting = {.drop = drop};
	struct pages *pages;
	bool is_added = false;

	pthread_mutex_lock(&mutex);
	pages = find(ino);
	if (pages && (pages->may_be_there || pages->is_dropping))
		is_added = add_waiting(mount, pages, &waiting);
	pthread_mutex_unlock(&mutex);
	if (!is_added)
		afar_fs_dropped(drop);
}

bool pages_end(void)
{
	struct timespec until;
	bool have_ended;

	pthread_once(&once, begin_all);
	pthread_mutex_lock(&mutex);
	serving = NULL;
	has_ended = true;
	pthread_cond_broadcast(&changed);
	pthread_cond_broadcast(&added);
	/* Calls of the library are waited for, as those of requests are. */
	while (nr_running > nr_in_kernel)
		pthread_cond_wait(&changed, &mutex);
	until = after_ms(END_S * 1000);
	while (nr_running != 0 && pthread_cond_timedwait(&changed, &mutex, &until) != ETIMEDOUT)
		;
	have_ended = nr_running == 0;
	pthread_mutex_unlock(&mutex);
	return have_ended;
}
