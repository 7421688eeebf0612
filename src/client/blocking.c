/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking transfers: each borrows one of the session's own queues, so that up to
 * SESSION_BLOCKING_QUEUES threads transfer at once without meeting but for the moment of borrowing.
 */
#include <errno.h>

#include "base/error.h"
#include "client/queue.h"

#define BLOCKING_DEPTH 64		     /* transfers in flight of one blocking call */
#define STALE_NS       ((uint64_t)100000000) /* after so long, look whether connections still stand */
#define STALE_POLLS    16		     /* so many that each connection is looked at */

static int borrow_queue(struct afar_session *session, struct afar_queue **out)
{
	uint64_t deadline = session_deadline(session);
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
		*out = cds_list_first_entry(&session->idle_queues, struct afar_queue, idle_node);
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

static void end_blocking(struct afar_target *target, struct afar_queue *queue)
{
	return_queue(target->session, queue);
	handle_unuse(&target->handle);
}

static bool is_connected(const struct afar_queue *queue, struct afar_target *target)
{
	if (!target->has_keys)
		return false;
	for (uint32_t i = 0; i < target->layout->nr_servers; i++) {
		const struct path *path = queue_path(queue, target->peers[i]);

		if (!path || path->state != PATH_UP)
			return false;
	}
	return true;
}

/* The queue with standing connections to the target's servers, as far as is known. */
static int make_ready(struct afar_queue *queue, struct afar_target *target)
{
	uint64_t now = clock_ns();

	if (now - queue->last_used > STALE_NS) {
		/* tcp hears of a dead peer when it is polled. */
		for (int i = 0; i < STALE_POLLS; i++)
			queue_progress(queue);
		queue_check(queue);
	}
	queue->last_used = now;
	return is_connected(queue, target) ? 0 : queue_connect(queue, target);
}

static int fail_transfer(const struct afar_op *op, uint64_t length, int status)
{
	return error_fail(status, "%s %llu bytes at %llu of a region: %s",
			  op->opcode == AFAR_OP_READ ? "read" : "write", (unsigned long long)length,
			  (unsigned long long)op->offset, afar_strerror(status));
}

/* Counts the caller into the target, which cannot be closed then, and borrows a queue for it that has
 * connections to its servers. */
static int begin_blocking(struct afar_target *target, struct afar_queue **queue)
{
	int ret;

	if (!handle_enter(&target->handle))
		return error_fail(-EINVAL, "use a region: it is being closed");
	ret = borrow_queue(target->session, queue);
	if (ret) {
		handle_unuse(&target->handle);
		return ret;
	}
	ret = make_ready(*queue, target);
	if (ret)
		end_blocking(target, *queue);
	return ret;
}

int target_transfer(struct afar_target *target, uint16_t opcode, const struct afar_iov *iov,
		    uint32_t nr_iov, uint64_t offset, uint64_t length)
{
	struct afar_op op = {
		.opcode = opcode,
		.nr_iov = nr_iov,
		.target = target,
		.offset = offset,
		.iov = iov,
	};
	struct operation *operation;
	struct afar_queue *queue;
	int64_t result;
	int ret = begin_blocking(target, &queue);

	if (ret)
		return ret;
	operation = queue_start(queue, &op, length);
	while (operation->state != OPERATION_DONE)
		queue_wait_progress(queue, CLOCK_NEVER);
	result = queue_reap(queue, operation).result;
	end_blocking(target, queue);
	return result < 0 ? fail_transfer(&op, length, (int)result) : 0;
}

int target_connect(struct afar_target *target)
{
	struct afar_queue *queue;
	int ret = begin_blocking(target, &queue);

	if (!ret)
		end_blocking(target, queue);
	return ret;
}

void queue_pool_close(struct afar_session *session)
{
	struct afar_queue *queue, *next;

	cds_list_for_each_entry_safe (queue, next, &session->idle_queues, idle_node) {
		queue_destroy(queue);
		handle_discard(queue);
	}
	CDS_INIT_LIST_HEAD(&session->idle_queues);
}
