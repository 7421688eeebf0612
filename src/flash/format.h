/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layout of a device: little-endian, in blocks of 4 KiB.
 *
 *	0        superblock (a copy is in the last block): never changes
 *	1, 2     anchors, written in turn: name the last checkpoint and the next journal block
 *	tables   two areas, written in turn: a checkpoint's segments, map directory, records, shares
 *	journal  a ring of blocks: what changed since the checkpoint
 *	map      slots of two pages each; the directory says which of the two is current
 *	segments data blocks, then a summary with the lba of each
 *
 * All that is read from or written to a device is in these structs. Nothing read is used before its
 * CRC32C was checked, and its numbers were checked against the superblock.
 */
#ifndef FLASH_FORMAT_H
#define FLASH_FORMAT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "the structs are written to the device as they are in memory");

#define FORMAT_BLOCK   4096U
#define FORMAT_VERSION 1U

static const uint8_t format_magic[8] = {'A', 'f', 'a', 'r', 'F', 'T', 'L', '\n'};

/* A CRC is that of the struct's or block's bytes with the field `crc` zero, unless its comment says
 * otherwise. */
struct format_superblock {
	uint8_t magic[8];
	uint32_t version;
	uint32_t crc;
	uint8_t uuid[16];
	uint64_t nr_blocks; /* of the device */
	uint32_t sector;
	uint32_t nr_slots; /* of the map, two blocks each */
	uint32_t nr_segments;
	uint32_t segment_blocks; /* including the summary */
	uint32_t journal_blocks;
	uint32_t tables_blocks; /* of each of the two areas */
	uint32_t nr_records;	/* that the tables have room for */
	uint32_t nr_shares;	/* that the tables have room for */
	uint32_t tables_at;	/* the first block of each area */
	uint32_t journal_at;
	uint32_t map_at;
	uint32_t segments_at;
};
_Static_assert(sizeof(struct format_superblock) == 88, "superblock");

#define FORMAT_ANCHOR_AT 1U

struct format_anchor {
	uint8_t magic[8];
	uint32_t crc;
	uint32_t tables_crc; /* of the tables' blocks, the last one padded with zeros */
	uint8_t uuid[16];    /* of the superblock */
	/* Counts checkpoints. Its parity chooses the copy of the anchor and the area of tables; map
	 * pages carry its low half. */
	uint64_t generation;
	uint64_t epoch;	   /* random; the journal's blocks from `sequence` on have the same */
	uint64_t sequence; /* of the first block of the journal after the checkpoint */
	uint64_t tables_bytes;
};
_Static_assert(sizeof(struct format_anchor) == 64, "anchor");

/* ---- journal ---- */

struct format_journal_header {
	uint32_t crc; /* of the superblock's uuid and the whole block */
	uint32_t nr_records;
	uint64_t epoch;
	uint64_t sequence; /* the block lies at sequence % journal_blocks of the ring */
	/*
	 * All blocks before this, and the data of their records, were durable when it was written.
	 */
	uint64_t flushed;
};
_Static_assert(sizeof(struct format_journal_header) == 32, "journal header");

#define FORMAT_JOURNAL_RECORDS \
	((FORMAT_BLOCK - sizeof(struct format_journal_header)) / sizeof(struct format_record))

enum format_record_type {
	/* subject; other fields */
	FORMAT_PUT = 1,	     /* lba; place, crc */
	FORMAT_MOVE,	     /* lba; place, crc: moved by the cleaner */
	FORMAT_TRIM,	     /* lba; count */
	FORMAT_CLONE,	     /* source; count. FORMAT_CLONE_TARGET follows */
	FORMAT_CLONE_TARGET, /* target */
	FORMAT_OPEN,	     /* segment; stream */
	FORMAT_WORN,	     /* segment: a write to it failed */
	FORMAT_KEEP,   /* id of a caller's record. FORMAT_KEEP_SLOTS slots with its bytes follow */
	FORMAT_REMOVE, /* id of a caller's record */
	/* lba, whose place is unknown; place, crc: the cleaner moved a block that may be the lba's
	 * from the place in `crc` to this one. */
	FORMAT_CARRY,
	FORMAT_RELEASE, /* lba; place: the block there, which might have been the lba's, is not */
	FORMAT_NR_RECORD_TYPES,
};

#define FORMAT_KEEP_SLOTS 3U

struct format_record {
	uint64_t subject; /* type << 56 | lba, segment or id */
	uint32_t place;	  /* or count, or stream */
	uint32_t crc;
};
_Static_assert(sizeof(struct format_record) == 16, "record");
_Static_assert(sizeof(struct format_journal_header) + 254 * sizeof(struct format_record) ==
		       FORMAT_BLOCK,
	       "journal block");

#define FORMAT_LBA_BITS 56U
#define FORMAT_LBA_MASK ((UINT64_C(1) << FORMAT_LBA_BITS) - 1)

/* ---- map ---- */

/* The map's entry of a logical block. */
struct format_entry {
	uint32_t place; /* block of the device; 0: never written or trimmed; or FORMAT_UNKNOWN */
	uint32_t crc;	/* CRC32C of its lba (8 bytes) and its data */
};

/*
 * A place that is not known, because the map's page was damaged; the block may never have been
 * written. No block of a segment has this number, because the superblock's copy lies behind them.
 */
#define FORMAT_UNKNOWN UINT32_MAX

#define FORMAT_PAGE_ENTRIES 510U

struct format_page {
	uint32_t crc;
	uint32_t generation; /* of the checkpoint that wrote it, low half */
	uint32_t range;
	uint32_t page; /* of the range: has the entries of its blocks [page * 510, + 510) */
	struct format_entry entries[FORMAT_PAGE_ENTRIES];
};
_Static_assert(sizeof(struct format_page) == FORMAT_BLOCK, "map page");

/* ---- segments ---- */

/* The head of a summary, which takes a segment's last blocks. An lba (u64) for each data block
 * follows. */
struct format_summary {
	uint32_t crc; /* of the superblock's uuid and all blocks of the summary */
	uint32_t segment;
	uint64_t opened; /* as in format_table_segment: tells this summary from an older one */
};
_Static_assert(sizeof(struct format_summary) == 16, "summary");

/* ---- tables: the head, then the arrays in this order ---- */

struct format_tables {
	uint64_t generation;
	uint64_t nr_opened;  /* how often a segment was opened, ever: the next `opened` */
	uint64_t clock;	     /* blocks put, ever */
	uint32_t nr_pages;   /* struct format_table_page */
	uint32_t nr_records; /* struct format_table_record */
	uint32_t nr_shares;  /* struct format_table_share */
	uint32_t nr_lists;   /* struct format_table_list, each with its lbas */
	uint32_t nr_leaked;  /* upper bound of valid blocks to which no lba refers */
	uint32_t reserved;
	/* First comes struct format_table_segment for every segment. Then, for every segment, a bit
	 * for each block, in whole words of 64: the block is valid. */
};
_Static_assert(sizeof(struct format_tables) == 48, "tables");

struct format_table_segment {
	uint64_t opened; /* number of its last opening, among those of all segments */
	uint64_t began;	 /* the clock at that opening */
	uint8_t state;	 /* enum ftl_segment_state */
	uint8_t stream;
	uint8_t is_worn;
	uint8_t reserved[5];
};
_Static_assert(sizeof(struct format_table_segment) == 24, "segment");

/* A flag in format_table_page's `page`: it has entries FORMAT_UNKNOWN, or could not be read. */
#define FORMAT_PAGE_DAMAGED (1U << 31)

struct format_table_page {
	uint32_t range;
	uint32_t page; /* | FORMAT_PAGE_DAMAGED */
	uint32_t slot; /* << 1 | which of the two copies is current */
	uint32_t generation;
};
_Static_assert(sizeof(struct format_table_page) == 16, "page of the directory");

struct format_table_record {
	uint32_t id;
	uint32_t reserved;
	uint8_t data[48];
};
_Static_assert(sizeof(struct format_table_record) == 56, "caller's record");

/* One reference to a block that is or was shared: `lba` refers to `place`. The tables list all
 * references to such a block, including that of the summary's lba. */
struct format_table_share {
	uint64_t lba;
	uint32_t place;
	uint32_t reserved;
};
_Static_assert(sizeof(struct format_table_share) == 16, "share");

/* A segment without a summary on the device. The lbas (u64) of its first `next` blocks follow. */
struct format_table_list {
	uint32_t segment;
	uint32_t next;
};
_Static_assert(sizeof(struct format_table_list) == 8, "list");

#endif
