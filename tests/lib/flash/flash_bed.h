/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A translation layer on a device of memory, with requests that are waited for. It is for tests of
 * the layer and of what lies on it (flash_space_bed.h). A failure in here fails the test.
 */
#ifndef TESTS_FLASH_BED_H
#define TESTS_FLASH_BED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "flash/ftl.h"
#include "lib/flash/flash_fake.h"
#include "lib/flash/flash_io.h"

struct bed {
	struct flash_device *device;
	struct ftl *ftl;
	struct space *space; /* flash_space_bed.h's */
};

/* 8 MiB, in sectors of 512 bytes and segments of 64 KiB; or as the options say. */
void bed_open(struct bed *bed);
void bed_open_with(struct bed *bed, const struct flash_fake_options *device,
		   const struct ftl_options *options);
void bed_close(struct bed *bed);
/* Opens it anew, closed in order or forgotten, as by a crash that leaves the device's power on. */
void bed_reopen(struct bed *bed, bool is_orderly);

/* ---- Requests */

struct bed_request {
	union {
		struct ftl_get get;
		struct ftl_put put;
		struct ftl_sync sync;
		struct ftl_trim trim;
		struct ftl_clone clone;
	};
	struct iovec iov;
	bool has_ended;
};

/* These run when a request ends, and set `has_ended`. */
void bed_get_done(struct ftl_get *get);
void bed_put_done(struct ftl_put *put);
void bed_sync_done(struct ftl_sync *sync);
void bed_trim_done(struct ftl_trim *trim);
void bed_clone_done(struct ftl_clone *clone);

void bed_wait(struct bed *bed, const struct bed_request *request);
/*
 * 0, or -ENODEV: the device's power was cut before. The layer may use the request until it is
 * abandoned.
 */
int bed_try_wait(struct bed *bed, const struct bed_request *request);

/* Fills in a put; submits one. */
void bed_prepare_put(struct bed_request *request, uint64_t lba, uint64_t offset, const void *data,
		     size_t length);
void bed_begin_put(struct bed *bed, struct bed_request *request, uint64_t lba, uint64_t offset,
		   const void *data, size_t length);

/* These submit one, wait for it, and return its result. */
int bed_put(struct bed *bed, uint64_t lba, uint64_t offset, const void *data, size_t length);
int bed_get(struct bed *bed, uint64_t lba, uint64_t offset, void *data, size_t length);
int bed_sync(struct bed *bed);
int bed_trim(struct bed *bed, uint64_t lba, uint64_t count, const struct ftl_record_change *change);
int bed_clone(struct bed *bed, uint64_t source, uint64_t target, uint64_t count,
	      const struct ftl_record_change *change);

/* Puts a block all of whose bytes are that; gets one, and finds that they are. */
void bed_fill(struct bed *bed, uint64_t lba, uint8_t byte);
void bed_expect(struct bed *bed, uint64_t lba, uint8_t byte);

#endif
