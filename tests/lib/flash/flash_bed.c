/* SPDX-License-Identifier: BSD-3-Clause */
/* A translation layer on a device of memory; see flash_bed.h. */
#include "lib/flash/flash_bed.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <urcu/list.h>

#include <cmocka.h>

void bed_open_with(struct bed *bed, const struct flash_fake_options *device,
		   const struct ftl_options *options)
{
	bed->space = NULL;
	assert_int_equal(flash_fake_open(device, &bed->device), 0);
	assert_int_equal(ftl_create(bed->device, options), 0);
	assert_int_equal(ftl_open(bed->device, 0, &bed->ftl), 0);
}

void bed_open(struct bed *bed)
{
	const struct flash_fake_options device = {.size = 8U << 20, .sector = 512, .seed = 1};
	const struct ftl_options options = {.segment_bytes = 65536};

	bed_open_with(bed, &device, &options);
}

void bed_close(struct bed *bed)
{
	assert_int_equal(ftl_close(bed->ftl), 0);
	flash_device_close(bed->device);
}

void bed_reopen(struct bed *bed, bool is_orderly)
{
	if (is_orderly)
		assert_int_equal(ftl_close(bed->ftl), 0);
	else
		ftl_abandon(bed->ftl);
	assert_int_equal(ftl_open(bed->device, 0, &bed->ftl), 0);
	assert_int_equal(ftl_audit(bed->ftl), 0);
}

/* ---- Requests */

#define BED_DONE(type)                                                              \
	void bed_##type##_done(struct ftl_##type *type)                             \
	{                                                                           \
		caa_container_of(type, struct bed_request, type)->has_ended = true; \
	}

BED_DONE(get)
BED_DONE(put)
BED_DONE(sync)
BED_DONE(trim)
BED_DONE(clone)

int bed_try_wait(struct bed *bed, const struct bed_request *request)
{
	while (!request->has_ended) {
		if (ftl_poll(bed->ftl, -1) < 0)
			return -ENODEV;
	}
	return 0;
}

void bed_wait(struct bed *bed, const struct bed_request *request)
{
	assert_int_equal(bed_try_wait(bed, request), 0);
}

void bed_prepare_put(struct bed_request *request, uint64_t lba, uint64_t offset, const void *data,
		     size_t length)
{
	*request = (struct bed_request){.iov = {(void *)(uintptr_t)data, length}};
	request->put = (struct ftl_put){.lba = lba,
					.offset = offset,
					.length = length,
					.iov = &request->iov,
					.nr_iov = 1,
					.done = bed_put_done};
}

void bed_begin_put(struct bed *bed, struct bed_request *request, uint64_t lba, uint64_t offset,
		   const void *data, size_t length)
{
	bed_prepare_put(request, lba, offset, data, length);
	ftl_put(bed->ftl, &request->put);
}

int bed_put(struct bed *bed, uint64_t lba, uint64_t offset, const void *data, size_t length)
{
	struct bed_request request;

	bed_begin_put(bed, &request, lba, offset, data, length);
	bed_wait(bed, &request);
	return request.put.result;
}

int bed_get(struct bed *bed, uint64_t lba, uint64_t offset, void *data, size_t length)
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

int bed_sync(struct bed *bed)
{
	struct bed_request request = {0};

	request.sync = (struct ftl_sync){.count = FTL_ALL, .done = bed_sync_done};
	ftl_sync(bed->ftl, &request.sync);
	bed_wait(bed, &request);
	return request.sync.result;
}

int bed_trim(struct bed *bed, uint64_t lba, uint64_t count, const struct ftl_record_change *change)
{
	struct bed_request request = {0};

	request.trim = (struct ftl_trim){
		.lba = lba, .count = count, .change = change, .done = bed_trim_done};
	ftl_trim(bed->ftl, &request.trim);
	bed_wait(bed, &request);
	return request.trim.result;
}

int bed_clone(struct bed *bed, uint64_t source, uint64_t target, uint64_t count,
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

void bed_fill(struct bed *bed, uint64_t lba, uint8_t byte)
{
	uint8_t *data = flash_memory(FTL_BLOCK);

	memset(data, byte, FTL_BLOCK);
	assert_int_equal(bed_put(bed, lba, 0, data, FTL_BLOCK), 0);
	free(data);
}

void bed_expect(struct bed *bed, uint64_t lba, uint8_t byte)
{
	uint8_t *data = flash_memory(FTL_BLOCK), *wanted = flash_memory(FTL_BLOCK);

	memset(wanted, byte, FTL_BLOCK);
	memset(data, (uint8_t)~byte, FTL_BLOCK);
	assert_int_equal(bed_get(bed, lba, 0, data, FTL_BLOCK), 0);
	assert_memory_equal(data, wanted, FTL_BLOCK);
	free(data);
	free(wanted);
}
