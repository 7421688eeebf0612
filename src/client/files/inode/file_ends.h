/* SPDX-License-Identifier: BSD-3-Clause */
/* This process knows this of a file's end that the manager has left to it (io/fs_ends.h). Pure memory; the inode's lock guards it. */
#ifndef CLIENT_FILE_ENDS_H
#define CLIENT_FILE_ENDS_H

#include <stdbool.h>
#include <stdint.h>

#include "rpc/end_slot.h"

struct file_ends {
	uint64_t slot;	 /* its unit of the pool, and 1; 0: there is none */
	uint64_t until;	 /* on clock_ns(): the end is ours as long; 0: it is not */
	uint64_t number; /* of the time in which it is ours: another one after it was not */
	unsigned turn;	 /* the copy that is written next */
	uint64_t untold; /* the greatest end that the slot alone knows; 0: the manager knows all */
	unsigned
		nr_giving; /* messages that give it back, and are not on their way yet: it is not asked for meanwhile */
	bool is_appending; /* an append relies on its being ours */
	/* A program has appended. The manager knew that when it left the end to us: others do not append before it has heard from us. Else nothing is
	 * appended without asking it. */
	bool has_appended, may_append;
	/* A write of the slot has failed. So the slot may say an end, at once or later, that no write got to. The manager is to hear that it counts
	 * for nothing. */
	bool has_failed;
};

/* It is not ours any more. */
static inline void ends_stop(struct file_ends *ends)
{
	ends->until = 0;
	ends->number++;
}

/* Likewise, and the manager is to hear that. No message asks for it meanwhile. */
static inline void ends_begin_giving(struct file_ends *ends)
{
	ends_stop(ends);
	ends->nr_giving++;
}

static inline void ends_end_giving(struct file_ends *ends)
{
	/* The inode may be another one by now. */
	if (ends->nr_giving != 0)
		ends->nr_giving--;
}

/* Likewise, and there is no slot any more: the file has been cut, or may be. */
static inline void ends_forget(struct file_ends *ends)
{
	ends_stop(ends);
	ends->slot = 0;
	ends->untold = 0;
	ends->has_failed = false;
}

#endif
