/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See session.h. Calls hold the lock to read, so whoever has it to write is alone with the session.
 * Once a session has ended, all its calls come back soon. Owns session and file system.
 */
#include "session.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "gone.h"
#include "pages.h"
#include "say.h"

#define PAUSE_MS 1000

/* Returns whether nobody has named a cluster, and none is announced in the working directory. */
static bool is_nowhere(const struct mount *mount)
{
	const char *environment = getenv("AFAR_CLUSTER");

	return !mount->cluster && !mount->options->cluster && !(environment && *environment) &&
	       access("./afar-data/cluster", F_OK) != 0;
}

static int open_session(struct mount *mount)
{
	const struct mount_options *options = mount->options;
	const struct afar_session_options session_options = {
		.size = sizeof(session_options),
		.key_file = options->key_file,
		.timeout_ms = options->timeout_s * 1000,
		.path = options->path,
	};

	int ret = afar_session_open(mount->cluster ? mount->cluster : options->cluster,
				    &session_options, &mount->session);

	return (ret == -ENOENT || ret == -AFAR_EMANAGER) && is_nowhere(mount) ? -EDESTADDRREQ : ret;
}

static int open_fs(struct mount *mount)
{
	const struct mount_options *options = mount->options;
	const struct afar_fs_options fs_options = {
		.size = sizeof(fs_options),
		.flags = AFAR_FS_COUNT_USES | (mount->cluster ? AFAR_FS_SYNC_ALL : 0) |
			 (options->is_read_only ? AFAR_FS_READ_ONLY : 0) |
			 (options->is_direct ? 0 : AFAR_FS_KEEP_PAGES),
		.retry_ms = options->retry_ms,
		.gone = gone_tell,
		.argument = mount,
		.drop = options->is_direct ? NULL : pages_drop,
	};

	int ret = afar_fs_open(mount->session, options->fs, &fs_options, &mount->fs);

	if (!ret && mount->has_other_writers)
		afar_fs_sync_others(mount->fs);
	return ret;
}

static void close_both(struct mount *mount)
{
	if (mount->fs)
		afar_fs_close(mount->fs);
	if (mount->session)
		afar_session_close(mount->session);
	mount->fs = NULL;
	mount->session = NULL;
}

static int open_both(struct mount *mount)
{
	int ret = open_session(mount);

	if (!ret)
		ret = open_fs(mount);
	if (ret)
		close_both(mount);
	return ret;
}

/* Notes which cluster and which file system it is: names and the working directory may lead to others later. */
static int note_which(struct mount *mount)
{
	mount->identity = afar_fs_identity(mount->fs);
	return afar_session_uri(mount->session, &mount->cluster);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Returns whether it may be otherwise later: nobody answers, or not in time. */
static bool may_pass(int error)
{
	return error == -AFAR_EMANAGER || error == -AFAR_ESERVER || error == -ETIMEDOUT ||
	       error == -AFAR_ESESSION;
}

/* Opens both for the first time. After a power cut the manager may be later than the machines that mount. */
static int open_patiently(struct mount *mount)
{
	const uint64_t until = now_ms() + mount->options->begin_ms;
	bool is_told = false;
	int ret;

	for (;;) {
		ret = open_both(mount);
		if (!may_pass(ret) || now_ms() >= until)
			return ret;
		if (!is_told)
			say_note("%s: waiting for its cluster, at most %u s: %s",
				 mount->options->asked, mount->options->begin_ms / 1000,
				 afar_last_error());
		is_told = true;
		poll(NULL, 0, PAUSE_MS);
	}
}

int session_begin(struct mount *mount)
{
	pthread_rwlockattr_t attributes;
	int ret;

	/* A thread that renews the session must not wait for ever behind those that would use
	 * it. */
	pthread_rwlockattr_init(&attributes);
	pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&mount->lock, &attributes);
	pthread_rwlockattr_destroy(&attributes);
	ret = open_patiently(mount);
	return ret ? ret : note_which(mount);
}

void session_end(struct mount *mount)
{
	close_both(mount);
	free(mount->cluster);
	pthread_rwlock_destroy(&mount->lock);
}

/* Checks that the name leads to the same file system as before. Inode numbers of another one are other
 * files'. */
static int check_same(struct mount *mount)
{
	if (afar_fs_identity(mount->fs) == mount->identity)
		return 0;
	close_both(mount);
	mount->is_another = true;
	say_failed("%s: the file system is gone, and what has its name now is another one; unmount "
		   "this, and mount that",
		   mount->options->asked);
	return -ESTALE;
}

/* Opens another session, as long as calls may wait. The caller has the lock to write. */
static int renew(struct mount *mount)
{
	const uint64_t until = now_ms() + mount->options->retry_ms;
	int ret;

	files_leave();
	close_both(mount);
	for (;;) {
		ret = open_both(mount);
		if (!ret)
			ret = check_same(mount);
		if (ret == -ESTALE)
			return ret;
		if (!ret)
			break;
		if (!may_pass(ret) || now_ms() >= until || fuse_session_exited(mount->fuse)) {
			say_failed("%s: its session has ended, and there is no other: %s",
				   mount->options->asked, afar_strerror(ret));
			return ret;
		}
		poll(NULL, 0, PAUSE_MS);
	}
	mount->epoch++;
	say_note("%s: its session had ended; it goes on with another", mount->options->asked);
	return 0;
}

int session_enter(struct mount *mount)
{
	pthread_rwlock_rdlock(&mount->lock);
	if (mount->is_another)
		return -ESTALE;
	return mount->fs ? 0 : -AFAR_ESESSION;
}

/* Returns whether a call failed because the session has ended. If another cluster has taken the place of its own, it is
 * stale like a file that is gone. */
static bool is_at_end(const struct mount *mount, int64_t ret)
{
	struct afar_session_stat stat = {.size = sizeof(stat)};

	return ret == -AFAR_ESESSION ||
	       (ret == -ESTALE && mount->session && afar_session_stat(mount->session, &stat) == 0 &&
		stat.has_ended);
}

bool session_leave(struct mount *mount, int64_t ret)
{
	const unsigned epoch = mount->epoch;
	const bool has_ended = is_at_end(mount, ret);
	bool is_renewed;

	pthread_rwlock_unlock(&mount->lock);
	if (!has_ended)
		return false;
	pthread_rwlock_wrlock(&mount->lock);
	/* Somebody else may have been quicker. If it is another file system, the call hears that when it tries again. */
	is_renewed = mount->epoch != epoch || renew(mount) == 0 || mount->is_another;
	pthread_rwlock_unlock(&mount->lock);
	return is_renewed;
}
