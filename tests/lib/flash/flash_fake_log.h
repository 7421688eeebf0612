/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tells what of a fake device would survive a cut: an image of what surely does, and the writes
 * that may. A live log is that of now alone; one that records keeps every event, and is taken to
 * any of them. For flash_fake.c.
 */
#ifndef TESTS_FLASH_FAKE_LOG_H
#define TESTS_FLASH_FAKE_LOG_H

#include <stddef.h>
#include <stdint.h>
#include <urcu/list.h>

#include "lib/flash/flash_fake.h"
#include "lib/flash/flash_fake_image.h"

/* Also a discard. The log's. */
struct fake_write {
	struct cds_list_head node; /* in `uncertain`                                    */
	struct cds_list_head all;  /* in `writes`, of a log that records                */
	uint64_t offset, length;
	uint64_t reach; /* bytes of it that were done: fewer when it failed  */
	uint64_t order; /* the how manieth to end, from 1; or in flight      */
	bool is_durable;
	uint8_t fill;  /* when there is no data */
	uint8_t *data; /* NULL: a discard       */
};

struct fake_event;

struct flash_fake_log {
	bool is_live;
	uint32_t sector;
	uint64_t nr_ended; /* of the writes that it was told of */

	/* A record. */
	struct flash_fake_options options; /* of the device */
	struct fake_event *events;
	size_t nr_events, room;
	struct cds_list_head writes;
	bool has_image; /* a device is over `base` */

	/* The state behind `at` events. */
	uint64_t at;
	uint64_t nr_ended_at;
	uint64_t size;
	/* This surely survives. It changes only where each image above it was written. */
	struct image base;
	uint64_t *stamps; /* of each sector: the order of what `base` has there; 0: nothing */
	struct cds_list_head uncertain; /* as submitted */
};

/* `below`: what survived before, which stays. Returns 0, or -ENOMEM. */
int fake_log_open(struct flash_fake_log **out, const struct image *below, uint64_t size,
		  uint32_t sector, bool is_live);
void fake_log_close(struct flash_fake_log *log);

/* ---- Events. These return 0, or -ENOMEM. */

/* Takes from `like` what is not the log's own to say. Owns its `data` from then on. */
int fake_log_begin(struct flash_fake_log *log, const struct fake_write *like,
		   struct fake_write **out);
int fake_log_end(struct flash_fake_log *log, struct fake_write *write, uint64_t reach);
/* `nr_ended`: that of the log when the flush was submitted. */
int fake_log_flush(struct flash_fake_log *log, uint64_t nr_ended);

/* ---- Cuts */

/* Takes a record behind its first `nr_events` events. */
int fake_log_go(struct flash_fake_log *log, uint64_t nr_events);
/* Writes to `image`, which is `base` or over it, what of the uncertain survives. */
int fake_log_survive(const struct flash_fake_log *log, uint64_t seed, struct image *image);
/* For a live log, after survival to `base`: from now on that is what there is. */
void fake_log_settle(struct flash_fake_log *log);

#endif
