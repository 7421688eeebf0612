/* SPDX-License-Identifier: BSD-3-Clause */
/* An address space on a layer on a device of memory, and requests that are waited for. */
#ifndef TESTS_FLASH_SPACE_BED_H
#define TESTS_FLASH_SPACE_BED_H

#include <stdlib.h>
#include <string.h>

#include "flash/ftl.h"
#include "flash/space.h"
#include "lib/flash_fake.h"

struct bed {
	struct flash_device *device;
	struct ftl *ftl;
	struct space *space;
};

static const struct flash_fake_options bed_device = {
	.size = 16U << 20,
	.sector = 4096,
	.latency_max = 3,
	.seed = 1,
};

static const struct ftl_options bed_layout = {
	.segment_bytes = 64U << 10, .nr_map_pages = 150, .nr_records = 100};

static inline void bed_make(struct bed *bed, const struct flash_fake_options *device,
			    const struct ftl_options *layout)
{
	assert_int_equal(flash_fake_open(device, &bed->device), 0);
	assert_int_equal(ftl_create(bed->device, layout), 0);
	assert_int_equal(ftl_open(bed->device, 0, &bed->ftl), 0);
	assert_int_equal(space_open(bed->ftl, &bed->space), 0);
}

static inline void bed_settle(struct bed *bed)
{
	while (space_is_busy(bed->space))
		assert_true(ftl_poll(bed->ftl, -1) >= 0);
}

static inline void bed_close_layer(struct bed *bed)
{
	bed_settle(bed);
	space_close(bed->space);
	assert_int_equal(ftl_close(bed->ftl), 0);
}

static inline void bed_reopen(struct bed *bed)
{
	bed_close_layer(bed);
	assert_int_equal(ftl_open(bed->device, 0, &bed->ftl), 0);
	assert_int_equal(ftl_audit(bed->ftl), 0);
	assert_int_equal(space_open(bed->ftl, &bed->space), 0);
}

static inline void bed_end(struct bed *bed)
{
	bed_close_layer(bed);
	flash_device_close(bed->device);
}

/* ---- requests, waited for */

struct waited {
	struct space_request request;
	bool has_ended;
};

static inline void on_waited(struct space_request *request)
{
	caa_container_of(request, struct waited, request)->has_ended = true;
}

/* What it was refused with, or ended with. */
static inline int bed_run(struct bed *bed,
			  int (*change)(struct space *space, struct space_request *request),
			  struct waited *waited)
{
	int rc;

	waited->has_ended = false;
	waited->request.done = on_waited;
	rc = change(bed->space, &waited->request);
	if (rc)
		return rc;
	while (!waited->has_ended) {
		if (ftl_poll(bed->ftl, -1) < 0)
			return -ENODEV;
	}
	return waited->request.result;
}

static inline struct space_owner owner_named(const char *name)
{
	struct space_owner owner = {{0}};

	for (size_t i = 0; name[i] && i < sizeof(owner.bytes); i++)
		owner.bytes[i] = (uint8_t)name[i];
	return owner;
}

static inline int create(struct bed *bed, const char *owner, uint64_t start, uint64_t length,
			 uint32_t *id)
{
	struct waited waited = {
		.request = {.start = start, .length = length, .owner = owner_named(owner)}};
	int rc = bed_run(bed, space_create, &waited);

	if (!rc && id)
		*id = waited.request.id;
	return rc;
}

static inline int create_thin(struct bed *bed, uint64_t length, uint64_t reserved, uint32_t *id)
{
	struct waited waited = {.request = {.start = SPACE_ANYWHERE,
					    .length = length,
					    .is_thin = true,
					    .reserved = reserved}};
	int rc = bed_run(bed, space_create, &waited);

	if (!rc && id)
		*id = waited.request.id;
	return rc;
}

static inline int grow(struct bed *bed, uint32_t id, uint64_t length, bool is_fixed)
{
	struct waited waited = {.request = {.id = id, .length = length, .is_fixed = is_fixed}};

	return bed_run(bed, space_grow, &waited);
}

static inline int shrink(struct bed *bed, uint32_t id, uint64_t length)
{
	struct waited waited = {.request = {.id = id, .length = length}};

	return bed_run(bed, space_shrink, &waited);
}

static inline int reserve(struct bed *bed, uint32_t id, uint64_t reserved)
{
	struct waited waited = {.request = {.id = id, .reserved = reserved}};

	return bed_run(bed, space_reserve, &waited);
}

static inline int relocate(struct bed *bed, uint32_t id, uint64_t start)
{
	struct waited waited = {.request = {.id = id, .start = start}};

	return bed_run(bed, space_relocate, &waited);
}

static inline int remove_range(struct bed *bed, uint32_t id)
{
	struct waited waited = {.request = {.id = id}};

	return bed_run(bed, space_remove, &waited);
}

static inline int clone_range(struct bed *bed, uint32_t id, uint64_t offset, uint32_t target,
			      uint64_t target_offset, uint64_t length)
{
	struct waited waited = {.request = {.id = id,
					    .offset = offset,
					    .target = target,
					    .target_offset = target_offset,
					    .length = length}};

	return bed_run(bed, space_clone_range, &waited);
}

/* ---- blocks that are all of one word */

struct block_io {
	struct ftl_get get;
	struct ftl_put put;
	struct iovec iov;
	bool has_ended;
	_Alignas(4096) uint64_t words[FTL_BLOCK / sizeof(uint64_t)];
};

static inline void on_get(struct ftl_get *get)
{
	caa_container_of(get, struct block_io, get)->has_ended = true;
}

static inline void on_put(struct ftl_put *put)
{
	caa_container_of(put, struct block_io, put)->has_ended = true;
}

static inline int put_word(struct bed *bed, uint64_t lba, uint64_t word)
{
	static struct block_io io;

	for (size_t i = 0; i < sizeof(io.words) / sizeof(io.words[0]); i++)
		io.words[i] = word;
	io.has_ended = false;
	io.iov = (struct iovec){io.words, sizeof(io.words)};
	io.put = (struct ftl_put){
		.lba = lba, .length = FTL_BLOCK, .iov = &io.iov, .nr_iov = 1, .done = on_put};
	ftl_put(bed->ftl, &io.put);
	while (!io.has_ended) {
		if (ftl_poll(bed->ftl, -1) < 0)
			return -ENODEV;
	}
	return io.put.result;
}

/* The word, of which the whole block must be. */
static inline uint64_t get_word(struct bed *bed, uint64_t lba)
{
	static struct block_io io;

	memset(io.words, 0x5a, sizeof(io.words));
	io.has_ended = false;
	io.iov = (struct iovec){io.words, sizeof(io.words)};
	io.get = (struct ftl_get){
		.lba = lba, .length = FTL_BLOCK, .iov = &io.iov, .nr_iov = 1, .done = on_get};
	ftl_get(bed->ftl, &io.get);
	while (!io.has_ended)
		assert_true(ftl_poll(bed->ftl, -1) >= 0);
	assert_int_equal(io.get.result, 0);
	for (size_t i = 1; i < sizeof(io.words) / sizeof(io.words[0]); i++)
		assert_int_equal(io.words[i], io.words[0]);
	return io.words[0];
}

#endif
