/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by pager.c (transfers), pager_cached.c (reads through the cache), pager_slabs.c (the cache's memory) and
 * pager_merged.c (writes of parts of blocks). */
#ifndef SERVER_PAGER_PRIVATE_H
#define SERVER_PAGER_PRIVATE_H

#include "server/stores/store_private.h"

/* Longer reads go past the cache. The device is at its best there, copying them would hold up the
 * others, and they would drive everything else out. */
#define PAGES_CACHED_MAX (UINT64_C(64) << 10)
#define PAGES_NR_BLOCKS	 (PAGES_CACHED_MAX / FTL_BLOCK + 1)
#define PAGES_AHEAD_MAX	 512U /* blocks that are being read ahead */

struct page_io;

/* A transfer waits for a block that is being read. */
struct page_wait {
	struct cache_wait wait;
	struct page_io *io;
	unsigned index; /* of the block in the transfer */
};

/* When its bytes were asked for, and there; neither if they were in memory. The rest is for the log, if it turns out to be
 * slow (pager_slow.c). */
struct page_times {
	uint64_t begun, ended; /* on clock_ns() */
	uint64_t taken;	       /* when it took memory; 0: nobody wants a line */
	const char *kind;
	uint64_t offset, length;
	const char *transport;
	const char *way; /* which it went at the store */
};

/* A transfer, from when it takes memory until both the transport and the layer are done with it. */
struct page_io {
	struct cds_list_head node; /* of the spare ones */
	struct store_extent *extent;
	struct fabric_paged *paged; /* NULL: the transport has left */
	struct progress_work *work; /* of its connection, which it keeps from being over */
	struct cache_frame *pinned; /* the memory is this frame's; or NULL, and it is … */
	struct zone_buffer *buffer; /* … this one's; or NULL, and it has memory of its own: */
	void *own;
	struct iovec iov;
	uint32_t sums[FABRIC_PAGED_MAX / FTL_BLOCK]; /* of a checked one */
	struct store_work at_layer;
	bool is_under_way;
	bool is_lost; /* the layer will not end it, and its memory may still be the device's */
	unsigned
		nr_left; /* parts that have not ended: requests to the layer, waits, the beginning */
	unsigned nr_at_layer; /* requests */
	int status;
	enum store_request kind;
	void (*finish)(struct page_io *io); /* called when all parts have ended */
	uint64_t skip;			    /* bytes of its first block before it */
	struct page_times times;
	union {
		struct {
			struct ftl_get get;
			struct iovec past; /* where it goes */
			struct page_wait waits[PAGES_NR_BLOCKS];
		};
		struct {
			struct ftl_put put;
			struct ftl_sync sync;
			struct cache_change change;
			struct cds_list_head merged; /* in its block, or its batch */
			bool is_durable;
		};
	};
};

/* Returns how often a write's blocks will change, as its peer says. */
static inline uint8_t page_heat(const struct fabric_paged *paged)
{
	if (paged->hints & FABRIC_PAGED_BRIEF)
		return FTL_HEAT_BRIEF;
	return paged->hints & FABRIC_PAGED_COLD ? FTL_HEAT_COLD : FTL_HEAT_UNKNOWN;
}

/* A part of the transfer has ended. */
static inline void page_part_ended(struct page_io *io, int result)
{
	if (result != 0 && io->status == 0)
		io->status = result;
	if (--io->nr_left == 0)
		io->finish(io);
}

/* ---- pager_slabs.c */

/* The pages of a namespace. */
struct page_share {
	struct cds_list_head node;
	uint64_t namespace;
	uint32_t nr_extents;
	struct cache_share *cached;
	uint32_t
		nr_lacks; /* misses since it last got a slab, or asked for one, when there was no memory */
	uint64_t uses_before; /* when somebody last looked who uses his slabs least */
	uint32_t nr_ahead;    /* its blocks that are being read ahead */
};

int pages_slabs_open(struct pages *pages, uint64_t bytes, bool is_shared);
/* The cache is closed. */
void pages_slabs_close(struct pages *pages);
/* Call it before a read that misses, or one that is made ahead: this takes no memory from another namespace. False: there is no
 * frame for its block yet. */
bool pages_make_room(struct pages *pages, struct page_share *share, bool is_ahead);
/* Around the read of a block ahead. Not more than PAGES_AHEAD_MAX are under way, and a namespace has at most half of what the others
 * leave. False: it has that. The share stays until the end. */
bool pages_begin_ahead(struct pages *pages, struct page_share *share);
void pages_end_ahead(struct pages *pages, struct page_share *share);
/* Says where a frame is, for a client of this connection. */
void pages_refer(struct pages *pages, struct progress_work *work, const struct cache_frame *frame,
		 struct fabric_reference *out);
void pages_used(struct fabric_pager *pager, uint32_t place, uint32_t generation);
/* The connection is over. */
void pages_forget_given(struct pages *pages, struct progress_work *work);

/* ---- pager_cached.c */

int pages_cache_open(struct pages *pages, uint64_t bytes, bool is_shared);
void pages_cache_close(struct pages *pages);
/* Pins the frame out of which a read can be answered; NULL: none can. */
struct cache_frame *pages_pin(const struct store_extent *extent, const struct fabric_paged *paged);
/* Begins a read. Returns how many bytes from its start on the cache brings, each block a part of the
 * transfer. */
uint64_t pages_read_cached(struct page_io *io);

/* ---- pager_slow.c */

void pages_slow_take(struct page_io *io, const struct fabric_paged *paged);
/* The ways: "cache", "merged" with others, or the device alone, which is the default. */
void pages_slow_way(struct page_io *io, const char *way);
/* It leaves. Writes a line if it took long. */
void pages_slow_leave(const struct page_io *io);
/* Likewise for a sync of all. */
void pages_slow_sync(const struct store *store, uint64_t session, uint64_t begun, uint64_t now);

/* ---- pager_merged.c */

void pages_merge_open(struct pages *pages);
void pages_merge_close(struct pages *pages);
/* Begins a write of a part of a block, perhaps together with others. False: it is none. */
bool pages_write_merged(struct page_io *io);

#endif
