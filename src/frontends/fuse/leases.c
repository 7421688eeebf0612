/* SPDX-License-Identifier: BSD-3-Clause */
/* See leases.h. The table of leases has a fixed size: an inode whose place is taken gets none. */
#include "leases.h"

#include <pthread.h>
#include <sys/stat.h>

#include "mount.h"
#include "pages.h"
#include "pages_table.h"

#define PLACES	 16384U
#define STOPS	 4096U
#define STOP_MS	 1000U
#define LASTS_MS 550U /* a delegation, and as the kernel rounds */

struct lease {
	uint64_t ino, until; /* ms */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct lease leases[PLACES];
static uint64_t stops[STOPS]; /* until when inodes of this place get none: ms */

static struct lease *place_of(uint64_t ino)
{
	return &leases[(ino * UINT64_C(0x9e3779b97f4a7c15) >> 32) % PLACES];
}

static uint64_t *stop_of(uint64_t ino)
{
	return &stops[(ino * UINT64_C(0x9e3779b97f4a7c15) >> 32) % STOPS];
}

/* False: the place is another inode's, or it gets none. */
static bool note(uint64_t ino)
{
	struct lease *lease = place_of(ino);
	const uint64_t now = pages_now_ms();
	bool is_free;

	pthread_mutex_lock(&mutex);
	is_free = *stop_of(ino) <= now && (lease->ino == ino || lease->until <= now);
	if (is_free)
		*lease = (struct lease){ino, now + LASTS_MS};
	pthread_mutex_unlock(&mutex);
	return is_free;
}

bool lease_is_there(uint64_t ino)
{
	const struct lease *lease = place_of(ino);
	bool is;

	pthread_mutex_lock(&mutex);
	is = lease->ino == ino && lease->until > pages_now_ms();
	pthread_mutex_unlock(&mutex);
	return is;
}

/* The kernel drops attributes without waiting for a page, so a request may have it do that. */
void lease_stop(struct mount *mount, uint64_t ino)
{
	struct lease *lease = place_of(ino);
	const uint64_t now = pages_now_ms();
	bool is_there;

	pthread_mutex_lock(&mutex);
	*stop_of(ino) = now + STOP_MS;
	is_there = lease->ino == ino && lease->until > now;
	pthread_mutex_unlock(&mutex);
	if (!is_there)
		return;
	fuse_lowlevel_notify_inval_inode(mount->fuse, node_of(mount, ino), -1, 0);
	pthread_mutex_lock(&mutex);
	if (lease->ino == ino)
		lease->until = 0;
	pthread_mutex_unlock(&mutex);
}

/* Writing drops setuid and setgid, which the kernel is not told. */
static bool may_change_unseen(const struct afar_file_stat *stat)
{
	return S_ISREG(stat->mode) && stat->mode & (S_ISUID | S_ISGID);
}

/* Asks nobody, and waits for nobody. */
static int keep(struct mount *mount, uint64_t ino, struct afar_file_stat *out)
{
	int left_ms = 0;

	if (pthread_rwlock_tryrdlock(&mount->lock) != 0)
		return 0;
	if (mount->fs && !mount->is_another)
		left_ms = afar_fs_keep_attributes(mount->fs, ino, out);
	pthread_rwlock_unlock(&mount->lock);
	return left_ms;
}

double lease_give(struct mount *mount, struct afar_file_stat *stat)
{
	struct afar_file_stat now = {.size = sizeof(now)};
	uint64_t since;
	int left_ms;

	if (mount->options->age_s > 0)
		return mount->options->age_s;
	if (mount->options->is_direct)
		return 0;
	since = pages_quiet_since(mount, stat->ino);
	/* It is noted first: whoever drops the inode from now on tells the kernel. */
	if (!since || !pages_may_lease(mount, stat->ino, since) || !note(stat->ino))
		return 0;
	left_ms = keep(mount, stat->ino, &now);
	if (left_ms <= 0 || may_change_unseen(&now) || pages_quiet_since(mount, stat->ino) != since)
		return 0;
	*stat = now;
	return (double)left_ms / 1000;
}
