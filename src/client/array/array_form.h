/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where an array's records lie: checked shapes, and parts of them. In here dimensions go from the slowest to the fastest, whatever the order
 * of the array; so nothing behind this knows of Fortran. All is pure.
 */
#ifndef CLIENT_ARRAY_FORM_H
#define CLIENT_ARRAY_FORM_H

#include <stdbool.h>

#include <afar/array.h>

#define DIMENSIONS_MAX AFAR_ARRAY_DIMENSIONS_MAX

/* The array is stored as units, one behind the other: its blocks; or all of it is one. All numbers are at least 1, and all sums
 * and products of them are below 2^63. */
struct array_form {
	unsigned nr; /* dimensions */
	uint32_t flags;
	uint64_t record; /* bytes */
	uint64_t extent[DIMENSIONS_MAX], block[DIMENSIONS_MAX], unit[DIMENSIONS_MAX];
	uint64_t inner[DIMENSIONS_MAX]; /* bytes from a record to the next, in a unit */
	uint64_t outer[DIMENSIONS_MAX]; /* bytes from a unit to the next */
	uint64_t bytes;			/* header included */
};

/* A part that is inside of the array. Each stride is positive. */
struct array_slab {
	uint64_t start[DIMENSIONS_MAX], count[DIMENSIONS_MAX], stride[DIMENSIONS_MAX];
	int64_t memory[DIMENSIONS_MAX]; /* bytes from a record to the next */
	int64_t base;			/* of the record at `start`, from the program's first */
	uint64_t nr_records;
};

/* Fails, with a sentence: -EINVAL. `shape` has the size of this release. */
int array_form_make(const struct afar_array_shape *shape, struct array_form *out);
/* Likewise: -EINVAL, -ERANGE. `verb` is for the sentence. `is_read`: no two records may have the same memory by a stride of 0. */
int array_slab_make(const struct array_form *form, const struct afar_slab *slab, const char *verb,
		    bool is_read, struct array_slab *out);

/* Returns where a dimension of the program is in here, and the other way round. */
static inline unsigned array_dimension(const struct array_form *form, unsigned i)
{
	return form->flags & AFAR_ARRAY_FORTRAN ? form->nr - 1 - i : i;
}

#endif
