/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The struct of the translation layer, which all its files share. Each file's functions for the
 * others are in a header of its own. The way of a write: put.h, append.h, ahead.h. Other requests:
 * get.h, sync.h, sweep.h (trim, clone), order.h. Records: apply.h (what they do to map and
 * segments), checkpoint.h, recover.h. Room: cleaner.h, reclaim.h, policy.h, memory.h. The layer is
 * opened by ftl.c, which also calls each in turn.
 */
#ifndef FLASH_FTL_PRIVATE_H
#define FLASH_FTL_PRIVATE_H

#include "flash/format.h"
#include "flash/ftl.h"
#include "flash/log/checkpoint.h"
#include "flash/log/journal.h"
#include "flash/map/map.h"
#include "flash/map/segments.h"
#include "flash/write/append.h"
#include "flash/write/cleaner.h"
#include "flash/write/put.h"
#include "flash/write/reclaim.h"
#include "flash/write/streams.h"

struct bounce;
struct read;
struct records;

struct ftl {
	struct flash_device *device;
	struct format_superblock layout;
	/* While it is opened, if the newest checkpoint's tables are damaged: its anchor; else zeros. */
	struct format_anchor recover_through;
	bool is_alone; /* while it is opened: the other anchor is not whole, and may have been newer */
	bool is_lossy; /* FTL_LOSSY */
	int failed;    /* negative: nothing can be changed any more     */
	bool is_read_only;
	bool has_moved;	   /* the device ended something in the last poll */
	bool is_abandoned; /* nobody is called any more                     */
	bool is_unblocked; /* something ended that may have blocked a piece */
	bool has_steps;	   /* a sweep goes on with the next poll, without waiting */
	bool is_starved;   /* users wait for a free segment                 */
	uint64_t worn_at;  /* on clock_ns(): a write wore out a segment, or those were given back */
	bool is_mixing;	   /* the cleaner can make none free: they go to what is open */
	unsigned nr_spare_pieces;
	unsigned nr_spare_bounces;
	struct segments segments;
	struct map map;
	struct journal journal;
	struct checkpoint checkpoint;
	struct cleaner cleaner;
	struct reclaim reclaim;
	struct records *records;
	struct streams streams;

	/* requests */
	uint64_t ticket;
	struct cds_list_head order; /* all that change something, by ticket */
	struct cds_list_head gets;  /* not started to the end               */
	struct cds_list_head puts;
	struct cds_list_head sweeps;
	struct cds_list_head syncs;
	struct cds_list_head ended_gets, ended_puts, ended_sweeps, ended_syncs;
	uint64_t nr_requests; /* not ended */

	/* pieces by stage */
	struct cds_list_head spare_pieces;
	struct cds_list_head blocked;
	struct cds_list_head stalled; /* wait for a bounce or the journal      */
	struct cds_list_head lost;    /* failed; they wait for a checkpoint    */
	struct cds_list_head buckets[NR_BUCKETS];
	uint64_t growth; /* blocks that pieces on their way will bring into use */

	struct appender appenders[FTL_STREAMS_MAX];
	struct cds_list_head spare_writes;
	struct cds_list_head spare_reads;
	struct cds_list_head spare_bounces;

	struct cds_list_head closing; /* segments that wait for a summary */
	struct cds_list_head spare_summaries;

	struct flash_io discard;
	struct segment *discarding;

	struct ftl_stat counts;

	/* of all pools, for freeing */
	struct piece *pieces;
	struct write *writes;
	struct read *reads;
	struct bounce *bounces;
	char *bounce_memory;
	struct summary *summaries;
	char *summary_memory; /* theirs; recovery has it to itself */
};

/* ---- failure.c ---- */

/* Lets nothing be changed from now on: what would change something ends with `code`. */
void ftl_fail(struct ftl *ftl, int code);
/* Returns why nothing can be changed, or 0. */
int ftl_refusal(const struct ftl *ftl);
/* Returns whether the blocks lie in one range. */
bool ftl_is_range(uint64_t lba, uint64_t count);

#endif
