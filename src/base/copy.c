/* SPDX-License-Identifier: BSD-3-Clause */
/* The copy of copy.h that goes without `rep movsb`. */
#include "base/copy.h"

#define AT_ONCE 8U /* vectors: as many registers hold */

typedef uint64_t vector __attribute__((vector_size(16), aligned(1), may_alias));

void copy_by_vectors(void *to, const void *from, size_t length)
{
	const size_t nr = length / sizeof(vector) / AT_ONCE * AT_ONCE;
	const vector *source = from;
	vector *place = to;

	/* All loads before all stores: a load must not wait for a store that is at the same place of another page. */
	for (size_t i = 0; i < nr; i += AT_ONCE) {
		const vector a = source[i], b = source[i + 1], c = source[i + 2], d = source[i + 3],
			     e = source[i + 4], f = source[i + 5], g = source[i + 6],
			     h = source[i + 7];

		place[i] = a;
		place[i + 1] = b;
		place[i + 2] = c;
		place[i + 3] = d;
		place[i + 4] = e;
		place[i + 5] = f;
		place[i + 6] = g;
		place[i + 7] = h;
	}
	memcpy(place + nr, source + nr, length - nr * sizeof(vector));
}
