/* SPDX-License-Identifier: BSD-3-Clause */
/* Joins ranges of a file; see file_join.h. */
#include "client/files/io/file_join.h"

#include <stdbool.h>
#include <stdlib.h>

#include "client/blocking/merge.h"

/* Returns whether a range begins where another ends, in the file and in memory, and makes no transfer that is too long with it. */
static bool does_follow(const struct afar_file_vector *range, const struct afar_file_vector *before)
{
	return range->offset > before->offset && range->offset - before->offset == before->length &&
	       (char *)range->data == (char *)before->data + before->length &&
	       range->length <= MERGE_LENGTH_MAX - before->length;
}

/* Joins ranges that follow each other. Returns how many are left. `out`: NULL: only counts. */
static unsigned join(const struct afar_file_vector *vectors, unsigned nr,
		     struct afar_file_vector *out)
{
	struct afar_file_vector last = vectors[0];
	unsigned nr_out = 0;

	for (unsigned i = 1; i < nr; i++) {
		if (last.length <= MERGE_LENGTH_MAX && does_follow(&vectors[i], &last)) {
			last.length += vectors[i].length;
			continue;
		}
		if (out)
			out[nr_out] = last;
		nr_out++;
		last = vectors[i];
	}
	if (out)
		out[nr_out] = last;
	return nr_out + 1;
}

struct afar_file_vector *file_join(const struct afar_file_vector **vectors, unsigned *nr)
{
	struct afar_file_vector *joined = NULL;
	unsigned nr_joined;

	if (*nr < 2)
		return NULL;
	nr_joined = join(*vectors, *nr, NULL);
	if (nr_joined <= *nr / 2)
		joined = malloc(nr_joined * sizeof(*joined));
	if (!joined)
		return NULL;
	*nr = join(*vectors, *nr, joined);
	*vectors = joined;
	return joined;
}
