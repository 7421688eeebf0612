/* SPDX-License-Identifier: BSD-3-Clause */
/* Looks at each extent anew in each step, because orders between two steps may release it. Owns
 * nothing. */
#include "server/memory/trim.h"

#include <errno.h>

#include "base/error.h"
#include "memory/segment.h"

#define TRIM_BLOCK 4096U

/* Finds a part of a range: `length` bytes from `done` on. */
static int find_part(struct extent_pool *pool, uint64_t namespace, const struct extent_range *range,
		     uint64_t done, uint64_t length, char **out)
{
	int ret = extent_pool_span(pool, range->extent, namespace, CLASS_DRAM, range->offset + done,
				   length, out);

	if (ret == -ERANGE)
		return error_fail(ret, "trim extent %llu: %llu bytes at %llu are not inside of it",
				  (unsigned long long)range->extent,
				  (unsigned long long)range->length,
				  (unsigned long long)range->offset);
	return ret ? error_fail(ret,
				"trim extent %llu: namespace %llu has no such extent on this "
				"server, or may not write it",
				(unsigned long long)range->extent, (unsigned long long)namespace)
		   : 0;
}

static int check_range(struct extent_pool *pool, uint64_t namespace,
		       const struct extent_range *range)
{
	char *bytes;

	if (range->length == 0 || (range->offset | range->length) % TRIM_BLOCK != 0)
		return error_fail(
			-EINVAL, "trim extent %llu: %llu bytes at %llu are not whole blocks of %u",
			(unsigned long long)range->extent, (unsigned long long)range->length,
			(unsigned long long)range->offset, TRIM_BLOCK);
	return find_part(pool, namespace, range, 0, range->length, &bytes);
}

int trim_check(struct extent_pool *pool, uint64_t namespace, const struct extent_range *ranges,
	       size_t nr_ranges)
{
	int ret = 0;

	for (size_t i = 0; i < nr_ranges && ret == 0; i++)
		ret = check_range(pool, namespace, &ranges[i]);
	return ret;
}

int trim_step(struct extent_pool *pool, uint64_t namespace, const struct extent_range *ranges,
	      size_t nr_ranges, struct trim_place *place)
{
	uint64_t left = TRIM_STEP_BYTES;

	while (place->range < nr_ranges && left > 0) {
		const struct extent_range *range = &ranges[place->range];
		uint64_t length = range->length - place->done;
		char *bytes;
		int ret;

		if (length > left)
			length = left;
		ret = find_part(pool, namespace, range, place->done, length, &bytes);
		if (ret != 0)
			return ret;
		segment_scrub(bytes, length);
		left -= length;
		place->done += length;
		if (place->done == range->length)
			*place = (struct trim_place){.range = place->range + 1};
	}
	return place->range < nr_ranges;
}
