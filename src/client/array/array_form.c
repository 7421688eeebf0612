/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks shapes and parts of arrays; see array_form.h. */
#include "client/array/array_form.h"

#include <errno.h>

#include "base/error.h"

#define FLAGS_KNOWN (AFAR_ARRAY_FORTRAN | AFAR_ARRAY_BLOCKED)

/* ---- Shapes */

static int check_dimensions(const struct afar_array_shape *shape)
{
	if (shape->nr_dimensions < 1 || shape->nr_dimensions > DIMENSIONS_MAX)
		return error_fail(-EINVAL, "use an array of %u dimensions: it can have 1 to %d",
				  shape->nr_dimensions, DIMENSIONS_MAX);
	if (shape->flags & ~FLAGS_KNOWN)
		return error_fail(-EINVAL, "use an array with flags %#x: they are unknown",
				  shape->flags & ~FLAGS_KNOWN);
	if (shape->record_bytes == 0)
		return error_fail(-EINVAL, "use an array of records of 0 bytes");
	for (unsigned i = 0; i < DIMENSIONS_MAX; i++) {
		bool is_used = i < shape->nr_dimensions;

		if (is_used != (shape->extent[i] != 0) || (!is_used && shape->block[i] != 0))
			return error_fail(-EINVAL,
					  "use an array of %u dimensions: the extent of each is 1 "
					  "or more, and that of others 0; dimension %u has %llu",
					  shape->nr_dimensions, i,
					  (unsigned long long)shape->extent[i]);
		if (shape->block[i] > shape->extent[i])
			return error_fail(-EINVAL,
					  "use an array: a block has %llu records in dimension %u, "
					  "more than the array, which has %llu",
					  (unsigned long long)shape->block[i], i,
					  (unsigned long long)shape->extent[i]);
	}
	return 0;
}

static int check_type(const struct afar_array_shape *shape)
{
	for (unsigned i = 0; i <= AFAR_ARRAY_TYPE_MAX; i++) {
		if (shape->type[i] == '\0')
			return 0;
		if (shape->type[i] < ' ' || shape->type[i] > '~')
			break;
	}
	return error_fail(-EINVAL, "use an array: its type is no text of ASCII of at most %d bytes",
			  AFAR_ARRAY_TYPE_MAX);
}

/* Multiplies a size below 2^63. False: it would not stay there. */
static bool grow(uint64_t *size, uint64_t by)
{
	return !__builtin_mul_overflow(*size, by, size) && *size <= INT64_MAX;
}

/* Finds the distances, and the bytes of all. False: these are too many. */
static bool find_places(struct array_form *form)
{
	uint64_t at = form->record;

	for (unsigned i = form->nr; i-- > 0;) {
		form->inner[i] = at;
		if (!grow(&at, form->unit[i]))
			return false;
	}
	for (unsigned i = form->nr; i-- > 0;) {
		form->outer[i] = at;
		if (!grow(&at, (form->extent[i] - 1) / form->unit[i] + 1))
			return false;
	}
	form->bytes = at + AFAR_ARRAY_HEADER_BYTES;
	return form->bytes <= INT64_MAX;
}

int array_form_make(const struct afar_array_shape *shape, struct array_form *out)
{
	int ret = check_dimensions(shape);

	if (ret == 0)
		ret = check_type(shape);
	if (ret)
		return ret;
	*out = (struct array_form){
		.nr = shape->nr_dimensions, .flags = shape->flags, .record = shape->record_bytes};
	for (unsigned i = 0; i < out->nr; i++) {
		unsigned at = array_dimension(out, i);

		out->extent[at] = shape->extent[i];
		out->block[at] = shape->block[i] ? shape->block[i] : shape->extent[i];
		out->unit[at] =
			shape->flags & AFAR_ARRAY_BLOCKED ? out->block[at] : out->extent[at];
	}
	return find_places(out)
		       ? 0
		       : error_fail(-EINVAL, "use an array: it would have 2^63 bytes, or more");
}

/* ---- Parts */

/* Checks dimension `i` of a part, which is `at` in here, and takes it. */
static int take_dimension(const struct array_form *form, const struct afar_slab *slab,
			  const char *verb, unsigned i, struct array_slab *out)
{
	const unsigned at = array_dimension(form, i);
	const int64_t stride = slab->stride[i] ? slab->stride[i] : 1;
	const uint64_t step = stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
	const uint64_t start = slab->start[i], count = slab->count[i], extent = form->extent[at];
	/* So far others may be from the start on, or before it. */
	const uint64_t room = stride < 0 ? start : extent - 1 - start;

	if (start > extent || (count != 0 && (start == extent || (count - 1) > room / step)))
		return error_fail(
			-ERANGE,
			"%s an array: dimension %u has %llu records, and %llu from %llu on with "
			"stride %lld are not inside",
			verb, i, (unsigned long long)extent, (unsigned long long)count,
			(unsigned long long)start, (long long)stride);
	out->count[at] = count;
	out->stride[at] = step;
	out->start[at] = stride < 0 && count != 0 ? start - (count - 1) * step : start;
	out->nr_records *= count;
	return 0;
}

/* The memory of a packed part. */
static void pack(const struct array_form *form, struct array_slab *slab)
{
	int64_t at = (int64_t)form->record;

	for (unsigned i = form->nr; i-- > 0; at *= (int64_t)slab->count[i])
		slab->memory[i] = at;
}

/* Takes the program's strides of memory, and checks that they lead no further than addresses go. */
static int take_memory(const struct array_form *form, const struct afar_slab *slab,
		       const char *verb, bool is_read, struct array_slab *out)
{
	uint64_t reach = form->record, far;

	for (unsigned i = 0; i < form->nr; i++) {
		const unsigned at = array_dimension(form, i);
		const int64_t stride = slab->memory_stride[i];
		const uint64_t step = stride < 0 ? -(uint64_t)stride : (uint64_t)stride;

		if (stride == 0 && is_read && out->count[at] > 1)
			return error_fail(
				-EINVAL,
				"%s an array: all records of dimension %u would be at one "
				"place in memory",
				verb, i);
		if (__builtin_mul_overflow(step, out->count[at] - 1, &far) ||
		    __builtin_add_overflow(reach, far, &reach) || reach > INT64_MAX)
			return error_fail(-EINVAL,
					  "%s an array: by its strides the part's memory has 2^63 "
					  "bytes, or more",
					  verb);
		out->memory[at] = out->count[at] > 1 ? stride : 0;
	}
	return 0;
}

int array_slab_make(const struct array_form *form, const struct afar_slab *slab, const char *verb,
		    bool is_read, struct array_slab *out)
{
	int ret = 0;

	*out = (struct array_slab){.nr_records = 1};
	for (unsigned i = 0; i < form->nr && ret == 0; i++)
		ret = take_dimension(form, slab, verb, i, out);
	if (ret || out->nr_records == 0)
		return ret;
	if (slab->memory_stride)
		ret = take_memory(form, slab, verb, is_read, out);
	else
		pack(form, out);
	/* From the lowest record of the array on. */
	for (unsigned i = 0; i < form->nr && ret == 0; i++) {
		const unsigned at = array_dimension(form, i);

		if (slab->stride[i] >= 0)
			continue;
		out->base += (int64_t)(out->count[at] - 1) * out->memory[at];
		out->memory[at] = -out->memory[at];
	}
	return ret;
}
