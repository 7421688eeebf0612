/* SPDX-License-Identifier: BSD-3-Clause */
/* See end_slot.h. A copy is a magic number, the inode, its layout, the end, zeros, and a sum of all that; little-endian. */
#include "rpc/end_slot.h"

#include <endian.h>
#include <string.h>

#include "base/checksum.h"

#define MAGIC UINT64_C(0x31646e6572616661) /* "afarend1" */

struct copy {
	uint64_t magic, ino, layout, end;
	uint8_t zeros[28];
	uint32_t sum;
};

_Static_assert(sizeof(struct copy) == END_SLOT_COPY_BYTES, "a copy has 64 bytes");

static uint32_t sum_of(const struct copy *copy)
{
	return checksum_crc32c(copy, offsetof(struct copy, sum));
}

void end_slot_write(uint8_t out[END_SLOT_COPY_BYTES], const struct end_slot *slot)
{
	struct copy copy = {
		.magic = htole64(MAGIC),
		.ino = htole64(slot->ino),
		.layout = htole64(slot->layout),
		.end = htole64(slot->end),
	};

	copy.sum = htole32(sum_of(&copy));
	memcpy(out, &copy, sizeof(copy));
}

bool end_slot_read(const uint8_t *bytes, size_t length, uint64_t ino, uint64_t layout,
		   uint64_t *end)
{
	struct copy copy;
	bool is_any = false;

	for (size_t at = 0; at < END_SLOT_BYTES && at + sizeof(copy) <= length;
	     at += sizeof(copy)) {
		memcpy(&copy, bytes + at, sizeof(copy));
		if (copy.magic != htole64(MAGIC) || copy.ino != htole64(ino) ||
		    copy.layout != htole64(layout) || copy.sum != htole32(sum_of(&copy)))
			continue;
		if (!is_any || le64toh(copy.end) > *end)
			*end = le64toh(copy.end);
		is_any = true;
	}
	return is_any;
}
