/* SPDX-License-Identifier: BSD-3-Clause */
/* State that the layer keeps in requests (ftl.h) until they are done. Callers leave it alone. */
#ifndef FLASH_REQUEST_H
#define FLASH_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

struct ftl;
struct map_page;

/* A request's place among those that change something: [0] is changed, [1] is read or unused. */
struct ftl_order {
	struct cds_list_head node;
	uint64_t ticket;
	uint64_t lba[2];
	uint64_t count[2];
	bool is_awaited;  /* a sync waits for it */
	bool is_recorded; /* all its records are in the journal's blocks */
};

/* Waits for a page of the map. */
struct ftl_waiter {
	struct cds_list_head node;
	void (*ready)(struct ftl_waiter *waiter, int result);
};

/* A trim or a clone, which goes through its blocks one page of the map at a time. */
struct ftl_sweep {
	struct cds_list_head node;
	struct ftl_order order;
	struct ftl_waiter waiter;
	struct ftl *ftl;
	struct map_page *page; /* that it waits for */
	uint64_t position;     /* blocks done */
	int result; /* 0, or the first bad block's error; the bytes of good blocks are there */
	uint64_t flushed; /* how far the journal must be durable before it begins */
	bool is_clone;
	bool is_first; /* no earlier one has blocks in common with it */
	bool is_started;
	bool is_waiting;
};

#endif
