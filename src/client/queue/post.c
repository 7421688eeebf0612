/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting: cuts an operation into steps by its target's layout. Posts each as a transfer or a message, on the path to its
 * server.
 */
#include <errno.h>

#include "client/queue/driven.h"
#include "client/queue/progress.h"
#include "client/target/apart.h"
#include "fabric/atomics.h"
#include "fabric/paged.h"

/* ---- Where the next bytes are */

/* Finds the next step. Atomics of NICs take the lane that all clients use for them. The caller ends the step. A write to a
 * store counts from here on, because the binding may be replaced before it is posted. */
static inline void find_step(const struct afar_queue *queue, const struct operation *operation,
			     struct step *out)
{
	const struct binding *binding;
	uint64_t length = operation->remaining;
	struct layout_piece at;

	epoch_enter();
	binding = atomic_load_explicit(&operation->carrier->binding, memory_order_acquire);
	if (__builtin_expect(operation->run_end - operation->offset < length, 0))
		length = operation->run_end - operation->offset;
	at = layout_piece_at(binding->layout, operation->offset + operation->shift, length);
	if (__builtin_expect(!at.copy, 0)) {
		*out = (struct step){.length = at.length,
				     .is_hole = true,
				     .is_lost = at.lost,
				     .is_past = at.is_past,
				     .is_sealed = at.is_frozen};
		goto out_end;
	}
	*out = (struct step){
		.peer = binding->servers[at.copy->home].peer,
		.path = queue_path(queue, binding->servers[at.copy->home].reach),
		.extent = at.copy->extent,
		.offset = at.copy->offset + at.offset,
		.length = at.length,
		.is_ready = binding->is_ready && binding->servers[at.copy->home].is_keyed,
		.is_sealed = binding->layout->is_sealed || at.is_frozen,
	};
	if (out->path && out->path->state == PATH_UP && out->is_ready) {
		const struct copy_key *key;

		out->lane = opcode_is_atomic(operation->opcode)
				    ? path_home(out->path)
				    : path_lane_at(out->path, out->offset);
		key = binding_key(binding, at.copy, out->lane->number);
		out->remote = key->remote + at.offset;
		out->key = key->key;
	}
	if (out->peer->store && opcode_writes(operation->opcode)) {
		out->peer->nr_writing++;
		out->is_counted = true;
	}
out_end:
	epoch_exit();
}

static inline void end_step(const struct step *step)
{
	if (step->is_counted)
		step->peer->nr_writing--;
}

const struct peer *operation_next_peer(const struct afar_queue *queue,
				       const struct operation *operation)
{
	struct step step;

	find_step(queue, operation, &step);
	end_step(&step);
	return step.peer;
}

/* ---- Posting */

/* Fills `pieces` with the next memory of the operation, up to `length_max` bytes; returns how many
 * bytes. Does not move the operation on. */
static uint64_t gather(const struct path *path, const struct operation *operation,
		       uint64_t length_max, struct fabric_piece *pieces, unsigned *nr_pieces)
{
	const unsigned nr_max = path->fabric->attributes.iov_max;
	const struct afar_iov *end = operation->iov + operation->nr_iov;
	struct iov_walk at = operation->memory;
	uint64_t length = 0;
	unsigned count = 0;

	while (length < length_max && count < nr_max && at.piece < end) {
		const struct afar_buffer *buffer = at.piece->buffer;
		void *addr;
		uint64_t take = iov_walk_on(&at, length_max - length, &addr);

		if (!take)
			continue;
		pieces[count++] = (struct fabric_piece){
			.addr = addr,
			.length = take,
			.descriptor = buffer ? buffer->memory.on[path->nr_fabric].descriptor : NULL,
		};
		length += take;
	}
	*nr_pieces = count;
	return length;
}

/* Returns FABRIC_PAGED_… of a transfer; 0: there are none, and it may be one to memory. A server
 * that does not know a hint would end the connection. The bytes of a checked one are of whole blocks, as check_op() has seen to, and so is each step of it. */
static inline unsigned paged_flags(const struct operation *operation, const struct peer *peer)
{
	unsigned flags = 0, hints = 0;

	if (__builtin_expect((operation->flags & ~(AFAR_OP_AFTER | AFAR_OP_DRIVEN)) == 0, 1))
		return 0;
	if (operation->flags & AFAR_OP_DURABLE)
		flags |= FABRIC_PAGED_DURABLE;
	if (operation->flags & AFAR_OP_CHECKED)
		flags |= FABRIC_PAGED_CHECKED;
	if (operation->flags & AFAR_OP_ONCE)
		hints |= FABRIC_PAGED_ONCE;
	if (operation->flags & AFAR_OP_BRIEF)
		hints |= FABRIC_PAGED_BRIEF;
	if (operation->flags & AFAR_OP_COLD)
		hints |= FABRIC_PAGED_COLD;
	return flags | (hints & atomic_load_explicit(&peer->hints, memory_order_relaxed));
}

static inline int post(struct afar_queue *queue, struct operation *operation,
		       const struct step *step, const struct fabric_piece *pieces,
		       unsigned nr_pieces)
{
	struct transfer *transfer =
		cds_list_first_entry(&queue->free_transfers, struct transfer, node);
	const uint64_t context = transfer_context(queue, transfer);
	const bool is_write = operation->opcode == AFAR_OP_WRITE;
	const unsigned flags = paged_flags(operation, step->peer);
	int ret;

	if (__builtin_expect(flags != 0, 0))
		ret = fabric_paged_transfer(step->lane->endpoint,
					    flags | (is_write ? FABRIC_PAGED_WRITE : 0), pieces,
					    nr_pieces, step->remote, step->key, context);
	else if (is_write)
		ret = fabric_write(step->lane->endpoint, pieces, nr_pieces, step->remote, step->key,
				   context);
	else
		ret = fabric_read(step->lane->endpoint, pieces, nr_pieces, step->remote, step->key,
				  context);
	if (!ret)
		transfer_begin(queue, transfer, operation, step->path, step->length);
	return ret;
}

int post_message(struct afar_queue *queue, struct operation *operation, const struct step *step,
		 const struct message_request *request)
{
	struct transfer *transfer =
		cds_list_first_entry(&queue->free_transfers, struct transfer, node);
	struct path *path = step->path;
	int ret = message_send(&path->messages, path->lanes[0].endpoint, request, transfer);

	if (!ret)
		transfer_begin(queue, transfer, operation, path, step->length);
	return ret;
}

/* Asks the server's CPU for an atomic, which is one word. */
static int post_request(struct afar_queue *queue, struct operation *operation,
			const struct step *step)
{
	const struct message_request request = {
		.kind = operation->opcode == AFAR_OP_FETCH_ADD ? MESSAGE_FETCH_ADD
							       : MESSAGE_COMPARE_SWAP,
		.extent = step->extent,
		.offset = step->offset,
		.operand = operation->operand,
		.compare = operation->compare,
	};

	return post_message(queue, operation, step, &request);
}

/* Asks the server to move bytes. One message covers as many as lie in one piece of memory. */
static int post_driven(struct afar_queue *queue, struct operation *operation, struct step *step,
		       const struct fabric_piece *piece)
{
	struct message_request request;

	driven_request(operation, step->path, step->extent, step->offset, piece, &request);
	step->length = request.length;
	return post_message(queue, operation, step, &request);
}

/* Tells a store what it will be asked for. */
static int post_need(struct afar_queue *queue, struct operation *operation, struct step *step)
{
	struct message_request request = {
		.kind = MESSAGE_WILL_NEED,
		.extent = step->extent,
		.offset = step->offset,
	};

	if (!step->peer->store)
		return 0;
	if (step->length > MESSAGE_NEED_MAX)
		step->length = MESSAGE_NEED_MAX;
	request.length = step->length;
	return post_message(queue, operation, step, &request);
}

/* Has a NIC, or our own processor, carry out an atomic. */
static int post_word(struct afar_queue *queue, struct operation *operation, const struct step *step)
{
	struct transfer *transfer =
		cds_list_first_entry(&queue->free_transfers, struct transfer, node);
	const struct fabric_piece result = {
		transfer_word(queue, transfer), sizeof(uint64_t),
		queue->words->memory.on[step->path->nr_fabric].descriptor};
	int ret;

	if (operation->opcode == AFAR_OP_FETCH_ADD)
		ret = fabric_fetch_add(step->lane->endpoint, &result, step->remote, step->key,
				       operation->operand, transfer_context(queue, transfer));
	else
		ret = fabric_compare_swap(step->lane->endpoint, &result, step->remote, step->key,
					  operation->compare, operation->operand,
					  transfer_context(queue, transfer));
	if (!ret)
		transfer_begin(queue, transfer, operation, step->path, step->length);
	return ret;
}

/* Posts an atomic to whoever does all atomics of the target: its NIC or the server's processor.
 * -EOPNOTSUPP: the NIC does them, and the path's transport has no NIC atomics. */
static inline int post_atomic(struct afar_queue *queue, struct operation *operation,
			      const struct step *step)
{
	const struct fabric *fabric = step->path->fabric;
	bool is_by_processor = fabric->attributes.has_processor_atomics;

	if (!operation->target->has_nic_atomics)
		return is_by_processor ? post_word(queue, operation, step)
				       : post_request(queue, operation, step);
	if (is_by_processor || !fabric->atomics)
		return -EOPNOTSUPP;
	return post_word(queue, operation, step);
}

int post_why_not(const struct afar_target *target, const struct path *path, const struct peer *peer)
{
	if (target->is_lost || (peer->is_lost && !peer->store && !target->kind->outlives_servers))
		return -AFAR_ELOST;
	/* Either the path broke, or there never was one. */
	return (path || target_is_apart(target)) && target->had_keys ? -AFAR_ESERVER : -ENOTCONN;
}

void post_fail(struct afar_queue *queue, struct operation *operation, struct path *path)
{
	path_end(queue, path, -AFAR_ESERVER);
	operation_fail(queue, operation, -AFAR_ESERVER, path->peer);
}

/* ---- Moving operations on */

/* Posts a step. 0: the operation may go on; 1: it has failed; -EAGAIN: there was not enough room. */
static inline int take_step(struct afar_queue *queue, struct operation *operation,
			    struct step *step)
{
	const bool is_atomic = opcode_is_atomic(operation->opcode);
	struct fabric_piece pieces[FABRIC_IOV_MAX];
	unsigned nr_pieces;
	int ret;

	/* The operation was accepted before we knew that the region is sealed, or the range was not
	 * prepared. */
	if (step->is_sealed && opcode_writes(operation->opcode)) {
		operation_fail(queue, operation, -EROFS, NULL);
		return 1;
	}
	if (step->is_hole)
		return !hole_pass(queue, operation, step);
	if (!step->lane) {
		operation_fail(queue, operation,
			       post_why_not(operation->carrier, step->path, step->peer),
			       step->peer);
		return 1;
	}
	if (operation->flags & AFAR_OP_DRIVEN && !fabric_is_driven(step->path->fabric)) {
		operation_fail(queue, operation, -EOPNOTSUPP, step->peer);
		return 1;
	}
	if (cds_list_empty(&queue->free_transfers))
		return -EAGAIN;
	if (is_atomic) {
		ret = post_atomic(queue, operation, step);
	} else if (opcode_is_zero(operation->opcode)) {
		ret = hole_post(queue, operation, step);
	} else if (operation->opcode == AFAR_OP_WILL_NEED) {
		ret = post_need(queue, operation, step);
	} else {
		step->length = gather(step->path, operation,
				      path_length_at(step->path, step->offset, step->length),
				      pieces, &nr_pieces);
		ret = operation->flags & AFAR_OP_DRIVEN
			      ? post_driven(queue, operation, step, pieces)
			      : post(queue, operation, step, pieces, nr_pieces);
	}
	if (ret == -EAGAIN)
		return ret;
	if (ret == -EOPNOTSUPP || ret == -ENOMEM) {
		operation_fail(queue, operation, ret, step->peer);
		return 1;
	}
	if (ret) {
		post_fail(queue, operation, step->path);
		return 1;
	}
	if (is_atomic)
		operation->remaining = 0;
	else
		operation_move_on(operation, step->length);
	return 0;
}

int operation_advance(struct afar_queue *queue, struct operation *operation)
{
	while (operation->remaining) {
		struct step step;
		int ret;

		if (__builtin_expect(operation->offset == operation->run_end, 0))
			operation->ops->next_run(operation);
		find_step(queue, operation, &step);
		ret = take_step(queue, operation, &step);
		end_step(&step);
		if (ret)
			return ret < 0 ? ret : 0;
	}
	return 0;
}
