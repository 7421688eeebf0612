/* SPDX-License-Identifier: BSD-3-Clause */
/* Headers of arrays, as bytes; see array_header.h. */
#include "client/array/array_header.h"

#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/error.h"
#include "client/array/array_form.h"

static const char magic[8] = "AfarArr";

static uint32_t sum_of(const struct array_header *header)
{
	return checksum_crc32c(header, offsetof(struct array_header, crc32c));
}

void array_header_encode(struct array_header *header, const struct afar_array_shape *shape)
{
	memset(header, 0, sizeof(*header));
	memcpy(header->magic, magic, sizeof(magic));
	header->version = htole32(ARRAY_HEADER_VERSION);
	header->flags = htole32(shape->flags);
	header->record_bytes = htole64(shape->record_bytes);
	header->nr_dimensions = htole32(shape->nr_dimensions);
	for (unsigned i = 0; i < AFAR_ARRAY_DIMENSIONS_MAX; i++) {
		header->extent[i] = htole64(shape->extent[i]);
		header->block[i] = htole64(shape->block[i]);
	}
	snprintf(header->type, sizeof(header->type), "%s", shape->type);
	header->crc32c = htole32(sum_of(header));
}

int array_header_decode(const struct array_header *header, struct afar_array_shape *shape)
{
	static const uint8_t zeros[sizeof(header->reserved)];
	struct array_form form;

	if (memcmp(header->magic, magic, sizeof(magic)) != 0)
		return error_fail(-EINVAL, "open an array: there is none; make it first");
	if (le32toh(header->crc32c) != sum_of(header))
		return error_fail(-EBADMSG, "open an array: its header is damaged");
	if (le32toh(header->version) != ARRAY_HEADER_VERSION ||
	    memcmp(header->reserved, zeros, sizeof(zeros)) != 0)
		return error_fail(-AFAR_EVERSION,
				  "open an array: it has version %u, and this release knows %u; "
				  "use a later one",
				  le32toh(header->version), ARRAY_HEADER_VERSION);
	*shape = (struct afar_array_shape){
		.size = sizeof(*shape),
		.nr_dimensions = le32toh(header->nr_dimensions),
		.flags = le32toh(header->flags),
		.record_bytes = le64toh(header->record_bytes),
	};
	for (unsigned i = 0; i < AFAR_ARRAY_DIMENSIONS_MAX; i++) {
		shape->extent[i] = le64toh(header->extent[i]);
		shape->block[i] = le64toh(header->block[i]);
	}
	memcpy(shape->type, header->type, sizeof(shape->type));
	return array_form_make(shape, &form);
}
