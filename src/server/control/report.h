/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers that a server reports to its manager. */
#ifndef SERVER_REPORT_H
#define SERVER_REPORT_H

#include <stdbool.h>

#include "rpc/rpc.h"
#include "server/data/lanes.h"
#include "server/memory/extent.h"
#include "server/stores/stores.h"

/* A report, and the memory that its pointers name. */
struct report {
	Afar__ServerReport message;
	Afar__LaneReport lanes[LANES_MAX];
	Afar__LaneReport *pointers[LANES_MAX];
	char congestions[LANES_MAX][FABRIC_CONGESTIONS_MAX];
	Afar__StoreReport stores[STORES_MAX];
	Afar__StoreReport *store_pointers[STORES_MAX];
	char version[32];
};

/* Fills in the present numbers. */
void report_fill(struct extent_pool *pool, const struct lanes *lanes, struct stores *stores,
		 struct report *report);
/* The numbers that decide whether the next report is sent; zeros before the first. */
struct reported {
	bool has_any;
	uint64_t capacity_bytes, granted_bytes, clean_bytes, draining_bytes, dirty_bytes;
	uint64_t scrubbed_bytes;
	uint32_t nr_connections;
	uint64_t troubles; /* of stores */
};

/* True if the report differs from the last one enough to send it; remembers it as the last. Changes of
 * the resident memory, and of the bytes that lanes have moved, do not count: they change all the time,
 * and Look reports them. */
bool report_is_news(const Afar__ServerReport *report, struct reported *last);

#endif
