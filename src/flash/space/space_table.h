/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of ranges in memory: the ranges by number, and their spans in order of addresses. A
 * range holds its own span. While it moves or grows it also holds the span of its goal, so that no
 * other range takes it. Pure: it does no I/O; space.c decides when a range changes.
 *
 * The spans are one sorted array, so a lookup is a binary search and allocates nothing. A change
 * moves all spans behind it: 24 MB with a million ranges, but changes are rare.
 */
#ifndef FLASH_SPACE_TABLE_H
#define FLASH_SPACE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flash/space/space_record.h"

struct space_entry {
	uint32_t id;
	/* The layer has this record, or will have it once the change under way has ended. */
	struct space_record record;
	uint64_t visible; /* blocks that can be found; 0: it is being made or removed */
	uint64_t goal_start;
	uint64_t goal_length; /* of the second span that it holds; 0: none */
	uint64_t held;	      /* blocks reserved for it */
	uint64_t held_pages;  /* pages of the map reserved for it */
	bool is_changing;     /* a change is under way */
	unsigned nr_clones;   /* under way, from or to it */
};

struct space_span {
	uint64_t start, last;
	uint32_t id;
};

struct space_table {
	struct space_entry **by_id;
	size_t nr_slots; /* of by_id; a free number's is NULL */
	size_t nr_entries;
	size_t lowest_free; /* no lower number is free */
	struct space_span *spans;
	size_t nr_spans, max_spans;
	size_t nr_packed; /* at least so many spans, from address 0 on, have no gap between them */
	uint64_t held, capacity;	/* blocks: reserved for all ranges, and the limit */
	uint64_t held_pages, max_pages; /* pages of the map, likewise */
};

/* Makes an empty table, whose ranges may reserve `capacity` blocks and `max_pages` map pages. */
void space_table_init(struct space_table *table, uint64_t capacity, uint64_t max_pages);
/* Frees the entries and the table's memory. */
void space_table_free(struct space_table *table);

/* Returns the range's entry, which belongs to the table; NULL: there is none. */
struct space_entry *space_table_get(const struct space_table *table, uint32_t id);

/* Returns the lowest free number. If it is SPACE_NR_RANGES or more, all are in use. */
uint32_t space_table_free_id(struct space_table *table);

/* Adds an entry that holds nothing, for a free number. Returns 0, or -ENOMEM. */
int space_table_add(struct space_table *table, uint32_t id, struct space_entry **out);
/* Gives up all that the entry holds and frees it. */
void space_table_remove(struct space_table *table, struct space_entry *entry);

/*
 * Returns the index of the first span that ends at `address` or behind it; nr_spans: there is none.
 */
size_t space_table_search(const struct space_table *table, uint64_t address);

/* Returns whether no range but `except` (may be NULL) holds any of [start, start + length). The
 * caller has checked these with space_extent_is_sane(). */
bool space_table_is_free(const struct space_table *table, uint64_t start, uint64_t length,
			 const struct space_entry *except);

/* Finds the first gap of `length` blocks. Returns 0; -ENOSPC: there is none. */
int space_table_first_fit(struct space_table *table, uint64_t length, uint64_t *start);

/* Makes room for the spans that the next space_table_hold() adds. Returns 0, or -ENOMEM. */
int space_table_prepare(struct space_table *table);

/*
 * Makes the entry hold [start, start + length) and, unless goal_length is 0, [goal_start,
 * goal_start + goal_length), instead of what it held before. No other range may hold any of them.
 * Call space_table_prepare() before, because this cannot fail.
 */
void space_table_hold(struct space_table *table, struct space_entry *entry, uint64_t start,
		      uint64_t length, uint64_t goal_start, uint64_t goal_length);

/*
 * Reserves `blocks` of the device for the entry, instead of what it had, and the map pages for
 * them. Returns 0; -ENOSPC: they do not fit, and error_last_line() says why.
 */
int space_table_account(struct space_table *table, struct space_entry *entry, uint64_t blocks);
/* Like space_table_account(), but without the limits: to reserve less than before, or for a range
 * that exists already. Cannot fail. */
void space_table_account_anyway(struct space_table *table, struct space_entry *entry,
				uint64_t blocks);

#endif
