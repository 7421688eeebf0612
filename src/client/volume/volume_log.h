/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of a volume: changes that have completed and that no sync covers yet, with their bytes.
 * They are in the order in which they took effect. When a server has restarted, what they came to is
 * made again. So a disk outlives its server.
 *
 *   begin → under way → end (done) → dropped by a sync that began afterwards
 *                     → end (void)
 *
 * Changes that overlap wait for one another, so their order here is that in which the medium has
 * them. The log is a ring: a change takes its place when it begins, before it is sent.
 *
 * Any thread may call all of this, unless a comment says otherwise.
 */
#ifndef CLIENT_VOLUME_LOG_H
#define CLIENT_VOLUME_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VOLUME_LOG_MIN ((uint64_t)1 << 20)

struct volume_change {
	uint16_t opcode; /* AFAR_OP_WRITE, _ZERO, _TRIM */
	uint64_t offset;
	uint64_t length;
	const void *data; /* of a write */
};

struct volume_log;
struct log_entry;

/* Makes a log of `bytes`, at least VOLUME_LOG_MIN. -ENOMEM. */
int volume_log_open(uint64_t bytes, struct volume_log **out);
/* Nothing may be under way. NULL is allowed. */
void volume_log_close(struct volume_log *log);

/* The most bytes that a write may have. */
size_t volume_log_write_max(const struct volume_log *log);

/* Begins a change, when those under way that overlap it have ended, and copies its bytes. Blocks for
 * them. -EAGAIN: the log is full; sync, and try again. */
int volume_log_begin(struct volume_log *log, const struct volume_change *change,
		     struct log_entry **out);
/* Ends a change. `is_done`: it has taken effect. If not, nobody makes it again. Not during a replay. */
void volume_log_end(struct volume_log *log, struct log_entry *entry, bool is_done);

/* Call the first before a sync begins, and the second with its result when the sync has ended with 0.
 * The second drops changes which the sync covers: those that began before all that were under way at
 * the first call. Not during a replay. */
uint64_t volume_log_mark(struct volume_log *log);
void volume_log_drop(struct volume_log *log, uint64_t mark);

/* Makes the changes that are done again, until `make` fails: each byte once, as the last of them left
 * it, in the order of offsets. Returns what `make` returned last, or -ENOMEM. No change may end
 * meanwhile. */
int volume_log_replay(struct volume_log *log,
		      int (*make)(void *context, const struct volume_change *change),
		      void *context);

#endif
