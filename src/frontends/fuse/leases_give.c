/* SPDX-License-Identifier: BSD-3-Clause */
/* Giving leases: what the library, and those who look after pages, have to say about one. See leases.h. */
#include "leases.h"

#include <sys/stat.h>

#include "pages_table.h"

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

#define LATE_MS 50U /* as the library expects */

static _Thread_local uint64_t
	given_at; /* the thread's last lease; ms. 0: none that others may end */

static bool is_late(double seconds)
{
	return seconds > 0 && given_at != 0 && pages_now_ms() > given_at + LATE_MS;
}

double lease_in_time(double seconds)
{
	return is_late(seconds) ? 0 : seconds;
}

void lease_given(struct mount *mount, uint64_t ino, double seconds)
{
	if (is_late(seconds) && lease_note(ino))
		pages_drop_again(mount, ino);
}

double lease_give(struct mount *mount, struct afar_file_stat *stat)
{
	struct afar_file_stat now = {.size = sizeof(now)};
	uint64_t since;
	int left_ms;

	given_at = 0;
	if (mount->options->age_s > 0)
		return mount->options->age_s;
	given_at = pages_now_ms();
	if (mount->options->is_direct)
		return 0;
	since = pages_quiet_since(mount, stat->ino);
	/* It is noted first: whoever drops the inode from now on tells the kernel. */
	if (!since || !pages_may_lease(mount, stat->ino, since) || !lease_note(stat->ino))
		return 0;
	left_ms = keep(mount, stat->ino, &now);
	if (left_ms <= 0 || may_change_unseen(&now) || pages_quiet_since(mount, stat->ino) != since)
		return 0;
	*stat = now;
	return (double)left_ms / 1000;
}
