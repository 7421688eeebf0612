/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looking after files that the kernel has pages of. One thread looks at them every 50 ms. It asks nobody, so that it never waits for the
 * manager. Another one has the manager promise again to ask before others write them. The threads begin with the first page.
 */
#include <errno.h>
#include <stdlib.h>

#include "pages_table.h"
#include "session.h"

#define LOOK_MS	     50
#define RENEW_MS     100
#define ASK_AGAIN_MS 500U   /* about what others write */
#define IDLE_MS	     60000U /* pages that nobody has asked for so long are let go */
#define PATIENCE_MS  1000U  /* with a manager that does not answer */
#define TRY_AGAIN_MS 100U
#define TRY_MS	     2U
#define END_S	     1

static bool is_looking, is_renewing; /* their threads run */
static uint64_t renewing_since;	     /* 0: nothing is being asked */
static uint64_t tried_at;

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

static void add_awaited(void *visits, struct pages *pages)
{
	if (pages->is_awaited && !pages->may_be_there)
		add_visit(visits, pages);
}

/* The mutex is held. */
static void find_visits(struct visits *visits, bool with_awaited)
{
	struct pages *pages;

	visits->nr = 0;
	cds_list_for_each_entry (pages, &pages_present, present)
		add_visit(visits, pages);
	if (with_awaited && pages_threads.is_silent)
		pages_for_each(add_awaited, visits);
}

/* Visits all, without the mutex, which is held before and after. */
static void visit_all(struct mount *mount, struct visits *visits,
		      void (*visit)(struct mount *mount, struct pages *pages))
{
	for (size_t i = 0; i < visits->nr; i++) {
		if (pages_threads.serving) {
			pthread_mutex_unlock(&pages_mutex);
			visit(mount, visits->list[i]);
			pthread_mutex_lock(&pages_mutex);
		}
		pages_put(visits->list[i]);
	}
}

static void wait_ms(long ms)
{
	const struct timespec until = pages_after_ms(ms);

	while (pages_threads.serving &&
	       pthread_cond_timedwait(&pages_threads.changed, &pages_mutex, &until) != ETIMEDOUT)
		;
}

/* Has pages dropped that may be older than what somebody elsewhere has written. */
static void look_at(struct mount *mount, struct pages *pages)
{
	const uint64_t since = pages_quiet_since(mount, pages->ino);

	pthread_mutex_lock(&pages_mutex);
	if (pages->may_be_there && (since == 0 || pages->since != since))
		drops_add(pages, NULL);
	pthread_mutex_unlock(&pages_mutex);
}

static void *look_at_all(void *argument)
{
	struct visits visits = {0};
	struct mount *mount;

	(void)argument;
	pthread_mutex_lock(&pages_mutex);
	while ((mount = pages_threads.serving)) {
		find_visits(&visits, false);
		visit_all(mount, &visits, look_at);
		if (renewing_since && pages_now_ms() - renewing_since > PATIENCE_MS)
			pages_threads.is_silent = true;
		drops_help();
		wait_ms(LOOK_MS);
	}
	free(visits.list);
	pages_end_thread();
	return NULL;
}

/* Returns whether it is time to ask about a file. */
static bool is_due(struct pages *pages, bool is_quiet)
{
	const uint64_t now = pages_now_ms();
	bool is;

	pthread_mutex_lock(&pages_mutex);
	is = pages->is_awaited || (now - pages->used_at < IDLE_MS &&
				   (is_quiet || now - pages->asked_at >= ASK_AGAIN_MS));
	if (is && !is_quiet)
		pages->asked_at = now;
	renewing_since = is ? now : 0;
	pthread_mutex_unlock(&pages_mutex);
	return is;
}

static void renew(struct mount *mount, struct pages *pages)
{
	int64_t ret;

	if (!is_due(pages, pages_quiet_since(mount, pages->ino) != 0))
		return;
	ret = CALL(mount, afar_fs_keep_quiet(mount->fs, pages->ino));
	pthread_mutex_lock(&pages_mutex);
	renewing_since = 0;
	if (!ret) {
		pages_threads.is_silent = false;
		pages->is_awaited = false;
	}
	pthread_mutex_unlock(&pages_mutex);
}

static void *renew_all(void *argument)
{
	struct visits visits = {0};
	struct mount *mount;

	(void)argument;
	pthread_mutex_lock(&pages_mutex);
	while ((mount = pages_threads.serving)) {
		find_visits(&visits, true);
		visit_all(mount, &visits, renew);
		wait_ms(RENEW_MS);
	}
	free(visits.list);
	pages_end_thread();
	return NULL;
}

void pages_watch(struct mount *mount)
{
	pages_serve(mount);
	if (pages_threads.has_ended)
		return;
	if (!is_looking)
		is_looking = pages_start(look_at_all);
	if (!is_renewing)
		is_renewing = pages_start(renew_all);
}

void pages_set_silent(struct mount *mount, struct pages *pages, bool is)
{
	if (!is && !pages_threads.is_silent)
		return;
	pthread_mutex_lock(&pages_mutex);
	pages_watch(mount);
	pages_threads.is_silent = is;
	pages->is_awaited = is;
	pthread_mutex_unlock(&pages_mutex);
}

int pages_patience(void)
{
	const uint64_t now = pages_now_ms();
	int patience_ms = 0;

	if (!pages_threads.is_silent)
		return PATIENCE_MS;
	pthread_mutex_lock(&pages_mutex);
	if (now - tried_at >= TRY_AGAIN_MS) {
		tried_at = now;
		patience_ms = TRY_MS;
	}
	pthread_mutex_unlock(&pages_mutex);
	return patience_ms;
}

bool pages_end(void)
{
	struct timespec until;
	bool have_ended;

	pages_begin_all();
	pthread_mutex_lock(&pages_mutex);
	pages_threads.serving = NULL;
	pages_threads.has_ended = true;
	pthread_cond_broadcast(&pages_threads.changed);
	pthread_cond_broadcast(&pages_threads.queued);
	/* Calls of the library are waited for, as those of requests are. */
	while (pages_threads.nr_running > pages_threads.nr_in_kernel)
		pthread_cond_wait(&pages_threads.changed, &pages_mutex);
	until = pages_after_ms(END_S * 1000);
	while (pages_threads.nr_running != 0 &&
	       pthread_cond_timedwait(&pages_threads.changed, &pages_mutex, &until) != ETIMEDOUT)
		;
	have_ended = pages_threads.nr_running == 0;
	pthread_mutex_unlock(&pages_mutex);
	return have_ended;
}
