/* SPDX-License-Identifier: BSD-3-Clause */
#include "flash/ftl_private.h"
#include "flash/map/map.h"
/* Finds the next block that a layer may hold; see ftl_next() in ftl.h. */

uint64_t ftl_next(struct ftl *ftl, uint64_t lba)
{
	const struct map *map = &ftl->map;

	uint32_t range = ftl_lba_range(lba);

	for (; map_table_next(&map->ranges, &range); range++) {
		const struct map_page *page;
		uint64_t first;

		if (range != ftl_lba_range(lba))
			lba = ftl_lba(range, 0);
		page = map_next(map, lba);
		if (page) {
			first = ftl_lba(page->range, page->page * FORMAT_PAGE_ENTRIES);
			return lba > first ? lba : first;
		}
	}
	return FTL_NONE;
}
