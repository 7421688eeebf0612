/* SPDX-License-Identifier: BSD-3-Clause */
/* Looking at the address space: ranges by number and by address, and how much they have in all. */
#include <string.h>

#include "flash/space/space_private.h"

bool space_is_busy(const struct space *space)
{
	return space->nr_under_way;
}

bool space_find(const struct space *space, uint64_t address, struct space_place *out)
{
	const struct space_table *table = &space->table;
	size_t at = space_table_search(table, address);
	const struct space_entry *entry;
	uint64_t block;

	if (at == table->nr_spans || table->spans[at].start > address)
		return false;
	entry = space_table_get(table, table->spans[at].id);
	/* A span that a change holds in advance cannot be found yet. */
	if (address < entry->record.start || address - entry->record.start >= entry->visible)
		return false;
	block = address - entry->record.start;
	*out = (struct space_place){
		.lba = ftl_lba(entry->id, (uint32_t)block),
		.count = entry->visible - block,
		.id = entry->id,
	};
	return true;
}

static void describe(const struct space_entry *entry, struct space_range *out)
{
	const struct space_record *record = &entry->record;

	*out = (struct space_range){
		.id = entry->id,
		.owner = record->owner,
		.start = record->start,
		.length = entry->visible,
		.reserved = record->reserved < entry->visible ? record->reserved : entry->visible,
		.is_busy =
			entry->is_changing || entry->nr_clones || record->intent != SPACE_SETTLED,
	};
}

bool space_stat(const struct space *space, uint32_t id, struct space_range *out)
{
	const struct space_entry *entry = space_table_get(&space->table, id);

	if (!entry || !entry->visible)
		return false;
	describe(entry, out);
	return true;
}

bool space_next(const struct space *space, uint64_t address, struct space_range *out)
{
	const struct space_table *table = &space->table;

	for (size_t at = space_table_search(table, address); at < table->nr_spans; at++) {
		const struct space_entry *entry = space_table_get(table, table->spans[at].id);
		uint64_t start = entry->record.start;

		/* The span may include addresses that the range holds in advance. */
		if (!entry->visible || start < table->spans[at].start ||
		    start > table->spans[at].last || start + (entry->visible - 1) < address)
			continue;
		describe(entry, out);
		return true;
	}
	return false;
}

void space_total(const struct space *space, const struct space_owner *owner,
		 struct space_total *out)
{
	*out = (struct space_total){0};
	for (size_t id = 0; id < space->table.nr_slots; id++) {
		struct space_range range;

		if (!space_stat(space, (uint32_t)id, &range) ||
		    (owner && memcmp(owner, &range.owner, sizeof(*owner)) != 0))
			continue;
		out->nr_ranges++;
		out->length += range.length;
		out->reserved += range.reserved;
	}
}
