/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of a device that block until they end. For creating, opening, closing and checking a
 * layer, when nothing else is in flight. */
#ifndef FLASH_BLOCKING_H
#define FLASH_BLOCKING_H

#include <stddef.h>
#include <stdint.h>

#include "flash/device/device.h"

/*
 * These return 0, or the device's error. `block` and `nr_blocks` count 4 KiB; `memory` is aligned
 * to 4 KiB; `flags` is 0 or FLASH_IO_DURABLE.
 */
int blocking_read(struct flash_device *device, uint64_t block, void *memory, size_t nr_blocks);
int blocking_write(struct flash_device *device, uint64_t block, const void *memory,
		   size_t nr_blocks, unsigned flags);
int blocking_flush(struct flash_device *device);

#endif
