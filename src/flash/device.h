/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The seam under the flash layer: storage that survives its process, as a translation layer wants it. uring.c is a
 * regular file or a block device, fake.c memory that can be slow, fail, tear and lose power.
 *
 * A device belongs to one thread. Operations are given by flash_device_submit(), end in any order, and end in
 * flash_device_poll() alone, by their `done`. Who submits one owns it and its memory, and leaves both be until then.
 *
 * A write that ended is seen by reads that are submitted afterwards; it survives the loss of power only when a flush that was
 * submitted after its end has ended, or when it was FLASH_IO_DURABLE. Until then any part of it may be there, in units of a
 * sector. Overlapping operations in flight at a time may see or leave either's bytes.
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
	FLASH_IO_DISCARD, /* what is read there afterwards is undefined; no memory */
	FLASH_IO_FLUSH,	  /* no offset, length or memory                           */
};

#define FLASH_IO_DURABLE 1U /* flag of a write: it survives the loss of power once it ended */

struct flash_io {
	enum flash_io_opcode opcode;
	unsigned flags;
	uint64_t
		offset; /* bytes, a multiple of the sector                                                    */
	uint64_t
		length; /* bytes, a multiple of the sector (of the discard unit: DISCARD); the sum of `iov`'s */
	const struct iovec *
		iov; /* addresses and lengths are multiples of the sector; at most FLASH_IOV_MAX   */
	unsigned nr_iov;
	int result; /* once it ended: 0, or negative: -EIO, -ENOSPC … never a part */
	void (*done)(struct flash_io
			     *io); /* in flash_device_poll(); may submit others, and free `io`    */
	struct cds_list_head node; /* the device's while it is in flight                          */
};

#define FLASH_IOV_MAX 1024U

struct flash_device;

struct flash_device_ops {
	/* Takes it. May start it only with the next poll, together with others. Does not fail: errors are `result`. */
	void (*submit)(struct flash_device *device, struct flash_io *io);
	/*
	 * Starts what was submitted; calls `done` of all that ended; if none has, waits for one, for at most `timeout_ms` (0: not
	 * at all, -1: as long as it takes; nothing in flight: not at all). How many ended, or a negative errno when the device is
	 * beyond use.
	 */
	int (*poll)(struct flash_device *device, int timeout_ms);
	/*
	 * Readable when poll would find that something ended, of what a poll that found nothing has started; -1: it has none. Asked for
	 * before anything is in flight.
	 */
	int (*fd)(struct flash_device *device);
	/* Nothing is in flight. */
	void (*close)(struct flash_device *device);
	/*
	 * What is there that others made, as foreign.h says; blocks. NULL: it cannot know. Whether the first block has something is seen
	 * without it.
	 */
	int (*foreign)(struct flash_device *device, char *what, size_t size);
};

/* Embedded by each implementation. Constant while it is open. */
struct flash_device {
	const struct flash_device_ops *ops;
	uint64_t size;	       /* bytes, a multiple of the sector           */
	uint32_t sector;       /* bytes: 512 or 4096                        */
	uint32_t discard_unit; /* bytes, a multiple of the sector; 0: none  */
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

static inline void flash_device_close(struct flash_device *device)
{
	device->ops->close(device);
}

/* Whether a result is about what lies there, and will be the same next time: not about the device as a whole, or a moment. */
bool flash_device_is_media_error(int result);

/* Whether it says that the device is there no more. */
bool flash_device_is_gone(int result);

/* For those who implement one: 0; -EINVAL: it does not keep to what is said above, or reaches beyond the device; -EOPNOTSUPP: a
 * discard where there is none. */
int flash_device_check(const struct flash_device *device, const struct flash_io *io);
/* Calls `done` of all that are in the list now; each may add another. How many. */
int flash_device_end_all(struct cds_list_head *list);

#endif
