/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans: the pieces of a part of an array, as few as there are that lie together in the array and in memory. A plan is made slice by slice,
 * so it takes the same memory for any part. All is pure.
 */
#ifndef CLIENT_ARRAY_PLAN_H
#define CLIENT_ARRAY_PLAN_H

#include "client/array/array_form.h"

struct array_piece {
	uint64_t offset; /* in the region or file */
	int64_t memory;	 /* from the part's first record in memory */
	uint64_t length;
};

struct array_plan {
	const struct array_form *form;
	struct array_slab slab;
	/* The share of a unit: so many records of the part, from these on. */
	uint64_t first[DIMENSIONS_MAX], share[DIMENSIONS_MAX];
	unsigned nr_outside; /* dimensions, the first ones, that a piece has one record of */
	uint64_t length;     /* of a piece */
	/* The next piece: its records in the dimensions outside, counted from the share's first, and its place. */
	uint64_t at[DIMENSIONS_MAX];
	uint64_t offset;
	int64_t memory;
	bool is_done;
};

/* The form must stay as long as the plan. */
void array_plan_begin(struct array_plan *plan, const struct array_form *form,
		      const struct array_slab *slab);
/* Gives the next slice: up to `max` pieces, of ascending offsets within a unit. Returns how many; 0: there are no more. */
unsigned array_plan_next(struct array_plan *plan, struct array_piece *pieces, unsigned max);

#endif
