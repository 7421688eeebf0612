/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See gone.h. A thread of its own tells the kernel, because the kernel answers only when nobody has the directory for himself.
 * Those that have it may be requests that wait for the manager, or for another session of ours. The thread belongs to the process,
 * and ends with it.
 */
#include "gone.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <urcu/list.h>

#include "mount.h"

#define KNOWN_MAX \
	65536U /* that the kernel has not been told of yet; it keeps those beyond until memory is short */
#define END_S 1

struct gone_name {
	struct cds_list_head link;
	uint64_t dir, ino;
	char name[];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static CDS_LIST_HEAD(names);
static unsigned nr_names;
static struct mount *serving; /* NULL: nobody is to be told */
static bool is_telling;

/* It has no such name any more, or another file has it: then there is nothing to drop. */
static void tell_kernel(const struct mount *mount, const struct gone_name *gone)
{
	fuse_lowlevel_notify_delete(mount->fuse, node_of(mount, gone->dir),
				    node_of(mount, gone->ino), gone->name, strlen(gone->name));
}

static void *run(void *argument)
{
	(void)argument;
	pthread_mutex_lock(&mutex);
	while (serving) {
		const struct mount *mount = serving;
		struct gone_name *first;

		if (cds_list_empty(&names)) {
			pthread_cond_wait(&changed, &mutex);
			continue;
		}
		first = cds_list_first_entry(&names, struct gone_name, link);
		cds_list_del(&first->link);
		nr_names--;
		is_telling = true;
		pthread_mutex_unlock(&mutex);
		tell_kernel(mount, first);
		free(first);
		pthread_mutex_lock(&mutex);
		is_telling = false;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&mutex);
	return NULL;
}

/* Signals are for libfuse's main thread, which one that came here would not wake. */
void gone_begin(struct mount *mount)
{
	sigset_t all, old;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_mutex_lock(&mutex);
	serving = mount;
	if (pthread_create(&thread, NULL, run, NULL))
		serving = NULL;
	else
		pthread_detach(thread);
	pthread_mutex_unlock(&mutex);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

bool gone_end(void)
{
	struct timespec until;
	bool has_ended;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += END_S;
	pthread_mutex_lock(&mutex);
	serving = NULL;
	pthread_cond_broadcast(&changed);
	while (is_telling && pthread_cond_timedwait(&changed, &mutex, &until) != ETIMEDOUT)
		;
	has_ended = !is_telling;
	pthread_mutex_unlock(&mutex);
	return has_ended;
}

void gone_tell(void *mount, uint64_t dir, const char *name, uint64_t ino)
{
	const size_t length = strlen(name);
	struct gone_name *gone = malloc(sizeof(*gone) + length + 1);

	if (!gone)
		return;
	gone->dir = dir;
	gone->ino = ino;
	memcpy(gone->name, name, length + 1);
	pthread_mutex_lock(&mutex);
	if (serving == mount && nr_names < KNOWN_MAX) {
		cds_list_add_tail(&gone->link, &names);
		nr_names++;
		gone = NULL;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&mutex);
	free(gone);
}
