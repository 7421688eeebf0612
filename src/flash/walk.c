/* SPDX-License-Identifier: BSD-3-Clause */
/* Going through what a layer holds; see ftl_next() in ftl.h. */
#include "flash/ftl_private.h"

uint64_t ftl_next(struct ftl *ftl, uint64_t lba)
{
	const struct map *map = &ftl->map;

	for (uint32_t range = ftl_lba_range(lba); range < map->nr_ranges; range++) {
		const struct map_page *page = map_next(map, lba);
		uint64_t first;

		if (page) {
			first = ftl_lba(page->range, page->page * FORMAT_PAGE_ENTRIES);
			return lba > first ? lba : first;
		}
		lba = ftl_lba(range + 1, 0);
	}
	return FTL_NONE;
}
