/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads blocks back and compares them with the checksums that the journal has, for recovery. It
 * blocks, reads many at once, and nothing else may be in flight.
 */
#ifndef FLASH_VERIFY_H
#define FLASH_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flash/device/device.h"

struct verify_block {
	uint64_t lba;
	uint32_t place;
	uint32_t crc;
	/* Set: the block can be read and is right. A write that failed, or that was cut by a loss
	 * of power, may leave a block that cannot be read. */
	bool is_there;
};

/* Reads `nr` blocks in their order, neighbours together, and sets `is_there` of each. Returns 0,
 * -ENOMEM, or the error of flash_device_poll(). A read error only leaves `is_there` false. */
int verify_blocks(struct flash_device *device, struct verify_block *blocks, size_t nr);

#endif
