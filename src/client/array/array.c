/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes, opens and describes arrays; see array.h. */
#include "client/array/array.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "client/array/array_header.h"
#include "client/base/abi.h"
#include "client/base/call.h"
#include "client/files/file.h"
#include "client/namespace/region.h"

/* ---- Handles */

int array_enter(struct afar_array *array)
{
	if (!handle_is(array, HANDLE_ARRAY) || !handle_enter(&array->handle))
		return error_fail(-EINVAL, "use an array: the handle is null or closed");
	return 0;
}

/* Keeps the region or file open. A mapping counts itself in likewise, and so a region may go to another version meanwhile. */
static int place_enter(const struct array_place *place)
{
	int ret = place->region ? region_check(place->region) : file_enter(place->file);

	if (ret == 0 && place->file && place->file->flags & O_APPEND) {
		handle_unuse(&place->file->handle);
		return error_fail(-EINVAL, "use an array: its file is open to append, so records "
					   "have no places; open it without O_APPEND");
	}
	if (ret || place->file)
		return ret;
	if (!handle_enter(&place->region->target.handle))
		return error_fail(-EINVAL, "use a region: it is being closed");
	atomic_fetch_add(&place->region->nr_mappings, 1);
	return 0;
}

static void place_leave(const struct array_place *place)
{
	if (place->file) {
		handle_unuse(&place->file->handle);
		return;
	}
	atomic_fetch_sub(&place->region->nr_mappings, 1);
	handle_unuse(&place->region->target.handle);
}

/* Makes the handle for a place that was counted into. -ENOMEM. */
static int give_array(const struct array_place *place, const struct afar_array_shape *shape,
		      const struct array_form *form, struct afar_array **out)
{
	struct afar_array *array = handle_new(HANDLE_ARRAY, sizeof(*array));

	if (!array)
		return error_code(-ENOMEM);
	array->place = *place;
	array->form = *form;
	array->shape = *shape;
	pthread_mutex_init(&array->ahead.lock, NULL);
	for (unsigned i = 0; i < form->nr; i++)
		array->shape.block[i] = form->block[array_dimension(form, i)];
	*out = array;
	return 0;
}

PUBLIC_CALL(int, afar_array_close, (struct afar_array *array), (array))
{
	int ret = handle_close(array, HANDLE_ARRAY);

	if (ret)
		return error_fail(ret, ret == -EBUSY
					       ? "close an array: calls on it are under way"
					       : "close an array: the handle is null or closed");
	place_leave(&array->place);
	pthread_mutex_destroy(&array->ahead.lock);
	free(array->ahead.data);
	handle_retire(array);
	return 0;
}

/* ---- Shapes */

static int take_shape(const struct afar_array_shape *given, struct afar_array_shape *shape,
		      struct array_form *form)
{
	int ret;

	if (!given)
		return error_fail(-EINVAL, "use an array: the shape is null");
	ret = ABI_TAKE(shape, given, afar_array_shape, type);
	if (ret)
		return ret;
	shape->size = sizeof(*shape);
	return array_form_make(shape, form);
}

PUBLIC_CALL(int, afar_array_bytes, (const struct afar_array_shape *shape, uint64_t *bytes),
	    (shape, bytes))
{
	struct afar_array_shape known;
	struct array_form form;
	int ret = bytes ? take_shape(shape, &known, &form)
			: error_fail(-EINVAL, "measure an array: there is no place for the number");

	if (ret == 0)
		*bytes = form.bytes;
	return ret;
}

PUBLIC_CALL(int, afar_array_stat, (struct afar_array *array, struct afar_array_shape *out),
	    (array, out))
{
	int ret = ABI_CHECK_OUT(out, afar_array_shape, type);

	if (ret == 0)
		ret = array_enter(array);
	if (ret)
		return ret;
	abi_give(out, out->size, &array->shape, sizeof(array->shape));
	handle_unuse(&array->handle);
	return 0;
}

/* ---- Making and opening */

/* Checks that an array has room in the region or file, which is open. */
static int check_room(const struct array_place *place, uint64_t bytes)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	uint64_t length;
	int ret = 0;

	if (place->file) {
		ret = afar_file_stat(place->file, &stat);
		length = stat.bytes;
	} else {
		length = atomic_load(&place->region->target.length);
	}
	if (ret == 0 && length < bytes)
		ret = error_fail(-ERANGE, "use an array of %llu bytes: the %s has %llu",
				 (unsigned long long)bytes, place->file ? "file" : "region",
				 (unsigned long long)length);
	return ret;
}

static int write_header(const struct array_place *place, const struct afar_array_shape *shape)
{
	struct array_header header;
	ssize_t ret;

	array_header_encode(&header, shape);
	ret = place->file ? afar_file_pwrite(place->file, &header, sizeof(header), 0)
			  : afar_region_pwrite(place->region, &header, sizeof(header), 0);
	return ret < 0 ? (int)ret : 0;
}

static int create(const struct array_place *place, const struct afar_array_shape *shape,
		  struct afar_array **out)
{
	struct afar_array_shape known;
	struct array_form form;
	int ret = take_shape(shape, &known, &form);

	if (ret == 0)
		ret = place_enter(place);
	if (ret)
		return ret;
	ret = place->file ? afar_file_truncate(place->file, form.bytes)
			  : check_room(place, form.bytes);
	if (ret == 0)
		ret = write_header(place, &known);
	if (ret == 0 && out)
		ret = give_array(place, &known, &form, out);
	if (ret || !out)
		place_leave(place);
	return ret;
}

PUBLIC_CALL_OF_CALLS(int, afar_array_create,
		     (struct afar_region *region, const struct afar_array_shape *shape,
		      struct afar_array **out),
		     (region, shape, out))
{
	const struct array_place place = {.region = region};
	int ret = region_check(region);

	return ret ? ret : create(&place, shape, out);
}

PUBLIC_CALL_OF_CALLS(int, afar_array_create_file,
		     (struct afar_file *file, const struct afar_array_shape *shape,
		      struct afar_array **out),
		     (file, shape, out))
{
	const struct array_place place = {.file = file};
	int ret = file_check_handle(file);

	return ret ? ret : create(&place, shape, out);
}

static int read_header(const struct array_place *place, struct afar_array_shape *shape)
{
	struct array_header header = {0}; /* a file may be shorter */
	int ret = place->file ? 0 : check_room(place, sizeof(header));
	ssize_t got;

	if (ret)
		return ret;
	got = place->file ? afar_file_pread(place->file, &header, sizeof(header), 0)
			  : afar_region_pread(place->region, &header, sizeof(header), 0);
	return got < 0 ? (int)got : array_header_decode(&header, shape);
}

static int open_array(const struct array_place *place, struct afar_array **out)
{
	struct afar_array_shape shape;
	struct array_form form;
	int ret = out ? place_enter(place)
		      : error_fail(-EINVAL, "open an array: there is no place for the handle");

	if (ret)
		return ret;
	ret = read_header(place, &shape);
	if (ret == 0)
		ret = array_form_make(&shape, &form);
	if (ret == 0)
		ret = check_room(place, form.bytes);
	if (ret == 0)
		ret = give_array(place, &shape, &form, out);
	if (ret)
		place_leave(place);
	return ret;
}

PUBLIC_CALL_OF_CALLS(int, afar_array_open, (struct afar_region *region, struct afar_array **out),
		     (region, out))
{
	const struct array_place place = {.region = region};
	int ret = region_check(region);

	return ret ? ret : open_array(&place, out);
}

PUBLIC_CALL_OF_CALLS(int, afar_array_open_file, (struct afar_file *file, struct afar_array **out),
		     (file, out))
{
	const struct array_place place = {.file = file};
	int ret = file_check_handle(file);

	return ret ? ret : open_array(&place, out);
}
