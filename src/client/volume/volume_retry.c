/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for the servers of a volume, and making lost changes again. volume.h has the rules. */
#include <errno.h>

#include "base/error.h"
#include "client/session/retry.h"
#include "client/volume/volume.h"

#define LOG_BYTES_DEFAULT ((uint64_t)64 << 20)
#define SYNCS_MAX	  4 /* of the changes made again: each store may say once that it had lost some */

int volume_retry_open(struct afar_volume *volume, uint32_t retry_ms, uint64_t log_bytes)
{
	struct afar_target *target = &volume->region->target;
	bool is_waiting = retry_ms != 0 && target->is_flash;
	bool is_logged = is_waiting && volume->mode == AFAR_VOLUME_EXCLUSIVE;
	pthread_rwlockattr_t attributes;

	/* Otherwise calls that fail one after another would keep the one out that mends it. */
	pthread_rwlockattr_init(&attributes);
	pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&volume->gate, &attributes);
	pthread_rwlockattr_destroy(&attributes);
	pthread_mutex_init(&volume->full, NULL);
	volume->retry_ns = is_waiting ? (uint64_t)retry_ms * 1000000U : 0;
	target->keeps_opening = is_logged;
	volume->serial = UINT64_MAX; /* the first call connects */
	return is_logged ? volume_log_open(log_bytes != 0 ? log_bytes : LOG_BYTES_DEFAULT,
					   &volume->log)
			 : 0;
}

void volume_retry_close(struct afar_volume *volume)
{
	volume_log_close(volume->log);
	pthread_mutex_destroy(&volume->full);
	pthread_rwlock_destroy(&volume->gate);
}

/* The deadline of one attempt. */
static uint64_t attempt_deadline(const struct afar_volume *volume, uint64_t give_up)
{
	uint64_t deadline = session_deadline(volume->ns->session);

	return deadline < give_up ? deadline : give_up;
}

/* ---- Going on after a connection has ended. The gate is held to write. */

/* Notes how a sync that no later one hides from us has ended. */
static void note_synced(struct afar_volume *volume, int status)
{
	if (status == -AFAR_EUNSYNCED && volume->is_successor)
		volume->owes_unsynced = true;
	if (status == 0)
		volume->is_successor = false;
}

struct replay {
	struct afar_volume *volume;
	uint64_t serial;
	uint64_t give_up;
};

static int make_again(void *context, const struct volume_change *change)
{
	const struct replay *replay = context;
	const struct afar_iov iov = {.addr = (void *)change->data, .length = change->length};
	const struct afar_op op = {
		.opcode = change->opcode,
		.target = &replay->volume->region->target,
		.offset = change->offset,
		.nr_iov = change->data ? 1 : 0,
		.iov = change->data ? &iov : NULL,
		.operand = change->data ? 0 : change->length,
	};

	return target_try(&op, change->length, replay->serial,
			  attempt_deadline(replay->volume, replay->give_up));
}

/* Syncs until no store has anything lost to tell. The changes that it tells of are there again,
 * unless they were a former handle's. */
static int sync_again(const struct replay *replay)
{
	struct afar_target *target = &replay->volume->region->target;
	const struct afar_op sync = {.opcode = AFAR_OP_SYNC, .target = target};
	int ret = -AFAR_EUNSYNCED;

	target->keeps_opening = false;
	for (int i = 0; i < SYNCS_MAX && ret == -AFAR_EUNSYNCED; i++) {
		ret = target_try(&sync, 0, replay->serial,
				 attempt_deadline(replay->volume, replay->give_up));
		note_synced(replay->volume, ret);
	}
	target->keeps_opening = true;
	return ret;
}

static int replay_all(struct replay *replay)
{
	struct volume_log *log = replay->volume->log;
	uint64_t mark = volume_log_mark(log);
	int ret = volume_log_replay(log, make_again, replay);

	if (ret == 0)
		ret = sync_again(replay);
	if (ret == 0)
		volume_log_drop(log, mark);
	return ret;
}

static int recover_once(struct replay *replay)
{
	struct afar_volume *volume = replay->volume;
	int ret = target_reconnect(&volume->region->target,
				   attempt_deadline(volume, replay->give_up), &replay->serial);

	if (ret == 0 && volume->log && volume->serial != UINT64_MAX)
		ret = replay_all(replay);
	if (ret == 0)
		volume->serial = replay->serial;
	return ret;
}

/* Goes on with a new binding, if no other thread has done so since `serial`. */
static int recover(struct afar_volume *volume, uint64_t serial, uint64_t give_up)
{
	struct replay replay = {.volume = volume, .give_up = give_up};
	struct retry retry = RETRY_UNTIL(give_up);
	int ret = 0;

	pthread_rwlock_wrlock(&volume->gate);
	while (volume->serial == serial) {
		ret = recover_once(&replay);
		if (ret == 0 || !retry_may_help(volume->ns->session, ret) || !retry_pause(&retry))
			break;
	}
	pthread_rwlock_unlock(&volume->gate);
	return ret;
}

/* ---- Operations */

/* Tries once. The entry, if there is one, ends with the gate held, so that no replay passes a change
 * by that has just been made. Likewise a sync drops what it covers before a replay can begin. A replay
 * that was cut off might have put older bytes there, which nobody would make new again. */
static int attempt(struct afar_volume *volume, const struct afar_op *op, uint64_t length,
		   struct log_entry *entry, uint64_t give_up, uint64_t *serial)
{
	bool drops = op->opcode == AFAR_OP_SYNC && volume->log;
	uint64_t mark;
	int ret;

	pthread_rwlock_rdlock(&volume->gate);
	*serial = volume->serial;
	mark = drops ? volume_log_mark(volume->log) : 0;
	ret = *serial == UINT64_MAX
		      ? -ESTALE
		      : target_try(op, length, *serial, attempt_deadline(volume, give_up));
	if (entry && ret == 0)
		volume_log_end(volume->log, entry, true);
	if (drops && ret == 0) {
		volume_log_drop(volume->log, mark);
		note_synced(volume, 0);
	}
	pthread_rwlock_unlock(&volume->gate);
	return ret;
}

/* Returns -ESTALE only for another cluster or volume, because the program takes it for good. A layout
 * that changes again and again is -AFAR_ESERVER. */
static int last_error(struct afar_volume *volume, int ret)
{
	if (ret != -ESTALE || session_is_stale(volume->ns->session))
		return ret;
	return error_fail(-AFAR_ESERVER,
			  "use volume '%s': its servers have changed again and again; try again",
			  volume->ns->name);
}

static int carry_out(struct afar_volume *volume, const struct afar_op *op, uint64_t length,
		     struct log_entry *entry)
{
	uint64_t give_up = CLOCK_NEVER, serial;

	for (;;) {
		int ret = attempt(volume, op, length, entry, give_up, &serial);
		/* A store ended and was reached again before we noticed. */
		bool is_lost = ret == -AFAR_EUNSYNCED && volume->log;

		if (!retry_may_help(volume->ns->session, ret) && !is_lost)
			return ret;
		if (clock_ns() >= give_up)
			return last_error(volume, ret);
		if (give_up == CLOCK_NEVER)
			give_up = clock_ns() + volume->retry_ns;
		ret = recover(volume, serial, give_up);
		if (ret < 0)
			return last_error(volume, ret);
	}
}

int volume_carry_out(struct afar_volume *volume, const struct afar_op *op, uint64_t length)
{
	return carry_out(volume, op, length, NULL);
}

/* Syncs, and leaves it to the program's next sync to tell what a former handle has lost. */
static int sync_quietly(struct afar_volume *volume)
{
	const struct afar_op sync = {.opcode = AFAR_OP_SYNC, .target = &volume->region->target};

	return carry_out(volume, &sync, 0, NULL);
}

int volume_sync(struct afar_volume *volume)
{
	int ret = sync_quietly(volume);

	if (ret || !atomic_exchange(&volume->owes_unsynced, false))
		return ret;
	return error_fail(-AFAR_EUNSYNCED,
			  "sync volume '%s': a server of it ended before all was synced that was "
			  "written with the handle before this one: it may be lost; write it again "
			  "and sync",
			  volume->ns->name);
}

/* Begins a change for which the log has no room. One thread syncs, and the others wait for it. */
static int begin_with_room(struct afar_volume *volume, const struct volume_change *change,
			   struct log_entry **entry)
{
	int ret, synced = 0;

	pthread_mutex_lock(&volume->full);
	while ((ret = volume_log_begin(volume->log, change, entry)) == -EAGAIN && synced == 0)
		synced = sync_quietly(volume);
	pthread_mutex_unlock(&volume->full);
	return ret == -EAGAIN ? synced : ret;
}

int volume_change(struct afar_volume *volume, const struct afar_op *op, uint64_t length)
{
	const struct volume_change change = {
		.opcode = op->opcode,
		.offset = op->offset,
		.length = length,
		.data = op->nr_iov != 0 ? op->iov[0].addr : NULL,
	};
	struct log_entry *entry;
	int ret = volume_log_begin(volume->log, &change, &entry);

	if (ret == -EAGAIN)
		ret = begin_with_room(volume, &change, &entry);
	if (ret < 0)
		return ret;
	ret = carry_out(volume, op, length, entry);
	if (ret < 0) {
		pthread_rwlock_rdlock(&volume->gate);
		volume_log_end(volume->log, entry, false);
		pthread_rwlock_unlock(&volume->gate);
	}
	return ret;
}
