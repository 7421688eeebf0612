/* SPDX-License-Identifier: BSD-3-Clause */
/* Which descriptors go to the servers, and the transfers of those. */
#ifndef PRELOAD_ENTER_H
#define PRELOAD_ENTER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "own.h"
#include "table.h"

/* A call that goes past the mount. */
struct way {
	struct held *held;
	struct own own;
};

/* Begins one that moves `length` bytes. From then on to enter_leave() the thread is inside. False: the kernel carries it out. May open a session. */
bool enter(int fd, size_t length, bool is_writing, struct way *out);
/* Begins one that moves nothing: false as well if the descriptor has no file. */
bool enter_if_held(int fd, struct way *out);
void enter_leave(const struct way *way);

/* A transfer returns the number of bytes, or one of these. */
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
/* Closes the file of one that nobody has any more. */
void enter_end_held(struct held *held);
/* Closes all files and sessions; for the end of the process, or before exec. */
void enter_end(void);

#endif
