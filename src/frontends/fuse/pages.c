/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See pages.h. A thread of its own drops them, since the kernel's answer may wait for a page whose reader waits for us. It asks nobody
 * whether a file is quiet, so that it never waits for the manager; another one does, which may. There are none until the first page
 * is read.
 */
#include "pages.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "mount.h"
#include "session.h"

#define PERIOD_NS 100000000
#define END_S	  1

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct mount *serving; /* NULL: there are no threads, or they are to end */
static unsigned nr_running;
static bool is_in_kernel;
static bool is_filled; /* pages have been read that nobody has looked at */
static bool are_some;  /* of some file, maybe */

static struct timespec after(long ns)
{
	struct timespec at;

	clock_gettime(CLOCK_REALTIME, &at);
	return clock_to_timespec(clock_from_timespec(at) + (uint64_t)ns);
}

/* ---- Telling the kernel */

static void set_in_kernel(bool is)
{
	pthread_mutex_lock(&mutex);
	is_in_kernel = is;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static void tell_kernel(const struct mount *mount, uint64_t ino, bool may_be_there)
{
	if (!may_be_there)
		return;
	set_in_kernel(true);
	fuse_lowlevel_notify_inval_inode(mount->fuse, node_of(mount, ino), 0, 0);
	set_in_kernel(false);
}

/* ---- The threads */

/* Drops them if somebody could have written the file since they were read. They stay if nobody else can write the
 * file, and nobody has written it since. */
static void look_at(struct mount *mount, const struct used_pages *used)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	const bool is_quiet = CALL(mount, afar_fs_is_quiet(mount->fs, used->ino, &stat)) == 1;

	if (!is_quiet || !used->was_quiet || stat.change != used->change)
		tell_kernel(mount, used->ino, files_note_pages(used, stat.change, is_quiet));
}

/* Has the manager promise again to ask before others write the file. */
static void renew(struct mount *mount, const struct used_pages *used)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};

	CALL(mount, afar_fs_getattr(mount->fs, used->ino, &stat));
}

static bool is_to_end(void)
{
	bool is;

	pthread_mutex_lock(&mutex);
	is = !serving;
	pthread_mutex_unlock(&mutex);
	return is;
}

/* Returns whether there was any. */
static bool visit_all(struct mount *mount, void (*visit)(struct mount *, const struct used_pages *))
{
	struct used_pages *used;
	const size_t nr = files_with_pages(&used);

	for (size_t i = 0; i < nr && !is_to_end(); i++)
		visit(mount, &used[i]);
	free(used);
	return nr != 0;
}

/* Waits until pages have been read, or the time is over if some file has any. The mutex is held. */
static void wait_for_more(const bool *is_woken)
{
	const struct timespec until = after(PERIOD_NS);
	int ret = 0;

	while (serving && !*is_woken && ret != ETIMEDOUT)
		ret = are_some ? pthread_cond_timedwait(&changed, &mutex, &until)
			       : pthread_cond_wait(&changed, &mutex);
}

/* The mutex is held. */
static void end_thread(void)
{
	nr_running--;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static void *drop_all(void *argument)
{
	struct mount *mount;

	(void)argument;
	pthread_mutex_lock(&mutex);
	while ((mount = serving)) {
		bool were_some;

		is_filled = false;
		pthread_mutex_unlock(&mutex);
		were_some = visit_all(mount, look_at);
		pthread_mutex_lock(&mutex);
		are_some = were_some || is_filled;
		wait_for_more(&is_filled);
	}
	end_thread();
	return NULL;
}

static void *renew_all(void *argument)
{
	static const bool never;
	struct mount *mount;

	(void)argument;
	pthread_mutex_lock(&mutex);
	while ((mount = serving)) {
		pthread_mutex_unlock(&mutex);
		visit_all(mount, renew);
		pthread_mutex_lock(&mutex);
		wait_for_more(&never);
	}
	end_thread();
	return NULL;
}

static void start(void *(*run)(void *argument))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, NULL))
		return;
	nr_running++;
	pthread_detach(thread);
}

/* Signals are for libfuse's main thread. The mutex is held. */
static void begin(struct mount *mount)
{
	sigset_t all, old;

	serving = mount;
	are_some = true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	start(drop_all);
	start(renew_all);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void pages_filled(struct mount *mount)
{
	pthread_mutex_lock(&mutex);
	if (nr_running == 0)
		begin(mount);
	is_filled = true;
	are_some = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

bool pages_end(void)
{
	struct timespec until;
	bool have_ended;

	pthread_mutex_lock(&mutex);
	serving = NULL;
	pthread_cond_broadcast(&changed);
	/* Calls of the library are waited for, as those of requests are. */
	while (nr_running > is_in_kernel)
		pthread_cond_wait(&changed, &mutex);
	until = after(END_S * (long)SECOND_NS);
	while (nr_running != 0 && pthread_cond_timedwait(&changed, &mutex, &until) != ETIMEDOUT)
		;
	have_ended = nr_running == 0;
	pthread_mutex_unlock(&mutex);
	return have_ended;
}
