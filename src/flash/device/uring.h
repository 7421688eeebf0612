/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device that is a regular file or a block device, read and written by an io_uring and around the
 * page cache (O_DIRECT). It belongs to the thread that polls it first.
 */
#ifndef FLASH_URING_H
#define FLASH_URING_H

#include <stdint.h>

struct flash_device;

#define FLASH_DEVICE_READ_ONLY 1U /* writes and discards end with -EBADF */
/* Discards give a file's blocks back to its file system, so writing there again can fail with
 * -ENOSPC. Without this flag a file has no discard. */
#define FLASH_DEVICE_THIN 2U

/*
 * Opens the file or block device at `path` for this opener alone. Until it is closed, any other
 * opener is refused, in any process and even to read only. If another has it, this tries for up to
 * half a second before it fails. The kernel takes that moment to release a killed process's device.
 * `size`, `sector` and `discard_unit` are the kernel's; bytes behind the last whole sector are left
 * out. The caller closes the device with flash_device_close().
 *
 * Returns 0, or with a reason in error_last_line(). -ENOENT, -EACCES …: from open(). -EBUSY:
 * another has it, a block device is mounted, or `path` was replaced meanwhile. -ENOTSUP: it is
 * neither file nor block device, its sectors have neither 512 nor 4096 bytes, or there is no
 * O_DIRECT or no io_uring. -EINVAL: it is smaller than a sector. -ENOMEM.
 */
int flash_device_open_path(const char *path, unsigned flags, struct flash_device **out);

#endif
