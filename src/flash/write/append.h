/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Appending to segments. Staged pieces get their places and are written, full segments get their
 * summaries, and segments without a valid block become free.
 */
#ifndef FLASH_APPEND_H
#define FLASH_APPEND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>
#include <urcu/list.h>

#include "flash/device/device.h"
#include "flash/map/segments.h"
#include "flash/write/put.h"

#define NR_WRITES    32U
#define NR_SUMMARIES 8U /* a stream closes segments quicker than the device answers */

/* One write of the device: pieces whose places follow one another. */
struct write {
	struct cds_list_head node;
	struct cds_list_head pieces;
	struct ftl *ftl;
	struct segment *segment;
	unsigned stream;
	struct flash_io io;
	struct iovec iov[PIECE_BLOCKS];
};

/* A summary on its way to the device. */
struct summary {
	struct cds_list_head node;
	struct ftl *ftl;
	struct segment *segment;
	char *bytes;
	struct flash_io io;
	struct iovec iov;
};

struct appender {
	struct segment *open;
	struct cds_list_head staged; /* users' pieces                      */
	struct cds_list_head moved;  /* the cleaner's, which come first    */
	unsigned nr_writing;
};

/* Takes the piece over. piece_written() is called when it has been written, or has failed. */
void append_stage(struct ftl *ftl, struct piece *piece);
/*
 * Cuts off what follows the first `nr` blocks, as a piece that is in no stage yet. NULL: no more
 * than `kept` are left.
 */
struct piece *piece_split(struct ftl *ftl, struct piece *piece, uint32_t nr, unsigned kept);
/* Starts the writes and summaries that can be started. */
void append_progress(struct ftl *ftl);
/* Returns whether blocks can be written somewhere, now or when what is under way has ended. */
bool append_has_place(const struct ftl *ftl);
#define APPEND_WORN_REST_NS UINT64_C(10000000000)
/* Call it when there is no other room. Gives segments back that could not be written, unless one has failed, or was given
 * back, in the last 10 s. Returns whether there were some. A device that was unwell for a while is not full for ever. */
bool append_forgive(struct ftl *ftl);
/* Fails all that is staged with `code`: no segment will ever be free for it. */
void append_refuse(struct ftl *ftl, int code);
/* Returns whether a write is under way: when it ends it may leave other places free. */
bool append_is_writing(const struct ftl *ftl);
/* Makes a segment's summary as it is written, `size` bytes. */
void summary_encode(const struct segments *segments, const struct segment *segment, void *out,
		    size_t size);
/* Turns a segment's summary, as it was read, into the lbas alone. False: it is no summary of it. */
bool summary_decode(const struct segments *segments, const struct segment *segment, void *bytes);
/* Fills in the operation that reads the summary, but for `done`, which is the caller's. */
void summary_read_io(const struct ftl *ftl, const struct segment *segment, struct flash_io *io,
		     struct iovec *iov, void *bytes);
/* Frees segments whose records are durable, and discards them. */
void release_progress(struct ftl *ftl);

#endif
