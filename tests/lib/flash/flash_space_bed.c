/* SPDX-License-Identifier: BSD-3-Clause */
/* An address space on the layer of a bed; see flash_space_bed.h. */
#include "lib/flash/flash_space_bed.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <urcu/list.h>

#include <cmocka.h>

const struct flash_fake_options space_bed_device = {
	.size = 16U << 20,
	.sector = 4096,
	.latency_max = 3,
	.seed = 1,
};

const struct ftl_options space_bed_layout = {
	.segment_bytes = 64U << 10, .nr_map_pages = 150, .nr_records = 100};

void space_bed_open(struct bed *bed, const struct flash_fake_options *device,
		    const struct ftl_options *layout)
{
	bed_open_with(bed, device, layout);
	assert_int_equal(space_open(bed->ftl, &bed->space), 0);
}

void space_bed_settle(struct bed *bed)
{
	while (space_is_busy(bed->space))
		assert_true(ftl_poll(bed->ftl, -1) >= 0);
}

void space_bed_close_layer(struct bed *bed)
{
	space_bed_settle(bed);
	space_close(bed->space);
	assert_int_equal(ftl_close(bed->ftl), 0);
}

void space_bed_reopen(struct bed *bed)
{
	space_bed_settle(bed);
	space_close(bed->space);
	bed_reopen(bed, true);
	assert_int_equal(space_open(bed->ftl, &bed->space), 0);
}

void space_bed_close(struct bed *bed)
{
	space_bed_close_layer(bed);
	flash_device_close(bed->device);
}

/* ---- Requests */

void on_waited(struct space_request *request)
{
	caa_container_of(request, struct waited, request)->has_ended = true;
}

struct space_owner owner_named(const char *name)
{
	struct space_owner owner = {{0}};

	for (size_t i = 0; name[i] && i < sizeof(owner.bytes); i++)
		owner.bytes[i] = (uint8_t)name[i];
	return owner;
}

int range_run(struct bed *bed, int (*change)(struct space *space, struct space_request *request),
	      struct waited *waited)
{
	int ret;

	waited->has_ended = false;
	waited->request.done = on_waited;
	ret = change(bed->space, &waited->request);
	if (ret)
		return ret;
	while (!waited->has_ended) {
		if (ftl_poll(bed->ftl, -1) < 0)
			return -ENODEV;
	}
	return waited->request.result;
}

int range_create(struct bed *bed, const char *owner, uint64_t start, uint64_t length, uint32_t *id)
{
	struct waited waited = {
		.request = {.start = start, .length = length, .owner = owner_named(owner)}};
	int ret = range_run(bed, space_create, &waited);

	if (!ret && id)
		*id = waited.request.id;
	return ret;
}

int range_create_thin(struct bed *bed, uint64_t length, uint64_t reserved, uint32_t *id)
{
	struct waited waited = {.request = {.start = SPACE_ANYWHERE,
					    .length = length,
					    .is_thin = true,
					    .reserved = reserved}};
	int ret = range_run(bed, space_create, &waited);

	if (!ret && id)
		*id = waited.request.id;
	return ret;
}

int range_grow(struct bed *bed, uint32_t id, uint64_t length, bool is_fixed)
{
	struct waited waited = {.request = {.id = id, .length = length, .is_fixed = is_fixed}};

	return range_run(bed, space_grow, &waited);
}

int range_shrink(struct bed *bed, uint32_t id, uint64_t length)
{
	struct waited waited = {.request = {.id = id, .length = length}};

	return range_run(bed, space_shrink, &waited);
}

int range_reserve(struct bed *bed, uint32_t id, uint64_t reserved)
{
	struct waited waited = {.request = {.id = id, .reserved = reserved}};

	return range_run(bed, space_reserve, &waited);
}

int range_relocate(struct bed *bed, uint32_t id, uint64_t start)
{
	struct waited waited = {.request = {.id = id, .start = start}};

	return range_run(bed, space_relocate, &waited);
}

int range_remove(struct bed *bed, uint32_t id)
{
	struct waited waited = {.request = {.id = id}};

	return range_run(bed, space_remove, &waited);
}

int range_clone(struct bed *bed, uint32_t id, uint64_t offset, uint32_t target,
		uint64_t target_offset, uint64_t length)
{
	struct waited waited = {.request = {.id = id,
					    .offset = offset,
					    .target = target,
					    .target_offset = target_offset,
					    .length = length}};

	return range_run(bed, space_clone_range, &waited);
}

/* ---- Blocks that are all of one word */

#define NR_WORDS (FTL_BLOCK / sizeof(uint64_t))

int put_word(struct bed *bed, uint64_t lba, uint64_t word)
{
	/* The layer may still have them when the power was cut. */
	static _Alignas(4096) uint64_t words[NR_WORDS];
	static struct bed_request request;
	int ret;

	for (size_t i = 0; i < NR_WORDS; i++)
		words[i] = word;
	bed_begin_put(bed, &request, lba, 0, words, sizeof(words));
	ret = bed_try_wait(bed, &request);
	return ret ? ret : request.put.result;
}

uint64_t get_word(struct bed *bed, uint64_t lba)
{
	static _Alignas(4096) uint64_t words[NR_WORDS];

	memset(words, 0x5a, sizeof(words));
	assert_int_equal(bed_get(bed, lba, 0, words, sizeof(words)), 0);
	for (size_t i = 1; i < NR_WORDS; i++)
		assert_int_equal(words[i], words[0]);
	return words[0];
}
