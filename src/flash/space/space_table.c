/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of ranges; see space_table.h. */
#include "flash/space/space_table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "flash/format.h"

void space_table_init(struct space_table *table, uint64_t capacity, uint64_t max_pages)
{
	*table = (struct space_table){.capacity = capacity, .max_pages = max_pages};
}

void space_table_free(struct space_table *table)
{
	for (size_t id = 0; id < table->nr_slots; id++)
		free(table->by_id[id]);
	free(table->by_id);
	free(table->spans);
}

/* ---- by number */

struct space_entry *space_table_get(const struct space_table *table, uint32_t id)
{
	return id < table->nr_slots ? table->by_id[id] : NULL;
}

uint32_t space_table_free_id(struct space_table *table)
{
	while (table->lowest_free < table->nr_slots && table->by_id[table->lowest_free])
		table->lowest_free++;
	return (uint32_t)table->lowest_free;
}

static int make_slot(struct space_table *table, uint32_t id)
{
	size_t nr = table->nr_slots ? table->nr_slots : 16;
	struct space_entry **by_id;

	while (nr <= id)
		nr *= 2;
	if (nr == table->nr_slots)
		return 0;
	by_id = reallocarray(table->by_id, nr, sizeof(struct space_entry *));
	if (!by_id)
		return error_code(-ENOMEM);
	memset(by_id + table->nr_slots, 0, (nr - table->nr_slots) * sizeof(struct space_entry *));
	table->by_id = by_id;
	table->nr_slots = nr;
	return 0;
}

int space_table_add(struct space_table *table, uint32_t id, struct space_entry **out)
{
	int ret = make_slot(table, id);

	if (ret)
		return ret;
	assert(!table->by_id[id]);
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return error_code(-ENOMEM);
	(*out)->id = id;
	table->by_id[id] = *out;
	table->nr_entries++;
	return 0;
}

/* ---- addresses */

size_t space_table_search(const struct space_table *table, uint64_t address)
{
	size_t low = 0, high = table->nr_spans;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (table->spans[middle].last < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool space_table_is_free(const struct space_table *table, uint64_t start, uint64_t length,
			 const struct space_entry *except)
{
	for (size_t i = space_table_search(table, start); i < table->nr_spans; i++) {
		const struct space_span *span = &table->spans[i];

		if (span->start > start + (length - 1))
			return true;
		if (!except || span->id != except->id)
			return false;
	}
	return true;
}

static void count_packed(struct space_table *table)
{
	size_t n = table->nr_packed;

	while (n < table->nr_spans &&
	       table->spans[n].start == (n ? table->spans[n - 1].last + 1 : 0))
		n++;
	table->nr_packed = n;
}

int space_table_first_fit(struct space_table *table, uint64_t length, uint64_t *start)
{
	uint64_t from;

	count_packed(table);
	from = table->nr_packed ? table->spans[table->nr_packed - 1].last + 1 : 0;
	for (size_t i = table->nr_packed; i < table->nr_spans; i++) {
		if (table->spans[i].start - from >= length) {
			*start = from;
			return 0;
		}
		from = table->spans[i].last + 1;
	}
	/* `from` is 0 behind the last address: no more are left. */
	if ((from || !table->nr_spans) && space_extent_is_sane(from, length)) {
		*start = from;
		return 0;
	}
	return error_fail(-ENOSPC, "place a range: no gap of %llu blocks is left",
			  (unsigned long long)length);
}

int space_table_prepare(struct space_table *table)
{
	struct space_span *spans;
	size_t max = table->max_spans ? table->max_spans : 16;

	/* A range holds at most two spans. */
	while (max < table->nr_spans + 2)
		max *= 2;
	if (max == table->max_spans)
		return 0;
	spans = reallocarray(table->spans, max, sizeof(*spans));
	if (!spans)
		return error_code(-ENOMEM);
	table->spans = spans;
	table->max_spans = max;
	return 0;
}

static void insert_span(struct space_table *table, uint32_t id, uint64_t start, uint64_t last)
{
	size_t at = space_table_search(table, start);

	assert(table->nr_spans < table->max_spans);
	assert(at == table->nr_spans || table->spans[at].start > last);
	memmove(&table->spans[at + 1], &table->spans[at],
		(table->nr_spans - at) * sizeof(*table->spans));
	table->spans[at] = (struct space_span){.start = start, .last = last, .id = id};
	table->nr_spans++;
}

static void remove_span(struct space_table *table, uint32_t id, uint64_t address)
{
	size_t at = space_table_search(table, address);

	/* If the two spans overlapped they were one, which is removed already. */
	if (at == table->nr_spans || table->spans[at].start > address || table->spans[at].id != id)
		return;
	table->nr_spans--;
	memmove(&table->spans[at], &table->spans[at + 1],
		(table->nr_spans - at) * sizeof(*table->spans));
	if (at < table->nr_packed)
		table->nr_packed = at;
}

static void let_go(struct space_table *table, const struct space_entry *entry)
{
	remove_span(table, entry->id, entry->record.start);
	if (entry->goal_length)
		remove_span(table, entry->id, entry->goal_start);
}

void space_table_hold(struct space_table *table, struct space_entry *entry, uint64_t start,
		      uint64_t length, uint64_t goal_start, uint64_t goal_length)
{
	uint64_t last = start + (length - 1);
	uint64_t goal_last = goal_start + (goal_length - 1);

	let_go(table, entry);
	entry->record.start = start;
	entry->goal_start = goal_start;
	entry->goal_length = goal_length;
	if (goal_length && goal_start <= last && start <= goal_last) {
		insert_span(table, entry->id, start < goal_start ? start : goal_start,
			    last > goal_last ? last : goal_last);
		return;
	}
	insert_span(table, entry->id, start, last);
	if (goal_length)
		insert_span(table, entry->id, goal_start, goal_last);
}

/* ---- room */

static uint64_t pages_for(uint64_t blocks)
{
	return (blocks + FORMAT_PAGE_ENTRIES - 1) / FORMAT_PAGE_ENTRIES;
}

void space_table_account_anyway(struct space_table *table, struct space_entry *entry,
				uint64_t blocks)
{
	table->held += blocks - entry->held;
	entry->held = blocks;
	table->held_pages += pages_for(blocks) - entry->held_pages;
	entry->held_pages = pages_for(blocks);
}

int space_table_account(struct space_table *table, struct space_entry *entry, uint64_t blocks)
{
	uint64_t others = table->held - entry->held;
	uint64_t other_pages = table->held_pages - entry->held_pages;

	/* No sum overflows: a range has 2^32 blocks at most, and there are 2^24. */
	if (blocks > entry->held && others + blocks > table->capacity)
		return error_fail(-ENOSPC, "reserve %llu blocks: %llu of %llu are reserved already",
				  (unsigned long long)blocks, (unsigned long long)others,
				  (unsigned long long)table->capacity);
	if (blocks > entry->held && other_pages + pages_for(blocks) > table->max_pages)
		return error_fail(-ENOSPC,
				  "reserve %llu blocks: the map has no room for them, it was made "
				  "for fewer ranges",
				  (unsigned long long)blocks);
	space_table_account_anyway(table, entry, blocks);
	return 0;
}

void space_table_remove(struct space_table *table, struct space_entry *entry)
{
	let_go(table, entry);
	space_table_account_anyway(table, entry, 0);
	table->by_id[entry->id] = NULL;
	table->nr_entries--;
	if (entry->id < table->lowest_free)
		table->lowest_free = entry->id;
	free(entry);
}
