/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking transfers. Copies same-host memory (same_host.c). For all else, each call borrows one of the
 * session's own queues. So up to SESSION_BLOCKING_QUEUES threads transfer at once, and meet only
 * while they borrow one.
 */
#include <errno.h>

#include "base/error.h"
#include "client/blocking/blocking.h"
#include "client/blocking/unregistered.h"
#include "client/queue/failures.h"
#include "client/queue/queue.h"
#include "client/queue/same_host_map.h"
#include "client/session/buffer.h"
#include "client/target/same_host.h"

#define BLOCKING_DEPTH 64		     /* of one blocking call, in flight */
#define STALE_NS       ((uint64_t)100000000) /* after so long without use, check the connections */

/* Chooses an idle queue: best the one whose connections the target's windows depend on. */
static struct afar_queue *choose_idle(const struct afar_target *target)
{
	struct afar_queue *queue, *wanted = target->same_host_queue;

	cds_list_for_each_entry (queue, &target->session->idle_queues, idle_node) {
		if (queue == wanted)
			return queue;
	}
	return cds_list_first_entry(&target->session->idle_queues, struct afar_queue, idle_node);
}

static int borrow_queue(struct afar_target *target, uint64_t deadline, struct afar_queue **out)
{
	struct afar_session *session = target->session;
	bool is_new_wanted = false;
	int ret = 0;

	pthread_mutex_lock(&session->lock);
	while (cds_list_empty(&session->idle_queues)) {
		if (session->nr_blocking_queues < SESSION_BLOCKING_QUEUES) {
			session->nr_blocking_queues++;
			is_new_wanted = true;
			break;
		}
		if (session_wait_changed(session, deadline) == -ETIMEDOUT) {
			pthread_mutex_unlock(&session->lock);
			return error_fail(
				-ETIMEDOUT,
				"use a region: %d other blocking calls of this session run, "
				"and none has ended in time; use queues",
				SESSION_BLOCKING_QUEUES);
		}
	}
	if (!is_new_wanted) {
		*out = choose_idle(target);
		cds_list_del(&(*out)->idle_node);
	}
	pthread_mutex_unlock(&session->lock);

	if (is_new_wanted) {
		ret = queue_new(session, BLOCKING_DEPTH, out);
		if (ret) {
			pthread_mutex_lock(&session->lock);
			session->nr_blocking_queues--;
			pthread_cond_broadcast(&session->changed);
			pthread_mutex_unlock(&session->lock);
		}
	}
	return ret;
}

static void return_queue(struct afar_session *session, struct afar_queue *queue)
{
	pthread_mutex_lock(&session->lock);
	cds_list_add(&queue->idle_node, &session->idle_queues);
	if (session->nr_blocking_queues == SESSION_BLOCKING_QUEUES)
		pthread_cond_broadcast(&session->changed);
	pthread_mutex_unlock(&session->lock);
}

void blocking_end(struct afar_target *target, struct afar_queue *queue)
{
	return_queue(target->session, queue);
	handle_unuse(&target->handle);
}

/* Returns whether all paths that are needed are up, and no write in doubt may land after ours. */
static bool is_connected(const struct afar_queue *queue, const struct afar_target *target,
			 const struct target_need *need)
{
	const struct binding *binding;
	bool is_connected;

	epoch_enter();
	binding = target->binding;
	is_connected = binding->is_ready;
	for (uint32_t i = 0; i < binding->layout->nr_homes && is_connected; i++) {
		const struct binding_server *server = &binding->servers[i];
		const struct path *path = queue_path(queue, server->reach);

		is_connected = (path && path->state == PATH_UP && server->is_keyed &&
				server->reach->nr_in_doubt == 0) ||
			       (target_is_apart(target) && !need_has(need, binding, i));
	}
	epoch_exit();
	return is_connected;
}

/* Connects the queue to the target's servers, unless its connections stand, as far as is known. */
int blocking_make_ready(struct afar_queue *queue, struct afar_target *target,
			const struct target_need *need, uint64_t deadline)
{
	uint64_t now = clock_coarse_ns();

	if (now - queue->last_used > STALE_NS)
		queue_refresh(queue);
	queue->last_used = now;
	return is_connected(queue, target, need) ? 0
						 : queue_connect_to(queue, target, need, deadline);
}

static void leave_memory(const struct afar_op *op, uint32_t nr_iov)
{
	for (uint32_t i = 0; i < nr_iov; i++) {
		if (op->iov[i].buffer)
			handle_unuse(&op->iov[i].buffer->handle);
	}
}

/* Counts the caller into the buffers that its memory is in, if any. */
static int enter_memory(const struct afar_op *op)
{
	for (uint32_t i = 0; i < op->nr_iov; i++) {
		if (!op->iov[i].buffer || handle_enter(&op->iov[i].buffer->handle))
			continue;
		leave_memory(op, i);
		return error_fail(-EINVAL, "use a mapping: it is being unmapped");
	}
	return 0;
}

int blocking_borrow(struct afar_target *target, uint64_t deadline, struct afar_queue **queue)
{
	int ret;

	if (!handle_enter(&target->handle))
		return error_fail(-EINVAL, "use a %s: it is being closed", target->kind->noun);
	ret = borrow_queue(target, deadline, queue);
	if (ret)
		handle_unuse(&target->handle);
	return ret;
}

int blocking_begin(struct afar_target *target, const struct target_need *need, uint64_t deadline,
		   struct afar_queue **queue)
{
	int ret = blocking_borrow(target, deadline, queue);

	if (ret)
		return ret;
	ret = blocking_make_ready(*queue, target, need, deadline);
	if (ret)
		blocking_end(target, *queue);
	return ret;
}

/* Returns the status of our operation that has just failed, with its line. */
static int fail_operation(const struct afar_queue *queue, int status)
{
	const struct afar_completion failed = {.result = status};

	return failure_say(queue, &failed, "try again");
}

/* Runs the operation once, over the connections that stand. */
static int run(struct afar_queue *queue, const struct afar_op *op, uint64_t length,
	       uint64_t deadline)
{
	struct operation *operation;
	int64_t result;

	/* The caller has been counted into both, so they stay open. */
	handle_use(&op->target->handle);
	for (uint32_t i = 0; i < op->nr_iov; i++) {
		if (op->iov[i].buffer)
			handle_use(&op->iov[i].buffer->handle);
	}
	operation = queue_start(queue, op, length, deadline);
	while (operation->state != OPERATION_DONE)
		queue_wait_progress(queue, CLOCK_NEVER);
	result = queue_reap(queue, operation).result;
	return result < 0 ? (int)result : 0;
}

/*
 * Runs the operation again when a server has closed the connection: servers do so to take memory
 * away. Once a new connection stands, nothing posted on the old one can land, so the operation may
 * begin again. So may a sync: a store that has restarted meanwhile tells the later one.
 */
int blocking_transfer(struct afar_queue *queue, const struct afar_op *op, uint64_t length,
		      const struct target_need *need, uint64_t deadline)
{
	int ret = run(queue, op, length, deadline);

	/* Repeats, because several servers may do so one after another, or one again. */
	while (ret == -AFAR_ESERVER && clock_ns() < deadline) {
		ret = queue_connect_to(queue, op->target, need, deadline);
		if (ret)
			return failure_on_the_way(op, length, ret, true);
		if (op->nr_iov > 0 && !op->iov[0].buffer &&
		    queue->session->fabrics.needs_registration)
			return BLOCKING_UNREGISTERED;
		ret = run(queue, op, length, deadline);
	}
	if (ret == -EROFS)
		return target_fail_read_only(op->target);
	return ret ? fail_operation(queue, ret) : 0;
}

/* Moves the caller's memory, which is made ready for that. */
static int transfer_ready(struct afar_queue *queue, const struct afar_op *op, uint64_t length,
			  const struct target_need *need, uint64_t deadline)
{
	struct unregistered unregistered;
	int ret = unregistered_begin(&unregistered, queue, op, length);

	if (ret)
		return ret;
	do
		ret = blocking_transfer(queue, &unregistered.ready, unregistered.length, need,
					deadline);
	while (unregistered_go_on(&unregistered, ret));
	unregistered_end(&unregistered);
	return ret;
}

static int transfer_by_queue(const struct afar_op *op, uint64_t length)
{
	const struct target_piece piece = {.memory.length = length, .offset = op->offset};
	const struct target_need need = {.pieces = &piece, .nr = 1};
	uint64_t deadline = session_deadline(op->target->session);
	struct afar_queue *queue;
	int ret;

	if (!target_may(op->target, op->opcode))
		return target_fail_read_only(op->target);
	target_note_use(op->target);
	ret = blocking_begin(op->target, &need, deadline, &queue);
	if (ret)
		return failure_on_the_way(op, length, ret, false);
	ret = enter_memory(op);
	if (ret)
		goto out_end;
	do
		ret = transfer_ready(queue, op, length, &need, deadline);
	while (ret == BLOCKING_UNREGISTERED);
	if (!ret)
		same_host_map(op->target, queue);
	leave_memory(op, op->nr_iov);
out_end:
	blocking_end(op->target, queue);
	return ret;
}

static uint64_t serial_of(struct afar_target *target)
{
	struct binding *binding = target_binding(target);
	uint64_t serial = binding->serial;

	binding_unref(binding);
	return serial;
}

int target_try(const struct afar_op *op, uint64_t length, uint64_t serial, uint64_t deadline)
{
	struct afar_queue *queue;
	struct unregistered unregistered;
	int ret = blocking_begin(op->target, NULL, deadline, &queue);

	if (ret)
		return ret;
	if (serial_of(op->target) != serial) {
		ret = error_code(-ESTALE);
		goto out_end;
	}
	/* A binding that comes now has connections that this queue has not made. */
	ret = unregistered_begin(&unregistered, queue, op, length);
	if (ret)
		goto out_end;
	do {
		ret = run(queue, &unregistered.ready, unregistered.length, deadline);
		if (ret)
			ret = fail_operation(queue, ret);
	} while (unregistered_go_on(&unregistered, ret));
	unregistered_end(&unregistered);
out_end:
	blocking_end(op->target, queue);
	return ret;
}

int target_reconnect(struct afar_target *target, uint64_t deadline, uint64_t *serial)
{
	struct afar_queue *queue;
	int ret = blocking_borrow(target, deadline, &queue);

	if (ret)
		return ret;
	queue_refresh(queue);
	ret = queue_connect(queue, target, deadline);
	*serial = serial_of(target);
	blocking_end(target, queue);
	return ret;
}

int target_transfer(struct afar_target *target, uint16_t opcode, uint32_t flags,
		    const struct afar_iov *iov, uint32_t nr_iov, uint64_t offset, uint64_t length)
{
	struct afar_op op = {
		.opcode = opcode,
		.flags = flags,
		.nr_iov = nr_iov,
		.target = target,
		.offset = offset,
		.iov = iov,
	};

	if (!flags && same_host_transfer(target, opcode, iov, nr_iov, offset, length))
		return 0;
	return transfer_by_queue(&op, length);
}

int target_zero(struct afar_target *target, uint16_t opcode, uint32_t flags, uint64_t offset,
		uint64_t length)
{
	const struct afar_op op = {
		.opcode = opcode,
		.flags = flags,
		.target = target,
		.offset = offset,
		.operand = length,
	};

	return transfer_by_queue(&op, length);
}

/* Fails an atomic. `queue`: the one it was done over; NULL: none. */
static int fail_atomic(const struct afar_queue *queue, const struct afar_op *op, int status)
{
	if (status == -EROFS)
		return target_fail_read_only(op->target);
	if (status == -EOPNOTSUPP)
		return target_fail_unfit(op->target);
	if (queue)
		return fail_operation(queue, status);
	return error_fail(status, "do an atomic at %llu of a region: %s",
			  (unsigned long long)op->offset, afar_strerror(status));
}

static int atomic_by_queue(const struct afar_op *op)
{
	uint64_t deadline = session_deadline(op->target->session);
	struct afar_queue *queue;
	int ret = blocking_begin(op->target, NULL, deadline, &queue);

	if (ret)
		return failure_on_the_way(op, sizeof(uint64_t), ret, false);
	ret = run(queue, op, sizeof(uint64_t), deadline);
	if (ret)
		ret = fail_atomic(queue, op, ret);
	else
		same_host_map(op->target, queue);
	blocking_end(op->target, queue);
	return ret;
}

int target_atomic(const struct afar_op *op)
{
	int ret = same_host_atomic(op);

	if (ret != -EAGAIN)
		return ret ? fail_atomic(NULL, op, ret) : 0;
	if (!target_may(op->target, op->opcode))
		return target_fail_read_only(op->target);
	ret = target_check_atomics(op->target);
	return ret ? ret : atomic_by_queue(op);
}

/* Returns the next of the queues that were taken. NULL: there are no more. */
static struct afar_queue *take_next(struct cds_list_head *queues)
{
	struct afar_queue *queue;

	if (cds_list_empty(queues))
		return NULL;
	queue = cds_list_first_entry(queues, struct afar_queue, idle_node);
	cds_list_del(&queue->idle_node);
	return queue;
}

int target_sync(struct afar_target *target)
{
	const struct afar_op sync = {.opcode = AFAR_OP_SYNC, .target = target};
	const struct target_need need = {.is_sync = true};
	uint64_t deadline = session_deadline(target->session);
	struct sync_marks marks;
	struct afar_queue *queue;
	int ret = blocking_borrow(target, deadline, &queue), connected;

	if (ret)
		return failure_on_the_way(&sync, 0, ret, false);
	ret = sync_marks_take(&marks, target);
	if (ret)
		goto out_end;
	connected = blocking_make_ready(queue, target, &need, deadline);
	/* A store may have been found away with which this sync has nothing to do. */
	if (connected && !(target_is_apart(target) && is_connected(queue, target, &need)))
		ret = failure_on_the_way(&sync, 0, connected, false);
	if (!ret)
		ret = blocking_transfer(queue, &sync, 0, &need, deadline);
	sync_marks_end(&marks, ret == 0);
out_end:
	blocking_end(target, queue);
	return ret;
}

void target_flush(struct afar_target *target)
{
	const struct afar_op flush = {.opcode = AFAR_OP_FLUSH, .target = target};
	struct afar_session *session = target->session;
	struct afar_queue *queue;
	CDS_LIST_HEAD(queues);

	pthread_mutex_lock(&session->lock);
	cds_list_splice(&session->idle_queues, &queues);
	CDS_INIT_LIST_HEAD(&session->idle_queues);
	pthread_mutex_unlock(&session->lock);
	while ((queue = take_next(&queues))) {
		if (is_connected(queue, target, NULL))
			run(queue, &flush, 0, session_deadline(session));
		return_queue(session, queue);
	}
}

int target_connect(struct afar_target *target)
{
	struct afar_queue *queue;
	int ret = blocking_begin(target, NULL, session_deadline(target->session), &queue);

	if (ret)
		return ret;
	same_host_map(target, queue);
	blocking_end(target, queue);
	return 0;
}

/* Takes all idle queues, so that no other thread finds them. */
static void take_idle(struct afar_session *session, struct cds_list_head *idle)
{
	CDS_INIT_LIST_HEAD(idle);
	pthread_mutex_lock(&session->lock);
	cds_list_splice(&session->idle_queues, idle);
	CDS_INIT_LIST_HEAD(&session->idle_queues);
	pthread_mutex_unlock(&session->lock);
}

void queue_pool_let_go(struct afar_session *session)
{
	struct cds_list_head idle;
	struct afar_queue *queue;

	take_idle(session, &idle);
	cds_list_for_each_entry (queue, &idle, idle_node) {
		for (uint32_t i = 0; i < queue->nr_paths; i++) {
			if (queue->paths[i])
				path_end(queue, queue->paths[i], -AFAR_ESESSION);
		}
	}
	pthread_mutex_lock(&session->lock);
	cds_list_splice(&idle, &session->idle_queues);
	pthread_cond_broadcast(&session->changed);
	pthread_mutex_unlock(&session->lock);
}

void queue_pool_close(struct afar_session *session)
{
	struct afar_queue *queue, *next;
	struct cds_list_head idle;

	take_idle(session, &idle);
	cds_list_for_each_entry_safe (queue, next, &idle, idle_node) {
		queue_destroy(queue);
		handle_discard(queue);
	}
}
