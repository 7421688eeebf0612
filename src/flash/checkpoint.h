/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints: map, segments and records as of one position of the journal, written in the background, so that the journal
 * before it is not needed any more.
 *
 * What is written is exactly what was when it began: the tables are copied at once, pages of the map are kept as they were
 * (map.h). Everything goes to the places that the last committed checkpoint does not use: the other copy of each page's
 * slot, the other area of tables, the other anchor. Then comes a flush, and only then the anchor; when that has survived,
 * the checkpoint is committed: the pages' copies count, and the journal's ring is free up to there.
 */
#ifndef FLASH_CHECKPOINT_H
#define FLASH_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

#include "flash/device.h"
#include "flash/format.h"

#define CHECKPOINT_PAGES 32U /* written at a time at most */

enum checkpoint_stage {
	CHECKPOINT_IDLE,
	CHECKPOINT_WRITING,
	CHECKPOINT_FLUSHING,
	CHECKPOINT_ANCHORING,
};

struct checkpoint_write {
	struct cds_list_head node;
	struct flash_io io;
	struct iovec iov;
	struct format_page *memory;
	struct ftl *ftl;
};

struct checkpoint {
	enum checkpoint_stage stage;
	struct format_anchor anchor; /* of the last committed one             */
	struct format_anchor next;   /* of the one under way                  */
	bool is_wanted;
	struct cds_list_head frozen; /* pages to be written                   */
	uint32_t *slots;	     /* of those that are, to be flipped      */
	uint32_t nr_slots;
	struct checkpoint_write writes[CHECKPOINT_PAGES];
	struct cds_list_head spare;
	unsigned nr_in_flight;
	char *tables;
	uint64_t tables_blocks;	 /* that the tables take                  */
	uint64_t tables_written; /* blocks that were submitted           */
	bool is_writing_tables;
	struct flash_io io; /* tables, flush, anchor                         */
	struct iovec iov;
	char *anchor_block;
};

struct ftl;

int checkpoint_open(struct ftl *ftl);
void checkpoint_close(struct ftl *ftl);

/* One is to begin, when nothing is in the journal that is not in the map: no record ahead of its data. */
bool checkpoint_is_due(const struct ftl *ftl);
/* Begins one when it is due, and moves it on. */
void checkpoint_progress(struct ftl *ftl);

/* Writes one and waits until it is committed. Nothing else is going on. */
int checkpoint_write_now(struct ftl *ftl);

/* ---- tables.c: what of the memory goes to the device ---- */

/* Into ftl->checkpoint.tables; `generation` is what pages that are frozen will be. The length in bytes; 0: it does not fit. */
uint64_t tables_encode(struct ftl *ftl, uint64_t generation);
/* Into a layer that is empty. -EBADMSG and a line; -ENOMEM. */
int tables_decode(struct ftl *ftl, uint64_t length);

#endif
