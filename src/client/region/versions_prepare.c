/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * New memory for parts of a copy-on-write region's next version. Finds the units that the program's ranges touch, gets
 * chunks for them from the manager, and copies what the program will not write of them. Called by versions.c, which
 * counts the caller in.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "client/namespace/region.h"
#include "client/namespace/versions_handle.h"
#include "client/region/versions_prepare.h"

#define COPY_MAX ((uint64_t)1 << 20) /* copied at once */

/* ---- Ranges */

static int compare_ranges(const void *left, const void *right)
{
	const struct afar_range *a = left, *b = right;

	return (a->offset > b->offset) - (a->offset < b->offset);
}

/* Sorts and joins. Returns how many there are then. */
static unsigned join_ranges(struct afar_range *ranges, unsigned nr)
{
	unsigned nr_joined = 0;

	qsort(ranges, nr, sizeof(*ranges), compare_ranges);
	for (unsigned i = 0; i < nr; i++) {
		struct afar_range *last = nr_joined ? &ranges[nr_joined - 1] : NULL;
		uint64_t end = ranges[i].offset + ranges[i].length;

		if (ranges[i].length == 0)
			continue;
		if (!last || ranges[i].offset > last->offset + last->length)
			ranges[nr_joined++] = ranges[i];
		else if (end > last->offset + last->length)
			last->length = end - last->offset;
	}
	return nr_joined;
}

/* The checked ranges: ascending, apart from each other. `*out` is the caller's to free. */
static int take_ranges(const struct afar_region *region, const struct afar_range *given,
		       unsigned nr, struct afar_range **out, unsigned *nr_out)
{
	uint64_t size = region->target.length;
	struct afar_range *ranges;

	if (nr && !given)
		return error_fail(-EINVAL, "prepare ranges of a region: ranges is null");
	for (unsigned i = 0; i < nr; i++) {
		if (!range_is_inside(given[i].offset, given[i].length, size))
			return error_fail(
				-ERANGE, "prepare %llu bytes at %llu of a region: it has %llu",
				(unsigned long long)given[i].length,
				(unsigned long long)given[i].offset, (unsigned long long)size);
	}
	ranges = calloc((size_t)nr + 1, sizeof(*ranges));
	if (!ranges)
		return error_code(-ENOMEM);
	if (nr)
		memcpy(ranges, given, nr * sizeof(*ranges));
	*nr_out = join_ranges(ranges, nr);
	*out = ranges;
	return 0;
}

/* ---- Preparing */

/* The units to prepare, ascending, and the ranges that touch them. */
struct plan {
	struct afar_range *ranges;
	unsigned nr_ranges;
	uint32_t *units;
	size_t nr_units;
};

static void plan_close(struct plan *plan)
{
	free(plan->ranges);
	free(plan->units);
}

/* Lists the units that the ranges touch and that have no memory of their own. */
static int plan_units(const struct afar_region *region, struct plan *plan)
{
	const struct layout *layout = region->target.binding->layout;
	const uint64_t unit = region->versions->unit;

	plan->units = calloc((size_t)layout->nr_groups + 1, sizeof(*plan->units));
	if (!plan->units)
		return error_code(-ENOMEM);
	for (unsigned i = 0; i < plan->nr_ranges; i++) {
		const struct afar_range *range = &plan->ranges[i];
		uint64_t last = (range->offset + range->length - 1) / unit;

		for (uint64_t at = range->offset / unit; at <= last; at++) {
			bool is_listed = plan->nr_units && plan->units[plan->nr_units - 1] == at;

			if (at < layout->nr_groups && layout->groups[at].is_frozen && !is_listed)
				plan->units[plan->nr_units++] = (uint32_t)at;
		}
	}
	return 0;
}

static int call_prepare(struct afar_region *region, const struct plan *plan)
{
	struct afar_target *target = &region->target;
	Afar__RegionPrepare message = AFAR__REGION_PREPARE__INIT;

	message.namespace_ = target->ns;
	message.address = target->address;
	message.generation = target->generation;
	message.units = plan->units;
	message.n_units = plan->nr_units;
	return target_change(target, RPC_REQUEST(REGION_PREPARE, region_prepare, &message));
}

/* Copies what the program will not write from the old memory into the new. */
static int copy_range(struct afar_region *region, struct version_view *old, void *buffer,
		      uint64_t offset, uint64_t end)
{
	int ret = 0;

	while (offset < end && !ret) {
		const uint64_t length = end - offset < COPY_MAX ? end - offset : COPY_MAX;
		const struct afar_iov iov = {.addr = buffer, .length = length};

		ret = target_transfer(&old->target, AFAR_OP_READ, 0, &iov, 1, offset, length);
		if (!ret)
			ret = target_transfer(&region->target, AFAR_OP_WRITE, 0, &iov, 1, offset,
					      length);
		offset += length;
	}
	return ret;
}

/* Copies the rest of each new unit: what lies between the ranges that touch it. */
static int copy_rests(struct afar_region *region, struct version_view *old, void *buffer,
		      const struct plan *plan)
{
	const uint64_t unit = region->versions->unit, size = region->target.length;
	unsigned next = 0;
	int ret = 0;

	for (size_t i = 0; i < plan->nr_units && !ret; i++) {
		uint64_t at = plan->units[i] * unit;
		const uint64_t end = size - at < unit ? size : at + unit;

		while (at < end && !ret) {
			const struct afar_range *range = &plan->ranges[next];
			const bool is_last = next == plan->nr_ranges || range->offset >= end;

			if (is_last) {
				ret = copy_range(region, old, buffer, at, end);
				break;
			}
			if (range->offset > at)
				ret = copy_range(region, old, buffer, at, range->offset);
			if (range->offset + range->length > at)
				at = range->offset + range->length;
			if (at <= end)
				next++;
		}
	}
	return ret;
}

static int fill(struct afar_region *region, struct version_view *old, const struct plan *plan)
{
	void *buffer = malloc(COPY_MAX);
	int ret = buffer ? copy_rests(region, old, buffer, plan) : error_code(-ENOMEM);

	free(buffer);
	return ret;
}

/* True: the manager has changed nothing. */
static bool is_refusal(int status)
{
	return status == -ENOSPC || status == -EINVAL || status == -EACCES || status == -ESTALE;
}

static int prepare(struct afar_region *region, const struct plan *plan)
{
	struct binding *before = target_binding(&region->target);
	struct version_view *old = NULL;
	int ret = version_view_open(&region->target, before->layout, &old);

	binding_unref(before);
	if (ret)
		return ret;
	ret = call_prepare(region, plan);
	region->versions->is_torn = ret && !is_refusal(ret);
	if (!ret) {
		ret = fill(region, old, plan);
		region->versions->is_torn = ret != 0;
	}
	version_view_close(old);
	return ret;
}

int versions_prepare(struct afar_region *region, const struct afar_range *ranges, unsigned nr)
{
	struct plan plan = {.nr_ranges = 0};
	int ret = take_ranges(region, ranges, nr, &plan.ranges, &plan.nr_ranges);

	if (!ret)
		ret = plan_units(region, &plan);
	if (!ret && plan.nr_units)
		ret = prepare(region, &plan);
	plan_close(&plan);
	return ret;
}
