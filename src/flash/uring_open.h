/* SPDX-License-Identifier: BSD-3-Clause */
/* What uring.c is opened on: a file descriptor that is this opener's alone, and what the kernel says of it. */
#ifndef FLASH_URING_OPEN_H
#define FLASH_URING_OPEN_H

#include <stdbool.h>
#include <stdint.h>

struct uring_target {
	int fd;
	bool is_block_device;
	uint64_t size; /* these as in struct flash_device */
	uint32_t sector;
	uint32_t discard_unit;
};

/* As flash_device_open_path() returns. To be closed by close(): that gives up the lock as well. */
int uring_target_open(const char *path, unsigned flags, struct uring_target *out);

#endif
