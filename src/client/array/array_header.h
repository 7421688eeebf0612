/* SPDX-License-Identifier: BSD-3-Clause */
/* The header that an array begins with, as bytes. Anybody may have written them. */
#ifndef CLIENT_ARRAY_HEADER_H
#define CLIENT_ARRAY_HEADER_H

#include <stdint.h>

#include <afar/array.h>

#define ARRAY_HEADER_VERSION 1U

/* All fields are little-endian. A release that does not know the version or a flag does not use the array. */
struct array_header {
	char magic[8];
	uint32_t version;
	uint32_t flags;
	uint64_t record_bytes;
	uint64_t extent[AFAR_ARRAY_DIMENSIONS_MAX];
	uint64_t block[AFAR_ARRAY_DIMENSIONS_MAX];
	char type[AFAR_ARRAY_TYPE_MAX + 1];
	uint32_t nr_dimensions;
	uint8_t reserved[32]; /* 0 */
	uint32_t crc32c;      /* of what is before it */
};
_Static_assert(sizeof(struct array_header) == 256, "it is on devices");

void array_header_encode(struct array_header *header, const struct afar_array_shape *shape);
/* Fails, with a sentence: -EINVAL (it is none, or its shape is none), -EBADMSG, -AFAR_EVERSION. */
int array_header_decode(const struct array_header *header, struct afar_array_shape *shape);

#endif
