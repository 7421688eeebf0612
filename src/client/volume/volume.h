/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Volumes as the client knows them: a namespace and its one region. A volume that waits for its
 * servers has a log of changes, too, which it makes again (volume_log.h).
 *
 * Rules for a volume that waits. Its calls run with the gate held to read, and each tries its
 * operation over the binding whose serial is noted here, once. If that fails with its connection, one
 * thread takes the gate to write. It connects anew, makes the changes of the log again, has them
 * synced, and notes the new binding's serial. So nothing reads or syncs in a store's new opening
 * before the changes that were lost with the old one are there again. No change is made again
 * behind a newer one.
 */
#ifndef CLIENT_VOLUME_H
#define CLIENT_VOLUME_H

#include <pthread.h>

#include <afar/volume.h>

#include "client/namespace/region.h"
#include "client/volume/volume_log.h"

struct afar_volume {
	struct handle handle; /* in use during calls */
	struct afar_namespace *ns;
	struct afar_region *region;
	uint32_t mode;		/* enum afar_volume_mode */
	uint64_t retry_ns;	/* 0: it does not wait */
	struct volume_log *log; /* NULL: it makes nothing again */
	pthread_mutex_t full;	/* held by the one who makes room in the log */
	pthread_rwlock_t gate;
	uint64_t serial; /* of the binding that may be used; guarded by the gate */
	/* It was opened with another handle's mark, and no sync has gone well since. Changes that a store has lost
	 * may be the other's then, which are in no log. */
	atomic_bool is_successor;
	atomic_bool owes_unsynced; /* a store told so, and no sync has told the program yet */
};

/* Counts a call in, against a close in another thread; handle_unuse() counts it out. 0, or why the handle
 * cannot be used. */
int volume_enter(struct afar_volume *volume);
/* Carries out an operation on a volume that waits; as target_try(). */
int volume_carry_out(struct afar_volume *volume, const struct afar_op *op, uint64_t length);
/* Carries out an operation that changes something, and keeps it in the log. */
int volume_change(struct afar_volume *volume, const struct afar_op *op, uint64_t length);
int volume_sync(struct afar_volume *volume);

/* Checks a mark (volume_mark.c) that shall be taken. With a sentence: -EINVAL (it is none), -ESTALE (it is another
 * volume's). */
int volume_mark_check(const struct afar_namespace *ns, const char *mark);
/* Has a handle that was just opened remember what the mark says. It has been checked. */
void volume_mark_take(struct afar_volume *volume, const char *mark);
/* Gets a volume ready to wait, or not. -ENOMEM. */
int volume_retry_open(struct afar_volume *volume, uint32_t retry_ms, uint64_t log_bytes);
void volume_retry_close(struct afar_volume *volume);

#endif
