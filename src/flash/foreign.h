/* SPDX-License-Identifier: BSD-3-Clause */
/* What a file or a block device holds that others made: file systems, arrays, volume groups, tables of partitions. */
#ifndef FLASH_FOREIGN_H
#define FLASH_FOREIGN_H

#include <stddef.h>

/*
 * Puts words for it, as in "it holds ...", to `what`; a name among them is as whoever made it chose. Reads only. 1; 0: nothing that libblkid knows;
 * negative: what the device says, or -ENOMEM.
 */
int foreign_find(int fd, char *what, size_t size);

#endif
