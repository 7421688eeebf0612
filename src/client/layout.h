/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layouts: where a region's bytes are. Only this part knows striping, and it is pure: no I/O, no
 * locks. A layout is made once from the manager's message, which is checked in full. It is
 * immutable afterwards, except for the keys, which its binding fills in before any operation goes by
 * it; so any thread may split operations by it.
 */
#ifndef CLIENT_LAYOUT_H
#define CLIENT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rpc/afar.pb-c.h"

/* A contiguous run in one extent of one server. */
struct layout_chunk {
	uint32_t server; /* index into the layout's servers */
	uint64_t extent;
	uint64_t offset; /* into the extent */
	uint64_t length;
	struct layout_key *on; /* by the server's lane; NULL before layout_make_keys() */
};

/* The binding fills it in when the server has granted the key. */
struct layout_key {
	uint64_t remote; /* the fabric's address of the chunk's first byte */
	uint64_t key;
};

/* Covers [start, start + length) of the region in units of 1 << unit_shift bytes. Unit i of the
 * group is in chunk i mod nr_chunks. Without chunks it is a hole: it reads as zeros, and nobody can
 * write there. */
struct layout_group {
	uint64_t start;
	uint64_t length;
	uint32_t unit_shift;
	uint32_t nr_chunks;
	uint32_t first_chunk; /* index into the layout's chunks */
};

struct layout {
	uint64_t length;
	uint32_t nr_groups;
	uint32_t nr_chunks;
	uint32_t nr_servers;
	struct layout_group *groups;
	struct layout_chunk *chunks;
	uint64_t *servers; /* their numbers, in the order of the message */
	struct layout_key *keys;
	bool is_sealed; /* nobody can write there; each chunk's sums follow it */
};

/* A part of a range that is contiguous on one server, or in a hole. */
struct layout_piece {
	const struct layout_chunk *chunk; /* NULL: a hole */
	uint64_t offset;		  /* into the chunk */
	uint64_t length;
};

/* Checks the message and makes the layout of a region of `length` bytes. -AFAR_EMALFORMED, with a
 * sentence: something in the message contradicts itself; -ENOMEM. */
int layout_decode(const Afar__Layout *message, uint64_t length, struct layout **out);
void layout_free(struct layout *layout);

/* Makes room for the keys of up to `nr_lanes` lanes of each server, if there is none yet.
 * -ENOMEM. */
int layout_make_keys(struct layout *layout, unsigned nr_lanes);

/* Lists the extents of the chunks on one server, given by its index: ascending, each once. `*out`
 * is the caller's to free. -ENOMEM. */
int layout_extents(const struct layout *layout, uint32_t server, uint64_t **out,
		   size_t *nr_extents);

/* Finds a server by its number. */
bool layout_find_server(const struct layout *layout, uint64_t server, uint32_t *index);

/* Any chunk on one server, given by its index; NULL: there is none. */
const struct layout_chunk *layout_chunk_on(const struct layout *layout, uint32_t server);

/*
 * Makes a layout that covers the sums, too, for a sealed layout. First come the same bytes, up to
 * the end of their last block (CHECKSUM_BLOCK), then the sums of each chunk, chunk by chunk. It has
 * no keys. `sums_at[i]` is where the sums of chunk i begin; the array is the caller's to free.
 * -ENOMEM.
 */
int layout_with_sums(const struct layout *layout, struct layout **out, uint64_t **sums_at);

/* Returns the longest piece that begins at `offset`, of at most `length_max` bytes. `offset` must
 * lie inside the layout, and `length_max` must not be 0. */
struct layout_piece layout_piece_at(const struct layout *layout, uint64_t offset,
				    uint64_t length_max);

#endif
