/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and their pieces. A put is cut into pieces: blocks of one window of 256, or a part of one
 * block. Pieces of the same blocks go one after the other, in the order they came; others in any.
 *
 * A piece is first made ready. Its map pages are loaded, its room in the journal is reserved, and
 * the old bytes that it keeps are read. Then it is staged at the appender of its stream, and gets
 * places in the stream's open segment. One write takes it there, together with what else is staged
 * (append.h). When that write has ended, ftl_record_put() appends its records and changes the map
 * at once. So the map in memory is always what the journal says. Where a sync waits, the records go
 * ahead of the write (ahead.h).
 *
 * The cleaner makes pieces of its own; they begin where a put's are staged.
 */
#ifndef FLASH_PUT_H
#define FLASH_PUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include <urcu/list.h>

#include "flash/device/device.h"
#include "flash/format.h"
#include "flash/ftl.h"
#include "flash/map/map.h"

#define WINDOW_BITS  8U
#define PIECE_BLOCKS (1U << WINDOW_BITS)
#define NR_PIECES    512U /* for puts                            */
#define SPLIT_PIECES 8U	  /* more, for parts that go on by themselves; see piece_take() */
#define NR_BUCKETS   256U
/*
 * Records of the journal that a piece may need beside those of its blocks. One is for a segment
 * that is opened for it, one for another when it is split, and one for a segment that wears out.
 */
#define RECORDS_MORE 3U

struct bounce;
struct journal_block;

/* Blocks on their way to the device. */
struct piece {
	struct cds_list_head node;   /* in the list of its stage */
	struct cds_list_head bucket; /* in the list of its bucket, in order of arrival */
	struct ftl *ftl;
	bool is_pooled;	     /* of ftl->pieces, and given back there */
	struct ftl_put *put; /* NULL: the cleaner's                     */
	uint64_t ticket;
	uint64_t lba;
	const uint64_t *lbas; /* of each block, for the cleaner's; NULL: lba, lba + 1 … */
	const uint32_t *from; /* the old place of each block, for the cleaner's */
	uint32_t nr_blocks;
	uint32_t place;
	uint32_t at;	/* of a part of a block: the first byte, */
	uint32_t bytes; /* and how many; of whole blocks all      */
	char *memory;	/* NULL: the put's own                   */
	struct bounce *bounce;
	unsigned iov_index; /* where its part of the put's memory begins */
	size_t iov_offset;
	unsigned stream; /* of all its blocks, when it is staged */
	uint64_t pace;	 /* of the sequence that it is part of, as victim.h says; or 0 */
	unsigned attempts;
	uint32_t reserved;	     /* records of the journal                */
	struct journal_block *ahead; /* holds that its records are from; NULL: it has none yet    */
	uint64_t void_at;	     /* the journal's block of those that are void; 0: none are   */
	int failure;	 /* the error that it ends with once a checkpoint is behind them */
	uint32_t growth; /* blocks that will be in use when it is done */
	struct map_page *pages[2];
	uint64_t pages_lba; /* the first block of pages[0] that is meant */
	bool is_blocked;    /* by another piece or a sweep           */
	bool is_direct;	    /* whole blocks of aligned memory        */
	bool is_counted;
	bool is_read;  /* the rest of its block is there        */
	bool is_ready; /* its sums and streams are known       */
	struct segment *reading;
	uint32_t reading_crc;
	struct ftl_waiter waiter;
	struct flash_io io;
	struct iovec iov;
	uint32_t crcs[PIECE_BLOCKS];
	uint8_t streams[PIECE_BLOCKS]; /* that its blocks are to go to */
};

/* Moves on all that can be staged. */
void puts_progress(struct ftl *ftl);
/* Goes on with a piece that has been written, or has failed. */
void piece_written(struct piece *piece, int result);
/* Takes a piece from the pool. NULL: no more than `kept` are left. */
struct piece *piece_take(struct ftl *ftl, unsigned kept);
void piece_give(struct ftl *ftl, struct piece *piece);
/* Counts anew how many more blocks will be in use when it is done. */
void piece_count(struct piece *piece);

static inline uint64_t piece_lba(const struct piece *piece, uint32_t i)
{
	return piece->lbas ? piece->lbas[i] : piece->lba + i;
}

/* Returns the map entry that its block `i` will have. */
static inline struct format_entry piece_entry(const struct piece *piece, uint32_t i)
{
	return (struct format_entry){piece->place + i, piece->crcs[i]};
}

/* Returns which of ftl->buckets has the pieces with blocks in the window of that address. */
static inline uint32_t piece_bucket(uint64_t lba)
{
	uint64_t hash = (lba >> WINDOW_BITS) * 0x9e3779b97f4a7c15U;

	return hash >> 32 & (NR_BUCKETS - 1);
}

/* Returns the map page of one of its blocks. Only for pieces of a put. */
static inline struct map_page *piece_page(const struct piece *piece, uint64_t lba)
{
	return piece->pages[lba >= map_page_end(piece->pages_lba)];
}

#endif
