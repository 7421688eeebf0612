/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of ranges in memory: by number, and their spans of addresses in order. Pure; space.c says what happens when. A
 * range has the span of its own, and while it moves or grows that of its goal too, so that nobody else takes it.
 *
 * The spans are one array in order of addresses. That makes finding quick and free of allocation; a change moves what is behind
 * it, which with a million ranges is 24 MB, and changes are rare.
 */
#ifndef FLASH_SPACE_TABLE_H
#define FLASH_SPACE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flash/space_record.h"

struct space_entry {
	uint32_t id;
	struct space_record
		record;	  /* as the layer has it, or will once the change under way has ended */
	uint64_t visible; /* blocks that can be found; 0: not there yet, or not any more */
	uint64_t goal_start,
		goal_length; /* what else it holds of the addresses; length 0: nothing */
	uint64_t held;	     /* blocks of the reservation                      */
	uint64_t held_pages; /* pages of the map                               */
	bool is_changing;    /* a change is under way                          */
	unsigned nr_clones;  /* under way, from or to it                       */
};

struct space_span {
	uint64_t start, last;
	uint32_t id;
};

struct space_table {
	struct space_entry **by_id;
	size_t nr_slots; /* of by_id; those from `nr_ids` on are NULL */
	size_t nr_entries;
	size_t lowest_free; /* no number below is */
	struct space_span *spans;
	size_t nr_spans, max_spans;
	size_t nr_packed; /* spans from address 0 on without a gap: at least so many */
	uint64_t held, capacity;
	uint64_t held_pages, max_pages;
};

void space_table_init(struct space_table *table, uint64_t capacity, uint64_t max_pages);
void space_table_free(struct space_table *table);

/* The entry; NULL: there is none. */
struct space_entry *space_table_get(const struct space_table *table, uint32_t id);

/* The lowest number that is free; SPACE_NR_RANGES: none is. */
uint32_t space_table_free_id(struct space_table *table);

/* A new entry that holds nothing. -ENOMEM. */
int space_table_add(struct space_table *table, uint32_t id, struct space_entry **out);
/* Lets go of all it holds and frees it. */
void space_table_remove(struct space_table *table, struct space_entry *entry);

/* The first span that ends at `address` or behind it: its index, or nr_spans. */
size_t space_table_search(const struct space_table *table, uint64_t address);

/* Nobody but `except` (may be NULL) holds any of [start, start + length), which is sane. */
bool space_table_is_free(const struct space_table *table, uint64_t start, uint64_t length,
			 const struct space_entry *except);

/* The first gap of so many blocks. -ENOSPC: there is none. */
int space_table_first_fit(struct space_table *table, uint64_t length, uint64_t *start);

/* Room for what the next space_table_hold() adds. -ENOMEM. */
int space_table_prepare(struct space_table *table);

/*
 * From now on the entry holds [start, start + length) and, unless goal_length is 0, [goal_start, …), and nothing else. They
 * are free but for itself, and space_table_prepare() has said 0.
 */
void space_table_hold(struct space_table *table, struct space_entry *entry, uint64_t start,
		      uint64_t length, uint64_t goal_start, uint64_t goal_length);

/* Has it hold so many blocks of the device instead of those before, and the pages to map them. -ENOSPC and a line. */
int space_table_account(struct space_table *table, struct space_entry *entry, uint64_t blocks);
/* The same for less, or for what is there already: never fails. */
void space_table_account_anyway(struct space_table *table, struct space_entry *entry,
				uint64_t blocks);

#endif
