/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device that is a regular file or a block device. A poll gives the kernel all submitted
 * operations, and waits, by one system call. An operation has a transfer while the kernel has it.
 * When all transfers are in use, operations wait in a list, so the ring always has room. If the
 * kernel transfers only a part, the same transfer continues behind it, without allocating.
 */
#include "flash/device/uring.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/falloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "flash/device/device.h"
#include "flash/device/foreign.h"
#include "flash/device/uring_open.h"

#define DEPTH	  128U
#define REAP_MAX  4U		      /* a poll ends so many operations, … */
#define LARGE	  ((size_t)256 << 10) /* … or one of so many bytes */
#define TRIES_MAX 100U		      /* while the kernel says to try again */
#define PART_MAX  ((size_t)1 << 30)
#define IDLE_MAX  64U /* polls that ask the kernel nothing, one behind the other */

/*
 * The kernel shows that it has news, and then looks whether event_fd is to be written. Here it does so in this order. Other processors
 * may look first, and then nobody would be woken.
 */
#ifdef __x86_64__
#define IS_ORDERED true
#else
#define IS_ORDERED false
#endif

/* Headers of a kernel before 6.12 do not define it. */
#ifndef BLOCK_URING_CMD_DISCARD
#define BLOCK_URING_CMD_DISCARD _IO(0x12, 0)
#endif

/* An operation that the kernel has, or gets again. */
struct transfer {
	struct flash_io *io;
	struct cds_list_head node; /* in `again` */
	uint64_t moved;		   /* bytes done; the kernel has the others, or gets them */
	unsigned iov_at;	   /* the position of `moved` in `iov` … */
	size_t iov_offset;
	struct iovec rest; /* … and the rest of that vector */
	unsigned nr_tries;
	_Atomic uint64_t began; /* on clock_coarse_ns(); 0: the kernel does not have it */
};

struct uring {
	struct flash_device device;
	struct io_uring ring;
	int fd;
	int event_fd; /* -1: no caller asked for one */
	bool has_ring;
	bool is_enabled;   /* the ring belongs to a thread */
	bool has_flags;	   /* the ring's memory shows whether the kernel has news */
	bool is_hushed;	   /* the kernel does not write to event_fd before somebody asks for it */
	bool is_event_old; /* event_fd may be readable for what we know already */
	unsigned nr_idle;  /* polls since we last asked the kernel */
	bool discards_by_command;     /* of a block device; else by punching holes */
	struct cds_list_head refused; /* operations that the next poll ends with their error */
	struct cds_list_head waiting; /* operations that have no transfer yet */
	struct cds_list_head again;   /* transfers that the kernel gets again */
	unsigned nr_in_flight;	      /* transfers that the kernel has */
	_Atomic uint64_t flush_began; /* as a transfer's, of flush_here() */
	unsigned nr_free;
	struct transfer *free[DEPTH];
	struct transfer transfers[DEPTH];
};

static struct uring *uring_of(struct flash_device *device)
{
	return caa_container_of(device, struct uring, device);
}

/* ---- To the kernel */

/* Prepares a read or write of the rest. A vector that was transferred in part goes by itself. */
static void prepare_memory(struct io_uring_sqe *sqe, struct transfer *transfer)
{
	const struct flash_io *io = transfer->io;
	const struct iovec *iov = &io->iov[transfer->iov_at];
	unsigned nr_iov = io->nr_iov - transfer->iov_at;
	uint64_t offset = io->offset + transfer->moved;
	bool is_write = io->opcode == FLASH_IO_WRITE;

	if (nr_iov > 1 && transfer->iov_offset == 0) {
		io_uring_prep_rw(is_write ? IORING_OP_WRITEV : IORING_OP_READV, sqe, 0, iov, nr_iov,
				 offset);
	} else {
		size_t length = iov->iov_len - transfer->iov_offset;

		transfer->rest.iov_base = (char *)iov->iov_base + transfer->iov_offset;
		transfer->rest.iov_len = length < PART_MAX ? length : PART_MAX;
		io_uring_prep_rw(is_write ? IORING_OP_WRITE : IORING_OP_READ, sqe, 0,
				 transfer->rest.iov_base, (unsigned)transfer->rest.iov_len, offset);
	}
	if (is_write && (io->flags & FLASH_IO_DURABLE))
		sqe->rw_flags = RWF_DSYNC;
}

static void prepare_discard(const struct uring *uring, struct io_uring_sqe *sqe,
			    const struct flash_io *io)
{
	if (uring->discards_by_command) {
		io_uring_prep_rw(IORING_OP_URING_CMD, sqe, 0, NULL, 0, 0);
		sqe->cmd_op = BLOCK_URING_CMD_DISCARD;
		sqe->addr = io->offset;
		sqe->addr3 = io->length;
	} else {
		/* Not by io_uring_prep_fallocate(): liburing 2.4 made its arguments unsigned. */
		io_uring_prep_rw(IORING_OP_FALLOCATE, sqe, 0, NULL,
				 FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, io->offset);
		sqe->addr = io->length;
	}
}

/* Prepares the transfer in an entry of the ring. One is free, because there are as many entries as
 * transfers. */
static void start(struct uring *uring, struct transfer *transfer)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);
	const struct flash_io *io = transfer->io;

	switch (io->opcode) {
	case FLASH_IO_READ:
	case FLASH_IO_WRITE:
		prepare_memory(sqe, transfer);
		break;
	case FLASH_IO_DISCARD:
		prepare_discard(uring, sqe, io);
		break;
	case FLASH_IO_FLUSH:
		io_uring_prep_fsync(sqe, 0, IORING_FSYNC_DATASYNC);
		break;
	}
	sqe->flags |= IOSQE_FIXED_FILE;
	io_uring_sqe_set_data(sqe, transfer);
	uring->nr_in_flight++;
}

static void start_all(struct uring *uring)
{
	uint64_t now = 0;

	while (!cds_list_empty(&uring->again)) {
		struct transfer *transfer =
			cds_list_first_entry(&uring->again, struct transfer, node);

		cds_list_del(&transfer->node);
		start(uring, transfer);
	}
	while (uring->nr_free > 0 && !cds_list_empty(&uring->waiting)) {
		struct flash_io *io = cds_list_first_entry(&uring->waiting, struct flash_io, node);
		struct transfer *transfer = uring->free[--uring->nr_free];

		cds_list_del(&io->node);
		transfer->io = io;
		transfer->moved = transfer->iov_offset = 0;
		transfer->iov_at = transfer->nr_tries = 0;
		if (now == 0)
			now = clock_coarse_ns();
		atomic_store_explicit(&transfer->began, now, memory_order_relaxed);
		start(uring, transfer);
	}
}

/*
 * Submits all that was prepared, and waits for an operation to end, by one system call. After an
 * error the ring cannot be used.
 */
static int enter(struct uring *uring, int timeout_ms)
{
	struct io_uring *ring = &uring->ring;
	int ret;

	if (timeout_ms == 0) {
		ret = io_uring_submit_and_get_events(ring);
	} else if (timeout_ms < 0) {
		ret = io_uring_submit_and_wait(ring, 1);
	} else {
		struct __kernel_timespec timeout = {timeout_ms / 1000,
						    timeout_ms % 1000 * 1000000LL};
		struct io_uring_cqe *first;

		ret = io_uring_submit_and_wait_timeout(ring, &first, 1, &timeout, NULL);
	}
	/* Interrupted, timed out, or short of memory: entries not taken stay for the next call. */
	if (ret >= 0 || ret == -EINTR || ret == -ETIME || ret == -EAGAIN || ret == -EBUSY)
		return 0;
	return error_fail(ret, "flash device: io_uring: %s", strerror(-ret));
}

/*
 * Returns whether the poll waits for one flush and for nothing else. Then flush_here() does it by a
 * system call. A ring would hand it to a thread of the kernel, and the two switches take a tenth of
 * the time of a synced write.
 */
static bool is_lone_flush(struct uring *uring, int timeout_ms)
{
	return timeout_ms < 0 && uring->nr_in_flight == 0 && cds_list_empty(&uring->again) &&
	       !cds_list_empty(&uring->waiting) && uring->waiting.next == uring->waiting.prev &&
	       cds_list_first_entry(&uring->waiting, struct flash_io, node)->opcode ==
		       FLASH_IO_FLUSH;
}

static int flush_here(struct uring *uring)
{
	struct flash_io *io = cds_list_first_entry(&uring->waiting, struct flash_io, node);

	cds_list_del(&io->node);
	atomic_store_explicit(&uring->flush_began, clock_coarse_ns(), memory_order_relaxed);
	io->result = fdatasync(uring->fd) ? -errno : 0;
	atomic_store_explicit(&uring->flush_began, 0, memory_order_relaxed);
	io->done(io);
	return 1;
}

/* ---- From the kernel */

static void move_on(struct transfer *transfer, uint64_t length)
{
	const struct flash_io *io = transfer->io;

	transfer->moved += length;
	length += transfer->iov_offset;
	while (transfer->iov_at < io->nr_iov && length >= io->iov[transfer->iov_at].iov_len)
		length -= io->iov[transfer->iov_at++].iov_len;
	transfer->iov_offset = length;
}

/*
 * Notes `result` of the transfer. Returns whether the kernel must get it again. If not, the
 * operation's result is set.
 */
static bool wants_again(struct uring *uring, struct transfer *transfer, int result)
{
	struct flash_io *io = transfer->io;
	bool has_memory = io->opcode == FLASH_IO_READ || io->opcode == FLASH_IO_WRITE;

	if ((result == -EINTR || result == -EAGAIN) && transfer->nr_tries++ < TRIES_MAX)
		return true;
	if (io->opcode == FLASH_IO_DISCARD && uring->discards_by_command &&
	    (result == -EOPNOTSUPP || result == -EINVAL)) {
		uring->discards_by_command = false; /* the kernel has no such command */
		return true;
	}
	if (result > 0 && has_memory) {
		move_on(transfer, (uint64_t)result);
		if (transfer->moved < io->length)
			return true;
	}
	io->result = result < 0 ? result : 0;
	/* The file was truncated while it was open. */
	if (result == 0 && has_memory)
		io->result = -EIO;
	return false;
}

/*
 * Ends operations, and returns how many. It ends only a few at a time: operations that callers then
 * submit reach the device with the next poll, before the others are ended. Otherwise the device
 * would be idle meanwhile.
 */
static int reap(struct uring *uring)
{
	struct io_uring_cqe *cqes[REAP_MAX];
	unsigned nr = io_uring_peek_batch_cqe(&uring->ring, cqes, REAP_MAX), nr_seen = 0;
	uint64_t bytes = 0;
	int nr_ended = 0;

	while (nr_seen < nr && bytes < LARGE) {
		struct io_uring_cqe *cqe = cqes[nr_seen++];
		struct transfer *transfer = io_uring_cqe_get_data(cqe);
		struct flash_io *io = transfer->io;

		uring->nr_in_flight--;
		bytes += io->length;
		if (wants_again(uring, transfer, cqe->res)) {
			cds_list_add_tail(&transfer->node, &uring->again);
			continue;
		}
		atomic_store_explicit(&transfer->began, 0, memory_order_relaxed);
		uring->free[uring->nr_free++] = transfer;
		nr_ended++;
		io->done(io);
	}
	io_uring_cq_advance(&uring->ring, nr_seen);
	return nr_ended;
}

/* ---- The seam */

static void uring_submit(struct flash_device *device, struct flash_io *io)
{
	struct uring *uring = uring_of(device);

	io->result = flash_device_check(device, io);
	cds_list_add_tail(&io->node, io->result ? &uring->refused : &uring->waiting);
	if (io->result && uring->event_fd >= 0)
		eventfd_write(uring->event_fd, 1);
	/*
	 * Submits at once, because the caller may compute checksums before it polls. Entries that
	 * the kernel does not take stay in the ring.
	 */
	if (!io->result && io->length >= LARGE && uring->is_enabled) {
		start_all(uring);
		io_uring_submit(&uring->ring);
	}
}

/* Enables the ring by the raw system call: liburing before 2.4 declares a function that it does not
 * have. */
static int enable(struct uring *uring)
{
	if (uring->is_enabled)
		return 0;
	if (syscall(SYS_io_uring_register, uring->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL,
		    0))
		return error_fail(-errno, "flash device: io_uring: %s", strerror(errno));
	uring->is_enabled = true;
	return 0;
}

/* Returns whether the kernel has completions for us, or will have when we ask. */
static bool has_news(const struct uring *uring)
{
	unsigned flags = IO_URING_READ_ONCE(*uring->ring.sq.kflags);

	return io_uring_cq_ready(&uring->ring) > 0 ||
	       (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

/*
 * Returns whether a poll that does not wait has nothing to give to the kernel, nor to take from it.
 * The ring's memory shows that: a caller that polls again and again makes no system calls. But a
 * kernel that is not hushed may make event_fd readable after we have taken what it tells of. So we read that once more,
 * and once in a while.
 */
static bool is_idle(struct uring *uring)
{
	if (!uring->has_flags || !uring->is_enabled || !cds_list_empty(&uring->refused) ||
	    !cds_list_empty(&uring->waiting) || !cds_list_empty(&uring->again) ||
	    io_uring_sq_ready(&uring->ring) > 0 || has_news(uring))
		return false;
	if (uring->event_fd >= 0 && !uring->is_hushed &&
	    (uring->is_event_old || ++uring->nr_idle >= IDLE_MAX)) {
		eventfd_read(uring->event_fd, &(eventfd_t){0});
		uring->is_event_old = false;
		uring->nr_idle = 0;
		return !has_news(uring); /* it may have come before we read */
	}
	return true;
}

/* Has the kernel write to event_fd no more, if it can be told so in time. */
static void hush(struct uring *uring)
{
	if (!IS_ORDERED || !uring->has_flags || uring->event_fd < 0 || uring->is_hushed)
		return;
	uring->is_hushed = io_uring_cq_eventfd_toggle(&uring->ring, false) == 0;
}

/* The caller will sleep on event_fd. News that have come before the kernel knew that are told by us. */
static void unhush(struct uring *uring)
{
	if (!uring->is_hushed)
		return;
	io_uring_cq_eventfd_toggle(&uring->ring, true);
	uring->is_hushed = false;
	atomic_thread_fence(memory_order_seq_cst);
	if (has_news(uring))
		eventfd_write(uring->event_fd, 1);
}

static int uring_poll(struct flash_device *device, int timeout_ms)
{
	struct uring *uring = uring_of(device);
	uint64_t deadline = timeout_ms > 0 ? clock_deadline_ms(timeout_ms) : 0;
	int ret = enable(uring);
	int nr_ended;

	if (ret)
		return ret;
	hush(uring);
	if (timeout_ms == 0 && is_idle(uring))
		return 0;
	uring->is_event_old = !uring->is_hushed;
	uring->nr_idle = 0;
	if (uring->event_fd >= 0 && !uring->has_flags)
		eventfd_read(uring->event_fd, &(eventfd_t){0});
	nr_ended = flash_device_end_all(&uring->refused);
	if (nr_ended == 0 && is_lone_flush(uring, timeout_ms))
		return flush_here(uring);
	for (;;) {
		start_all(uring);
		if (uring->nr_in_flight == 0)
			return nr_ended;
		ret = enter(uring, nr_ended > 0 ? 0 : timeout_ms);
		if (ret)
			return ret;
		nr_ended += reap(uring);
		/*
		 * Transfers in `again` are submitted before a caller may wait for the descriptor.
		 */
		if (cds_list_empty(&uring->again) && (nr_ended > 0 || timeout_ms == 0))
			return nr_ended;
		if (timeout_ms > 0)
			timeout_ms = clock_remaining_ms(deadline);
	}
}

/* Returns an eventfd: the ring's own descriptor is not readable when completions still wait to be
 * fetched, as with our ring. */
static int uring_fd(struct flash_device *device)
{
	struct uring *uring = uring_of(device);
	int fd;

	unhush(uring);
	if (uring->event_fd >= 0)
		return uring->event_fd;
	fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (fd >= 0 && io_uring_register_eventfd(&uring->ring, fd)) {
		close(fd);
		fd = -1;
	}
	uring->event_fd = fd;
	return fd;
}

/*
 * Closes the device. The kernel frees a closed ring only after a while, and with it the ring's
 * reference to the file. So the ring gives up the file first; otherwise the next opener would be
 * refused.
 */
static void uring_close(struct flash_device *device)
{
	struct uring *uring = uring_of(device);

	if (uring->has_ring) {
		io_uring_unregister_files(&uring->ring);
		io_uring_queue_exit(&uring->ring);
	}
	if (uring->event_fd >= 0)
		close(uring->event_fd);
	flock(uring->fd, LOCK_UN);
	close(uring->fd);
	free(uring);
}

static int uring_foreign(struct flash_device *device, char *what, size_t size)
{
	return foreign_find(uring_of(device)->fd, what, size);
}

static uint64_t uring_oldest(struct flash_device *device)
{
	const struct uring *uring = uring_of(device);
	uint64_t oldest = atomic_load_explicit(&uring->flush_began, memory_order_relaxed);

	for (unsigned i = 0; i < DEPTH; i++) {
		uint64_t began =
			atomic_load_explicit(&uring->transfers[i].began, memory_order_relaxed);

		if (began != 0 && (oldest == 0 || began < oldest))
			oldest = began;
	}
	return oldest;
}

static const struct flash_device_ops uring_ops = {uring_submit, uring_poll,    uring_fd,
						  uring_close,	uring_foreign, uring_oldest};

/* ---- Opening */

/*
 * Makes a ring whose completions the kernel handles when we ask, without interrupting us. Such a
 * ring belongs to the thread that enables it, the first to poll. Kernels before 6.1 cannot do this.
 */
static int open_ring(struct uring *uring)
{
	int ret = io_uring_queue_init(DEPTH, &uring->ring,
				      IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
					      IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED);

	uring->has_flags = ret == 0;
	if (ret == -EINVAL) {
		uring->is_enabled = true;
		ret = io_uring_queue_init(DEPTH, &uring->ring, 0);
	}
	uring->has_ring = ret == 0;
	return ret ? ret : io_uring_register_files(&uring->ring, &uring->fd, 1);
}

static int fail_ring(const char *path, int ret)
{
	if (ret == -ENOMEM)
		return error_fail(ret,
				  "open %s: no memory for an io_uring: raise the limit of locked "
				  "memory",
				  path);
	return error_fail(-ENOTSUP,
			  "open %s: the kernel gives no io_uring (%s): see that neither "
			  "kernel.io_uring_disabled nor a container's rules forbid it",
			  path, strerror(-ret));
}

int flash_device_open_path(const char *path, unsigned flags, struct flash_device **out)
{
	struct uring_target target;
	struct uring *uring;
	int ret = uring_target_open(path, flags, &target);

	if (ret)
		return ret;
	uring = calloc(1, sizeof(*uring));
	if (!uring) {
		close(target.fd);
		return error_code(-ENOMEM);
	}
	uring->device = (struct flash_device){&uring_ops, target.size, target.sector,
					      target.discard_unit, DEPTH};
	uring->fd = target.fd;
	uring->event_fd = -1;
	uring->discards_by_command = target.is_block_device;
	CDS_INIT_LIST_HEAD(&uring->refused);
	CDS_INIT_LIST_HEAD(&uring->waiting);
	CDS_INIT_LIST_HEAD(&uring->again);
	while (uring->nr_free < DEPTH) {
		uring->free[uring->nr_free] = &uring->transfers[uring->nr_free];
		uring->nr_free++;
	}
	ret = open_ring(uring);
	if (ret) {
		ret = fail_ring(path, ret);
		uring_close(&uring->device);
		return ret;
	}
	*out = &uring->device;
	return 0;
}
