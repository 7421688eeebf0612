/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A checkpoint is the map, the segments and the records as of one position of the journal. It is
 * written in the background. The journal's blocks before that position are not needed any more.
 *
 * The checkpoint has the state at the time it began. It copies the tables at once; changed pages of
 * the map keep their old content until it is written (map.h). It writes only where the last
 * committed checkpoint has nothing: the other copy of each page's slot, the other area of tables,
 * the other anchor. The anchor is written last, after a flush. Once it is durable the checkpoint is
 * committed: the pages' new copies are current, and the journal's ring is free up to its position.
 */
#ifndef FLASH_CHECKPOINT_H
#define FLASH_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

#include "flash/device/device.h"
#include "flash/format.h"

#define CHECKPOINT_PAGES 32U /* at most so many page writes in flight */

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
	struct format_anchor anchor; /* of the last committed checkpoint */
	struct format_anchor next;   /* of the checkpoint under way */
	bool is_wanted;
	struct cds_list_head frozen; /* pages that are to be written */
	uint32_t *slots;	     /* of pages submitted; map_flip() at the commit */
	uint32_t nr_slots;
	struct checkpoint_write writes[CHECKPOINT_PAGES];
	struct cds_list_head spare;
	unsigned nr_in_flight;
	char *tables;
	uint64_t tables_blocks;	 /* that the tables take */
	uint64_t tables_written; /* blocks that were submitted */
	bool is_writing_tables;
	struct flash_io io; /* of tables, flush and anchor, one after the other */
	struct iovec iov;
	char *anchor_block;
};

struct ftl;

/* Allocates the checkpoint's memory. Returns 0, or -ENOMEM; call checkpoint_close() in either
 * case. */
int checkpoint_open(struct ftl *ftl);
void checkpoint_close(struct ftl *ftl);

/*
 * Returns whether a checkpoint should begin. It begins once the journal has no record whose data is
 * still to be written.
 */
bool checkpoint_is_due(const struct ftl *ftl);
/*
 * Begins a checkpoint if one is due, and continues the one under way. An error fails the layer,
 * with ftl_fail().
 */
void checkpoint_progress(struct ftl *ftl);

/* Writes a checkpoint and blocks until it is committed. No request may be in flight. Returns 0; the
 * error that failed the layer; or that of flash_device_poll(). */
int checkpoint_write_now(struct ftl *ftl);

/* ---- tables.c: the tables of a checkpoint ---- */

/*
 * Encodes the tables in ftl->checkpoint.tables. Frozen pages get `generation`. Returns the length
 * in bytes; 0: they do not fit.
 */
uint64_t tables_encode(struct ftl *ftl, uint64_t generation);
/*
 * Decodes `length` bytes of ftl->checkpoint.tables into an empty layer. Returns 0; -EBADMSG,
 * -EINVAL or -ENOSPC: they are damaged, and error_last_line() says what is; -ENOMEM.
 */
int tables_decode(struct ftl *ftl, uint64_t length);

#endif
