/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds what others have put on a file or a block device: file systems, arrays, volume groups,
 * partition tables. */
#ifndef FLASH_FOREIGN_H
#define FLASH_FOREIGN_H

#include <stddef.h>

/*
 * Reads `fd`, blocks, and describes what libblkid finds in `what` (`size` bytes), as words to
 * follow "it holds". They may contain a label, whose characters are not checked. Returns 1; 0:
 * libblkid finds nothing; negative: the device's error, or -ENOMEM.
 */
int foreign_find(int fd, char *what, size_t size);

#endif
