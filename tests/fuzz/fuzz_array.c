/* SPDX-License-Identifier: BSD-3-Clause */
/* Headers of arrays. A header that is taken has a shape that can be planned, and is written as it was. One that is refused leaves one
 * line. Inputs get the sum that they need to come that far. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/error.h"
#include "client/array/array_header.h"
#include "client/array/array_plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
	if (!holds)
		abort();
}

/* The last record of an array is inside of it. */
static void plan_last(const struct afar_array_shape *shape)
{
	struct afar_slab last = {.size = sizeof(last)};
	struct array_form form;
	struct array_slab slab;
	struct array_plan plan;
	struct array_piece piece;

	require(array_form_make(shape, &form) == 0);
	for (unsigned i = 0; i < shape->nr_dimensions; i++) {
		last.start[i] = shape->extent[i] - 1;
		last.count[i] = 1;
	}
	require(array_slab_make(&form, &last, "read", true, &slab) == 0);
	array_plan_begin(&plan, &form, &slab);
	require(array_plan_next(&plan, &piece, 1) == 1);
	require(piece.length == form.record && piece.offset >= AFAR_ARRAY_HEADER_BYTES &&
		piece.length <= form.bytes - piece.offset);
	require(array_plan_next(&plan, &piece, 1) == 0);
}

static void decode(const struct array_header *header)
{
	struct afar_array_shape shape;
	struct array_header again;
	int ret = array_header_decode(header, &shape);

	if (ret == 0) {
		plan_last(&shape);
		array_header_encode(&again, &shape);
		/* Bytes behind the type's end are dropped. */
		memcpy(again.type, header->type, sizeof(again.type));
		again.crc32c = header->crc32c;
		require(memcmp(&again, header, sizeof(again)) == 0);
		return;
	}
	require(ret == -EINVAL || ret == -EBADMSG || ret == -AFAR_EVERSION);
	for (const char *at = error_last_line(); *at; at++)
		require((unsigned char)*at >= ' ' && *at != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct array_header header = {0};

	memcpy(&header, data, size < sizeof(header) ? size : sizeof(header));
	decode(&header);
	header.crc32c = checksum_crc32c(&header, offsetof(struct array_header, crc32c));
	decode(&header);
	return 0;
}
