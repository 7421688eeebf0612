/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks: the manager has them, so all mounts see them. The kernel names their owners: a process, or with flock(2) and
 * open file description locks an open file.
 *
 * If a program waits for a lock, a thread of ours waits with it. The threads of libfuse are few, and the one
 * that unlocks needs one of them. A signal to the program cancels the wait.
 *
 * libfuse's threads call this. It owns those who wait.
 */
#include "locks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>
#include <urcu/list.h>

#include "session.h"

#define WAITS_MAX   1024U
#define STACK_BYTES (256U << 10)

struct wait {
	struct cds_list_head link;
	struct mount *mount;
	fuse_req_t req;
	struct fuse_file_info info; /* the kernel keeps its file open meanwhile */
	struct afar_lock lock;
	uint32_t is_cancelled;
};

static CDS_LIST_HEAD(all_waits);
static unsigned nr_waits;
static pthread_mutex_t waits_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t waits_changed = PTHREAD_COND_INITIALIZER;

/* ---- Asking */

/* Others who lock next must see what was written under this lock. So its size and times go first. */
static int set_lock(const struct mount *mount, const struct fuse_file_info *info,
		    const struct afar_lock *lock, int timeout_ms)
{
	struct afar_file *file;
	int ret = file_of(mount, info, &file);

	if (!ret && lock->mode == AFAR_LOCK_NONE)
		ret = file_flush(info);
	return ret ? ret : afar_file_lock(file, lock, timeout_ms);
}

int locks_unlock(const struct mount *mount, struct afar_file *file, uint64_t owner)
{
	struct afar_lock lock = {.size = sizeof(lock), .mode = AFAR_LOCK_NONE, .owner = owner};

	return mount->options->are_locks_local || !file ? 0 : afar_file_lock(file, &lock, 0);
}

/* ---- Waiting */

static void remove_wait(struct wait *wait)
{
	pthread_mutex_lock(&waits_mutex);
	cds_list_del(&wait->link);
	nr_waits--;
	pthread_cond_broadcast(&waits_changed);
	pthread_mutex_unlock(&waits_mutex);
	free(wait);
}

static void cancel(struct wait *wait)
{
	struct afar_file *file;

	/* Also where there is no session just now: the wait is not begun again. */
	__atomic_store_n(&wait->is_cancelled, 1U, __ATOMIC_RELEASE);
	if (!session_enter(wait->mount)) {
		file = file_if_open(&wait->info);
		if (file)
			afar_file_lock_cancel(file, &wait->is_cancelled);
	}
	session_leave(wait->mount, 0);
}

/* A signal has come to the program. */
static void interrupted(fuse_req_t req, void *data)
{
	(void)req;
	cancel(data);
}

static void *wait_for_lock(void *argument)
{
	struct wait *wait = argument;
	struct mount *mount = wait->mount;
	int64_t ret;

	fuse_req_interrupt_func(wait->req, interrupted, wait);
	ret = CALL(mount, set_lock(mount, &wait->info, &wait->lock, -1));
	/* Nobody cancels it from here on. */
	fuse_req_interrupt_func(wait->req, NULL, NULL);
	answer(wait->req, ret);
	remove_wait(wait);
	return NULL;
}

static bool add_wait(struct wait *wait)
{
	bool has_room;

	pthread_mutex_lock(&waits_mutex);
	has_room = nr_waits < WAITS_MAX;
	if (has_room) {
		cds_list_add(&wait->link, &all_waits);
		nr_waits++;
	}
	pthread_mutex_unlock(&waits_mutex);
	return has_room;
}

static int start_thread(struct wait *wait)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int ret;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	ret = pthread_create(&thread, &attributes, wait_for_lock, wait);
	pthread_attr_destroy(&attributes);
	return -ret;
}

/* Has a thread wait, which answers the request. Returns an error if it does not. */
static int start_wait(fuse_req_t req, const struct fuse_file_info *info,
		      const struct afar_lock *lock)
{
	struct wait *wait = calloc(1, sizeof(*wait));

	if (!wait)
		return -ENOLCK;
	wait->mount = mount_of(req);
	wait->req = req;
	wait->info = *info;
	wait->lock = *lock;
	wait->lock.is_cancelled = &wait->is_cancelled;
	if (!add_wait(wait)) {
		free(wait);
		return -ENOLCK;
	}
	if (!start_thread(wait))
		return 0;
	remove_wait(wait);
	return -ENOLCK;
}

void locks_end(void)
{
	struct wait *wait;

	pthread_mutex_lock(&waits_mutex);
	cds_list_for_each_entry (wait, &all_waits, link)
		cancel(wait);
	while (nr_waits)
		pthread_cond_wait(&waits_changed, &waits_mutex);
	pthread_mutex_unlock(&waits_mutex);
}

/* ---- The kernel's requests */

/* Locks, or unlocks, and answers; a thread does if that takes long. */
static void set_and_answer(fuse_req_t req, const struct fuse_file_info *info,
			   const struct afar_lock *lock, bool is_waiting)
{
	struct mount *mount = mount_of(req);
	int64_t ret = CALL(mount, set_lock(mount, info, lock, 0));

	if (ret == -EAGAIN && is_waiting) {
		ret = start_wait(req, info, lock);
		if (!ret)
			return;
	}
	answer(req, ret);
}

static struct afar_lock lock_of(const struct fuse_file_info *info, const struct flock *flock)
{
	return (struct afar_lock){
		.size = sizeof(struct afar_lock),
		.mode = flock->l_type == F_RDLCK   ? AFAR_LOCK_SHARED
			: flock->l_type == F_WRLCK ? AFAR_LOCK_EXCLUSIVE
						   : AFAR_LOCK_NONE,
		.owner = info->lock_owner,
		.start = (uint64_t)flock->l_start,
		.length = (uint64_t)flock->l_len,
		.pid = (uint32_t)flock->l_pid,
	};
}

void do_getlk(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *info, struct flock *flock)
{
	struct mount *mount = mount_of(req);
	struct afar_lock lock = lock_of(info, flock);
	struct afar_file *file;
	int64_t ret = CALL(mount, file_of(mount, info, &file) ?: afar_file_lock_stat(file, &lock));

	(void)node;
	if (ret) {
		answer(req, ret);
		return;
	}
	*flock = (struct flock){
		.l_type = (short)(lock.mode == AFAR_LOCK_SHARED	     ? F_RDLCK
				  : lock.mode == AFAR_LOCK_EXCLUSIVE ? F_WRLCK
								     : F_UNLCK),
		.l_whence = SEEK_SET,
		.l_start = (off_t)lock.start,
		.l_len = (off_t)lock.length,
		.l_pid = (pid_t)lock.pid,
	};
	fuse_reply_lock(req, flock);
}

void do_setlk(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *info, struct flock *flock,
	      int is_waiting)
{
	struct afar_lock lock = lock_of(info, flock);

	(void)node;
	set_and_answer(req, info, &lock, is_waiting);
}

void do_flock(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *info, int operation)
{
	struct afar_lock lock = {
		.size = sizeof(lock),
		.mode = operation & LOCK_SH   ? AFAR_LOCK_SHARED
			: operation & LOCK_EX ? AFAR_LOCK_EXCLUSIVE
					      : AFAR_LOCK_NONE,
		.is_whole = 1,
		.owner = info->lock_owner,
	};

	(void)node;
	set_and_answer(req, info, &lock, !(operation & LOCK_NB));
}
