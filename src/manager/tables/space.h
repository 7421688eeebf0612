/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The free space of one extent: runs of free bytes in order of their offset, in units of
 * SPACE_UNIT. Pure; called by placement and by the state's tables, which own one for each extent.
 */
#ifndef MANAGER_SPACE_H
#define MANAGER_SPACE_H

#include <stddef.h>
#include <stdint.h>

#define SPACE_UNIT ((uint64_t)4096)

struct space_run {
	uint64_t offset;
	uint64_t length;
};

struct space {
	struct space_run *runs; /* by offset; no two touch */
	size_t nr_runs;
	size_t max_runs;
	uint64_t length;
	uint64_t free_bytes;
	uint64_t longest; /* run */
};

/* All of `length` bytes (a multiple of SPACE_UNIT) free. -ENOMEM. */
int space_begin(struct space *space, uint64_t length);
void space_end(struct space *space);

/* Takes `length` bytes from the start of the shortest run that has them. Allocates nothing.
 * -ENOSPC. */
int space_take(struct space *space, uint64_t length, uint64_t *offset);
/* Takes exactly this range. -EINVAL (not all of it is free, or malformed), -ENOMEM. */
int space_take_at(struct space *space, uint64_t offset, uint64_t length);
/* Gives a range back that was taken. -EINVAL (part of it is free already, or malformed),
 * -ENOMEM. */
int space_give(struct space *space, uint64_t offset, uint64_t length);

/* Returns the index of the first run that ends behind `offset`; the number of runs if there is none. */
size_t space_find_run(const struct space *space, uint64_t offset);

/* The length of the shortest run with at least `length` bytes, 0 if there is none. */
uint64_t space_best_fit(const struct space *space, uint64_t length);

#endif
