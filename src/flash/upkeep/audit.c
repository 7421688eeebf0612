/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts everything anew from the map, for tests and for checking a device at rest; see
 * ftl_audit().
 */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "flash/ftl_private.h"
#include "flash/map/map.h"
#include "flash/map/segments.h"

struct audit {
	struct ftl *ftl;
	uint32_t *references; /* to each block of the segments */
	uint64_t nr_unknown;  /* entries of unknown place: each may refer to any block */
	uint64_t nr_missing;  /* valid blocks or shares that no entry was found for */
	struct ftl_waiter waiter;
	bool is_waiting;
	int result;
};

static void page_ready(struct ftl_waiter *waiter, int result)
{
	struct audit *audit = caa_container_of(waiter, struct audit, waiter);

	audit->is_waiting = false;
	audit->result = result;
}

static int load(struct audit *audit, struct map_page *page)
{
	if (map_is_loaded(page))
		return 0;
	audit->is_waiting = true;
	audit->result = 0;
	audit->waiter.ready = page_ready;
	map_load(page, &audit->waiter);
	while (audit->is_waiting) {
		int ret = flash_device_poll(audit->ftl->device, -1);

		if (ret < 0)
			return ret;
	}
	return audit->result;
}

static bool is_listed(struct ftl *ftl, uint32_t place, uint64_t lba)
{
	const struct share *first;
	uint32_t nr = segment_shares(segment_of(&ftl->segments, place),
				     segment_index(&ftl->segments, place), &first);

	for (uint32_t i = 0; i < nr; i++) {
		if (first[i].lba == lba)
			return true;
	}
	return nr == 0;
}

static int count_page(struct audit *audit, struct map_page *page)
{
	const struct segments *segments = &audit->ftl->segments;
	uint32_t nr_mapped = 0;
	int ret = load(audit, page);

	if (map_is_damage(ret)) {
		audit->nr_unknown += FORMAT_PAGE_ENTRIES;
		return 0;
	}
	for (uint32_t i = 0; i < FORMAT_PAGE_ENTRIES && !ret; i++) {
		uint32_t place = page->data->entries[i].place;
		uint64_t lba = ftl_lba(page->range, page->page * FORMAT_PAGE_ENTRIES + i);

		if (!place)
			continue;
		nr_mapped++;
		if (!map_is_known(&page->data->entries[i])) {
			audit->nr_unknown++;
			continue;
		}
		if (!segments_is_place(segments, place))
			return error_fail(-EBADMSG, "the map has block %u of range %u nowhere",
					  ftl_lba_block(lba), page->range);
		audit->references[place - segments->first]++;
		if (!is_listed(audit->ftl, place, lba))
			return error_fail(-EBADMSG,
					  "block %u of range %u shares block %u of the device, and "
					  "is not listed",
					  ftl_lba_block(lba), page->range, place);
	}
	if (!ret && nr_mapped != page->nr_mapped)
		return error_fail(-EBADMSG, "page %u of range %u has %u blocks, not %u", page->page,
				  page->range, nr_mapped, page->nr_mapped);
	return ret;
}

static int compare(struct audit *audit, struct segment *segment)
{
	const struct segments *segments = &audit->ftl->segments;
	uint32_t valid = 0;

	for (uint32_t i = 0; i < segments->data_blocks; i++) {
		uint32_t place = segment_place(segments, segment, i);
		uint32_t found = audit->references[place - segments->first];
		const struct share *first;
		uint32_t nr = segment_shares(segment, i, &first);
		bool is_valid = segment_is_valid(segments, segment, i);

		if (nr == 0 && is_valid)
			nr = 1;
		valid += is_valid;
		if (found > (is_valid ? nr : 0))
			return error_fail(-EBADMSG,
					  "block %u of the device: %u refer to it, not %u", place,
					  found, nr);
		audit->nr_missing += nr - found;
		if (audit->nr_missing > audit->nr_unknown + segments->nr_leaked)
			return error_fail(-EBADMSG,
					  "block %u of the device: %u refer to it, not %u", place,
					  found, nr);
	}
	if (valid != segment->valid)
		return error_fail(-EBADMSG, "segment %u has %u valid blocks, not %u",
				  segment_number(segments, segment), valid, segment->valid);
	if (segments->victims && valid && segment->victim.valid != valid)
		return error_fail(-EBADMSG,
				  "segment %u has %u valid blocks, and %u for the cleaner",
				  segment_number(segments, segment), valid, segment->victim.valid);
	return 0;
}

int ftl_audit(struct ftl *ftl)
{
	struct segments *segments = &ftl->segments;
	struct audit audit = {.ftl = ftl};
	uint64_t used = 0;
	int ret = 0;

	audit.references =
		calloc((size_t)segments->nr * segments->segment_blocks, sizeof(uint32_t));
	if (!audit.references)
		return error_code(-ENOMEM);
	for (uint32_t i = 0; i < ftl->map.nr_slots && !ret; i++) {
		if (ftl->map.slots[i].page)
			ret = count_page(&audit, ftl->map.slots[i].page);
	}
	for (uint32_t i = 0; i < segments->nr && !ret; i++) {
		ret = compare(&audit, &segments->at[i]);
		used += segments->at[i].valid;
	}
	if (!ret && used != segments->used)
		ret = error_fail(-EBADMSG, "%llu blocks are in use, not %llu",
				 (unsigned long long)used, (unsigned long long)segments->used);
	free(audit.references);
	return ret;
}
