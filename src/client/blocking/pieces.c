/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking transfers of several pieces: those on this host are copied, and all others go over one borrowed queue
 * together. Files move their bytes so (fs_transfer.c).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "client/blocking/blocking.h"
#include "client/blocking/merge.h"
#include "client/blocking/unregistered.h"
#include "client/queue/failures.h"
#include "client/queue/same_host_map.h"
#include "client/session/buffer.h"
#include "client/target/same_host.h"

/* This is fabric_attributes.gap_bytes where the target is on flash. A store takes 6 µs for a read, and as long for 8 KiB. */
#define FLASH_GAP_BYTES ((uint64_t)8 << 10)

struct batch {
	struct afar_target *target;
	uint16_t opcode;
	uint32_t flags;
	struct target_piece *pieces;
	unsigned nr;
	bool is_round;			/* of merged pieces, which stand for several */
	bool is_plain;			/* their memory is not registered */
	uint64_t deadline;		/* moves on with each piece that ends well */
	int status;			/* the first failure that trying again does not mend */
	char failure[ERROR_LINE_BYTES]; /* the line of `status`, or of the last that is left */
	int connected;			/* 0, or a failure to connect to a home that is needed */
	char why[ERROR_LINE_BYTES];	/* its line */
};

static struct afar_op piece_op(const struct batch *batch, unsigned i)
{
	return (struct afar_op){
		.opcode = batch->opcode,
		.flags = batch->flags,
		.nr_iov = 1,
		.target = batch->target,
		.offset = batch->pieces[i].offset,
		.iov = &batch->pieces[i].memory,
		.user_data = i,
	};
}

/* Starts pieces from `next` on while the queue has room. Returns where it stopped. */
static unsigned start_pieces(struct afar_queue *queue, const struct batch *batch, unsigned next)
{
	queue_hold(queue);
	for (; next < batch->nr && !cds_list_empty(&queue->free_operations); next++) {
		const struct afar_op op = piece_op(batch, next);

		if (batch->pieces[next].status != PIECE_LEFT)
			continue;
		handle_use(&batch->target->handle);
		if (op.iov->buffer)
			handle_use(&op.iov->buffer->handle);
		queue_start(queue, &op, op.iov->length, batch->deadline);
	}
	queue_release(queue);
	return next;
}

/* A piece has ended well, so the time of all that is under way begins anew. It does not if it was up for one before.
 * Nor does it if a home is away: the call fails then, and would wait for that home once more for each that is there. */
static void move_deadline(struct afar_queue *queue, struct batch *batch)
{
	uint64_t deadline = session_deadline(queue->session);
	struct operation *operation;

	if (deadline == batch->deadline || batch->connected || batch->status == -ETIMEDOUT ||
	    batch->status == -ECANCELED)
		return;
	batch->deadline = deadline;
	cds_list_for_each_entry (operation, &queue->active, node)
		operation->deadline = deadline;
}

static void end_piece(struct afar_queue *queue, struct batch *batch)
{
	const struct afar_completion completion =
		queue_reap(queue, cds_list_first_entry(&queue->done, struct operation, node));
	struct target_piece *piece = &batch->pieces[completion.user_data];

	piece->status = completion.result < 0 ? (int)completion.result : 0;
	if (piece->status == 0)
		move_deadline(queue, batch);
	/* One that took too long costs the others their connection: the line is about that one. */
	if (piece->status == 0 || (piece->status == -ECANCELED && batch->status != 0))
		return;
	if (piece->status == -EROFS)
		target_fail_read_only(batch->target);
	else
		failure_say(queue, &completion, "try again");
	if (batch->status == 0 || batch->status == -ECANCELED)
		snprintf(batch->failure, sizeof(batch->failure), "%s", error_last_line());
	/* Lost bytes, and servers that are away, keep no other piece from being done. */
	if (piece->status != -AFAR_ESERVER && piece->status != -AFAR_ELOST &&
	    (batch->status == 0 || batch->status == -ECANCELED))
		batch->status = piece->status;
}

/* Carries out what is left over the connections that stand. */
static void run_pieces(struct afar_queue *queue, struct batch *batch)
{
	unsigned next = start_pieces(queue, batch, 0);

	while (queue->nr_active != 0 || queue->nr_done != 0) {
		while (queue->nr_done == 0)
			queue_wait_progress(queue, CLOCK_NEVER);
		while (queue->nr_done != 0)
			end_piece(queue, batch);
		next = start_pieces(queue, batch, next);
	}
}

/* Marks what has failed with its connection as left. Returns how many that are. */
static unsigned leave_failed(struct batch *batch)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < batch->nr; i++) {
		if (batch->pieces[i].status != -AFAR_ESERVER)
			continue;
		batch->pieces[i].status = PIECE_LEFT;
		nr++;
	}
	return nr;
}

/* Gives all that is left this status. */
static int fail_left(struct batch *batch, int status)
{
	const struct afar_op *first = NULL;
	struct afar_op op;

	for (unsigned i = 0; i < batch->nr; i++) {
		if (batch->pieces[i].status != PIECE_LEFT)
			continue;
		op = piece_op(batch, i);
		first = &op;
		batch->pieces[i].status = status;
	}
	return first ? failure_on_the_way(first, first->iov->length, status, true) : status;
}

/* The homes of what is left. */
static struct target_need need_of(const struct batch *batch)
{
	return (struct target_need){.pieces = batch->pieces, .nr = batch->nr, .is_of_left = true};
}

static void note_connected(struct batch *batch, int status)
{
	batch->connected = status;
	if (status)
		snprintf(batch->why, sizeof(batch->why), "%s", error_last_line());
}

/* Says how far a call came that has failed with this line. */
static int say_how_far(const struct batch *batch, int status, const char *line)
{
	unsigned nr_done = 0;

	for (unsigned i = 0; i < batch->nr; i++)
		nr_done += batch->pieces[i].status == 0;
	return error_fail(status, "%s; %u of %u parts are done", line, nr_done, batch->nr);
}

/* Gives all that is left a status whose line was left. */
static void mark_left(struct batch *batch, int status)
{
	for (unsigned i = 0; i < batch->nr; i++)
		if (batch->pieces[i].status == PIECE_LEFT)
			batch->pieces[i].status = status;
}

/* A part of a batch has been carried out. */
static void take_progress(struct batch *batch, const struct batch *part)
{
	batch->deadline = part->deadline;
	batch->connected = part->connected;
	memcpy(batch->why, part->why, sizeof(batch->why));
}

/* The call's time is up. Says what has failed, and how far it came. */
static int fail_late(struct batch *batch)
{
	const int status = batch->status ? batch->status : -AFAR_ESERVER;

	mark_left(batch, status);
	return batch->is_round ? error_fail(status, "%s", batch->failure)
			       : say_how_far(batch, status, batch->failure);
}

/* Connects to what is needed. A target whose homes are used apart goes on with those that are there. */
static int connect_left(struct afar_queue *queue, struct batch *batch)
{
	const struct target_need need = need_of(batch);

	note_connected(batch, queue_connect_to(queue, batch->target, &need, batch->deadline));
	return target_is_apart(batch->target) ? 0 : batch->connected;
}

static int fail_unconnected(struct batch *batch)
{
	return fail_left(batch, error_fail(batch->connected, "%s", batch->why));
}

/* Carries out the pieces as blocking_transfer() does one operation, and likewise returns BLOCKING_UNREGISTERED. */
static int transfer_pieces(struct afar_queue *queue, struct batch *batch)
{
	unsigned nr_left, nr_before = batch->nr;
	int ret;

	for (;; nr_before = nr_left) {
		run_pieces(queue, batch);
		nr_left = leave_failed(batch);
		if (nr_left == 0)
			return batch->status;
		/* Pieces that are left may have been on connections that broke meanwhile. */
		if (batch->connected && nr_left >= nr_before)
			return fail_unconnected(batch);
		if (clock_ns() >= batch->deadline)
			return fail_late(batch);
		ret = connect_left(queue, batch);
		if (ret)
			return fail_left(batch, ret);
		if (batch->is_plain && queue->session->fabrics.needs_registration)
			return BLOCKING_UNREGISTERED;
	}
}

/* ---- Over transports that want memory registered */

#define PACK_MAX 64U

/* Pieces that go together through the queue's buffer. */
struct pack {
	struct target_piece pieces[PACK_MAX];
	unsigned index[PACK_MAX]; /* of the batch */
	unsigned nr;
	uint64_t length;
};

/* Returns whether others may be done though some have failed, with their server. */
static bool goes_on(const struct batch *batch, int status)
{
	return target_is_apart(batch->target) &&
	       (status == -AFAR_ESERVER || status == -ETIMEDOUT || status == -ENOTCONN);
}

/* Packs pieces from `next` on while there is room. Returns where it stopped. */
static unsigned pack_pieces(struct pack *pack, const struct batch *batch, unsigned next,
			    struct afar_buffer *bounce)
{
	pack->nr = 0;
	pack->length = 0;
	for (; next < batch->nr && pack->nr < PACK_MAX; next++) {
		const struct target_piece *piece = &batch->pieces[next];
		uint8_t *place = (uint8_t *)bounce->addr + pack->length;

		if (piece->status != PIECE_LEFT || piece->memory.length > bounce->length)
			continue;
		if (piece->memory.length > bounce->length - pack->length)
			break;
		if (batch->opcode == AFAR_OP_WRITE)
			memcpy(place, piece->memory.addr, piece->memory.length);
		pack->index[pack->nr] = next;
		pack->pieces[pack->nr++] = (struct target_piece){
			.memory = {bounce, place, piece->memory.length},
			.offset = piece->offset,
			.status = PIECE_LEFT,
		};
		pack->length += piece->memory.length;
	}
	return next;
}

static void unpack_pieces(const struct pack *pack, struct batch *batch)
{
	for (unsigned i = 0; i < pack->nr; i++) {
		const struct target_piece *packed = &pack->pieces[i];
		struct target_piece *piece = &batch->pieces[pack->index[i]];

		piece->status = packed->status;
		if (piece->status == 0 && batch->opcode == AFAR_OP_READ)
			memcpy(piece->memory.addr, packed->memory.addr, piece->memory.length);
	}
}

/* Moves the short ones. */
static int transfer_packed(struct afar_queue *queue, struct batch *batch)
{
	struct pack pack;
	int ret = unregistered_make_bounce(queue), first = 0;

	for (unsigned next = 0; next < batch->nr && ret == 0;) {
		struct batch part = *batch;

		next = pack_pieces(&pack, batch, next, queue->bounce);
		part.pieces = pack.pieces;
		part.nr = pack.nr;
		ret = transfer_pieces(queue, &part);
		unpack_pieces(&pack, batch);
		take_progress(batch, &part);
		if (ret && goes_on(batch, ret)) {
			first = first ? first : ret;
			ret = 0;
		}
	}
	return ret ? ret : first;
}

/* Moves one that is too long for the buffer. */
static int transfer_long(struct afar_queue *queue, const struct batch *batch, unsigned i)
{
	const struct target_need need = {.pieces = &batch->pieces[i], .nr = 1};
	const struct afar_op op = piece_op(batch, i);
	struct unregistered unregistered;
	int ret = unregistered_begin(&unregistered, queue, &op, op.iov->length);

	if (ret)
		return ret;
	do
		ret = blocking_transfer(queue, &unregistered.ready, unregistered.length, &need,
					batch->deadline);
	while (unregistered_go_on(&unregistered, ret));
	unregistered_end(&unregistered);
	return ret;
}

static int transfer_registered(struct afar_queue *queue, struct batch *batch)
{
	int ret = transfer_packed(queue, batch);

	for (unsigned i = 0; i < batch->nr && (ret == 0 || goes_on(batch, ret)); i++) {
		int status;

		if (batch->pieces[i].status != PIECE_LEFT)
			continue;
		status = batch->pieces[i].status = transfer_long(queue, batch, i);
		if (status == 0)
			batch->deadline = session_deadline(queue->session);
		if (status != -AFAR_ELOST && (ret == 0 || !goes_on(batch, status)))
			ret = status;
	}
	return ret ? fail_left(batch, ret) : 0;
}

/* ---- All pieces */

static int transfer_batch(struct afar_queue *queue, struct batch *batch)
{
	int ret = BLOCKING_UNREGISTERED;

	batch->is_plain = !queue->session->fabrics.needs_registration;
	if (batch->is_plain)
		ret = transfer_pieces(queue, batch);
	batch->is_plain = false;
	return ret == BLOCKING_UNREGISTERED ? transfer_registered(queue, batch) : ret;
}

/* Carries out a round of merged pieces. Sets `are_left` if some are left, to be done one by one. */
static int transfer_round(struct afar_queue *queue, struct batch *batch, struct merge *merge,
			  bool *are_left)
{
	struct batch round = *batch;
	int ret;

	round.pieces = merge->merged;
	round.nr = merge->nr_merged;
	round.is_round = true;
	ret = transfer_batch(queue, &round);
	take_progress(batch, &round);
	if (!merge_take(merge))
		return ret;
	*are_left = true;
	return 0;
}

static int transfer_rounds(struct afar_queue *queue, struct batch *batch, struct merge *merge)
{
	struct binding *binding = target_binding(batch->target);
	bool are_left = false;
	int ret = 0, first = 0;

	while (ret == 0 && merge_next(merge, binding->layout)) {
		ret = transfer_round(queue, batch, merge, &are_left);
		first = first ? first : ret;
		if (ret != -ETIMEDOUT && goes_on(batch, ret))
			ret = 0;
	}
	binding_unref(binding);
	if (ret == 0 && are_left) {
		ret = transfer_batch(queue, batch);
		first = first ? first : ret;
	}
	if (first)
		mark_left(batch, first);
	return first == -ETIMEDOUT ? say_how_far(batch, first, error_last_line()) : first;
}

/* Returns how many bytes between two pieces cost less than another read, over any of the connections. */
static uint64_t find_gap(const struct afar_queue *queue, const struct afar_target *target)
{
	uint64_t gap = UINT64_MAX;

	for (uint32_t i = 0; i < queue->nr_paths; i++) {
		const struct path *path = queue->paths[i];

		if (path && path->state == PATH_UP && path->fabric->attributes.gap_bytes < gap)
			gap = path->fabric->attributes.gap_bytes;
	}
	if (gap == UINT64_MAX)
		return 0;
	return target->is_flash && gap < FLASH_GAP_BYTES ? FLASH_GAP_BYTES : gap;
}

/* Carries out the pieces, and those that touch together. */
static int transfer_merged(struct afar_queue *queue, struct batch *batch)
{
	const bool is_write = batch->opcode == AFAR_OP_WRITE;
	struct merge merge;
	int ret;

	if (!merge_begin(&merge, batch->pieces, batch->nr, is_write,
			 is_write ? 0 : find_gap(queue, batch->target)))
		return transfer_batch(queue, batch);
	ret = transfer_rounds(queue, batch, &merge);
	merge_end(&merge);
	return ret;
}

/* Has all see what was written. */
static int flush_pieces(struct afar_queue *queue, const struct batch *batch)
{
	const struct afar_op flush = {.opcode = AFAR_OP_FLUSH, .target = batch->target};
	const struct target_need need = {.pieces = batch->pieces, .nr = batch->nr};
	int ret;

	queue->flushed = &need;
	ret = blocking_transfer(queue, &flush, 0, &need, session_deadline(queue->session));
	queue->flushed = NULL;
	return ret;
}

/* Gives all pieces the status of the flush behind them, if it failed. */
static int fail_unseen(struct batch *batch, int status)
{
	for (unsigned i = 0; i < batch->nr && status; i++)
		batch->pieces[i].status = status;
	return status;
}

/* Some pieces may be lost, or have failed before others were done again, though all else has gone well. Their line was
 * left. */
static int find_failed(const struct batch *batch)
{
	for (unsigned i = 0; i < batch->nr; i++)
		if (batch->pieces[i].status != 0)
			return batch->pieces[i].status;
	return 0;
}

static int transfer_left(struct batch *batch)
{
	const struct target_need need = need_of(batch);
	struct afar_queue *queue;
	int ret =
		target_may(batch->target, batch->opcode) ? 0 : target_fail_read_only(batch->target);

	if (ret == 0)
		ret = blocking_borrow(batch->target, batch->deadline, &queue);
	if (ret)
		return fail_left(batch, ret);
	note_connected(batch, blocking_make_ready(queue, batch->target, &need, batch->deadline));
	if (batch->connected && !target_is_apart(batch->target)) {
		blocking_end(batch->target, queue);
		return fail_unconnected(batch);
	}
	ret = transfer_merged(queue, batch);
	/* The queue has a scratch if a transport of it completes writes before all see them. */
	if (ret == 0 && batch->opcode == AFAR_OP_WRITE && queue->scratch)
		ret = fail_unseen(batch, flush_pieces(queue, batch));
	if (ret == 0)
		same_host_map(batch->target, queue);
	blocking_end(batch->target, queue);
	return ret ? ret : find_failed(batch);
}

/* ---- Near pieces */

#define NEAR_TOGETHER 64U

/* Counts the pieces from the first on that are short and touch in the target, and lists their memory. A long one is alone. */
static unsigned list_touching(const struct target_piece *pieces, unsigned nr, struct afar_iov *iov,
			      uint64_t *length)
{
	unsigned count = 0;

	*length = 0;
	do {
		iov[count] = pieces[count].memory;
		*length += pieces[count].memory.length;
		count++;
	} while (count < nr && count < NEAR_TOGETHER && *length <= MERGE_PACK_BYTES &&
		 pieces[count].memory.length <= MERGE_PIECE_MAX &&
		 pieces[count].offset == pieces[0].offset + *length);
	return count;
}

/* Moves those that are near. Returns how many are left. */
static unsigned move_same_host(struct afar_target *target, uint16_t opcode,
			       struct target_piece *pieces, unsigned nr)
{
	struct afar_iov iov[NEAR_TOGETHER];
	unsigned nr_left = 0, count;

	for (unsigned i = 0; i < nr; i += count) {
		uint64_t length;
		bool is_done;

		count = list_touching(&pieces[i], nr - i, iov, &length);
		is_done = same_host_transfer(target, opcode, iov, count, pieces[i].offset, length);
		for (unsigned k = i; k < i + count; k++)
			pieces[k].status = is_done ? 0 : PIECE_LEFT;
		nr_left += is_done ? 0 : count;
	}
	return nr_left;
}

static unsigned leave_all(struct target_piece *pieces, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		pieces[i].status = PIECE_LEFT;
	return nr;
}

int target_transfer_pieces(struct afar_target *target, uint16_t opcode, uint32_t flags,
			   struct target_piece *pieces, unsigned nr)
{
	struct batch batch = {
		.target = target,
		.opcode = opcode,
		.flags = flags,
		.pieces = pieces,
		.nr = nr,
	};
	bool may_be_near = !flags && atomic_load_explicit(&target->same_host, memory_order_relaxed);
	unsigned nr_left =
		may_be_near ? move_same_host(target, opcode, pieces, nr) : leave_all(pieces, nr);

	if (nr_left == 0)
		return 0;
	batch.deadline = session_deadline(target->session);
	return transfer_left(&batch);
}
