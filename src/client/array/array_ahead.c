/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads arrays block by block. With a blocking factor, all blocks of a group are read with the first one that is wanted. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "client/array/array.h"
#include "client/array/array_plan.h"
#include "client/base/call.h"

#define PIECES_MAX 64U

/* Finds the group that a block is in. */
static void find_group(const struct afar_array *array, const uint64_t *factor,
		       const uint64_t *index, struct afar_slab *group)
{
	const struct afar_array_shape *shape = &array->shape;

	*group = (struct afar_slab){.size = sizeof(*group)};
	for (unsigned i = 0; i < shape->nr_dimensions; i++) {
		uint64_t left, count = factor[i] * shape->block[i];

		group->start[i] = index[i] / factor[i] * count;
		left = shape->extent[i] - group->start[i];
		group->count[i] = left < count ? left : count;
	}
}

/* Gives a block out of the group: a part of an array that is as long as the group, and in memory. */
static ssize_t copy_block(const struct afar_array *array, const struct afar_slab *block, char *data)
{
	const struct array_ahead *ahead = &array->ahead;
	struct afar_array_shape shape = {.size = sizeof(shape),
					 .nr_dimensions = array->shape.nr_dimensions,
					 .flags = array->shape.flags & AFAR_ARRAY_FORTRAN,
					 .record_bytes = array->shape.record_bytes};
	struct afar_slab part = *block;
	struct array_piece pieces[PIECES_MAX];
	struct array_form form;
	struct array_slab slab;
	struct array_plan plan;
	unsigned nr;
	int ret;

	for (unsigned i = 0; i < shape.nr_dimensions; i++) {
		shape.extent[i] = ahead->group.count[i];
		part.start[i] -= ahead->group.start[i];
	}
	ret = array_form_make(&shape, &form);
	if (ret == 0)
		ret = array_slab_make(&form, &part, "read", true, &slab);
	if (ret)
		return ret;
	array_plan_begin(&plan, &form, &slab);
	while ((nr = array_plan_next(&plan, pieces, PIECES_MAX)) != 0)
		for (unsigned i = 0; i < nr; i++)
			memcpy(data + pieces[i].memory,
			       ahead->data + pieces[i].offset - AFAR_ARRAY_HEADER_BYTES,
			       pieces[i].length);
	return (ssize_t)(slab.nr_records * form.record);
}

/* Reads a block by its group. The lock is held, and so others that want a block of the group wait for it. */
static ssize_t read_by_group(struct afar_array *array, const uint64_t *index,
			     const struct afar_slab *block, char *data)
{
	struct array_ahead *ahead = &array->ahead;
	struct afar_slab group;
	ssize_t ret = 0;

	find_group(array, ahead->factor, index, &group);
	if (!ahead->is_full || memcmp(&group, &ahead->group, sizeof(group)) != 0) {
		ahead->is_full = false;
		ahead->group = group;
		ret = array_move(array, &group, ahead->data, true);
		if (ret < 0)
			return ret;
		ahead->is_full = true;
	}
	return copy_block(array, block, data);
}

static ssize_t read_block(struct afar_array *array, const uint64_t *index, char *data)
{
	struct array_ahead *ahead = &array->ahead;
	struct afar_slab block;
	ssize_t ret = array_find_block(array, index, &block);

	if (ret == 0 && !data)
		ret = error_fail(-EINVAL, "read a block of an array: the memory is null");
	if (ret)
		return ret;
	pthread_mutex_lock(&ahead->lock);
	if (ahead->data) {
		ret = read_by_group(array, index, &block, data);
		pthread_mutex_unlock(&ahead->lock);
		return ret;
	}
	pthread_mutex_unlock(&ahead->lock);
	return array_move(array, &block, data, true);
}

PUBLIC_CALL_OF_CALLS(ssize_t, afar_array_read_block,
		     (struct afar_array *array, const uint64_t *index, void *data),
		     (array, index, data))
{
	ssize_t ret = array_enter(array);

	if (ret)
		return ret;
	ret = read_block(array, index, data);
	handle_unuse(&array->handle);
	return ret;
}

/* Takes a factor for each dimension, none larger than there are blocks. Returns the bytes of a group. */
static uint64_t take_factor(const struct afar_array *array, const uint64_t *given, uint64_t *factor)
{
	const struct afar_array_shape *shape = &array->shape;
	const uint64_t first[DIMENSIONS_MAX] = {0};
	struct afar_slab group;
	uint64_t bytes = shape->record_bytes;

	for (unsigned i = 0; i < shape->nr_dimensions; i++) {
		const uint64_t nr = (shape->extent[i] - 1) / shape->block[i] + 1;

		factor[i] = given[i] < 1 ? 1 : given[i] < nr ? given[i] : nr;
	}
	find_group(array, factor, first, &group);
	for (unsigned i = 0; i < shape->nr_dimensions; i++)
		bytes *= group.count[i];
	return bytes;
}

PUBLIC_CALL(int, afar_array_read_ahead, (struct afar_array *array, const uint64_t *factor),
	    (array, factor))
{
	uint64_t taken[DIMENSIONS_MAX] = {0}, bytes = 0;
	char *data = NULL;
	int ret = array_enter(array);

	if (ret)
		return ret;
	if (factor) {
		bytes = take_factor(array, factor, taken);
		data = malloc(bytes);
	}
	if (factor && !data) {
		ret = error_fail(-ENOMEM,
				 "read an array ahead: there is no memory for %llu bytes of blocks",
				 (unsigned long long)bytes);
	} else {
		pthread_mutex_lock(&array->ahead.lock);
		free(array->ahead.data);
		array->ahead.data = data;
		array->ahead.is_full = false;
		memcpy(array->ahead.factor, taken, sizeof(taken));
		pthread_mutex_unlock(&array->ahead.lock);
	}
	handle_unuse(&array->handle);
	return ret;
}
