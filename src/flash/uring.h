/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices that are a regular file or a block device, around the page cache (O_DIRECT), by an io_uring. The thread that polls
 * first is the one that the device belongs to.
 */
#ifndef FLASH_URING_H
#define FLASH_URING_H

#include <stdint.h>

struct flash_device;

#define FLASH_DEVICE_READ_ONLY 1U /* writes and discards end with -EBADF */
/* What is discarded of a file goes back to its file system: writing there again can fail with -ENOSPC. Else a file has no
 * discard. */
#define FLASH_DEVICE_THIN 2U

/*
 * Opens what is at `path`, for this opener alone: the next one is refused until it is closed, by whatever process and even
 * when it wants to read only, but only after half a second: what a killed process had takes the kernel a moment. What `size`,
 * `sector` and `discard_unit` are is the kernel's to say; of a file, what is behind its last whole sector is left out.
 *
 * Returns 0, or with a sentence: -ENOENT, -EACCES …: as open() says; -EBUSY: another has it, or a block device is mounted;
 * -ENOTSUP: it is neither file nor block device, or cannot be read past the page cache, or has sectors of another size, or the
 * kernel gives no io_uring; -EINVAL: it is empty, or smaller than a sector; -ENOMEM.
 */
int flash_device_open_path(const char *path, unsigned flags, struct flash_device **out);

/*
 * Makes a file of `size` bytes, a multiple of 4096, and has the file system set its blocks aside, so that one that is too
 * full says so now, and never again.
 *
 * Returns 0, or with a sentence, and no file: -EEXIST: there is something at `path`; -ENOSPC; -EINVAL: `size`; what else
 * open() and fallocate() say.
 */
int flash_device_create_file(const char *path, uint64_t size);

#endif
