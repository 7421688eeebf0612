/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long the files become that this session makes: a mean of which each counts an eighth. So much room comes with a file when it is made, and
 * the write that needs it asks nobody. Closing the file gives back what it did not need. Threads may lose each other's notes.
 */
#ifndef CLIENT_FS_USUAL_H
#define CLIENT_FS_USUAL_H

#include <stdatomic.h>
#include <stdint.h>

#define USUAL_UNITS_MAX 8U /* longer files ask for more when they are written */
#define USUAL_PARTS	16U

struct fs_usual {
	atomic_uint parts; /* of units, of which USUAL_PARTS are one */
};

/* Returns at least 1. */
static inline uint64_t usual_units(const struct fs_usual *usual)
{
	const unsigned parts = atomic_load_explicit(&usual->parts, memory_order_relaxed);

	return parts <= USUAL_PARTS ? 1 : (parts + USUAL_PARTS - 1) / USUAL_PARTS;
}

/* Notes a file that is being closed. Empty ones count for nothing. */
static inline void usual_note(struct fs_usual *usual, uint64_t units)
{
	const unsigned parts = atomic_load_explicit(&usual->parts, memory_order_relaxed);
	const unsigned now = (unsigned)(units < USUAL_UNITS_MAX ? units : USUAL_UNITS_MAX);

	if (now != 0)
		atomic_store_explicit(&usual->parts, (7 * parts + USUAL_PARTS * now) / 8,
				      memory_order_relaxed);
}

#endif
