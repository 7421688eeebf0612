/* SPDX-License-Identifier: BSD-3-Clause */
/* One operation of a device at a time, waited for: for creating, opening and closing, when nothing else is in flight. */
#ifndef FLASH_BLOCKING_H
#define FLASH_BLOCKING_H

#include <stddef.h>
#include <stdint.h>

#include "flash/device.h"

/* 0, or what the device says. `memory` is aligned to 4 KiB, `block` and `nr_blocks` are in units of 4 KiB. */
int blocking_read(struct flash_device *device, uint64_t block, void *memory, size_t nr_blocks);
int blocking_write(struct flash_device *device, uint64_t block, const void *memory,
		   size_t nr_blocks, unsigned flags);
int blocking_flush(struct flash_device *device);

#endif
