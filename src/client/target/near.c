/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows on near memory. queue/near_look.c takes them with a connected queue; any thread uses them;
 * closing the target gives them back. The checks before and after a copy replace those of a queue
 * and its connection:
 *
 *   the handles      nobody has closed the target or the memory; closing waits (near_wait())
 *   is_ready         the target knows of all changes of its layout
 *   nr_loose         no write of the session can land after ours
 *   the gate         the server lives and lends the memory; it waits for threads inside (fabric/mapped.h)
 *
 * A set of windows never changes. It is replaced as a whole, with the target's lock held, and freed
 * when no hold is left.
 */
#include "client/target/near.h"
#include "client/target/near_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/hold.h"
#include "client/session/buffer.h"

#define HELD_MAX NEAR_CHOSEN_MAX /* copied within one hold, because others wait for holds */

/* ---- Finding, within a hold */

/* Returns the target's windows, or NULL if they may not be used now. */
static inline struct near *find(struct afar_target *target, bool is_write)
{
	struct near *near = atomic_load_explicit(&target->near, memory_order_acquire);

	if (!near || handle_is_shut(&target->handle) || (is_write && !near->may_write) ||
	    !near->binding->is_ready)
		return NULL;
	target_note_use(target);
	return near;
}

/* Enters the gate to a piece. NULL: the piece is not near, or may not be used now. */
static inline uint8_t *enter_piece(const struct near *near, const struct layout_piece *at)
{
	const struct near_server *server;
	uint8_t *chunk;

	if (!at->copy)
		return NULL;
	server = &near->servers[at->copy->home];
	chunk = near->chunks[at->copy - near->layout->copies];
	if (!chunk || atomic_load_explicit(server->nr_loose, memory_order_relaxed) > 0 ||
	    !fabric_gate_enter(server->gate))
		return NULL;
	return chunk + at->offset;
}

/* Leaves the gate. False: the access may have come too late to count. */
static inline bool leave_piece(const struct near *near, const struct layout_piece *at)
{
	return fabric_gate_leave(near->servers[at->copy->home].gate);
}

/* ---- Copying */

/* A place in the caller's memory. */
struct near_place {
	const struct afar_iov *iov;
	uint32_t nr_iov; /* this one, and those behind it */
	size_t done;	 /* bytes of this one that are done */
};

static inline void copy_bytes(uint8_t *remote, uint8_t *ours, uint64_t length, bool is_write)
{
	if (is_write)
		copy_memory(remote, ours, length);
	else
		copy_memory(ours, remote, length);
}

static inline void copy(struct near_place *place, uint8_t *remote, uint64_t length, bool is_write)
{
	while (length > 0 && place->nr_iov > 0) {
		uint64_t left = place->iov->length - place->done;
		uint64_t take = left < length ? left : length;

		if (take > 0)
			copy_bytes(remote, (uint8_t *)place->iov->addr + place->done, take,
				   is_write);
		remote += take;
		length -= take;
		place->done += take;
		if (take == left)
			*place = (struct near_place){place->iov + 1, place->nr_iov - 1, 0};
	}
}

/* Copies a piece. False: it is not near, or the copy may have come too late to count. */
static inline bool copy_piece(struct near *near, struct near_place *place,
			      const struct layout_piece *at, bool is_write)
{
	uint8_t *remote = is_write && at->is_frozen ? NULL : enter_piece(near, at);

	if (!remote)
		return false;
	copy(place, remote, at->length, is_write);
	if (!leave_piece(near, at))
		return false;
	near_counts_transfer(&near->counts, at->copy->home, is_write, at->length);
	return true;
}

static inline bool is_open(const struct afar_iov *iov, uint32_t nr_iov)
{
	for (uint32_t i = 0; i < nr_iov; i++) {
		if (iov[i].buffer && handle_is_shut(&iov[i].buffer->handle))
			return false;
	}
	return true;
}

bool near_transfer(struct afar_target *target, uint16_t opcode, const struct afar_iov *iov,
		   uint32_t nr_iov, uint64_t offset, uint64_t length)
{
	const bool is_write = opcode == AFAR_OP_WRITE;
	struct near_place place = {.iov = iov, .nr_iov = nr_iov};
	uint64_t began = 0;
	bool is_done = length > 0;

	for (bool is_first = true; length > 0 && is_done; is_first = false) {
		uint64_t end = offset + (length < HELD_MAX ? length : HELD_MAX);
		struct near *near;
		struct layout_piece at;

		hold_begin();
		near = find(target, is_write);
		if (near && is_first)
			began = near_counts_begin(&near->counts, opcode);
		is_done = near && is_open(iov, nr_iov);
		for (; is_done && offset < end; offset += at.length, length -= at.length) {
			at = layout_piece_at(near->layout, offset, end - offset);
			is_done = copy_piece(near, &place, &at, is_write);
		}
		if (is_done && length == 0)
			near_counts_end(&near->counts, opcode, began);
		hold_end();
	}
	return is_done;
}

bool near_transfer_chosen(struct afar_target *target, uint16_t opcode, void *data, uint64_t length,
			  near_choose *choose, const void *argument)
{
	const bool is_write = opcode == AFAR_OP_WRITE;
	const struct afar_iov iov = {.addr = data, .length = length};
	struct near_place place = {.iov = &iov, .nr_iov = 1};
	uint64_t offset, end, began = 0;
	struct near *near;
	bool is_done;

	hold_begin();
	near = find(target, is_write);
	is_done = near && choose(argument, &offset);
	if (is_done) {
		began = near_counts_begin(&near->counts, opcode);
		for (end = offset + length; is_done && offset < end;) {
			const struct layout_piece at =
				layout_piece_at(near->layout, offset, end - offset);

			is_done = copy_piece(near, &place, &at, is_write);
			offset += at.length;
		}
	}
	if (is_done)
		near_counts_end(&near->counts, opcode, began);
	hold_end();
	return is_done;
}

/* ---- Atomics */

static inline uint64_t do_atomic(const struct afar_op *op, uint64_t *word)
{
	uint64_t before = op->compare;

	if (op->opcode == AFAR_OP_FETCH_ADD)
		return __atomic_fetch_add(word, op->operand, __ATOMIC_SEQ_CST);
	__atomic_compare_exchange_n(word, &before, op->operand, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	return before;
}

static inline int do_near(const struct near *near, const struct afar_op *op, uint64_t *before)
{
	const struct layout_piece at = layout_piece_at(near->layout, op->offset, sizeof(*before));
	uint8_t *word = at.length == sizeof(*before) ? enter_piece(near, &at) : NULL;

	if (!word)
		return -EAGAIN;
	*before = do_atomic(op, (uint64_t *)(void *)word);
	return leave_piece(near, &at) ? 0 : -AFAR_ESERVER;
}

int near_atomic(const struct afar_op *op)
{
	struct near *near;
	uint64_t before, began = 0;
	int ret = -EAGAIN;

	if (op->target->has_nic_atomics)
		return ret;
	hold_begin();
	near = find(op->target, true);
	if (near) {
		began = near_counts_begin(&near->counts, op->opcode);
		ret = do_near(near, op, &before);
	}
	if (!ret)
		near_counts_end(&near->counts, op->opcode, began);
	hold_end();
	if (!ret && op->nr_iov)
		memcpy(op->iov->addr, &before, sizeof(before));
	return ret;
}

/* ---- Giving back */

static void end(struct near *near)
{
	near_counts_close(near->session, &near->counts);
	for (uint32_t i = 0; i < near->layout->nr_homes; i++) {
		if (near->servers[i].gate)
			fabric_gate_drop(near->servers[i].gate);
	}
	binding_unref(near->binding);
	free(near->servers);
	free(near);
}

void near_replace(struct afar_target *target, struct near *by)
{
	struct near *old = atomic_exchange(&target->near, by);

	if (!old)
		return;
	hold_wait();
	end(old);
}

void near_wait(const struct afar_target *target)
{
	if (target->near)
		hold_wait();
}

void near_close(struct afar_target *target)
{
	near_replace(target, NULL);
}
