/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slots: where a session that has the end of a file for itself keeps that end, beside the bytes. A slot is in a unit of the pool of
 * its own, which no byte of the file ever uses. The session writes it one-sided with each write that makes the file longer. The manager has
 * a server read it if the session dies, or answers nothing. So nothing that was acknowledged is lost.
 *
 * A slot has two copies, which are written in turns: one that is torn leaves the other. Ends only grow as long as the layout of the file has the same number,
 * so the greatest one counts.
 */
#ifndef RPC_END_SLOT_H
#define RPC_END_SLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define END_SLOT_COPY_BYTES 64U
#define END_SLOT_COPIES	    2U
#define END_SLOT_BYTES	    (END_SLOT_COPIES * END_SLOT_COPY_BYTES)

/* By its own clock, from when it asked, a session relies on the end that it has; the manager counts from its answer. */
#define END_KEPT_MS  500U
#define END_GIVEN_MS 1000U

struct end_slot {
	uint64_t ino, layout; /* of the file */
	uint64_t end;
};

/* Makes one copy. */
void end_slot_write(uint8_t out[END_SLOT_COPY_BYTES], const struct end_slot *slot);
/* Finds the greatest end of a file among the copies. False: none of them is valid. */
bool end_slot_read(const uint8_t *bytes, size_t length, uint64_t ino, uint64_t layout,
		   uint64_t *end);

#endif
