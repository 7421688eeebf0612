/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages: the transfers of clients to the extents of a store. The transport asks for memory, and says
 * when a write's bytes are there, or a read's are wanted (struct fabric_pager). This has the
 * translation layer move them between that memory and the device. One thread.
 *
 * Memory comes from zones (memory/zones.h), with a share for each session. When the zones have
 * none, a session that has none gets memory of its own, for one transfer. So clients that do not
 * take what they asked for hold up nobody else.
 *
 * Short reads go through the cache (cache.h), if there is one; a reply of one block goes out of the
 * cache's frame. All that changes a block has a change stand around it. The cache's memory is in slabs, each of one
 * namespace (pager_slabs.c). Clients of this machine may map these, and read a page again without us.
 *
 * A transfer's memory stays here until the device is done with it, also when its connection has
 * ended. Otherwise a late read would land in what another session is sent.
 */
#ifndef SERVER_PAGER_H
#define SERVER_PAGER_H

#include <stdint.h>
#include <urcu/list.h>

#include "memory/cache.h"
#include "server/data/progress.h"
#include "server/data/stage.h"

#define PAGES_BYTES (UINT64_C(48) << 20) /* of all zones of a store */

#define PAGES_BUCKETS 256U /* of blocks that are written in part */

struct store;
struct store_extent;

struct pages {
	struct stage stage;
	struct cds_list_head spare;	  /* struct page_io */
	struct cache *cache;		  /* NULL: nothing is kept */
	struct page_slab *slabs;	  /* of the cache */
	uint32_t nr_slabs, limit;	  /* of them, so many may have memory */
	uint32_t nr_backed;		  /* and have some */
	uint32_t nr_left;		  /* a client has left, that had them */
	uint64_t last_slab;		  /* the number of the last one */
	uint32_t nr_ahead;		  /* blocks that are being read ahead */
	uint64_t nr_referred;		  /* reads of clients that found a page by themselves */
	bool has_failed;		  /* the device */
	bool is_shared;			  /* clients of this machine may be given slabs */
	struct cds_list_head shares;	  /* struct page_share: of the namespaces */
	uint64_t pressed_at;		  /* on clock_ns(): when the limit was changed */
	struct cds_list_head spare_fills; /* struct page_fill */
	struct cds_list_head merging[PAGES_BUCKETS]; /* struct page_block */
	struct cds_list_head spare_blocks, spare_batches;
	uint64_t nr_merged; /* writes that went along with another one's put */
};

/* Keeps pages in up to `cache_bytes`, rounded down to a multiple of SEGMENT_MIN; 0: keeps none. Errors are
 * those of stage_open() and segment_fits(). */
int pages_open(struct pages *pages, uint64_t cache_bytes, bool is_shared);
/* Nothing may be under way. */
void pages_close(struct pages *pages);

/* Tells the fabric which memory transfers are moved through. Errors: those of fabric_paged_lend(). */
int pages_lend(const struct pages *pages, struct fabric *fabric);
/* The machine is short of memory: gives it half of the cache's, but for the last 2 MiB. */
void pages_press(struct pages *pages, uint64_t now);
/* Call it now and then. Gives what could not be given before. Takes memory again, the double, if the
 * machine was not short of it for a minute. */
void pages_ease(struct pages *pages, uint64_t now);

/* Makes the extent's pager. Any thread may. */
void pages_begin(struct store_extent *extent);
/* The extent is there from now on, and goes. On the thread. */
void pages_enter(struct store_extent *extent);
void pages_leave(struct store_extent *extent);
/* The device is beyond use: what is kept counts no more. */
void pages_fail(struct pages *pages);
/* The connection is over. */
void pages_left(void *context, struct progress_work *work);

/* Begins to read the pages that have these bytes into the cache, as far as there is room. */
void pages_fetch(const struct store_extent *extent, uint64_t offset, uint64_t length);

/*
 * Carries out MESSAGE_SYNC: what had ended before survives the loss of power when the reply goes
 * out. Its operand is an opening that the client remembers, and the reply's value the present one.
 * If writes since then may be lost, because an opening ended unclean, the status is
 * -AFAR_EUNSYNCED. False: the reply comes later.
 */
bool store_sync(struct store *store, const struct message_request *request,
		struct message_reply *reply, const struct progress_message *message);

#endif
