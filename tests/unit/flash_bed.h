/* SPDX-License-Identifier: BSD-3-Clause */
/* A translation layer on a fake device, with requests that are waited for. For tests of the layer. */
#ifndef TESTS_UNIT_FLASH_BED_H
#define TESTS_UNIT_FLASH_BED_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "flash/ftl.h"
#include "lib/flash_fake.h"

struct bed {
	struct flash_device *device;
	struct ftl *ftl;
};

static inline void bed_open_with(struct bed *bed, const struct flash_fake_options *device,
				 const struct ftl_options *options)
{
	assert_int_equal(flash_fake_open(device, &bed->device), 0);
	assert_int_equal(ftl_create(bed->device, options), 0);
	assert_int_equal(ftl_open(bed->device, 0, &bed->ftl), 0);
}

static inline void bed_open(struct bed *bed)
{
	const struct flash_fake_options device = {.size = 8U << 20, .sector = 512, .seed = 1};
	const struct ftl_options options = {.segment_bytes = 65536};

	bed_open_with(bed, &device, &options);
}

static inline void bed_close(struct bed *bed)
{
	assert_int_equal(ftl_close(bed->ftl), 0);
	flash_device_close(bed->device);
}

/* Closes it in order, or forgets it as a crash does that leaves the device's power on. */
static inline void bed_reopen(struct bed *bed, bool is_orderly)
{
	if (is_orderly)
		assert_int_equal(ftl_close(bed->ftl), 0);
	else
		ftl_abandon(bed->ftl);
	assert_int_equal(ftl_open(bed->device, 0, &bed->ftl), 0);
	assert_int_equal(ftl_audit(bed->ftl), 0);
}

/* ---- requests ---- */

static inline void *bed_memory(size_t length)
{
	void *memory = aligned_alloc(FTL_BLOCK, (length + FTL_BLOCK - 1) / FTL_BLOCK * FTL_BLOCK);

	assert_non_null(memory);
	return memory;
}

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

#define BED_DONE(type)                                                              \
	static inline void bed_##type##_done(struct ftl_##type *type)               \
	{                                                                           \
		caa_container_of(type, struct bed_request, type)->has_ended = true; \
	}

BED_DONE(get)
BED_DONE(put)
BED_DONE(sync)
BED_DONE(trim)
BED_DONE(clone)

static inline void bed_wait(struct bed *bed, const struct bed_request *request)
{
	while (!request->has_ended)
		assert_true(ftl_poll(bed->ftl, -1) >= 0);
}

static inline void bed_prepare_put(struct bed_request *request, uint64_t lba, uint64_t offset,
				   const void *data, size_t length)
{
	*request = (struct bed_request){.iov = {(void *)(uintptr_t)data, length}};
	request->put = (struct ftl_put){.lba = lba,
					.offset = offset,
					.length = length,
					.iov = &request->iov,
					.nr_iov = 1,
					.done = bed_put_done};
}

static inline void bed_begin_put(struct bed *bed, struct bed_request *request, uint64_t lba,
				 uint64_t offset, const void *data, size_t length)
{
	bed_prepare_put(request, lba, offset, data, length);
	ftl_put(bed->ftl, &request->put);
}

static inline int bed_put(struct bed *bed, uint64_t lba, uint64_t offset, const void *data,
			  size_t length)
{
	struct bed_request request;

	bed_begin_put(bed, &request, lba, offset, data, length);
	bed_wait(bed, &request);
	return request.put.result;
}

static inline int bed_get(struct bed *bed, uint64_t lba, uint64_t offset, void *data, size_t length)
{
	struct bed_request request = {.iov = {data, length}};

	request.get = (struct ftl_get){.lba = lba,
				       .offset = offset,
				       .length = length,
				       .iov = &request.iov,
				       .nr_iov = 1,
				       .done = bed_get_done};
	ftl_get(bed->ftl, &request.get);
	bed_wait(bed, &request);
	return request.get.result;
}

static inline int bed_sync(struct bed *bed)
{
	struct bed_request request = {0};

	request.sync = (struct ftl_sync){.count = FTL_ALL, .done = bed_sync_done};
	ftl_sync(bed->ftl, &request.sync);
	bed_wait(bed, &request);
	return request.sync.result;
}

static inline int bed_trim(struct bed *bed, uint64_t lba, uint64_t count,
			   const struct ftl_record_change *change)
{
	struct bed_request request = {0};

	request.trim = (struct ftl_trim){
		.lba = lba, .count = count, .change = change, .done = bed_trim_done};
	ftl_trim(bed->ftl, &request.trim);
	bed_wait(bed, &request);
	return request.trim.result;
}

static inline int bed_clone(struct bed *bed, uint64_t source, uint64_t target, uint64_t count,
			    const struct ftl_record_change *change)
{
	struct bed_request request = {0};

	request.clone = (struct ftl_clone){.source = source,
					   .target = target,
					   .count = count,
					   .change = change,
					   .done = bed_clone_done};
	ftl_clone(bed->ftl, &request.clone);
	bed_wait(bed, &request);
	return request.clone.result;
}

static inline void bed_fill(struct bed *bed, uint64_t lba, uint8_t byte)
{
	uint8_t *data = bed_memory(FTL_BLOCK);

	memset(data, byte, FTL_BLOCK);
	assert_int_equal(bed_put(bed, lba, 0, data, FTL_BLOCK), 0);
	free(data);
}

/* All its bytes are that. */
static inline void bed_expect(struct bed *bed, uint64_t lba, uint8_t byte)
{
	uint8_t *data = bed_memory(FTL_BLOCK), *wanted = bed_memory(FTL_BLOCK);

	memset(wanted, byte, FTL_BLOCK);
	memset(data, (uint8_t)~byte, FTL_BLOCK);
	assert_int_equal(bed_get(bed, lba, 0, data, FTL_BLOCK), 0);
	assert_memory_equal(data, wanted, FTL_BLOCK);
	free(data);
	free(wanted);
}

#endif
