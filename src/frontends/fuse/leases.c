/* SPDX-License-Identifier: BSD-3-Clause */
/* See leases.h. The table of leases has a fixed size: an inode whose place is taken gets none. */
#include "leases.h"

#include <pthread.h>

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

bool lease_note(uint64_t ino)
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
