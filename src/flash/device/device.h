/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The seam under the translation layer: a storage device whose bytes survive the process. For a
 * regular file or a block device, uring.c implements it. For memory that can be slow, fail, tear
 * and lose power, tests/lib/flash/flash_fake.c does.
 *
 * A device belongs to one thread. flash_device_submit() takes operations, which end in any order.
 * Only flash_device_poll() calls their `done`. The submitter owns an operation and its memory, and
 * leaves both alone until then.
 *
 * Reads that are submitted after a write has ended see it. The write survives the loss of power
 * once a flush that was submitted after its end has ended. With FLASH_IO_DURABLE it does once it
 * has ended itself. Until then any part of it may survive, in units of a sector. Overlapping
 * operations in flight at the same time may see or leave either's bytes.
 */
#ifndef FLASH_DEVICE_H
#define FLASH_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include <urcu/list.h>

enum flash_io_opcode {
	FLASH_IO_READ,
	FLASH_IO_WRITE,
	FLASH_IO_DISCARD, /* needs no memory; what is read there afterwards is undefined */
	FLASH_IO_FLUSH,	  /* has no offset, length or memory */
};

#define FLASH_IO_DURABLE 1U /* flag of a write: once it has ended, it survives the loss of power */

struct flash_io {
	enum flash_io_opcode opcode;
	unsigned flags;
	uint64_t offset; /* bytes, a multiple of the sector */
	/* Bytes, a multiple of the sector (a discard: of the discard unit); the sum of `iov`'s. */
	uint64_t length;
	const struct iovec *iov; /* addresses and lengths are multiples of the sector */
	unsigned nr_iov;	 /* at most FLASH_IOV_MAX */
	int result; /* set at the end: 0, or negative: -EIO, -ENOSPC …; never a part of the bytes */
	/* Called in flash_device_poll(). It may submit others, and free `io`. */
	void (*done)(struct flash_io *io);
	struct cds_list_head node; /* the device's while it is in flight */
};

#define FLASH_IOV_MAX 1024U

struct flash_device;

struct flash_device_ops {
	/* Takes the operation, and may start it only in the next poll, together with others. It
	 * does not fail; errors go to `result`. */
	void (*submit)(struct flash_device *device, struct flash_io *io);
	/*
	 * Starts what was submitted, and calls `done` of all that ended. If none has, it waits for
	 * one, for at most `timeout_ms` (0: not at all; -1: as long as it takes). With nothing in
	 * flight it does not wait. Returns how many ended, or a negative errno when the device is
	 * beyond use.
	 */
	int (*poll)(struct flash_device *device, int timeout_ms);
	/*
	 * Becomes readable when a started operation has ended. It may stay readable, so watch it for edges (EPOLLET).
	 * Ask for it the first time before anything is in flight, and then before each sleep. Do so after a poll()
	 * that found nothing: that poll has started all that was submitted. -1: the device has none.
	 */
	int (*fd)(struct flash_device *device);
	/* Nothing may be in flight. */
	void (*close)(struct flash_device *device);
	/*
	 * Looks for what others have made on the device, as foreign.h says; blocks. NULL: the
	 * device cannot know. The layer looks at the first block itself.
	 */
	int (*foreign)(struct flash_device *device, char *what, size_t size);
	/*
	 * Returns since when the oldest operation is under way that poll() has started, on clock_coarse_ns(); 0: none is. Any thread may
	 * ask, while the device is open. NULL: the device does not know.
	 */
	uint64_t (*oldest)(struct flash_device *device);
};

/* Each implementation embeds it. Constant while the device is open. */
struct flash_device {
	const struct flash_device_ops *ops;
	uint64_t size;	       /* bytes, a multiple of the sector */
	uint32_t sector;       /* bytes: 512 or 4096 */
	uint32_t discard_unit; /* bytes, a multiple of the sector; 0: no discards */
	unsigned depth;	       /* operations worth having in flight at once */
};

static inline void flash_device_submit(struct flash_device *device, struct flash_io *io)
{
	device->ops->submit(device, io);
}

static inline int flash_device_poll(struct flash_device *device, int timeout_ms)
{
	return device->ops->poll(device, timeout_ms);
}

static inline int flash_device_fd(struct flash_device *device)
{
	return device->ops->fd(device);
}

static inline int flash_device_foreign(struct flash_device *device, char *what, size_t size)
{
	return device->ops->foreign ? device->ops->foreign(device, what, size) : 0;
}

static inline uint64_t flash_device_oldest(struct flash_device *device)
{
	return device->ops->oldest ? device->ops->oldest(device) : 0;
}

static inline void flash_device_close(struct flash_device *device)
{
	device->ops->close(device);
}

/* Returns whether a result is about the bytes at that place, not about the whole device or the
 * moment. Such a result will be the same next time. */
bool flash_device_is_media_error(int result);

/* Returns whether a result says that the device is no longer there. */
bool flash_device_is_gone(int result);

/* For implementations: checks an operation. -EINVAL: it breaks a rule above, or reaches beyond the
 * device; -EOPNOTSUPP: a discard, where there is none. */
int flash_device_check(const struct flash_device *device, const struct flash_io *io);
/* Calls `done` of all operations that are in the list now; each may add another. Returns how
 * many. */
int flash_device_end_all(struct cds_list_head *list);

#endif
