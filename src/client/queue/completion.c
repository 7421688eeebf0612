/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions: each ends a transfer, and the last one of an operation ends that. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "client/queue/failures.h"
#include "client/queue/order.h"
#include "client/queue/progress.h"

/* ---- Ending operations */

static void release_buffers(const struct operation *operation)
{
	for (uint32_t i = 0; i < operation->nr_iov; i++) {
		if (operation->iov[i].buffer)
			handle_unuse(&operation->iov[i].buffer->handle);
	}
}

static inline void count(struct afar_queue *queue, const struct operation *operation)
{
	uint64_t bytes = opcode_moves_none(operation->opcode) ? 0 : operation->length;

	counts_end(&queue->counts, operation->opcode, bytes, operation->status != 0);
	if (operation->stands_for)
		counts_sample(&queue->counts, operation->opcode, operation->began,
			      operation->stands_for);
}

void operation_finish(struct afar_queue *queue, struct operation *operation)
{
	assert(operation->state == OPERATION_ACTIVE);
	if (operation->waits != WAITS_NOT)
		operation_stop_waiting(queue, operation);
	if (operation->ops && operation->ops->finish(queue, operation))
		return;
	operation->state = OPERATION_DONE;
	cds_list_del(&operation->node);
	cds_list_add_tail(&operation->node, &queue->done);
	queue->nr_active--;
	queue->nr_done++;
	if (operation->status)
		queue->nr_failed++;
	count(queue, operation);
	if (queue->nr_held)
		order_finished(queue, operation);
	release_buffers(operation);
	if (operation->ops)
		operation->ops->let_go(operation);
	else
		handle_unuse(&operation->target->handle);
}

void operation_fail(struct afar_queue *queue, struct operation *operation, int status,
		    const struct peer *peer)
{
	if (!operation->status) {
		failure_note(queue, operation, status, peer, false);
		operation->status = status;
	}
	operation->remaining = 0;
}

/* ---- Ending transfers */

/* ---- Completions */

void transfer_end(struct afar_queue *queue, struct transfer *transfer, int status)
{
	struct operation *operation = transfer->operation;

	queue->bytes_in_flight -= transfer->length;
	transfer->generation++;
	transfer->operation = NULL;
	cds_list_del(&transfer->node);
	cds_list_add(&transfer->node, &queue->free_transfers);
	operation->nr_in_flight--;
	if (transfer->path->peer->store && opcode_writes(operation->opcode)) {
		if (!status)
			transfer->path->peer->nr_written++;
		transfer->path->peer->nr_writing--;
	}
	if (status)
		operation_fail(queue, operation, status, transfer->path->peer);
	else if (operation->opcode == AFAR_OP_READ || operation->opcode == AFAR_OP_WRITE)
		path_count_transfer(&transfer->path->count, operation->opcode == AFAR_OP_WRITE,
				    transfer->length);
	if (!operation->remaining && !operation->nr_in_flight)
		operation_finish(queue, operation);
}

/* Gives the old value of an atomic's word to the operation, if it wants it. */
static void give_word(const struct operation *operation, uint64_t value)
{
	if (operation->nr_iov)
		memcpy(operation->iov->addr, &value, sizeof(value));
}

/* Notes a store's reply to a sync: its opening, if the handle may move on to that, and that it has refused. */
static void remember_synced(const struct afar_target *target, const struct path *path,
			    uint64_t opening, bool is_refused)
{
	struct binding *binding;

	epoch_enter();
	binding = target->binding;
	for (uint32_t i = 0; i < binding->layout->nr_homes; i++) {
		struct binding_server *server = &binding->servers[i];

		if (server->peer->store != path->peer->store)
			continue;
		if (server->opening < opening)
			server->opening = opening;
		if (is_refused)
			server->has_refused_sync = true;
	}
	epoch_exit();
}

/* Returns whether the handle may move on to the opening that a sync's reply tells. If writes may be
 * lost, the sync must be the one to say so: one that has failed otherwise leaves that to the next. */
static bool is_heard(const struct operation *sync, int status)
{
	return status == 0 || (status == -AFAR_EUNSYNCED && !sync->target->keeps_opening &&
			       (!sync->status || sync->status == -AFAR_EUNSYNCED));
}

/* Notes the failure of an operation whose target could not carry out this transfer of it, or has, and
 * other bytes have come. */
__attribute__((cold)) static void
fail_alone(struct afar_queue *queue, const struct transfer *transfer, int status, bool is_altered)
{
	struct operation *operation = transfer->operation;

	operation_fail(queue, operation, status, transfer->path->peer);
	failure_locate(queue, operation, transfer);
	/* The layer compares a checked write with what it was when it was sent, and nothing else. */
	if (is_altered || (status == -EBADMSG && operation->opcode == AFAR_OP_WRITE &&
			   operation->flags & AFAR_OP_CHECKED))
		failure_note_altered(queue, operation);
}

/* Takes a reply. 0, or -AFAR_EMALFORMED. */
static int take_reply(struct afar_queue *queue, struct path *path, struct message_slot *slot)
{
	struct transfer *transfer = slot->owner;
	uint64_t value;
	int ret = message_take(&path->messages, slot, &value);

	if (!ret && opcode_is_atomic(transfer->operation->opcode))
		give_word(transfer->operation, value);
	if (transfer->operation->opcode == AFAR_OP_SYNC)
		remember_synced(transfer->operation->target, path,
				is_heard(transfer->operation, ret) ? value : 0, ret == -EIO);
	if (ret != -AFAR_EMALFORMED && transfer->operation->opcode == AFAR_OP_WILL_NEED)
		ret = 0; /* it may not know the message, or the extent any more */
	if (ret && opcode_is_zero(transfer->operation->opcode))
		fail_alone(queue, transfer, ret, false);
	transfer_end(queue, transfer, ret);
	return ret == -AFAR_EMALFORMED ? ret : 0;
}

static void complete_message(struct afar_queue *queue, const struct fabric_completion *completion)
{
	uint32_t index = ((uint32_t)completion->context & ~CONTEXT_MESSAGE) / MESSAGE_CREDITS;
	struct path *path = queue->paths[index];
	struct message_slot *slot;
	int status;

	if (!path || path->generation != (uint32_t)(completion->context >> 32) ||
	    path->state != PATH_UP)
		return; /* its connection was closed */
	if (completion->status) {
		path_end(queue, path, -AFAR_ESERVER);
		return;
	}
	status = message_complete(&path->messages, completion->context, &slot);
	if (slot)
		status = take_reply(queue, path, slot);
	if (status)
		path_end(queue, path, -AFAR_ESERVER);
}

/* Returns the old value that an atomic has fetched. */
static uint64_t fetched_word(const struct afar_queue *queue, const struct transfer *transfer)
{
	uint64_t word = *transfer_word(queue, transfer);

	return transfer->path->fabric->attributes.has_swapped_results ? __builtin_bswap64(word)
								      : word;
}

static void complete(struct afar_queue *queue, const struct fabric_completion *completion)
{
	uint32_t index = (uint32_t)completion->context;
	struct transfer *transfer = &queue->transfers[index];

	if (index & CONTEXT_MESSAGE) {
		complete_message(queue, completion);
		return;
	}
	if (transfer->generation != (uint32_t)(completion->context >> 32))
		return; /* its connection was closed, and the transfer ended with it */
	if (completion->is_alone) {
		fail_alone(queue, transfer, completion->status, completion->is_altered);
		transfer_end(queue, transfer, completion->status);
		return;
	}
	if (completion->status) {
		/* With another status, another transfer or the server is at fault. */
		if (completion->status == -EFAULT)
			operation_fail(queue, transfer->operation, -EFAULT, NULL);
		path_end(queue, transfer->path, -AFAR_ESERVER);
		return;
	}
	if (opcode_is_atomic(transfer->operation->opcode))
		give_word(transfer->operation, fetched_word(queue, transfer));
	transfer_end(queue, transfer, 0);
}

void queue_complete(struct afar_queue *queue, const struct fabric_completion *completions, int nr)
{
	for (int i = 0; i < nr; i++)
		complete(queue, &completions[i]);
}
