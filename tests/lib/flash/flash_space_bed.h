/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An address space on the layer of a bed (flash_bed.h), and requests to it that are waited for.
 * A failure in here fails the test, unless such a request returns it.
 */
#ifndef TESTS_FLASH_SPACE_BED_H
#define TESTS_FLASH_SPACE_BED_H

#include <stdbool.h>
#include <stdint.h>

#include "flash/space/space.h"
#include "lib/flash/flash_bed.h"

/* Most tests use these. */
extern const struct flash_fake_options space_bed_device;
extern const struct ftl_options space_bed_layout;

void space_bed_open(struct bed *bed, const struct flash_fake_options *device,
		    const struct ftl_options *layout);
void space_bed_close(struct bed *bed);
/* Closes space and layer, and leaves the device open. */
void space_bed_close_layer(struct bed *bed);
/* Opens it anew, closed in order. */
void space_bed_reopen(struct bed *bed);
/* Waits until the space has nothing left to do. */
void space_bed_settle(struct bed *bed);

/* ---- Requests */

struct waited {
	struct space_request request;
	bool has_ended;
};

void on_waited(struct space_request *request);
struct space_owner owner_named(const char *name);

/*
 * Submits the request by `change` and waits for it. Returns what it was refused with or ended with,
 * or -ENODEV: the device's power was cut before.
 */
int range_run(struct bed *bed, int (*change)(struct space *space, struct space_request *request),
	      struct waited *waited);

/* These do the same with one of their own. `*id` is the new range's; NULL: not wanted. */
int range_create(struct bed *bed, const char *owner, uint64_t start, uint64_t length, uint32_t *id);
int range_create_thin(struct bed *bed, uint64_t length, uint64_t reserved, uint32_t *id);
int range_grow(struct bed *bed, uint32_t id, uint64_t length, bool is_fixed);
int range_shrink(struct bed *bed, uint32_t id, uint64_t length);
int range_reserve(struct bed *bed, uint32_t id, uint64_t reserved);
int range_relocate(struct bed *bed, uint32_t id, uint64_t start);
int range_remove(struct bed *bed, uint32_t id);
int range_clone(struct bed *bed, uint32_t id, uint64_t offset, uint32_t target,
		uint64_t target_offset, uint64_t length);

/* ---- Blocks that are all of one word */

/* Returns what the put ends with, or -ENODEV: the device's power was cut before. */
int put_word(struct bed *bed, uint64_t lba, uint64_t word);
/* Returns the word, of which the whole block must be. */
uint64_t get_word(struct bed *bed, uint64_t lba);

#endif
