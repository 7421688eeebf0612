/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether blocks are on the device as the journal says: many at once, for recovery, when nothing else is in flight. Blocks.
 */
#ifndef FLASH_VERIFY_H
#define FLASH_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flash/device.h"

struct verify_block {
	uint64_t lba;
	uint32_t place;
	uint32_t crc;
	bool is_there; /* and can be read: a write that failed, or that power was lost in, may leave what cannot be */
};

/* Reads them in their order, neighbours together, and fills `is_there`. 0, -ENOMEM, or what the device's poll says. */
int verify_blocks(struct flash_device *device, struct verify_block *blocks, size_t nr);

#endif
