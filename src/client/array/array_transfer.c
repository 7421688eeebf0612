/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and writes parts of arrays: makes the plan of a part slice by slice, and has each slice carried out together. */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "client/array/array.h"
#include "client/array/array_plan.h"
#include "client/base/abi.h"
#include "client/base/call.h"
#include "client/files/file.h"
#include "client/namespace/region.h"

/* Pieces. So many records of 32 bytes fill a round of merging (client/blocking/merge.h), and take 1 MiB as a list. */
#define SLICE_MAX 16384U

/* A slice, as what carries it out wants it. */
struct slice {
	struct array_piece *pieces;
	unsigned nr, max;
	union {
		struct target_piece *of_region;
		struct afar_file_vector *of_file;
		void *list;
	};
};

/* A part may be all in one piece, and most are in few. */
static int slice_begin(struct slice *slice, const struct afar_array *array,
		       const struct array_slab *slab)
{
	const size_t each = array->place.file ? sizeof(*slice->of_file) : sizeof(*slice->of_region);

	slice->max = slab->nr_records < SLICE_MAX ? (unsigned)slab->nr_records : SLICE_MAX;
	slice->pieces = malloc(slice->max * sizeof(*slice->pieces));
	slice->list = malloc(slice->max * each);
	return slice->pieces && slice->list ? 0 : error_code(-ENOMEM);
}

static void slice_end(struct slice *slice)
{
	free(slice->pieces);
	free(slice->list);
}

static int move_region(struct afar_region *region, const struct slice *slice, char *data,
		       bool is_read)
{
	const uint64_t length = atomic_load(&region->target.length);
	int ret = region_check(region);

	for (unsigned i = 0; i < slice->nr; i++) {
		const struct array_piece *piece = &slice->pieces[i];

		slice->of_region[i] = (struct target_piece){
			.memory = {.addr = data + piece->memory, .length = piece->length},
			.offset = piece->offset,
			.reach = is_read ? length : 0,
		};
	}
	if (ret)
		return ret;
	target_note_use(&region->target);
	return target_transfer_pieces(&region->target, is_read ? AFAR_OP_READ : AFAR_OP_WRITE, 0,
				      slice->of_region, slice->nr);
}

static int move_file(struct afar_file *file, const struct slice *slice, char *data, bool is_read)
{
	uint64_t bytes = 0;
	ssize_t ret;

	for (unsigned i = 0; i < slice->nr; i++) {
		const struct array_piece *piece = &slice->pieces[i];

		slice->of_file[i] = (struct afar_file_vector){
			.offset = piece->offset,
			.data = data + piece->memory,
			.length = piece->length,
		};
		bytes += piece->length;
	}
	ret = is_read ? afar_file_readx(file, slice->of_file, slice->nr)
		      : afar_file_writex(file, slice->of_file, slice->nr);
	if (ret < 0)
		return (int)ret;
	return (uint64_t)ret == bytes
		       ? 0
		       : error_fail(-ERANGE, "read an array: its file has become shorter");
}

static int move_slices(const struct afar_array *array, const struct array_slab *slab, char *data,
		       bool is_read)
{
	struct array_plan plan;
	struct slice slice;
	int ret = slice_begin(&slice, array, slab);

	array_plan_begin(&plan, &array->form, slab);
	while (ret == 0) {
		slice.nr = array_plan_next(&plan, slice.pieces, slice.max);
		if (slice.nr == 0)
			break;
		ret = array->place.file ? move_file(array->place.file, &slice, data, is_read)
					: move_region(array->place.region, &slice, data, is_read);
	}
	slice_end(&slice);
	return ret;
}

ssize_t array_move(const struct afar_array *array, const struct afar_slab *slab, char *data,
		   bool is_read)
{
	const char *verb = is_read ? "read" : "write";
	struct array_slab checked;
	int ret = array_slab_make(&array->form, slab, verb, is_read, &checked);

	if (ret || checked.nr_records == 0)
		return ret;
	if (!data)
		return error_fail(-EINVAL, "%s an array: the memory is null", verb);
	ret = move_slices(array, &checked, data, is_read);
	return ret ? ret : (ssize_t)(checked.nr_records * array->form.record);
}

static ssize_t move_given(struct afar_array *array, const struct afar_slab *given, char *data,
			  bool is_read)
{
	struct afar_slab slab;
	ssize_t ret = given ? ABI_TAKE(&slab, given, afar_slab, memory_stride)
			    : error_fail(-EINVAL, "use a part of an array: it is null");

	if (ret == 0)
		ret = array_enter(array);
	if (ret)
		return ret;
	ret = array_move(array, &slab, data, is_read);
	if (!is_read)
		array_ahead_drop(&array->ahead);
	handle_unuse(&array->handle);
	return ret;
}

PUBLIC_CALL_OF_CALLS(ssize_t, afar_array_read,
		     (struct afar_array *array, const struct afar_slab *slab, void *data),
		     (array, slab, data))
{
	return move_given(array, slab, data, true);
}

PUBLIC_CALL_OF_CALLS(ssize_t, afar_array_write,
		     (struct afar_array *array, const struct afar_slab *slab, const void *data),
		     (array, slab, data))
{
	return move_given(array, slab, (char *)data, false);
}

/* ---- Blocks */

int array_find_block(const struct afar_array *array, const uint64_t *index, struct afar_slab *slab)
{
	const struct array_form *form = &array->form;

	if (!index)
		return error_fail(-EINVAL, "find a block of an array: the index is null");
	*slab = (struct afar_slab){.size = sizeof(*slab)};
	for (unsigned i = 0; i < form->nr; i++) {
		const unsigned at = array_dimension(form, i);
		const uint64_t nr = (form->extent[at] - 1) / form->block[at] + 1;
		uint64_t left;

		if (index[i] >= nr)
			return error_fail(-ERANGE,
					  "find a block of an array: dimension %u has %llu, and "
					  "number %llu is asked for",
					  i, (unsigned long long)nr, (unsigned long long)index[i]);
		slab->start[i] = index[i] * form->block[at];
		left = form->extent[at] - slab->start[i];
		slab->count[i] = left < form->block[at] ? left : form->block[at];
		slab->stride[i] = 1;
	}
	return 0;
}

PUBLIC_CALL(int, afar_array_block,
	    (struct afar_array *array, const uint64_t *index, struct afar_slab *slab),
	    (array, index, slab))
{
	struct afar_slab found;
	int ret = slab ? ABI_CHECK_OUT(slab, afar_slab, memory_stride)
		       : error_fail(-EINVAL, "find a block of an array: the part is null");

	if (ret == 0)
		ret = array_enter(array);
	if (ret)
		return ret;
	ret = array_find_block(array, index, &found);
	if (ret == 0)
		abi_give(slab, slab->size, &found, sizeof(found));
	handle_unuse(&array->handle);
	return ret;
}
