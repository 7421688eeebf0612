/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layouts: where the bytes of a target are. Manager and client share this form, its checks and its
 * coding; layout.proto is what is stored and sent. It is pure: no I/O, no locks.
 *
 *   layout   groups, one behind the other, cover the target
 *   group    its chunks, all of one length, share its bytes in turns of one stripe unit.
 *            Without chunks it is a hole: it reads as zeros, and nobody can write there
 *   chunk    a set of copies, which hold the same bytes; one, for now. Without copies its bytes are
 *            lost: nobody can read or write there
 *   copy     a contiguous run in an extent
 *   home     what holds extents, and how long they live there. In a server's DRAM they live as long
 *            as its incarnation; in a store, as long as its device, whichever server has that
 *
 * A layout is built up by layout_add_…(), or unpacked from a message. Afterwards it does not
 * change, so any thread may use it.
 */
#ifndef RPC_LAYOUT_H
#define RPC_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rpc/layout.pb-c.h"

#define LAYOUT_GROUPS_MAX (1U << 20)
#define LAYOUT_HOMES_MAX  16384U
#define LAYOUT_WIDTH_MAX  64U	/* chunks of a group */
#define LAYOUT_UNIT_MIN	  4096U /* bytes of a stripe unit, a power of two */

/* Extents of one class are of one kind of memory, and hold one kind of region. */
enum extent_class {
	CLASS_DRAM,
	CLASS_DRAM_SEALED, /* for sealed regions alone: its server lets nobody write it */
	CLASS_FLASH,	   /* of a store: it survives its server */
	NR_CLASSES,
};

struct layout_home {
	uint64_t server; /* 0 for a store */
	uint64_t life;	 /* of DRAM: the server's incarnation; of a store: its number */
	bool is_store;
};

struct layout_copy {
	uint32_t home;	 /* index into the layout's homes */
	uint32_t group;	 /* it is of a chunk of this one */
	uint64_t extent; /* its number; the home and it name an extent for ever */
	uint64_t offset; /* into the extent */
};

struct layout_chunk {
	uint32_t first_copy;  /* index into the layout's copies */
	uint32_t nr_copies;   /* 0: it is lost, or was given up */
	uint64_t lost_server; /* then: the number of the server that had it in memory, */
	uint64_t lost_store;  /* or of the store that had it; both 0: it was given up, empty */
};

/* Covers [start, start + length) of the target in units of 1 << unit_shift bytes. Unit i is in
 * chunk i mod nr_chunks. */
struct layout_group {
	uint64_t start;
	uint64_t length;
	uint64_t chunk_bytes;
	uint32_t unit_shift;
	uint32_t nr_chunks;
	uint32_t first_chunk; /* index into the layout's chunks */
	bool is_frozen;	      /* nobody writes it: other versions of the region have it, too */
};

struct layout {
	uint64_t length;
	bool is_sealed; /* each chunk has its sums behind it (base/checksum.h); nobody can write */
	uint32_t nr_groups, nr_chunks, nr_copies, nr_homes;
	struct layout_group *groups;
	struct layout_chunk *chunks;
	struct layout_copy *copies;
	struct layout_home *homes;
};

/* A part of a range that is contiguous in each copy, or in a hole. */
struct layout_piece {
	const struct layout_copy *copy;	 /* the chunk's first; NULL: a hole, or lost */
	const struct layout_chunk *lost; /* the chunk, if it is lost; else NULL */
	uint64_t offset;		 /* into the chunk */
	uint64_t length;
	bool is_frozen; /* its group is */
	bool is_past;	/* there is nothing: the layout ends before */
};

/* ---- Making one */

static inline bool layout_home_is(const struct layout_home *home, const struct layout_home *other)
{
	return home->server == other->server && home->life == other->life &&
	       home->is_store == other->is_store;
}

/* Returns an empty layout, for layout_free(); NULL: no memory. */
struct layout *layout_new(void);
/* Returns a copy of it, for layout_free(); NULL: no memory. */
struct layout *layout_duplicate(const struct layout *layout);
/* NULL is allowed. */
void layout_free(struct layout *layout);

/* Adds a group of chunks of `chunk_bytes` each, which has none yet. -ENOMEM. */
int layout_add_group(struct layout *layout, uint64_t chunk_bytes, uint64_t unit_bytes);
/* Adds a chunk of one copy to the last group, which covers so much more. -E2BIG: it would have
 * more than LAYOUT_HOMES_MAX homes; -ENOMEM. */
int layout_add_chunk(struct layout *layout, const struct layout_home *home, uint64_t extent,
		     uint64_t offset);
/* Adds a chunk that is lost likewise. -ENOMEM. */
int layout_add_lost_chunk(struct layout *layout, uint64_t server, uint64_t store);
/* The last group covers `length` bytes: fewer than its chunks hold, or of a hole. */
void layout_set_last(struct layout *layout, uint64_t length);

/* Adds groups like those of `from`, up to `length` bytes of it, which it has. -E2BIG: as
 * layout_add_chunk(); -ENOMEM. */
int layout_append(struct layout *layout, const struct layout *from, uint64_t length);
/* How many more bytes the chunks of the last group hold than it covers, lost ones too. The layout is not
 * empty. */
uint64_t layout_spare(const struct layout *layout);

/*
 * Cuts a layout that has all of its chunks, and is not sealed, at `length`, which is not 0 and inside it. `*head` covers what
 * is in front, with as many bytes of each chunk as that needs, in the same places. `*tail` has all other bytes of the
 * chunks; it is empty if there are none. Both are for layout_free(). -ENOMEM.
 */
int layout_cut(const struct layout *layout, uint64_t length, struct layout **head,
	       struct layout **tail);

/* Makes a layout of the same bytes, of which those of an extent are lost, for layout_free(). Homes that
 * nothing is left of are left out. -ENOMEM. */
int layout_without(const struct layout *layout, const struct layout_home *home, uint64_t extent,
		   struct layout **out);
/* Likewise, gives up the copies that `goes` names by their index. Groups that are given up as a whole become one
 * with those beside them. -ENOMEM. */
int layout_give_up(const struct layout *layout, const bool goes[], struct layout **out);

/* ---- Coding */

/* Makes the message. It is the caller's, for layout__layout__free_unpacked(); NULL: no memory. */
Layout__Layout *layout_pack(const struct layout *layout);
/* Makes the layout of a message, which it checks in full. -EINVAL: the message contradicts itself,
 * and `*why` says how; -ENOMEM. */
int layout_unpack(const Layout__Layout *message, struct layout **out, const char **why);

/* ---- Asking it */

/* True: some of its homes are stores. */
static inline bool layout_has_stores(const struct layout *layout)
{
	for (uint32_t i = 0; i < layout->nr_homes; i++) {
		if (layout->homes[i].is_store)
			return true;
	}
	return false;
}

static inline const struct layout_home *layout_home_of(const struct layout *layout,
						       const struct layout_copy *copy)
{
	return &layout->homes[copy->home];
}

/* How many bytes of its extent a copy takes, including the sums behind it, if there are any. */
uint64_t layout_copy_span(const struct layout *layout, const struct layout_copy *copy);

/* True: both layouts have this group, and its one chunk is in the same place in both. A hole is in no place. */
bool layout_shares(const struct layout *layout, const struct layout *other, uint32_t group);
/* Adds a group like a group of `from`, as layout_append() does. */
int layout_append_group(struct layout *layout, const struct layout *from, uint32_t group);
/* Adds a hole of so many bytes. -ENOMEM. */
int layout_add_hole(struct layout *layout, uint64_t length);

/* How many bytes of it are lost. */
uint64_t layout_lost_bytes(const struct layout *layout);

/* Any copy that is at home there; NULL: there is none. */
const struct layout_copy *layout_copy_at(const struct layout *layout, uint32_t home);

/* Lists the extents of the copies at home there: ascending, each once. `*out` is the caller's to
 * free. -ENOMEM. */
int layout_extents(const struct layout *layout, uint32_t home, uint64_t **out, size_t *nr_extents);

/* The most chunks that a group has. */
uint32_t layout_width(const struct layout *layout);

/*
 * Makes a layout that covers the sums, too, for a sealed layout. First come the same bytes, up to
 * the end of their last block (CHECKSUM_BLOCK), then the sums of each copy, copy by copy.
 * `sums_at[i]` is where the sums of copy i begin; the array is the caller's to free. -ENOMEM.
 */
int layout_with_sums(const struct layout *layout, struct layout **out, uint64_t **sums_at);

/* Returns the longest piece that begins at `offset`, of at most `length_max` bytes, which must not be 0. Behind the
 * layout's end there is one that `is_past` it, without a copy. */
struct layout_piece layout_piece_at(const struct layout *layout, uint64_t offset,
				    uint64_t length_max);

#endif
