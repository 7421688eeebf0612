/* SPDX-License-Identifier: BSD-3-Clause */
/* The work of files on their pool: moving bytes, zeroing, syncing. They do it again and again while
 * servers cannot be reached, if the file system waits for them. */
#include <errno.h>

#include "base/error.h"
#include "client/files/fs.h"
#include "client/session/retry.h"
#include "client/target/apart.h"

#define SYNCS_MAX 8 /* each store may say once that it had lost something */

/* ---- Trying again */

/* Returns whether to try again, after a pause. */
static bool try_again(const struct afar_fs *fs, struct retry *retry, int status)
{
	if (fs->retry_ns == 0 || !retry_may_help(fs->ns->session, status))
		return false;
	if (retry->give_up == 0)
		*retry = RETRY_UNTIL(clock_ns() + fs->retry_ns);
	return retry_pause(retry);
}

/* ---- Operations */

int fs_transfer(struct afar_fs *fs, uint16_t opcode, uint32_t flags, struct target_piece *pieces,
		unsigned nr)
{
	struct retry retry = {0};
	int ret;

	do
		ret = target_transfer_pieces(fs_pool(fs), opcode, flags, pieces, nr);
	while (ret && try_again(fs, &retry, ret));
	return ret;
}

int fs_zero(struct afar_fs *fs, uint64_t pool_offset, uint64_t length)
{
	uint32_t flags = fs_pool(fs)->is_flash ? AFAR_OP_DURABLE : 0;
	struct retry retry = {0};
	int ret;

	do
		ret = target_zero(fs_pool(fs), AFAR_OP_ZERO, flags, pool_offset, length);
	while (ret && try_again(fs, &retry, ret));
	return ret;
}

/* ---- Syncing */

/* Returns whether a store has lost writes: its server ended, or its device refuses to make them durable. It says so
 * once. */
static bool is_loss(int status)
{
	return status == -AFAR_EUNSYNCED || status == -EIO;
}

/* Syncs until no store has anything lost to tell. Counts the losses. */
static int sync_once(struct afar_fs *fs, uint64_t *nr_losses)
{
	struct retry retry = {0};
	int ret;

	do {
		if (fs->has_other_writers)
			apart_owe_syncs(fs_pool(fs));
		ret = target_sync(fs_pool(fs));
		if (is_loss(ret))
			++*nr_losses;
	} while ((is_loss(ret) && *nr_losses < SYNCS_MAX) || (ret && try_again(fs, &retry, ret)));
	return ret == -AFAR_EUNSYNCED ? 0 : ret;
}

int fs_sync_pool(struct afar_fs *fs)
{
	struct fs_syncs *syncs = &fs->syncs;
	uint64_t wanted, number;
	bool is_ours = false;
	int ret;

	if (!fs_pool(fs)->is_flash)
		return 0;
	pthread_mutex_lock(&fs->lock);
	/* One that is under way may have passed what we have written. */
	wanted = syncs->nr_begun + 1;
	while (syncs->nr_ended < wanted) {
		uint64_t nr_losses = 0;

		if (syncs->is_running) {
			pthread_cond_wait(&fs->changed, &fs->lock);
			continue;
		}
		syncs->is_running = is_ours = true;
		number = ++syncs->nr_begun;
		writes_begin_sync(&fs->writes);
		pthread_mutex_unlock(&fs->lock);
		ret = sync_once(fs, &nr_losses);
		pthread_mutex_lock(&fs->lock);
		syncs->is_running = false;
		syncs->nr_ended = number;
		syncs->nr_losses += nr_losses;
		writes_end_sync(&fs->writes, ret == 0, nr_losses != 0);
		syncs->status = ret;
		pthread_cond_broadcast(&fs->changed);
	}
	ret = syncs->status;
	pthread_mutex_unlock(&fs->lock);
	/* A thread that has synced itself has left the line already. */
	if (ret && !is_ours)
		return error_fail(ret, "sync file system '%s': %s", fs->ns->name,
				  afar_strerror(ret));
	return ret;
}
