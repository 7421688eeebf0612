/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress of a queue: operations become transfers, completions end them. This is the hot path:
 * nothing here allocates, locks or makes a system call of its own.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "client/apart.h"
#include "client/away.h"
#include "client/buffer.h"
#include "client/driven.h"
#include "client/failures.h"
#include "client/order.h"
#include "fabric/atomics.h"
#include "fabric/paged.h"

#define LAYOUT_NONE	    UINT64_MAX /* the flush has not looked at a layout yet */
#define COMPLETIONS_AT_ONCE 16
#define POLLS_PER_CHECK	    4096 /* between looks at events and deadlines, in a busy queue */

/* ---- Operations */

static void release_buffers(const struct operation *operation)
{
	for (uint32_t i = 0; i < operation->nr_iov; i++) {
		if (operation->iov[i].buffer)
			handle_unuse(&operation->iov[i].buffer->handle);
	}
}

static void stop_waiting(struct afar_queue *queue, struct operation *operation)
{
	cds_list_del(&operation->waiting_node);
	if (operation->waits == WAITS_FOR_ALL || operation->waits == WAITS_FOR_WRITES)
		queue->nr_held--;
	operation->waits = WAITS_NOT;
}

static inline void count(struct afar_queue *queue, const struct operation *operation)
{
	/* Zeros send no bytes. */
	uint64_t bytes = opcode_is_zero(operation->opcode) ? 0 : operation->length;

	counts_end(&queue->counts, operation->opcode, bytes, operation->status != 0);
	if (operation->stands_for)
		counts_sample(&queue->counts, operation->opcode, operation->began,
			      operation->stands_for);
}

/* It is done, unless it goes to a thread, as its target's kind says. */
static void operation_finish(struct afar_queue *queue, struct operation *operation)
{
	assert(operation->state == OPERATION_ACTIVE);
	if (operation->waits != WAITS_NOT)
		stop_waiting(queue, operation);
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

__attribute__((cold)) static void operation_fail(struct afar_queue *queue,
						 struct operation *operation, int status,
						 const struct peer *peer)
{
	if (!operation->status) {
		failure_note(queue, operation, status, peer, false);
		operation->status = status;
	}
	operation->remaining = 0;
}

/* Fills `pieces` with the next memory of the operation, up to `length_max` bytes; returns how many
 * bytes. Does not move the operation on. */
static uint64_t gather(const struct path *path, const struct operation *operation,
		       uint64_t length_max, struct fabric_piece *pieces, unsigned *nr_pieces)
{
	const unsigned nr_max = path->fabric->attributes.iov_max;
	uint32_t index = operation->iov_index;
	size_t skip = operation->iov_offset;
	uint64_t length = 0;
	unsigned count = 0;

	while (length < length_max && count < nr_max && index < operation->nr_iov) {
		const struct afar_iov *iov = &operation->iov[index];
		uint64_t take = iov->length - skip;

		if (take > length_max - length)
			take = length_max - length;
		if (take) {
			pieces[count++] = (struct fabric_piece){
				.addr = (char *)iov->addr + skip,
				.length = take,
				.descriptor =
					iov->buffer
						? iov->buffer->memory.on[path->nr_fabric].descriptor
						: NULL,
			};
			length += take;
		}
		index++;
		skip = 0;
	}
	*nr_pieces = count;
	return length;
}

static void move_on(struct operation *operation, uint64_t length)
{
	operation->offset += length;
	operation->remaining -= length;
	if (!operation->nr_iov)
		return; /* a zero has no memory */
	while (length) {
		const struct afar_iov *iov = &operation->iov[operation->iov_index];
		uint64_t left = iov->length - operation->iov_offset;

		if (length < left) {
			operation->iov_offset += length;
			return;
		}
		length -= left;
		operation->iov_index++;
		operation->iov_offset = 0;
	}
}

static inline uint64_t context_of(const struct afar_queue *queue, const struct transfer *transfer)
{
	return (uint64_t)transfer->generation << 32 | (uint64_t)(transfer - queue->transfers);
}

/* The place where the transport puts the old value of an atomic's word. */
static uint64_t *word_of(const struct afar_queue *queue, const struct transfer *transfer)
{
	return (uint64_t *)queue->words->addr + (transfer - queue->transfers);
}

/* Marks a free transfer as posted. */
static inline void take_off(struct afar_queue *queue, struct transfer *transfer,
			    struct operation *operation, struct path *path, uint64_t length)
{
	transfer->operation = operation;
	transfer->path = path;
	transfer->offset = operation->offset;
	transfer->length = length;
	queue->bytes_in_flight += length;
	cds_list_del(&transfer->node);
	cds_list_add_tail(&transfer->node, &path->transfers);
	operation->nr_in_flight++;
	if (path->peer->store && opcode_writes(operation->opcode))
		path->peer->nr_writing++;
}

/*
 * The place of an operation's next bytes: one run in one extent, over one path. find_step() copies
 * all of it from the target's binding, so it stays valid when the binding is replaced.
 */
struct step {
	struct peer *peer;
	struct path *path;	      /* NULL: there never was one */
	const struct path_lane *lane; /* set if the path is up and the binding ready: */
	uint64_t remote;	      /* the fabric's address of the first byte, on that lane */
	uint64_t key;
	uint64_t extent;
	uint64_t offset; /* into the extent */
	uint64_t length;
	bool is_hole;	 /* then only the length counts, and: */
	bool is_lost;	 /* it is no hole: its bytes are lost */
	bool is_ready;	 /* the binding is, and has its keys: they may be used */
	bool is_sealed;	 /* or of more than one version: nobody writes it */
	bool is_counted; /* among the peer's writes in flight, until end_step() */
};

/* Finds the next step. Atomics of NICs take the lane that all clients use for them. The caller ends the step. A write to a
 * store counts from here on, because the binding may be replaced before it is posted. */
static inline void find_step(const struct afar_queue *queue, const struct operation *operation,
			     struct step *out)
{
	const struct binding *binding;
	uint64_t length = operation->remaining;
	struct layout_piece at;

	hold_begin();
	binding = atomic_load_explicit(&operation->carrier->binding, memory_order_acquire);
	if (__builtin_expect(operation->run_end - operation->offset < length, 0))
		length = operation->run_end - operation->offset;
	at = layout_piece_at(binding->layout, operation->offset + operation->shift, length);
	if (__builtin_expect(!at.copy, 0)) {
		*out = (struct step){.length = at.length,
				     .is_hole = true,
				     .is_lost = at.lost,
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
	hold_end();
}

static inline void end_step(const struct step *step)
{
	if (step->is_counted)
		step->peer->nr_writing--;
}

/* Its bytes are of whole blocks, as check_op() has seen to, and so is each step of it. */
static __attribute__((noinline)) int post_checked(const struct operation *operation,
						  const struct step *step,
						  const struct fabric_piece *pieces,
						  unsigned nr_pieces, uint64_t context)
{
	if (operation->opcode == AFAR_OP_READ)
		return fabric_read_checked(step->lane->endpoint, pieces, nr_pieces, step->remote,
					   step->key, context);
	return fabric_write_checked(step->lane->endpoint, pieces, nr_pieces, step->remote,
				    step->key, operation->flags & AFAR_OP_DURABLE, context);
}

static inline int post(struct afar_queue *queue, struct operation *operation,
		       const struct step *step, const struct fabric_piece *pieces,
		       unsigned nr_pieces)
{
	struct transfer *transfer =
		cds_list_first_entry(&queue->free_transfers, struct transfer, node);
	uint64_t context = context_of(queue, transfer);
	int ret;

	if (operation->flags & AFAR_OP_CHECKED)
		ret = post_checked(operation, step, pieces, nr_pieces, context);
	else if (operation->flags & AFAR_OP_DURABLE)
		ret = fabric_write_durable(step->lane->endpoint, pieces, nr_pieces, step->remote,
					   step->key, context);
	else if (operation->opcode == AFAR_OP_WRITE)
		ret = fabric_write(step->lane->endpoint, pieces, nr_pieces, step->remote, step->key,
				   context);
	else
		ret = fabric_read(step->lane->endpoint, pieces, nr_pieces, step->remote, step->key,
				  context);
	if (!ret)
		take_off(queue, transfer, operation, step->path, step->length);
	return ret;
}

/* Sends the server a message in place of a transfer. */
static int post_message(struct afar_queue *queue, struct operation *operation,
			const struct step *step, const struct message_request *request)
{
	struct transfer *transfer =
		cds_list_first_entry(&queue->free_transfers, struct transfer, node);
	struct path *path = step->path;
	int ret = message_send(&path->messages, path->lanes[0].endpoint, request, transfer);

	if (!ret)
		take_off(queue, transfer, operation, path, step->length);
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

/* Asks the server for zeros. One message covers as many bytes as it may be about, up to a multiple
 * of that, so that blocks of stores are given whole. A trim of memory does nothing. */
static int post_zero(struct afar_queue *queue, struct operation *operation, struct step *step)
{
	const bool is_trim = operation->opcode == AFAR_OP_TRIM;
	const bool is_durable = operation->flags & AFAR_OP_DURABLE;
	const uint64_t max = step->peer->store ? MESSAGE_ZERO_STORE_MAX : MESSAGE_ZERO_MAX;
	const uint64_t to_next = max - step->offset % max;
	struct message_request request = {
		.kind = MESSAGE_ZERO,
		.extent = step->extent,
		.offset = step->offset,
		.flags =
			(is_trim ? MESSAGE_ZERO_TRIM : 0) | (is_durable ? MESSAGE_ZERO_DURABLE : 0),
	};

	if (is_trim && !step->peer->store)
		return 0;
	if (step->length > to_next)
		step->length = to_next;
	request.length = step->length;
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

/* Has a NIC, or our own processor, carry out an atomic. */
static int post_word(struct afar_queue *queue, struct operation *operation, const struct step *step)
{
	struct transfer *transfer =
		cds_list_first_entry(&queue->free_transfers, struct transfer, node);
	const struct fabric_piece result = {
		word_of(queue, transfer), sizeof(uint64_t),
		queue->words->memory.on[step->path->nr_fabric].descriptor};
	int ret;

	if (operation->opcode == AFAR_OP_FETCH_ADD)
		ret = fabric_fetch_add(step->lane->endpoint, &result, step->remote, step->key,
				       operation->operand, context_of(queue, transfer));
	else
		ret = fabric_compare_swap(step->lane->endpoint, &result, step->remote, step->key,
					  operation->compare, operation->operand,
					  context_of(queue, transfer));
	if (!ret)
		take_off(queue, transfer, operation, step->path, step->length);
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

/* Returns why nothing can be posted to a server. */
__attribute__((cold)) static int why_not(const struct afar_target *target, const struct path *path,
					 const struct peer *peer)
{
	if (target->is_lost || (peer->is_lost && !peer->store && !target->kind->outlives_servers))
		return -AFAR_ELOST;
	/* Either the path broke, or there never was one. */
	return (path || target_is_apart(target)) && target->had_keys ? -AFAR_ESERVER : -ENOTCONN;
}

/* Ends the path because a transfer could not be posted on it. */
__attribute__((cold)) static void fail_post(struct afar_queue *queue, struct operation *operation,
					    struct path *path)
{
	path_end(queue, path, -AFAR_ESERVER);
	operation_fail(queue, operation, -AFAR_ESERVER, path->peer);
}

/* ---- Flushes */

/* A server that a flush goes to. Found like a step. */
struct flush_step {
	struct peer *peer;
	struct path *path;
	bool is_ready;
	bool is_left_out;
	bool has_copy;
	uint64_t opening;		      /* of a store, as the handle remembers it */
	struct copy_key keys[PATH_LANES_MAX]; /* of a copy there, by the path's lanes */
};

/* A target whose homes are used apart: a home may be away with which the flush has nothing to do. */
static bool flush_leaves_out(const struct afar_queue *queue, const struct operation *flush,
			     const struct binding *binding)
{
	const struct binding_server *server = &binding->servers[flush->offset];

	if (!target_is_apart(flush->carrier))
		return false;
	if (flush->opcode == AFAR_OP_SYNC)
		return binding_may_skip(server);
	return queue->flushed && !need_has(queue->flushed, binding, (uint32_t)flush->offset);
}

/* Finds the next server of a flush. False: there are no more. If the binding was replaced, the
 * flush begins again, because the servers may be others. */
static bool find_flush_step(const struct afar_queue *queue, struct operation *flush,
			    struct flush_step *out)
{
	const struct layout_copy *copy;
	const struct binding *binding;

	*out = (struct flush_step){.path = NULL};
	hold_begin();
	binding = flush->carrier->binding;
	if (flush->remaining && flush->operand != binding->number) {
		flush->operand = binding->number;
		flush->offset = 0;
		flush->remaining = binding->layout->nr_homes;
	}
	if (flush->remaining) {
		const struct binding_server *server = &binding->servers[flush->offset];

		copy = layout_copy_at(binding->layout, (uint32_t)flush->offset);
		out->peer = server->peer;
		out->path = queue_path(queue, server->reach);
		out->is_ready = binding->is_ready && server->is_keyed;
		out->is_left_out = flush_leaves_out(queue, flush, binding);
		out->has_copy = copy != NULL;
		out->opening = server->opening;
		for (uint32_t i = 0; out->path && out->is_ready && copy && i < out->path->nr_lanes;
		     i++)
			out->keys[i] = *binding_key(binding, copy, out->path->lanes[i].number);
	}
	hold_end();
	return flush->remaining > 0;
}

/* Reads FLUSH_BYTES behind the writes that went over a lane. */
static int post_behind(struct afar_queue *queue, struct operation *flush, struct path *path,
		       const struct copy_key *key, const struct path_lane *lane)
{
	const struct fabric_piece piece = {
		.addr = queue->scratch->addr,
		.length = FLUSH_BYTES,
		.descriptor = queue->scratch->memory.on[path->nr_fabric].descriptor};
	struct transfer *transfer;
	int ret;

	if (cds_list_empty(&queue->free_transfers))
		return -EAGAIN;
	transfer = cds_list_first_entry(&queue->free_transfers, struct transfer, node);
	ret = fabric_read(lane->endpoint, &piece, 1, key->remote, key->key,
			  context_of(queue, transfer));
	if (!ret)
		take_off(queue, transfer, flush, path, FLUSH_BYTES);
	return ret;
}

/* Has a store make durable what has completed there. */
static int post_sync(struct afar_queue *queue, struct operation *sync,
		     const struct flush_step *step)
{
	const struct message_request request = {.kind = MESSAGE_SYNC, .operand = step->opening};
	const struct step where = {.peer = step->peer, .path = step->path};

	if (cds_list_empty(&queue->free_transfers))
		return -EAGAIN;
	return post_message(queue, sync, &where, &request);
}

/* Posts the flush's read on all lanes of the path. -EAGAIN: there was not enough room; call it
 * again for all of them. */
static int post_behind_all(struct afar_queue *queue, struct operation *flush,
			   const struct flush_step *step)
{
	int ret = 0;

	for (uint32_t i = 0; i < step->path->nr_lanes && !ret; i++)
		ret = post_behind(queue, flush, step->path, &step->keys[i], &step->path->lanes[i]);
	return ret;
}

/* Called when the writes have completed. If that does not make them visible to everybody, reads
 * behind them on each server of the target. -EAGAIN: there was not enough room. */
__attribute__((noinline)) static int flush_advance(struct afar_queue *queue,
						   struct operation *flush)
{
	struct afar_target *target = flush->carrier;
	bool may_write = target_may(target, AFAR_OP_WRITE);
	struct flush_step step;

	for (; find_flush_step(queue, flush, &step); flush->remaining--, flush->offset++) {
		bool is_read_wanted =
			may_write && step.path && step.path->fabric->attributes.writes_need_flush;
		int ret;

		/* What carries others, too, may be on servers that the queue has never written to. */
		if (step.is_left_out || (flush->target != target && !is_read_wanted))
			continue;
		if (!step.path || !step.is_ready || target->is_lost || step.peer->is_lost ||
		    ((is_read_wanted || (flush->opcode == AFAR_OP_SYNC && step.peer->store)) &&
		     step.path->state != PATH_UP)) {
			operation_fail(queue, flush, why_not(target, step.path, step.peer),
				       step.peer);
			return 0;
		}
		if (flush->opcode == AFAR_OP_SYNC && step.peer->store)
			ret = post_sync(queue, flush, &step);
		else if (!is_read_wanted || !step.has_copy)
			continue;
		else
			ret = post_behind_all(queue, flush, &step);
		if (ret == -EAGAIN)
			return ret;
		if (ret) {
			fail_post(queue, flush, step.path);
			return 0;
		}
	}
	return 0;
}

/* ---- Moving operations on */

/* Reads zeros from a hole. False: the operation has failed because it writes, or what is there is
 * lost. */
__attribute__((cold)) static bool pass_hole(struct afar_queue *queue, struct operation *operation,
					    const struct step *step)
{
	uint64_t length = step->length;

	if (step->is_lost) {
		operation_fail(queue, operation, -AFAR_ELOST, NULL);
		return false;
	}
	if (opcode_writes(operation->opcode)) {
		operation_fail(queue, operation, -ENXIO, NULL);
		return false;
	}
	while (length) {
		const struct afar_iov *iov = &operation->iov[operation->iov_index];
		uint64_t left = iov->length - operation->iov_offset;
		uint64_t take = left < length ? left : length;

		if (take)
			memset((char *)iov->addr + operation->iov_offset, 0, take);
		move_on(operation, take);
		if (!take) {
			operation->iov_index++;
			operation->iov_offset = 0;
		}
		length -= take;
	}
	return true;
}

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
		return !pass_hole(queue, operation, step);
	if (!step->lane) {
		operation_fail(queue, operation,
			       why_not(operation->carrier, step->path, step->peer), step->peer);
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
		ret = post_zero(queue, operation, step);
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
		fail_post(queue, operation, step->path);
		return 1;
	}
	if (is_atomic)
		operation->remaining = 0;
	else
		move_on(operation, step->length);
	return 0;
}

/* Posts as much of the operation as there is room for. -EAGAIN: there was not enough. */
static int operation_advance(struct afar_queue *queue, struct operation *operation)
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

		stop_waiting(queue, operation);
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

/* Notes what a store has told with the reply to a sync: its opening, if the handle may move on to that, and that it
 * has refused. */
static void remember_synced(const struct afar_target *target, const struct path *path,
			    uint64_t opening, bool is_refused)
{
	struct binding *binding;

	hold_begin();
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
	hold_end();
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
	uint64_t word = *word_of(queue, transfer);

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

		stop_waiting(queue, operation);
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

		for (int i = 0; i < nr; i++)
			complete(queue, &completions[i]);
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
	struct step step;

	for (uint32_t i = 0; i < queue->nr_paths; i++) {
		if (queue->paths[i] && has_transfer_of(queue->paths[i], operation))
			return queue->paths[i]->peer;
	}
	if (operation->waits != WAITS_FOR_ROOM || opcode_is_flush(operation->opcode))
		return NULL;
	find_step(queue, operation, &step);
	end_step(&step);
	return step.peer;
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
