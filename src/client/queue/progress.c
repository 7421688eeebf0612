/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress of a queue: starts operations and moves them on, polls for completions and events, and ends operations that take too
 * long. This is the hot path, as progress.h says.
 */
#include "client/queue/progress.h"

#include <assert.h>
#include <errno.h>

#include "client/queue/away.h"
#include "client/queue/order.h"

#define COMPLETIONS_AT_ONCE 16
#define POLLS_PER_CHECK	    4096 /* between looks at events and deadlines, in a busy queue */

/* ---- Operations */

/* Moves an active operation on and puts it on the list where it now belongs. If its path fails
 * meanwhile, the operation may already be finished. */
static inline void operation_push(struct afar_queue *queue, struct operation *operation)
{
	int ret = operation->ops ? operation->ops->start(queue, operation) : 0;

	if (ret == -EAGAIN)
		return;
	if (ret)
		operation_fail(queue, operation, ret, NULL);
	ret = opcode_is_flush(operation->opcode) ? flush_advance(queue, operation)
						 : operation_advance(queue, operation);
	if (operation->state != OPERATION_ACTIVE)
		return;
	if (ret == -EAGAIN) {
		cds_list_add_tail(&operation->waiting_node, &queue->blocked);
		operation->waits = WAITS_FOR_ROOM;
	} else if (!operation->remaining && !operation->nr_in_flight) {
		operation_finish(queue, operation);
	}
}

static __attribute__((noinline)) void start_ready(struct afar_queue *queue)
{
	while (!cds_list_empty(&queue->ready)) {
		struct operation *operation =
			cds_list_first_entry(&queue->ready, struct operation, waiting_node);

		operation_stop_waiting(queue, operation);
		operation_push(queue, operation);
	}
}

/* Starts the held operations that may start now. No caller is in the middle of an operation, so an
 * operation that fails at once and readies the next one does not recurse. */
static inline void queue_settle(struct afar_queue *queue)
{
	if (!cds_list_empty(&queue->ready))
		start_ready(queue);
}

struct operation *queue_start(struct afar_queue *queue, const struct afar_op *op, uint64_t length,
			      uint64_t deadline)
{
	struct operation *operation =
		cds_list_first_entry(&queue->free_operations, struct operation, node);

	cds_list_del(&operation->node);
	*operation = (struct operation){
		.state = OPERATION_ACTIVE,
		.user_data = op->user_data,
		.target = op->target,
		.carrier = op->target->carrier,
		.ops = op->target->kind->ops,
		.run_end = UINT64_MAX,
		.opcode = op->opcode,
		.flags = op->flags,
		.order = queue->nr_submitted++,
		.nr_iov = op->nr_iov,
		.iov = op->iov,
		.memory.piece = op->iov,
		.operand = opcode_is_flush(op->opcode) ? LAYOUT_NONE : op->operand,
		.compare = op->compare,
		.offset = op->offset,
		.begin = op->offset,
		.remaining = opcode_is_flush(op->opcode) ? 1 : length,
		.length = length,
		.deadline = deadline,
		.stands_for = counts_begin(&queue->counts),
	};
	if (operation->stands_for)
		operation->began = clock_ns();
	cds_list_add_tail(&operation->node, &queue->active);
	queue->nr_active++;
	if ((operation->flags & AFAR_OP_AFTER) || opcode_is_flush(operation->opcode)) {
		if (operation->ops)
			operation->ops->hold(operation);
		order_hold(queue, operation);
	} else {
		operation_push(queue, operation);
	}
	queue_settle(queue);
	return operation;
}

struct afar_completion queue_reap(struct afar_queue *queue, struct operation *operation)
{
	struct afar_completion completion = {
		.user_data = operation->user_data,
		.result = operation->status ? operation->status : (int64_t)operation->length,
	};

	assert(operation->state == OPERATION_DONE);
	operation->state = OPERATION_FREE;
	cds_list_del(&operation->node);
	cds_list_add(&operation->node, &queue->free_operations);
	queue->nr_done--;
	if (operation->status)
		queue->nr_failed--;
	return completion;
}

/* Tries the blocked operations again, in order. Works on a list of its own, because finishing takes
 * operations off it, and those that stay blocked go back. */
static void push_blocked(struct afar_queue *queue)
{
	CDS_LIST_HEAD(again);

	cds_list_splice(&queue->blocked, &again);
	CDS_INIT_LIST_HEAD(&queue->blocked);
	while (!cds_list_empty(&again) && !cds_list_empty(&queue->free_transfers)) {
		struct operation *operation =
			cds_list_first_entry(&again, struct operation, waiting_node);

		operation_stop_waiting(queue, operation);
		operation_push(queue, operation);
	}
	cds_list_splice(&again, &queue->blocked);
}

/* Call it when there is room again for blocked operations, or when held ones may start. */
static __attribute__((noinline)) void start_waiting(struct afar_queue *queue)
{
	queue_hold(queue);
	if (!cds_list_empty(&queue->blocked))
		push_blocked(queue);
	queue_settle(queue);
	queue_release(queue);
}

/* A thread has carried it out. */
static void take_returned(struct afar_queue *queue, struct operation *operation)
{
	if (operation->answer < 0)
		operation_fail(queue, operation, (int)operation->answer, NULL);
	else
		operation->length = (uint64_t)operation->answer;
	operation_finish(queue, operation);
}

bool queue_progress(struct afar_queue *queue)
{
	struct fabric_completion completions[COMPLETIONS_AT_ONCE];
	int count = 0;

	for (unsigned f = 0; f < queue->nr_fabrics; f++) {
		int nr = fabric_queue_poll(queue->fabrics[f], completions, COMPLETIONS_AT_ONCE);

		queue_complete(queue, completions, nr);
		count += nr;
	}
	if (queue->nr_away && away_take_returned(queue, take_returned))
		count++;
	if ((count && !cds_list_empty(&queue->blocked)) || !cds_list_empty(&queue->ready))
		start_waiting(queue);
	if (++queue->nr_polls >= POLLS_PER_CHECK)
		return queue_check(queue) || count > 0;
	return count > 0;
}

/* ---- Events and deadlines */

static void handle_event(struct afar_queue *queue, const struct fabric_event *event)
{
	struct path *path = event->endpoint->owner;
	struct path_lane *lane = path->lanes;

	while (lane->endpoint != event->endpoint)
		lane++;
	if (event->kind == FABRIC_CONNECTED) {
		lane->is_connected = true;
		if (--path->nr_connecting == 0)
			path->state = PATH_UP;
	} else {
		lane->is_refused = !lane->is_connected;
		path_end(queue, path, -AFAR_ESERVER);
	}
}

static bool has_transfer_of(const struct path *path, const struct operation *operation)
{
	const struct transfer *transfer;

	cds_list_for_each_entry (transfer, &path->transfers, node) {
		if (transfer->operation == operation)
			return true;
	}
	return false;
}

/* Finds the server that an operation waits for: one that holds a transfer of it, else the one that
 * has no room for it. NULL: it waits for other operations. */
static const struct peer *awaited_peer(const struct afar_queue *queue,
				       const struct operation *operation)
{
	for (uint32_t i = 0; i < queue->nr_paths; i++) {
		if (queue->paths[i] && has_transfer_of(queue->paths[i], operation))
			return queue->paths[i]->peer;
	}
	if (operation->waits != WAITS_FOR_ROOM || opcode_is_flush(operation->opcode))
		return NULL;
	return operation_next_peer(queue, operation);
}

/* Fails an operation whose time is up. A posted transfer cannot be recalled, so this closes its
 * connection. DESIGN, "timeouts". */
static void expire(struct afar_queue *queue, struct operation *operation)
{
	operation->is_given_up = true;
	operation_fail(queue, operation, -ETIMEDOUT, awaited_peer(queue, operation));
	for (uint32_t i = 0; i < queue->nr_paths && operation->nr_in_flight; i++) {
		if (queue->paths[i] && has_transfer_of(queue->paths[i], operation))
			path_end(queue, queue->paths[i], -ECANCELED);
	}
}

static bool carries(const struct path *path, uint64_t user_data)
{
	const struct transfer *transfer;

	cds_list_for_each_entry (transfer, &path->transfers, node) {
		if (transfer->operation->user_data == user_data)
			return true;
	}
	return false;
}

unsigned queue_cancel(struct afar_queue *queue, uint64_t user_data)
{
	struct operation *operation, *next;
	unsigned count = 0;

	cds_list_for_each_entry (operation, &queue->active, node) {
		if (operation->user_data != user_data ||
		    (operation->waits == WAITS_FOR_THREAD &&
		     !operation->ops->take_back(queue, operation)))
			continue;
		operation->is_given_up = true;
		operation_fail(queue, operation, -ECANCELED, NULL);
		count++;
	}
	for (uint32_t i = 0; i < queue->nr_paths && count; i++) {
		if (queue->paths[i] && carries(queue->paths[i], user_data))
			path_end(queue, queue->paths[i], -AFAR_ESERVER);
	}
	/* These had nothing in flight. */
	cds_list_for_each_entry_safe (operation, next, &queue->active, node) {
		if (operation->user_data == user_data && operation->waits != WAITS_FOR_THREAD)
			operation_finish(queue, operation);
	}
	queue_settle(queue);
	return count;
}

/* Returns the first of the active operations that is not away. NULL: there is none. */
static struct operation *first_here(const struct afar_queue *queue)
{
	struct operation *operation;

	cds_list_for_each_entry (operation, &queue->active, node) {
		if (operation->waits != WAITS_FOR_THREAD)
			return operation;
	}
	return NULL;
}

static void expire_operations(struct afar_queue *queue)
{
	uint64_t now = clock_ns();
	struct operation *first;

	queue->checked_at = now;
	while ((first = first_here(queue)) && first->deadline <= now) {
		expire(queue, first);
		if (first->state == OPERATION_ACTIVE)
			operation_finish(queue, first);
	}
}

bool queue_check(struct afar_queue *queue)
{
	struct fabric_event event;
	uint32_t nr_done = queue->nr_done;
	bool has_moved = false;

	queue->nr_polls = 0;
	for (unsigned f = 0; f < queue->nr_fabrics; f++) {
		while (fabric_queue_event(queue->fabrics[f], &event) == 1) {
			handle_event(queue, &event);
			has_moved = true;
		}
	}
	if (!cds_list_empty(&queue->blocked))
		push_blocked(queue);
	expire_operations(queue);
	queue_settle(queue);
	return has_moved || queue->nr_done != nr_done;
}

uint64_t queue_first_deadline(struct afar_queue *queue)
{
	const struct operation *first = first_here(queue);

	return first ? first->deadline : CLOCK_NEVER;
}
