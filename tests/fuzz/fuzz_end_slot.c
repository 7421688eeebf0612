/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds arbitrary bytes to end_slot_read(), which meets what a client has written. An end that it finds is written again, and
 * that gives the same bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/end_slot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct end_slot slot = {.ino = 2, .layout = 3};
	uint8_t bytes[END_SLOT_BYTES] = {0};
	uint64_t end = 0;

	if (end_slot_read(data, size, slot.ino, slot.layout, &slot.end)) {
		end_slot_write(bytes, &slot);
		require(memcmp(data, bytes, END_SLOT_COPY_BYTES) == 0 ||
			memcmp(data + END_SLOT_COPY_BYTES, bytes, END_SLOT_COPY_BYTES) == 0);
	}
	/* One copy of these bytes, and a good one. */
	memcpy(bytes, data, size < END_SLOT_COPY_BYTES ? size : END_SLOT_COPY_BYTES);
	slot.end = UINT64_MAX;
	end_slot_write(bytes + END_SLOT_COPY_BYTES, &slot);
	require(end_slot_read(bytes, sizeof(bytes), slot.ino, slot.layout, &end));
	require(end == UINT64_MAX);
	return 0;
}
