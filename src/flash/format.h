/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What lies on the device, little-endian, in blocks of 4 KiB:
 *
 *	0        superblock (another in the last block): never changes
 *	1, 2     anchors, written in turn: which checkpoint counts, and where the journal goes on from it
 *	tables   two areas in turn: segments, map directory, records, sharing, open segments, as of a checkpoint
 *	journal  a ring of blocks: what changed since
 *	map      slots of two pages each; the directory says which of the two counts
 *	segments data blocks, then a summary of whose they are
 *
 * Only these structs are read from and written to a device. Everything read is checked by a CRC32C before it is believed, and
 * numbers in it are checked against the superblock before they are used.
 */
#ifndef FLASH_FORMAT_H
#define FLASH_FORMAT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "the structs are those of the device as they are");

#define FORMAT_BLOCK   4096U
#define FORMAT_VERSION 1U

static const uint8_t format_magic[8] = {'A', 'f', 'a', 'r', 'F', 'T', 'L', '\n'};

/* CRCs here are of the struct's or block's bytes with the field `crc` zero, unless something else is said. */
struct format_superblock {
	uint8_t magic[8];
	uint32_t version;
	uint32_t crc;
	uint8_t uuid[16];
	uint64_t nr_blocks; /* of the device */
	uint32_t sector;
	uint32_t nr_slots; /* of the map, two blocks each             */
	uint32_t nr_segments;
	uint32_t segment_blocks; /* with the summary                        */
	uint32_t journal_blocks;
	uint32_t tables_blocks; /* of each of the two areas                */
	uint32_t nr_records;
	uint32_t nr_shares; /* entries of sharing that tables have room for */
	uint32_t tables_at; /* first blocks of the areas               */
	uint32_t journal_at;
	uint32_t map_at;
	uint32_t segments_at;
};
_Static_assert(sizeof(struct format_superblock) == 88, "superblock");

#define FORMAT_ANCHOR_AT 1U

struct format_anchor {
	uint8_t magic[8];
	uint32_t crc;
	uint32_t tables_crc; /* of all `tables_bytes`                       */
	uint8_t uuid[16];    /* of the superblock                           */
	uint64_t
		generation; /* by one each time: in anchor, tables area and (low half) pages; its parity chooses the copy */
	uint64_t epoch;	   /* random: of the journal's blocks from `sequence` on */
	uint64_t sequence; /* of the journal block to go on from          */
	uint64_t tables_bytes;
};
_Static_assert(sizeof(struct format_anchor) == 64, "anchor");

/* ---- journal ---- */

struct format_journal_header {
	uint32_t crc; /* of the superblock's uuid and the whole block */
	uint32_t nr_records;
	uint64_t epoch;
	uint64_t
		sequence; /* block `sequence` lies at sequence % journal_blocks of the ring                    */
	uint64_t
		flushed; /* blocks before this, and the data their records name, survived when it was written */
};
_Static_assert(sizeof(struct format_journal_header) == 32, "journal header");

#define FORMAT_JOURNAL_RECORDS \
	((FORMAT_BLOCK - sizeof(struct format_journal_header)) / sizeof(struct format_record))

enum format_record_type {
	FORMAT_PUT =
		1, /* lba; place, crc                                                              */
	FORMAT_MOVE, /* the same, by the cleaner                                                     */
	FORMAT_TRIM, /* lba; count                                                                   */
	FORMAT_CLONE, /* source; count. Then FORMAT_CLONE_TARGET: target                              */
	FORMAT_CLONE_TARGET,
	FORMAT_OPEN, /* segment; stream                                                              */
	FORMAT_WORN, /* segment: a write in it failed                                                */
	FORMAT_KEEP, /* id of a caller's record. Then FORMAT_KEEP_SLOTS slots that are its bytes     */
	FORMAT_REMOVE, /* id                                                                           */
	FORMAT_CARRY, /* lba, which lies nobody knows where, maybe at the place in `crc`: at this one from now on */
	FORMAT_RELEASE, /* lba; place: it does not lie there                                            */
	FORMAT_NR_RECORD_TYPES,
};

#define FORMAT_KEEP_SLOTS 3U

struct format_record {
	uint64_t subject; /* type << 56 | lba, segment or id */
	uint32_t place;	  /* or count or stream              */
	uint32_t crc;
};
_Static_assert(sizeof(struct format_record) == 16, "record");
_Static_assert(sizeof(struct format_journal_header) + 254 * sizeof(struct format_record) ==
		       FORMAT_BLOCK,
	       "journal block");

#define FORMAT_LBA_BITS 56U
#define FORMAT_LBA_MASK ((UINT64_C(1) << FORMAT_LBA_BITS) - 1)

/* ---- map ---- */

/* Where a block lies, in blocks of the device, and the CRC32C of its address (8 bytes) and its data. */
struct format_entry {
	uint32_t place; /* 0: nowhere, zeros; or FORMAT_UNKNOWN */
	uint32_t crc;
};

/*
 * The block was written, or not, and nobody knows where it lies: what said so was damaged. No block of a segment has that
 * number, since the superblock's copy comes behind them.
 */
#define FORMAT_UNKNOWN UINT32_MAX

#define FORMAT_PAGE_ENTRIES 510U

struct format_page {
	uint32_t crc;
	uint32_t generation; /* of the checkpoint that wrote it, low half */
	uint32_t range;
	uint32_t page; /* of the range: of its blocks [page * 510, + 510) */
	struct format_entry entries[FORMAT_PAGE_ENTRIES];
};
_Static_assert(sizeof(struct format_page) == FORMAT_BLOCK, "map page");

/* ---- segments ---- */

/* The head of a summary, which takes a segment's last blocks; then an lba (u64) for each data block. */
struct format_summary {
	uint32_t crc; /* of the superblock's uuid and all blocks of it */
	uint32_t segment;
	uint64_t opened; /* the segment's, so that an older summary is not taken for it */
};
_Static_assert(sizeof(struct format_summary) == 16, "summary");

/* ---- tables: the head, then the arrays in this order ---- */

struct format_tables {
	uint64_t generation;
	uint64_t nr_opened;  /* segments opened ever: the next one's number */
	uint64_t clock;	     /* blocks put ever                             */
	uint32_t nr_pages;   /* struct format_table_page                    */
	uint32_t nr_records; /* struct format_table_record                  */
	uint32_t nr_shares;  /* struct format_table_share                   */
	uint32_t nr_lists;   /* struct format_table_list, each with its lbas */
	uint32_t nr_leaked;  /* blocks that may be valid, and nobody's: at most */
	uint32_t reserved;
	/* struct format_table_segment of every segment follows; then a bit for each of its data blocks: valid */
};
_Static_assert(sizeof(struct format_tables) == 48, "tables");

struct format_table_segment {
	uint64_t opened; /* which opening it was                    */
	uint64_t began;	 /* the clock when that was                */
	uint8_t state;	 /* enum ftl_segment_state                  */
	uint8_t stream;
	uint8_t is_worn;
	uint8_t reserved[5];
};
_Static_assert(sizeof(struct format_table_segment) == 24, "segment");

/* Of `page`: some of its entries are FORMAT_UNKNOWN, or it could not be read. */
#define FORMAT_PAGE_DAMAGED (1U << 31)

struct format_table_page {
	uint32_t range;
	uint32_t page; /* | FORMAT_PAGE_DAMAGED */
	uint32_t slot; /* << 1 | which of the two counts */
	uint32_t generation;
};
_Static_assert(sizeof(struct format_table_page) == 16, "page of the directory");

struct format_table_record {
	uint32_t id;
	uint32_t reserved;
	uint8_t data[48];
};
_Static_assert(sizeof(struct format_table_record) == 56, "caller's record");

/* A block that is, or was, shared: `lba` refers to `place`. All who do are listed, whatever the summary says. */
struct format_table_share {
	uint64_t lba;
	uint32_t place;
	uint32_t reserved;
};
_Static_assert(sizeof(struct format_table_share) == 16, "share");

/* A segment without a summary on the device: what `next` blocks of it are whose. `next` lbas (u64) follow. */
struct format_table_list {
	uint32_t segment;
	uint32_t next;
};
_Static_assert(sizeof(struct format_table_list) == 8, "list");

#endif
