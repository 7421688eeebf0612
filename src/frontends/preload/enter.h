/* SPDX-License-Identifier: BSD-3-Clause */
/* Which descriptors go to the servers, and the transfers of those. */
#ifndef PRELOAD_ENTER_H
#define PRELOAD_ENTER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "table.h"

/* Returns what a call that moves `length` bytes goes on with, for the caller until held_drop(). NULL: the kernel. May open a session. */
struct held *enter(int fd, size_t length, bool is_writing);

/* What a transfer returns beyond the number of bytes. */
#define ENTER_KERNEL (-1) /* the kernel is to carry it out, also all later ones */
#define ENTER_ERROR  (-2) /* it fails with EIO */

ssize_t enter_read(struct held *held, const struct iovec *iov, int nr, uint64_t offset);
ssize_t enter_write(struct held *held, const struct iovec *iov, int nr, uint64_t offset);
/* Has others see size and times of what was written. Returns 0, or ENTER_ERROR. */
int enter_flush(struct held *held);
/* Makes what was written durable. Returns 0, or ENTER_ERROR. */
int enter_sync(struct held *held);

/* Ends it for all descriptors of the same file, because it was mapped or the like, and for good. Waits for transfers under way. */
void enter_bar(int fd);
/* Closes all files and sessions; for the end of the process, or before exec. */
void enter_end(void);

#endif
