/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Order: operations that wait for others of their queue. Callers are progress.c when such an operation
 * is submitted, and completion.c when any operation completes while some are held. Owns the lists
 * `held`, `failing` and `flushes`.
 *
 * The active operations are in order of submission, so when an operation is the first of them, all
 * that were submitted before it have completed. A failure reaches the operations behind it at once,
 * as their status. Each completes with that in its turn, and has posted nothing. A flush counts the
 * writes to its target instead.
 */
#include <errno.h>

#include "client/queue/failures.h"
#include "client/queue/order.h"

static void make_ready(struct afar_queue *queue, struct operation *operation)
{
	cds_list_del(&operation->waiting_node);
	cds_list_add_tail(&operation->waiting_node, &queue->ready);
	operation->waits = WAITS_FOR_START;
	queue->nr_held--;
}

static void mark_failing(struct afar_queue *queue, struct operation *operation)
{
	if (!operation->status)
		failure_note(queue, operation, -ECANCELED, NULL, true);
	operation->status = -ECANCELED;
	operation->remaining = 0;
}

/* ---- Those that wait for all before them */

/* An operation behind a failing one will fail too. So the failing ones are the last of those that
 * wait, and have a list of their own. */
static void hold_for_all(struct afar_queue *queue, struct operation *operation)
{
	bool will_fail = queue->nr_failed || !cds_list_empty(&queue->failing);

	if (will_fail)
		mark_failing(queue, operation);
	operation->waits = WAITS_FOR_ALL;
	cds_list_add_tail(&operation->waiting_node, will_fail ? &queue->failing : &queue->held);
}

/* Each operation is marked once, however many before it fail. */
static void mark_failing_after(struct afar_queue *queue, uint64_t order)
{
	while (!cds_list_empty(&queue->held)) {
		struct operation *last =
			cds_list_entry(queue->held.prev, struct operation, waiting_node);

		if (last->order < order)
			return;
		mark_failing(queue, last);
		cds_list_move(&last->waiting_node, &queue->failing);
	}
}

static void make_first_ready(struct afar_queue *queue)
{
	struct cds_list_head *list = cds_list_empty(&queue->held) ? &queue->failing : &queue->held;
	struct operation *first;

	if (cds_list_empty(list))
		return;
	first = cds_list_first_entry(list, struct operation, waiting_node);
	if (queue->active.next == &first->node)
		make_ready(queue, first);
}

/* ---- Flushes */

static bool is_write_to(const struct operation *operation, const struct afar_target *target)
{
	return opcode_writes(operation->opcode) && operation->target == target;
}

static void hold_for_writes(struct afar_queue *queue, struct operation *flush)
{
	struct operation *earlier;

	cds_list_for_each_entry (earlier, &queue->active, node)
		flush->nr_awaited += is_write_to(earlier, flush->target);
	if (queue->nr_failed) {
		cds_list_for_each_entry (earlier, &queue->done, node) {
			if (earlier->status && is_write_to(earlier, flush->target))
				mark_failing(queue, flush);
		}
	}
	flush->waits = WAITS_FOR_WRITES;
	cds_list_add_tail(&flush->waiting_node, &queue->flushes);
}

static void count_down(struct afar_queue *queue, const struct operation *write)
{
	struct operation *flush, *next;

	cds_list_for_each_entry_safe (flush, next, &queue->flushes, waiting_node) {
		if (flush->order < write->order || flush->target != write->target)
			continue;
		if (write->status)
			mark_failing(queue, flush);
		if (--flush->nr_awaited == 0)
			make_ready(queue, flush);
	}
}

/* ---- What the data path calls */

void order_hold(struct afar_queue *queue, struct operation *operation)
{
	queue->nr_held++;
	if (operation->flags & AFAR_OP_AFTER) {
		hold_for_all(queue, operation);
		make_first_ready(queue);
		return;
	}
	hold_for_writes(queue, operation);
	if (operation->nr_awaited == 0)
		make_ready(queue, operation);
}

void order_finished(struct afar_queue *queue, const struct operation *operation)
{
	if (operation->status)
		mark_failing_after(queue, operation->order);
	if (opcode_writes(operation->opcode))
		count_down(queue, operation);
	make_first_ready(queue);
}
