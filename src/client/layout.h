/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layouts: where the bytes of a region are. The only place that knows striping, and pure: no I/O, no
 * locks. A layout is made once from the manager's message, which is checked in full, and is immutable
 * afterwards but for the keys, so any thread may split by it. The layout of a sealed region is final; of
 * another it can be replaced by that of a sealed one.
 */
#ifndef CLIENT_LAYOUT_H
#define CLIENT_LAYOUT_H

#include <stdatomic.h>
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
	struct layout_key *on; /* by the lane of the server; NULL before layout_make_keys() */
};

/* Filled in by whoever gets the keys. */
struct layout_key {
	uint64_t remote; /* the fabric's address of the chunk's first byte */
	uint64_t key;
};

/* Covers [start, start + length) of the region by units of 1 << unit_shift bytes, unit i of the group
 * in chunk i mod nr_chunks. */
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
	uint64_t *servers; /* their numbers, in the message's order */
	struct layout_key *keys;
	bool is_sealed;	      /* nobody can write there; behind each chunk are its sums */
	bool is_keyed;	      /* all keys are filled in; guarded by who gets them       */
	atomic_bool has_keys; /* and as far as is known, the bytes are there still      */
};

/* A part of a range that is contiguous on one server. */
struct layout_piece {
	const struct layout_chunk *chunk;
	uint64_t offset; /* into the chunk */
	uint64_t length;
};

/* Checks the message and makes the layout of a region of `length` bytes. -AFAR_EMALFORMED with a
 * sentence when anything in it contradicts itself; -ENOMEM. */
int layout_decode(const Afar__Layout *message, uint64_t length, struct layout **out);
void layout_free(struct layout *layout);

/* Makes room for the keys of up to `nr_lanes` lanes of each server, if there is none. -ENOMEM. */
int layout_make_keys(struct layout *layout, unsigned nr_lanes);

/* The extents of the chunks on one server, by its index, ascending, each once: `*out` is the caller's to
 * free. -ENOMEM. */
int layout_extents(const struct layout *layout, uint32_t server, uint64_t **out,
		   size_t *nr_extents);

/* Finds a server by its number. */
bool layout_find_server(const struct layout *layout, uint64_t server, uint32_t *index);

/* A chunk on one server, by its index; NULL: there is none. */
const struct layout_chunk *layout_chunk_on(const struct layout *layout, uint32_t server);

/*
 * The same bytes up to the end of their last block (CHECKSUM_BLOCK), and behind them the sums of each chunk of a
 * sealed layout, chunk by chunk; without keys. `sums_at[i]` is where those of chunk i begin, the caller's to free.
 * -ENOMEM.
 */
int layout_with_sums(const struct layout *layout, struct layout **out, uint64_t **sums_at);

/* The longest piece that begins at `offset` and has at most `length_max` bytes; `offset` must lie
 * inside the layout and `length_max` must not be 0. */
struct layout_piece layout_piece_at(const struct layout *layout, uint64_t offset,
				    uint64_t length_max);

#endif
