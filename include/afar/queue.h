/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues: many operations in flight from one thread; see afar.h. */
#ifndef AFAR_QUEUE_H
#define AFAR_QUEUE_H

#include <string.h>

#include <afar/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

struct afar_queue;  /* a thread submits operations and reaps completions here */
struct afar_target; /* operations read or write it: a region */

enum afar_opcode {
	AFAR_OP_READ = 1,  /* target → iov */
	AFAR_OP_WRITE = 2, /* iov → target */
	/*
	 * Completes, with result 0, when all earlier writes of the queue to the target have
	 * completed, and everybody sees them, over any path. -ECANCELED: one of those writes failed
	 * and had not been reaped yet when the flush was submitted. Moves no bytes: nr_iov and
	 * offset are 0. Waits for nothing else, unless it has AFAR_OP_AFTER, too.
	 */
	AFAR_OP_FLUSH = 3,
	/* Atomics on the 64-bit word at `offset`, a multiple of 8, as in afar_region_fetch_add().
	 * The iov is one piece of 8 bytes for the old word, or none. The result is 8. */
	AFAR_OP_FETCH_ADD = 4,	  /* word += operand                        */
	AFAR_OP_COMPARE_SWAP = 5, /* if word == compare then word = operand */
	/*
	 * A flush that also makes durable, on flash. When it completes, all that had completed on
	 * the target when it started, by anybody, survives the end of servers and the loss of
	 * power. It waits as a flush does. -AFAR_EUNSYNCED, once: writes that had completed since
	 * the target was opened, or last synced, may be lost, because one of its stores' servers
	 * ended. The target stays usable, and nothing is written again. In memory it is a flush.
	 */
	AFAR_OP_SYNC = 6,
	/*
	 * Has `operand` bytes at `offset` read as zeros, without sending any. On flash, whole blocks
	 * of 4 KiB then take no room. May have AFAR_OP_DURABLE on flash. Otherwise like a write; the
	 * result is the number of bytes. nr_iov is 0.
	 */
	AFAR_OP_ZERO = 7,
	/* A zero that may leave as they were: bytes of a block of 4 KiB of which only a part is
	 * given; in memory, all. */
	AFAR_OP_TRIM = 8,
	/*
	 * Asks servers that keep pages of flash to read `operand` bytes at `offset` from their device now, because small reads of
	 * them will come. It completes, with that number, when they know, and not when they have read. Servers do as
	 * much of it as they have room for. In memory it does nothing. It fails only as any operation does whose
	 * server cannot be reached. nr_iov is 0.
	 */
	AFAR_OP_WILL_NEED = 9,
};

/*
 * A flag of an operation: it starts only when all operations that were submitted to the queue
 * before it have completed. If one of those fails, and had not been reaped yet when this one was
 * submitted, this one completes with -ECANCELED and has done nothing. Later operations are not
 * ordered against it, unless they have the flag, too. Its time counts from its submission.
 */
#define AFAR_OP_AFTER 0x1U

/*
 * A flag of a read or write: the server moves the data, when it has room, in turns with other
 * clients' requests. Its iov is in buffers that were registered with AFAR_ACCESS_SERVER. Completes
 * with -EOPNOTSUPP if the path is not over tcp.
 */
#define AFAR_OP_DRIVEN 0x2U

/*
 * A flag of a write, zero or trim on flash: when it has completed, it survives the end of servers and the loss of
 * power. Costs less than a write and a sync. -EOPNOTSUPP in memory.
 */
#define AFAR_OP_DURABLE 0x4U

/*
 * A flag of a read or write on flash: it is checked on the whole way between this memory and the device. The CRC32C
 * of each block of 4 KiB goes with the bytes. A write's is made before afar_queue_submit() returns,
 * compared when the bytes have come, and kept with the block. A read's is the one that is kept, and
 * is compared when the bytes are here. The memory must not change meanwhile, and that of a write
 * must be readable, or the process gets a signal.
 *
 * Offset and pieces of iov are whole blocks, in multiples of 4096; the last piece may end where the region does. Else
 * the submit fails with -EINVAL. -EOPNOTSUPP in memory. It completes with -EBADMSG if a block was changed on the way,
 * or on its device, and afar_queue_explain() says which of the two, and where. The block that a write is refused for
 * stays as it was; others of the same write are old or new. The connection goes on.
 */
#define AFAR_OP_CHECKED 0x8U

/*
 * Hints: what a program knows about the bytes on flash. They change what is kept and where it is written, and thus how
 * fast it is, but no byte and no error. Servers that do not know a hint, memory, and flash over verbs take no notice.
 *
 * AFAR_OP_ONCE is of a read: the program will not read these bytes again soon. A server that keeps pages
 * (`afard --cache`) then keeps none for it. A page that it has already is the first to go, unless others use it. So a scan
 * does not drive out what others read again and again.
 */
#define AFAR_OP_ONCE 0x10U

/*
 * Hints of a write, not both: the bytes will soon be written again, or trimmed; or not for long. A store writes bytes of about the same
 * life together, so that it has to move fewer of them when it makes room. It estimates their life, and
 * a hint says where the estimate begins.
 */
#define AFAR_OP_BRIEF 0x20U
#define AFAR_OP_COLD  0x40U

struct afar_iov {
	struct afar_buffer
		*buffer; /* that contains `addr`; NULL: unregistered memory, not on verbs */
	void *addr;
	size_t length; /* bytes */
};

/* One operation. The array `iov` and its memory stay the caller's, and must stay in place until
 * completion. */
struct afar_op {
	uint16_t opcode; /* enum afar_opcode */
	uint16_t reserved16;
	uint32_t flags; /* AFAR_OP_AFTER and the others above, or 0 */
	uint32_t nr_iov;
	uint32_t reserved32;
	struct afar_target *target; /* afar_region_target(), afar_file_target() */
	uint64_t offset;	    /* bytes into the target */
	const struct afar_iov *iov;
	uint64_t operand; /* of atomics; bytes of a zero or trim; else 0 */
	uint64_t compare; /* of compare-and-swap; else 0 */
	uint64_t user_data;
	uint64_t reserved[2]; /* what is reserved must be 0 */
};

struct afar_completion {
	uint64_t user_data;
	int64_t result; /* bytes, or a negative error */
	uint32_t flags; /* none yet: 0 */
	uint32_t reserved32;
	uint64_t reserved[2]; /* what is reserved is 0 */
};

struct afar_queue_options {
	size_t size;	/* sizeof(struct afar_queue_options)            */
	uint32_t depth; /* operations in flight at most; 0: 256; ≤ 65536 */
	uint32_t reserved;
};

/*
 * Fill in an operation, with flags and user_data 0: set those afterwards. `iov` must stay in place until completion.
 * `before` of an atomic is one piece of 8 bytes for the old word, or NULL.
 */
static inline void afar_prep(struct afar_op *op, enum afar_opcode opcode,
			     struct afar_target *target, uint64_t offset,
			     const struct afar_iov *iov, uint32_t nr_iov)
{
	memset(op, 0, sizeof(*op));
	op->opcode = (uint16_t)opcode;
	op->target = target;
	op->offset = offset;
	op->iov = iov;
	op->nr_iov = nr_iov;
}

static inline void afar_prep_read(struct afar_op *op, struct afar_target *target,
				  const struct afar_iov *iov, uint32_t nr_iov, uint64_t offset)
{
	afar_prep(op, AFAR_OP_READ, target, offset, iov, nr_iov);
}

static inline void afar_prep_write(struct afar_op *op, struct afar_target *target,
				   const struct afar_iov *iov, uint32_t nr_iov, uint64_t offset)
{
	afar_prep(op, AFAR_OP_WRITE, target, offset, iov, nr_iov);
}

static inline void afar_prep_flush(struct afar_op *op, struct afar_target *target)
{
	afar_prep(op, AFAR_OP_FLUSH, target, 0, NULL, 0);
}

static inline void afar_prep_sync(struct afar_op *op, struct afar_target *target)
{
	afar_prep(op, AFAR_OP_SYNC, target, 0, NULL, 0);
}

static inline void afar_prep_zero(struct afar_op *op, struct afar_target *target, uint64_t length,
				  uint64_t offset)
{
	afar_prep(op, AFAR_OP_ZERO, target, offset, NULL, 0);
	op->operand = length;
}

static inline void afar_prep_trim(struct afar_op *op, struct afar_target *target, uint64_t length,
				  uint64_t offset)
{
	afar_prep(op, AFAR_OP_TRIM, target, offset, NULL, 0);
	op->operand = length;
}

static inline void afar_prep_fetch_add(struct afar_op *op, struct afar_target *target,
				       uint64_t offset, uint64_t operand,
				       const struct afar_iov *before)
{
	afar_prep(op, AFAR_OP_FETCH_ADD, target, offset, before, before ? 1 : 0);
	op->operand = operand;
}

static inline void afar_prep_compare_swap(struct afar_op *op, struct afar_target *target,
					  uint64_t offset, uint64_t compare, uint64_t operand,
					  const struct afar_iov *before)
{
	afar_prep(op, AFAR_OP_COMPARE_SWAP, target, offset, before, before ? 1 : 0);
	op->compare = compare;
	op->operand = operand;
}

struct afar_target *afar_region_target(struct afar_region *region);

/* Opens a queue. `options` may be NULL. */
int afar_queue_open(struct afar_session *session, const struct afar_queue_options *options,
		    struct afar_queue **out);

/* Closes a queue and its connections. -EBUSY while operations are in flight or not yet reaped. */
int afar_queue_close(struct afar_queue *queue);

/*
 * Gets the target's keys and connects the queue to each of its servers: set-up, blocks. Connections
 * are kept, and all targets on those servers share them.
 *
 * Call it again after an operation failed with -AFAR_ESERVER, -ETIMEDOUT or -ECANCELED, which cost
 * the connection. A server may have closed it because memory that the session could reach became
 * another's. Operations that ended so, on any queue of the session, may still land in the target's
 * namespace before this call returns. They cannot land behind what is written after it. Blocking
 * calls see to that by themselves.
 * Errors: -AFAR_ESERVER, -AFAR_ELOST, -ETIMEDOUT.
 */
int afar_queue_connect(struct afar_queue *queue, struct afar_target *target);

/*
 * Takes up to `n` operations, in order; never blocks or allocates. Returns how many were taken:
 * fewer than `n` when the queue is full (reap, then submit the rest), or when the next one is
 * malformed. If the first is malformed: -EINVAL (opcode, flags, null target or iov, a flush of a
 * part, unregistered memory where the servers' transport is verbs), -ERANGE (past the end), -EACCES (a
 * write to a region without AFAR_RIGHT_WRITE), -EROFS (a write to a sealed region), -EOPNOTSUPP (an
 * atomic on a region made with AFAR_ALLOC_NIC_ATOMICS, over a transport that has none).
 * Failures of the transfer itself come as completions, -ENOTCONN without afar_queue_connect() among
 * them.
 */
int afar_queue_submit(struct afar_queue *queue, const struct afar_op *ops, unsigned n);

/*
 * Reaps up to `max` completions in any order. Returns as soon as there are `min` (0: without
 * waiting). After `timeout_ms` (-1: no limit) it returns as many as there are, even 0. If fewer
 * than `min` operations are in flight, it waits for those only. Spins, then sleeps.
 */
int afar_queue_wait(struct afar_queue *queue, struct afar_completion *completions, unsigned max,
		    unsigned min, int timeout_ms);

/*
 * Waits for the one operation submitted with `user_data` (the first, if there are several). The
 * others' completions stay, to be reaped later.
 * Errors: -ENOENT (no such operation), -ETIMEDOUT (`timeout_ms` passed; the operation is still in
 * flight).
 */
int afar_queue_wait_one(struct afar_queue *queue, uint64_t user_data,
			struct afar_completion *completion, int timeout_ms);

/*
 * Cancels all operations in flight that were submitted with `user_data`. Returns how many; 0: they
 * have completed before. Each completes with -ECANCELED, and is reaped like any other. Its outcome
 * is unknown: any part may have been transferred, but its memory is quiescent.
 *
 * An operation on a file that a thread carries out (afar_file_target()) is not ended, nor counted, once that has begun.
 *
 * A posted transfer can be recalled only by closing its connection. So other operations with
 * transfers on these connections complete with -AFAR_ESERVER (outcome unknown, too), and the queue
 * needs afar_queue_connect() again. An operation that has posted nothing costs no connection. Does
 * not wait for the network.
 */
int afar_queue_cancel(struct afar_queue *queue, uint64_t user_data);

/*
 * Says why an operation failed whose completion was reaped. From then on afar_last_error() has its
 * line: the request, the server and region, the remedy, and whether it may have been done. Returns the
 * completion's result if that is negative, else 0. The queue remembers as many failed operations as it
 * is deep, and forgets the oldest first. If several have the same user_data and result, it tells of
 * the last. The line of an operation that it has forgotten is that of afar_strerror(). Does not
 * block.
 * Errors: -EINVAL (`completion` is null).
 */
int afar_queue_explain(struct afar_queue *queue, const struct afar_completion *completion);

/*
 * For event loops: a descriptor that polls readable when the queue may have completions. Call
 * afar_queue_arm() each time before sleeping on it: 0 when it is safe to sleep, -EAGAIN when there
 * are completions to reap now. Reap with afar_queue_wait(…, 0, 0). The descriptor is the queue's:
 * do not read or close it.
 */
int afar_queue_fd(struct afar_queue *queue);
int afar_queue_arm(struct afar_queue *queue);

#ifdef __cplusplus
}
#endif
#endif
