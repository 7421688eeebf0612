/* SPDX-License-Identifier: BSD-3-Clause */
/* The public face of queues: opening, submitting, reaping, sleeping. */
#include "client/queue/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/error.h"
#include "client/base/abi.h"
#include "client/base/call.h"
#include "client/queue/away.h"
#include "client/queue/failures.h"
#include "client/session/buffer.h"

#define DEFAULT_DEPTH 256
#define DEPTH_MAX     65536
#define TRANSFERS_MIN 64
#define CHECK_NS \
	((uint64_t)1000000) /* between looks at events and deadlines, in a program that polls */

/* ---- Opening and closing */

static int open_sleep(struct afar_queue *queue)
{
	struct epoll_event event = {.events = EPOLLIN};
	int status;

	queue->sleep_fd = epoll_create1(EPOLL_CLOEXEC);
	queue->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (queue->sleep_fd < 0 || queue->timer_fd < 0) {
		status = -errno;
		return error_fail(status, "open a queue: %s", afar_strerror(status));
	}
	if (epoll_ctl(queue->sleep_fd, EPOLL_CTL_ADD, queue->timer_fd, &event))
		return error_code(-errno);
	return 0;
}

static int allocate_slots(struct afar_queue *queue, uint32_t depth)
{
	queue->depth = depth;
	queue->nr_transfers = depth > TRANSFERS_MIN ? depth : TRANSFERS_MIN;
	queue->operations = calloc(queue->depth, sizeof(*queue->operations));
	queue->transfers = calloc(queue->nr_transfers, sizeof(*queue->transfers));
	if (!queue->operations || !queue->transfers)
		return error_code(-ENOMEM);
	if (failures_open(queue))
		return -ENOMEM;
	for (uint32_t i = 0; i < queue->depth; i++)
		cds_list_add_tail(&queue->operations[i].node, &queue->free_operations);
	for (uint32_t i = 0; i < queue->nr_transfers; i++)
		cds_list_add_tail(&queue->transfers[i].node, &queue->free_transfers);
	return 0;
}

int queue_new(struct afar_session *session, uint32_t depth, struct afar_queue **out)
{
	struct afar_queue *queue;
	int ret;

	queue = handle_new(HANDLE_QUEUE, sizeof(*queue));
	if (!queue)
		return error_code(-ENOMEM);
	queue->session = session;
	queue->timer_at = CLOCK_NEVER;
	queue->sleep_fd = -1;
	queue->timer_fd = -1;
	CDS_INIT_LIST_HEAD(&queue->free_operations);
	CDS_INIT_LIST_HEAD(&queue->active);
	CDS_INIT_LIST_HEAD(&queue->blocked);
	CDS_INIT_LIST_HEAD(&queue->held);
	CDS_INIT_LIST_HEAD(&queue->failing);
	CDS_INIT_LIST_HEAD(&queue->flushes);
	CDS_INIT_LIST_HEAD(&queue->ready);
	CDS_INIT_LIST_HEAD(&queue->done);
	CDS_INIT_LIST_HEAD(&queue->free_transfers);
	ret = allocate_slots(queue, depth);
	if (!ret)
		ret = open_sleep(queue);
	if (ret) {
		queue_destroy(queue);
		handle_discard(queue);
		return ret;
	}
	counts_open(session, &queue->counts);
	*out = queue;
	return 0;
}

static void free_buffer(struct afar_buffer *buffer)
{
	if (buffer && handle_close(buffer, HANDLE_BUFFER) == 0)
		buffer_destroy(buffer);
}

void queue_destroy(struct afar_queue *queue)
{
	for (uint32_t i = 0; i < queue->nr_paths; i++) {
		if (queue->paths[i])
			path_free(queue, queue->paths[i]);
	}
	free(queue->paths);
	counts_close(queue->session, &queue->counts);
	free_buffer(queue->scratch);
	free_buffer(queue->words);
	away_close(queue);
	if (queue->timer_fd >= 0)
		close(queue->timer_fd);
	if (queue->sleep_fd >= 0)
		close(queue->sleep_fd);
	for (unsigned f = 0; f < queue->nr_fabrics; f++)
		fabric_queue_close(queue->fabrics[f]);
	if (queue->bounce)
		buffer_destroy(queue->bounce);
	free(queue->failures);
	free(queue->transfers);
	free(queue->operations);
}

PUBLIC_CALL(int, afar_queue_open,
	    (struct afar_session *session, const struct afar_queue_options *given,
	     struct afar_queue **out),
	    (session, given, out))
{
	struct afar_queue_options options = {0};
	uint32_t depth;
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!out)
		return error_fail(-EINVAL,
				  "open a queue: there is nowhere to put it (out is null)");
	if (given) {
		ret = ABI_TAKE(&options, given, afar_queue_options, reserved);
		if (ret)
			return ret;
	}
	depth = options.depth ? options.depth : DEFAULT_DEPTH;
	if (depth > DEPTH_MAX)
		return error_fail(-EINVAL, "open a queue of depth %u: the most is %u", depth,
				  DEPTH_MAX);
	ret = queue_new(session, depth, out);
	if (!ret)
		handle_use(&session->handle);
	return ret;
}

static int check_queue(const struct afar_queue *queue)
{
	if (!handle_is(queue, HANDLE_QUEUE))
		return error_fail(-EINVAL, "use a queue: the handle is null or closed");
	return session_check(queue->session);
}

PUBLIC_CALL(int, afar_queue_close, (struct afar_queue *queue), (queue))
{
	int ret = check_queue(queue);

	if (ret)
		return ret;
	queue_progress(queue);
	if (queue->nr_active || queue->nr_done)
		return error_fail(-EBUSY,
				  "close a queue: %u operations are in flight and %u not reaped",
				  queue->nr_active, queue->nr_done);
	ret = handle_close(queue, HANDLE_QUEUE);
	if (ret)
		return error_fail(ret, "close a queue: it is closed already");
	queue_destroy(queue);
	handle_unuse(&queue->session->handle);
	handle_retire(queue);
	return 0;
}

PUBLIC_CALL(int, afar_queue_connect, (struct afar_queue *queue, struct afar_target *target),
	    (queue, target))
{
	int ret = check_queue(queue);

	if (ret)
		return ret;
	if (!target_is_open(target) || target->session != queue->session)
		return error_fail(-EINVAL, "connect a queue: the target is not of this session");
	if (!handle_enter(&target->handle))
		return error_fail(-EINVAL, "connect a queue: the target is being closed");
	queue_refresh(queue);
	if (target->kind->ops)
		return target->kind->ops->connect(queue, target);
	ret = queue_connect(queue, target, session_deadline(queue->session));
	handle_unuse(&target->handle);
	return ret;
}

/* ---- Submitting */

static int check_iov(const struct afar_queue *queue, const struct afar_op *op, uint64_t *length)
{
	unsigned access = op->opcode == AFAR_OP_WRITE ? AFAR_ACCESS_READ : AFAR_ACCESS_WRITE;
	bool is_driven = op->flags & AFAR_OP_DRIVEN;
	/* A message copies its data, so that may lie in unregistered memory. */
	bool is_unregistered_allowed =
		opcode_is_atomic(op->opcode) || !queue->session->fabrics.needs_registration;

	if (is_driven)
		access |= AFAR_ACCESS_SERVER;
	*length = 0;
	for (uint32_t i = 0; i < op->nr_iov; i++) {
		const struct afar_iov *iov = &op->iov[i];

		if (__builtin_add_overflow(*length, iov->length, length) || *length > INT64_MAX)
			return error_fail(-EINVAL,
					  "submit an operation: its iov is longer than 2^63");
		if (iov->buffer && (!handle_is(iov->buffer, HANDLE_BUFFER) ||
				    iov->buffer->session != queue->session ||
				    !buffer_covers(iov->buffer, iov->addr, iov->length, access)))
			return error_fail(-EINVAL,
					  "submit an operation: the memory is not inside its "
					  "buffer, or may not be used so");
		if (!iov->buffer && !iov->addr && iov->length)
			return error_fail(-EINVAL, "submit an operation: the memory is null");
		if (!iov->buffer && is_driven)
			return error_fail(-EINVAL,
					  "submit a driven operation: its memory is not in a "
					  "buffer; make one with afar_buffer_register() and "
					  "AFAR_ACCESS_SERVER");
		if (!iov->buffer && !is_unregistered_allowed && iov->length)
			return error_fail(-EINVAL,
					  "submit an operation: a transport of this session wants "
					  "memory in a buffer; make one with "
					  "afar_buffer_register() or afar_buffer_alloc()");
	}
	return 0;
}

/* Checks that an atomic has one word of the target, and one place for the old value, or none. */
static int check_atomic(const struct afar_op *op, uint64_t *length)
{
	if (op->nr_iov && (op->nr_iov != 1 || *length != sizeof(uint64_t)))
		return error_fail(
			-EINVAL, "submit an atomic: its iov must be one piece of 8 bytes, or none");
	if (op->offset % sizeof(uint64_t))
		return error_fail(-EINVAL, "submit an atomic at %llu: not a multiple of 8",
				  (unsigned long long)op->offset);
	if (op->opcode == AFAR_OP_FETCH_ADD && op->compare)
		return error_fail(-EINVAL, "submit a fetch-and-add: compare must be 0");
	*length = sizeof(uint64_t);
	return target_check_atomics(op->target);
}

/* Checks that a checked operation is of whole blocks, each in one piece of memory. The region's last
 * one may be shorter. */
static int check_blocks(const struct afar_op *op, uint64_t length)
{
	uint64_t at = op->offset;
	bool is_whole = at % CHECKSUM_BLOCK == 0;

	for (uint32_t i = 0; i < op->nr_iov && is_whole; i++) {
		at += op->iov[i].length;
		is_whole = at % CHECKSUM_BLOCK == 0 ||
			   (at == op->offset + length && at == op->target->length);
	}
	return is_whole ? 0
			: error_fail(-EINVAL,
				     "submit a checked operation of %llu bytes at %llu: the offset "
				     "and the pieces of iov must be multiples of %u, up to the "
				     "region's end",
				     (unsigned long long)length, (unsigned long long)op->offset,
				     CHECKSUM_BLOCK);
}

#define OP_HINTS (AFAR_OP_ONCE | AFAR_OP_BRIEF | AFAR_OP_COLD)
#define OP_FLAGS (AFAR_OP_AFTER | AFAR_OP_DRIVEN | AFAR_OP_DURABLE | AFAR_OP_CHECKED | OP_HINTS)

static int check_hints(const struct afar_op *op)
{
	const uint32_t hints = op->flags & OP_HINTS;

	if (hints & AFAR_OP_ONCE && op->opcode != AFAR_OP_READ)
		return error_fail(-EINVAL,
				  "submit an operation: only a read can have AFAR_OP_ONCE");
	if (hints & (AFAR_OP_BRIEF | AFAR_OP_COLD) &&
	    (op->opcode != AFAR_OP_WRITE || hints == (AFAR_OP_BRIEF | AFAR_OP_COLD)))
		return error_fail(-EINVAL, "submit an operation: only a write can have "
					   "AFAR_OP_BRIEF or AFAR_OP_COLD, and not both");
	return 0;
}

static int check_op(const struct afar_queue *queue, const struct afar_op *op, uint64_t *length)
{
	const bool is_atomic = opcode_is_atomic(op->opcode), is_zero = opcode_is_zero(op->opcode),
		   moves_none = opcode_moves_none(op->opcode);
	const struct target_kind *kind;
	int ret;

	if (op->opcode < AFAR_OP_READ || op->opcode > AFAR_OP_WILL_NEED)
		return error_fail(-EINVAL, "submit an operation: there is no opcode %u",
				  op->opcode);
	if (op->flags & ~OP_FLAGS)
		return error_fail(-EINVAL,
				  "submit an operation: flags are 0x%x, but only those of 0x%x are "
				  "known (afar/queue.h)",
				  op->flags, OP_FLAGS);
	if (op->reserved16 || op->reserved32 || op->reserved[0] || op->reserved[1])
		return error_fail(-EINVAL, "submit an operation: what is reserved must be 0");
	if (op->flags & AFAR_OP_DRIVEN && op->opcode != AFAR_OP_READ && op->opcode != AFAR_OP_WRITE)
		return error_fail(-EINVAL, "submit an operation: only a read or a write can have "
					   "AFAR_OP_DRIVEN");
	if (op->flags & AFAR_OP_DURABLE &&
	    ((op->opcode != AFAR_OP_WRITE && !is_zero) || op->flags & AFAR_OP_DRIVEN))
		return error_fail(-EINVAL, "submit an operation: only a write, zero or trim can "
					   "have AFAR_OP_DURABLE, and not with AFAR_OP_DRIVEN");
	if (op->flags & AFAR_OP_CHECKED &&
	    ((op->opcode != AFAR_OP_READ && op->opcode != AFAR_OP_WRITE) ||
	     op->flags & AFAR_OP_DRIVEN))
		return error_fail(-EINVAL, "submit an operation: only a read or a write can have "
					   "AFAR_OP_CHECKED, and not with AFAR_OP_DRIVEN");
	ret = check_hints(op);
	if (ret)
		return ret;
	if (!is_atomic && ((op->operand && !moves_none) || op->compare))
		return error_fail(-EINVAL, "submit an operation: operand and compare must be 0");
	if (moves_none && op->nr_iov)
		return error_fail(
			-EINVAL,
			"submit a zero, trim or will-need: it moves no bytes, so nr_iov must be 0");
	if (!target_is_open(op->target) || op->target->session != queue->session)
		return error_fail(-EINVAL,
				  "submit an operation: the target is not of this session");
	kind = op->target->kind;
	if (!target_takes(op->target, op->opcode))
		return error_fail(-EOPNOTSUPP, "submit an operation: a %s takes no opcode %u",
				  kind->called ? kind->called : kind->noun, op->opcode);
	ret = kind->ops && op->flags ? kind->ops->check_flags(op) : 0;
	if (ret)
		return ret;
	if (op->flags & AFAR_OP_DURABLE && !op->target->is_flash)
		return error_fail(
			-EOPNOTSUPP,
			"submit a durable operation: the region at %#llx is in memory, which "
			"does not survive its server; use a namespace on flash ('afar ns "
			"create --tier flash')",
			(unsigned long long)op->target->address);
	if (op->flags & AFAR_OP_CHECKED && !op->target->is_flash)
		return error_fail(
			-EOPNOTSUPP,
			"submit a checked operation: the region at %#llx is in memory, of which no "
			"sums are kept; use a namespace on flash ('afar ns create --tier flash')",
			(unsigned long long)op->target->address);
	if (op->flags & AFAR_OP_DRIVEN && op->target->is_flash)
		return target_fail_flash(op->target, "do a server-driven transfer on");
	if (opcode_is_flush(op->opcode) && (op->nr_iov || op->offset))
		return error_fail(-EINVAL, "submit a flush or sync: it is of the whole target, so "
					   "nr_iov and offset must be 0");
	if (op->nr_iov && !op->iov)
		return error_fail(-EINVAL, "submit an operation: iov is null");
	if (!target_may(op->target, op->opcode))
		return target_fail_read_only(op->target);
	target_note_use(op->target);
	ret = check_iov(queue, op, length);
	if (!ret && is_atomic)
		ret = check_atomic(op, length);
	if (ret)
		return ret;
	if (kind->ops)
		return kind->ops->check(op, *length);
	if (moves_none)
		*length = op->operand;
	if (!range_is_inside(op->offset, *length, op->target->length))
		return error_fail(-ERANGE,
				  "submit an operation of %llu bytes at %llu: the region has %llu",
				  (unsigned long long)*length, (unsigned long long)op->offset,
				  (unsigned long long)op->target->length);
	return op->flags & AFAR_OP_CHECKED ? check_blocks(op, *length) : 0;
}

static void let_go(const struct afar_op *op, uint32_t nr_iov)
{
	for (uint32_t i = 0; i < nr_iov; i++) {
		if (op->iov[i].buffer)
			handle_unuse(&op->iov[i].buffer->handle);
	}
	if (op->target->kind->ops)
		op->target->kind->ops->leave(op->target);
	else
		handle_unuse(&op->target->handle);
}

/* Counts a checked operation into what it uses. Fails if another thread has closed that
 * meanwhile. */
static int count_in(const struct afar_op *op)
{
	if (!handle_enter(&op->target->handle))
		return error_fail(-EINVAL, "submit an operation: the target is being closed");
	for (uint32_t i = 0; i < op->nr_iov; i++) {
		if (!op->iov[i].buffer || handle_enter(&op->iov[i].buffer->handle))
			continue;
		let_go(op, i);
		return error_fail(-EINVAL, "submit an operation: its buffer is being closed");
	}
	return 0;
}

/* Returns how many were submitted, or, if the first cannot be, why not. */
static int submit(struct afar_queue *queue, const struct afar_op *ops, unsigned n)
{
	uint64_t length = 0, deadline = session_deadline(queue->session);
	unsigned count;
	int ret;

	for (count = 0; count < n && count < INT32_MAX; count++) {
		ret = check_op(queue, &ops[count], &length);
		if (!ret && cds_list_empty(&queue->free_operations))
			break;
		if (!ret)
			ret = count_in(&ops[count]);
		if (ret)
			return count ? (int)count : ret;
		queue_start(queue, &ops[count], length, deadline);
	}
	return (int)count;
}

PUBLIC_CALL(int, afar_queue_submit,
	    (struct afar_queue *queue, const struct afar_op *ops, unsigned n), (queue, ops, n))
{
	int ret = check_queue(queue);

	if (ret)
		return ret;
	if (!ops && n)
		return error_fail(-EINVAL, "submit operations: the array is null");
	if (n < 2)
		return submit(queue, ops, n);
	queue_hold(queue);
	ret = submit(queue, ops, n);
	queue_release(queue);
	return ret;
}

/* ---- Reaping */

static unsigned reap(struct afar_queue *queue, struct afar_completion *completions, unsigned max)
{
	unsigned count = 0;

	while (count < max && !cds_list_empty(&queue->done))
		completions[count++] = queue_reap(
			queue, cds_list_first_entry(&queue->done, struct operation, node));
	return count;
}

PUBLIC_CALL(int, afar_queue_wait,
	    (struct afar_queue *queue, struct afar_completion *completions, unsigned max,
	     unsigned min, int timeout_ms),
	    (queue, completions, max, min, timeout_ms))
{
	uint64_t deadline = CLOCK_NEVER;
	int ret = check_queue(queue);

	if (ret)
		return ret;
	if (!completions || max > INT32_MAX || min > max)
		return error_fail(-EINVAL,
				  "wait on a queue: no room for completions, or min is above max");
	if (queue->nr_done < min || queue->nr_done == 0) {
		/* Events and deadlines must be looked at here, because a program that polls calls
		 * nothing else. */
		if (!queue_progress(queue) && queue->nr_active &&
		    clock_ns() - queue->checked_at > CHECK_NS)
			queue_check(queue);
	}
	if (queue->nr_done < min) {
		deadline = clock_deadline_ms(timeout_ms);
		while (queue->nr_done < min && queue->nr_active &&
		       queue_wait_progress(queue, deadline))
			;
	}
	return (int)reap(queue, completions, max);
}

static struct operation *find_operation(struct cds_list_head *list, uint64_t user_data)
{
	struct operation *operation;

	cds_list_for_each_entry (operation, list, node) {
		if (operation->user_data == user_data)
			return operation;
	}
	return NULL;
}

PUBLIC_CALL(int, afar_queue_wait_one,
	    (struct afar_queue *queue, uint64_t user_data, struct afar_completion *completion,
	     int timeout_ms),
	    (queue, user_data, completion, timeout_ms))
{
	uint64_t deadline = clock_deadline_ms(timeout_ms);
	struct operation *operation;
	int ret = check_queue(queue);

	if (ret)
		return ret;
	if (!completion)
		return error_fail(-EINVAL, "wait on a queue: no room for the completion");
	operation = find_operation(&queue->done, user_data);
	if (!operation)
		operation = find_operation(&queue->active, user_data);
	if (!operation)
		return error_fail(-ENOENT, "wait on a queue: no operation has user_data %llu",
				  (unsigned long long)user_data);
	while (operation->state != OPERATION_DONE) {
		if (!queue_wait_progress(queue, deadline) && operation->state != OPERATION_DONE)
			return error_code(-ETIMEDOUT);
	}
	*completion = queue_reap(queue, operation);
	return 0;
}

PUBLIC_CALL(int, afar_queue_explain,
	    (struct afar_queue *queue, const struct afar_completion *completion),
	    (queue, completion))
{
	int ret = check_queue(queue);

	if (ret)
		return ret;
	if (!completion)
		return error_fail(-EINVAL, "explain a completion: it is null");
	if (completion->result >= 0)
		return 0;
	return failure_say(queue, completion, "try again over a new connection");
}

PUBLIC_CALL(int, afar_queue_cancel, (struct afar_queue *queue, uint64_t user_data),
	    (queue, user_data))
{
	int ret = check_queue(queue);

	if (ret)
		return ret;
	/* Completes transfers that have ended, so that their connections need not be closed. */
	queue_progress(queue);
	return (int)queue_cancel(queue, user_data);
}

/* ---- Event loops */

PUBLIC_CALL(int, afar_queue_fd, (struct afar_queue *queue), (queue))
{
	int ret = check_queue(queue);

	return ret ? ret : queue->sleep_fd;
}

/* Wakes a user's event loop at the first operation's deadline. A timer that fires earlier stays as
 * it is, because the loop then arms again. So the timer is not set for each operation. */
static void set_timer(struct afar_queue *queue)
{
	uint64_t first = queue_first_deadline(queue);
	struct itimerspec when = {0};

	if (first == queue->timer_at ||
	    (first != CLOCK_NEVER && queue->timer_at > queue->checked_at &&
	     queue->timer_at < first))
		return;
	if (first != CLOCK_NEVER) {
		when.it_value.tv_sec = (time_t)(first / 1000000000U);
		when.it_value.tv_nsec = (long)(first % 1000000000U);
	}
	timerfd_settime(queue->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
	queue->timer_at = first;
}

static bool try_to_arm(struct afar_queue *queue)
{
	if (queue->nr_done == 0)
		queue_check(queue);
	return queue->nr_done == 0 && queue_arm(queue);
}

/* No PUBLIC_CALL: -EAGAIN is no failure. */
int afar_queue_arm(struct afar_queue *queue)
{
	int ret = check_queue(queue);

	if (ret) {
		call_failed();
		return ret;
	}
	if (!try_to_arm(queue)) {
		if (queue->nr_done == 0)
			queue_progress(queue);
		if (!try_to_arm(queue))
			return -EAGAIN;
	}
	set_timer(queue);
	return 0;
}
