/* SPDX-License-Identifier: BSD-3-Clause */
/* See fs_closing.h. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "client/files/file.h"
#include "client/files/inode/fs_call.h"

#define PENDING_MAX 1024U /* more are closed by their programs */

/* A server that is asked to close connections has so long to answer, and then is not asked again for PAUSE_MS. */
#define ASK_MS	 1000
#define PAUSE_MS 1000

/* ---- Lists */

static bool is_empty(const struct fs_closings *closings)
{
	return closings->nr_changes == 0 && closings->nr_holds == 0;
}

/* Has a call take it. The lock is held. */
static void offer(struct fs_closings *closings, struct late_close *closing)
{
	cds_list_add_tail(&closing->node,
			  closing->is_change ? &closings->changes : &closings->holds);
	closings->nr_changes += closing->is_change;
	closings->nr_holds += !closing->is_change;
}

static struct late_close *closing_new(struct afar_file *file)
{
	struct late_close *closing = calloc(1, sizeof(*closing));

	if (!closing)
		return NULL;
	closing->file = file;
	/* Other handles commit what is written through them from now on. */
	closing->is_change = file_has_to_commit(file);
	return closing;
}

/* ---- What is held back */

/* The lock is held. */
static void hold_back(struct fs_closings *closings, struct late_close *closing)
{
	cds_list_add_tail(&closing->node, &closings->held_back);
	pthread_cond_broadcast(&closings->changed);
}

/* Has servers close the connections that put the pool in doubt, if they have not failed to just now. Returns whether it
 * is in doubt after that. */
static bool settle(struct afar_fs *fs)
{
	struct fs_closings *closings = &fs->closings;
	struct afar_target *pool = fs_pool(fs);
	uint64_t longest = session_deadline(pool->session), deadline = clock_deadline_ms(ASK_MS);
	bool may_ask, is_in_doubt;

	if (!target_is_in_doubt(pool))
		return false;
	pthread_mutex_lock(&closings->lock);
	may_ask = clock_ns() >= closings->ask_after;
	pthread_mutex_unlock(&closings->lock);
	if (may_ask)
		target_settle_all(pool, deadline < longest ? deadline : longest);
	is_in_doubt = target_is_in_doubt(pool);
	if (may_ask && is_in_doubt) {
		pthread_mutex_lock(&closings->lock);
		closings->ask_after = clock_deadline_ms(PAUSE_MS);
		pthread_mutex_unlock(&closings->lock);
	}
	return is_in_doubt;
}

/* Lets calls take what was held back, if nothing can land any more. */
static void let_go(struct afar_fs *fs)
{
	struct fs_closings *closings = &fs->closings;
	struct late_close *closing, *next;
	bool are_held;

	pthread_mutex_lock(&closings->lock);
	are_held = !cds_list_empty(&closings->held_back);
	pthread_mutex_unlock(&closings->lock);
	if (!are_held || settle(fs))
		return;
	pthread_mutex_lock(&closings->lock);
	cds_list_for_each_entry_safe (closing, next, &closings->held_back, node) {
		cds_list_del(&closing->node);
		offer(closings, closing);
	}
	pthread_mutex_unlock(&closings->lock);
}

/* Ends what is held back still as far as this process goes. The manager is told of sizes and times, because nobody reclaims
 * these files any more if it restarts. */
static void drop_held_back(struct afar_fs *fs)
{
	struct fs_closings *closings = &fs->closings;
	struct late_close *closing, *next;
	CDS_LIST_HEAD(dropped);

	pthread_mutex_lock(&closings->lock);
	cds_list_splice(&closings->held_back, &dropped);
	CDS_INIT_LIST_HEAD(&closings->held_back);
	pthread_mutex_unlock(&closings->lock);
	cds_list_for_each_entry_safe (closing, next, &dropped, node) {
		if (file_has_to_commit(closing->file))
			file_commit(closing->file);
		file_drop(closing->file);
		free(closing);
	}
}

/* ---- Calls */

/* Two closings of an inode do not go along with one call, because neither would be the last one. */
static bool is_taken(struct late_close *const *taken, unsigned nr, const struct late_close *closing)
{
	for (unsigned i = 0; i < nr; i++)
		if (taken[i]->file->inode == closing->file->inode)
			return true;
	return false;
}

static unsigned take(struct afar_fs *fs, bool are_changes, struct late_close **out, unsigned max)
{
	struct fs_closings *closings = &fs->closings;
	struct cds_list_head *list = are_changes ? &closings->changes : &closings->holds;
	unsigned *nr_left = are_changes ? &closings->nr_changes : &closings->nr_holds;
	struct late_close *closing, *next;
	bool is_in_doubt = target_is_in_doubt(fs_pool(fs));
	unsigned nr = 0;

	pthread_mutex_lock(&closings->lock);
	cds_list_for_each_entry_safe (closing, next, list, node) {
		if (nr == max)
			break;
		if (are_changes && is_taken(out, nr, closing))
			continue;
		cds_list_del(&closing->node);
		--*nr_left;
		if (is_in_doubt && closing->file->access & W_OK)
			hold_back(closings, closing);
		else
			out[nr++] = closing;
	}
	closings->nr_taken += nr;
	pthread_mutex_unlock(&closings->lock);
	for (unsigned i = 0; i < nr; i++)
		file_begin_close(out[i]);
	return nr;
}

/* False: it has been sent twice, or cannot be sent again. */
static bool put_back(struct afar_fs *fs, struct late_close *closing, int ret)
{
	struct fs_closings *closings = &fs->closings;

	if (closing->is_again || ret == -AFAR_ESESSION || ret == -AFAR_EFORKED)
		return false;
	closing->is_again = true;
	file_undo_close(closing);
	pthread_mutex_lock(&closings->lock);
	offer(closings, closing);
	pthread_cond_broadcast(&closings->changed);
	pthread_mutex_unlock(&closings->lock);
	return true;
}

static void end(struct afar_fs *fs, struct late_close *const *taken, unsigned nr, int ret,
		Afar__FileResult *const *results)
{
	struct fs_closings *closings = &fs->closings;

	for (unsigned i = 0; i < nr; i++) {
		if (ret && put_back(fs, taken[i], ret))
			continue;
		file_end_close(taken[i], ret, ret == 0 ? results[i] : NULL);
		free(taken[i]);
	}
	pthread_mutex_lock(&closings->lock);
	closings->nr_taken -= nr;
	pthread_cond_broadcast(&closings->changed);
	pthread_mutex_unlock(&closings->lock);
}

static const struct closing_calls calls = {.take = take, .end = end};

void closings_init(struct fs_closings *closings)
{
	pthread_condattr_t monotonic;

	closings->calls = &calls;
	pthread_mutex_init(&closings->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&closings->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	CDS_INIT_LIST_HEAD(&closings->changes);
	CDS_INIT_LIST_HEAD(&closings->holds);
	CDS_INIT_LIST_HEAD(&closings->held_back);
}

void closings_free(struct fs_closings *closings)
{
	pthread_cond_destroy(&closings->changed);
	pthread_mutex_destroy(&closings->lock);
}

/* Calls without operations of their own take along what is there. */
static void send_all(struct afar_fs *fs)
{
	struct fs_closings *closings = &fs->closings;
	struct fs_answer answer;
	bool has_forgotten;

	pthread_mutex_lock(&closings->lock);
	has_forgotten = closings->has_forgotten;
	closings->has_forgotten = false;
	pthread_mutex_unlock(&closings->lock);
	if (has_forgotten)
		used_tell(fs);
	if (fs_change(fs, NULL, NULL, 0, &answer) == 0)
		fs_answer_free(&answer);
	if (fs_hold(fs, NULL, NULL, 0, &answer) == 0)
		fs_answer_free(&answer);
}

/* ---- The thread */

/* Returns when something has been there for a while; false: the thread is to end. The lock is held. */
static bool await_some(struct fs_closings *closings)
{
	uint64_t due;
	struct timespec until;

	while (is_empty(closings) && !closings->has_forgotten &&
	       cds_list_empty(&closings->held_back) && !closings->is_ending)
		pthread_cond_wait(&closings->changed, &closings->lock);
	due = clock_deadline_ms(is_empty(closings) && !closings->has_forgotten ? PAUSE_MS
									       : CLOSING_MS);
	until = (struct timespec){.tv_sec = (time_t)(due / 1000000000U),
				  .tv_nsec = (long)(due % 1000000000U)};
	while (!closings->is_ending &&
	       pthread_cond_timedwait(&closings->changed, &closings->lock, &until) != ETIMEDOUT)
		;
	return !closings->is_ending;
}

static void *run(void *argument)
{
	struct afar_fs *fs = argument;
	struct fs_closings *closings = &fs->closings;

	pthread_mutex_lock(&closings->lock);
	while (await_some(closings)) {
		pthread_mutex_unlock(&closings->lock);
		let_go(fs);
		send_all(fs);
		if (fs_has_many_unsynced(fs))
			fs_sync_pool(fs);
		pthread_mutex_lock(&closings->lock);
	}
	pthread_mutex_unlock(&closings->lock);
	return NULL;
}

/* The lock is held. */
static int start(struct afar_fs *fs)
{
	struct fs_closings *closings = &fs->closings;
	sigset_t all, old;
	int ret;

	if (closings->has_thread)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&closings->thread, NULL, run, fs);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	closings->has_thread = ret == 0;
	return -ret;
}

void closings_wake(struct afar_fs *fs)
{
	struct fs_closings *closings = &fs->closings;

	pthread_mutex_lock(&closings->lock);
	start(fs); /* without a thread, the manager keeps them until the session ends */
	if (!closings->has_forgotten && is_empty(closings))
		pthread_cond_broadcast(&closings->changed);
	closings->has_forgotten = true;
	pthread_mutex_unlock(&closings->lock);
}

int late_close_add(struct afar_file *file)
{
	struct fs_closings *closings = &file->fs->closings;
	struct late_close *closing = closing_new(file);
	int ret;

	if (!closing)
		return error_code(-ENOMEM);
	pthread_mutex_lock(&closings->lock);
	ret = closings->nr_changes + closings->nr_holds < PENDING_MAX ? start(file->fs) : -EAGAIN;
	if (ret == 0) {
		offer(closings, closing);
		/* The thread sleeps on while there is something already. */
		if (closings->nr_changes + closings->nr_holds == 1)
			pthread_cond_broadcast(&closings->changed);
	}
	pthread_mutex_unlock(&closings->lock);
	if (ret)
		free(closing);
	return ret;
}

bool closings_hold_back(struct afar_file *file)
{
	struct fs_closings *closings = &file->fs->closings;
	struct late_close *closing;

	if (!settle(file->fs))
		return false;
	closing = closing_new(file);
	/* The manager has it open for as long as the session lives, which is safe. */
	if (!closing) {
		file_drop(file);
		return true;
	}
	pthread_mutex_lock(&closings->lock);
	start(file->fs); /* without a thread, closing the file system tries */
	hold_back(closings, closing);
	pthread_mutex_unlock(&closings->lock);
	return true;
}

bool closings_are_pending(struct afar_fs *fs)
{
	struct fs_closings *closings = &fs->closings;
	bool are_pending;

	pthread_mutex_lock(&closings->lock);
	are_pending = !is_empty(closings) || closings->nr_taken != 0;
	pthread_mutex_unlock(&closings->lock);
	return are_pending;
}

void closings_flush(struct afar_fs *fs)
{
	struct fs_closings *closings = &fs->closings;

	for (;;) {
		pthread_mutex_lock(&closings->lock);
		if (is_empty(closings)) {
			while (closings->nr_taken != 0)
				pthread_cond_wait(&closings->changed, &closings->lock);
			pthread_mutex_unlock(&closings->lock);
			return;
		}
		pthread_mutex_unlock(&closings->lock);
		send_all(fs);
	}
}

void closings_flush_last(struct afar_fs *fs)
{
	let_go(fs);
	/* The thread may let some go meanwhile. */
	do {
		closings_flush(fs);
		drop_held_back(fs);
	} while (closings_are_pending(fs));
}

void closings_stop(struct afar_fs *fs)
{
	struct fs_closings *closings = &fs->closings;

	if (!closings->has_thread)
		return;
	pthread_mutex_lock(&closings->lock);
	closings->is_ending = true;
	pthread_cond_broadcast(&closings->changed);
	pthread_mutex_unlock(&closings->lock);
	pthread_join(closings->thread, NULL);
	closings->has_thread = closings->is_ending = false;
}
