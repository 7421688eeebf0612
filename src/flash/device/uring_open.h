/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens the file or block device under uring.c so that no other opener gets it, and asks the kernel
 * for its size and sectors. */
#ifndef FLASH_URING_OPEN_H
#define FLASH_URING_OPEN_H

#include <stdbool.h>
#include <stdint.h>

struct uring_target {
	int fd;
	bool is_block_device;
	uint64_t size; /* this and the next two: as in struct flash_device */
	uint32_t sector;
	uint32_t discard_unit;
};

/* Opens `path`. Blocks for up to half a second while another has it. `flags` and errors as
 * flash_device_open_path()'s. The caller ends it by close(), which also gives up the lock. */
int uring_target_open(const char *path, unsigned flags, struct uring_target *out);

#endif
