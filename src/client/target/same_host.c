/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows on same-host memory. queue/same_host_map.c takes them with a connected queue; any thread uses them;
 * closing the target gives them back. The checks before and after a copy replace those of a queue
 * and its connection:
 *
 *   the handles      nobody has closed the target or the memory; closing waits (same_host_wait())
 *   is_ready         the target knows of all changes of its layout
 *   nr_in_doubt         no write of the session can land after ours
 *   the gate         the server lives and lends the memory; it waits for threads inside (fabric/mapped.h)
 *
 * A store lends no memory, but its server may show pages (fabric/paged.h). A read that finds all of its bytes there
 * is done; the others, and writes, go over a queue.
 *
 * A set of windows never changes. It is replaced as a whole, with the target's lock held, and freed
 * when no epoch section is left.
 */
#include "client/target/same_host.h"
#include "client/target/same_host_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/epoch.h"
#include "client/session/buffer.h"

#define HELD_MAX \
	NEAR_CHOSEN_MAX /* copied within one epoch section, because others wait for epoch sections */

/* ---- Finding, within an epoch section */

/* Returns the target's windows, or NULL if they may not be used now. */
static inline struct same_host *find(struct afar_target *target, bool is_write)
{
	struct same_host *same_host =
		atomic_load_explicit(&target->same_host, memory_order_acquire);

	if (!same_host || handle_is_shut(&target->handle) || (is_write && !same_host->may_write) ||
	    !same_host->binding->is_ready)
		return NULL;
	target_note_use(target);
	return same_host;
}

/* Enters the gate to a piece. NULL: the piece is not on this host, or may not be used now. */
static inline uint8_t *enter_piece(const struct same_host *same_host, const struct layout_piece *at)
{
	const struct same_host_server *server;
	uint8_t *chunk;

	if (!at->copy)
		return NULL;
	server = &same_host->servers[at->copy->home];
	chunk = same_host->chunks[at->copy - same_host->layout->copies];
	if (!chunk || atomic_load_explicit(server->nr_in_doubt, memory_order_relaxed) > 0 ||
	    !fabric_gate_enter(server->gate))
		return NULL;
	return chunk + at->offset;
}

/* Leaves the gate. False: the access may have come too late to count. */
static inline bool leave_piece(const struct same_host *same_host, const struct layout_piece *at)
{
	return fabric_gate_leave(same_host->servers[at->copy->home].gate);
}

/* ---- Copying */

/* A place in the caller's memory. */
struct same_host_place {
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

static inline void copy(struct same_host_place *place, uint8_t *remote, uint64_t length,
			bool is_write)
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
			*place = (struct same_host_place){place->iov + 1, place->nr_iov - 1, 0};
	}
}

/* Reads what a store's server shows of a piece. */
static bool read_shown(const struct same_host_shown *shown, struct same_host_place *place,
		       uint64_t offset, uint64_t length)
{
	while (length > 0 && place->nr_iov > 0) {
		const uint64_t left = place->iov->length - place->done;
		const uint64_t take = left < length ? left : length;
		uint8_t *to = (uint8_t *)place->iov->addr + place->done;

		if (take > 0 &&
		    !shown->pages->read(shown->pages, shown->key, shown->remote + offset, to, take))
			return false;
		offset += take;
		length -= take;
		place->done += take;
		if (take == left)
			*place = (struct same_host_place){place->iov + 1, place->nr_iov - 1, 0};
	}
	return true;
}

/* Finds a piece on flash without its server. False: it is not there now. */
static __attribute__((noinline)) bool find_piece(struct same_host *same_host,
						 struct same_host_place *place,
						 const struct layout_piece *at)
{
	const struct same_host_server *server;
	const struct same_host_shown *shown;
	bool is_read;

	if (!at->copy)
		return false;
	server = &same_host->servers[at->copy->home];
	shown = &same_host->shown[at->copy - same_host->layout->copies];
	if (!shown->pages || atomic_load_explicit(server->nr_in_doubt, memory_order_relaxed) > 0 ||
	    !fabric_gate_enter(server->gate))
		return false;
	is_read = read_shown(shown, place, at->offset, at->length);
	if (!leave_piece(same_host, at) || !is_read)
		return false;
	same_host_counts_transfer(&same_host->counts, at->copy->home, false, at->length);
	return true;
}

/* Copies a piece. False: it is not on this host, or the copy may have come too late to count. */
static inline bool copy_piece(struct same_host *same_host, struct same_host_place *place,
			      const struct layout_piece *at, bool is_write)
{
	uint8_t *remote = is_write && at->is_frozen ? NULL : enter_piece(same_host, at);

	if (!remote)
		return same_host->shown && !is_write && find_piece(same_host, place, at);
	copy(place, remote, at->length, is_write);
	if (!leave_piece(same_host, at))
		return false;
	same_host_counts_transfer(&same_host->counts, at->copy->home, is_write, at->length);
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

bool same_host_transfer(struct afar_target *target, uint16_t opcode, const struct afar_iov *iov,
			uint32_t nr_iov, uint64_t offset, uint64_t length)
{
	const bool is_write = opcode == AFAR_OP_WRITE;
	struct same_host_place place = {.iov = iov, .nr_iov = nr_iov};
	uint64_t began = 0;
	bool is_done = length > 0;

	for (bool is_first = true; length > 0 && is_done; is_first = false) {
		uint64_t end = offset + (length < HELD_MAX ? length : HELD_MAX);
		struct same_host *same_host;
		struct layout_piece at;

		epoch_enter();
		same_host = find(target, is_write);
		if (same_host && is_first)
			began = same_host_counts_begin(&same_host->counts, opcode);
		is_done = same_host && is_open(iov, nr_iov);
		for (; is_done && offset < end; offset += at.length, length -= at.length) {
			at = layout_piece_at(same_host->layout, offset, end - offset);
			is_done = copy_piece(same_host, &place, &at, is_write);
		}
		if (is_done && length == 0)
			same_host_counts_end(&same_host->counts, opcode, began);
		epoch_exit();
	}
	return is_done;
}

bool same_host_transfer_chosen(struct afar_target *target, uint16_t opcode, void *data,
			       uint64_t length, same_host_choose *choose, const void *argument)
{
	const bool is_write = opcode == AFAR_OP_WRITE;
	const struct afar_iov iov = {.addr = data, .length = length};
	struct same_host_place place = {.iov = &iov, .nr_iov = 1};
	uint64_t offset, end, began = 0;
	struct same_host *same_host;
	bool is_done;

	epoch_enter();
	same_host = find(target, is_write);
	is_done = same_host && choose(argument, &offset);
	if (is_done) {
		began = same_host_counts_begin(&same_host->counts, opcode);
		for (end = offset + length; is_done && offset < end;) {
			const struct layout_piece at =
				layout_piece_at(same_host->layout, offset, end - offset);

			is_done = copy_piece(same_host, &place, &at, is_write);
			offset += at.length;
		}
	}
	if (is_done)
		same_host_counts_end(&same_host->counts, opcode, began);
	epoch_exit();
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

static inline int do_same_host(const struct same_host *same_host, const struct afar_op *op,
			       uint64_t *before)
{
	const struct layout_piece at =
		layout_piece_at(same_host->layout, op->offset, sizeof(*before));
	uint8_t *word = at.length == sizeof(*before) ? enter_piece(same_host, &at) : NULL;

	if (!word)
		return -EAGAIN;
	*before = do_atomic(op, (uint64_t *)(void *)word);
	return leave_piece(same_host, &at) ? 0 : -AFAR_ESERVER;
}

int same_host_atomic(const struct afar_op *op)
{
	struct same_host *same_host;
	uint64_t before, began = 0;
	int ret = -EAGAIN;

	if (op->target->has_nic_atomics)
		return ret;
	epoch_enter();
	same_host = find(op->target, true);
	if (same_host) {
		began = same_host_counts_begin(&same_host->counts, op->opcode);
		ret = do_same_host(same_host, op, &before);
	}
	if (!ret)
		same_host_counts_end(&same_host->counts, op->opcode, began);
	epoch_exit();
	if (!ret && op->nr_iov)
		memcpy(op->iov->addr, &before, sizeof(before));
	return ret;
}

/* ---- Giving back */

static void end(struct same_host *same_host)
{
	same_host_counts_close(same_host->session, &same_host->counts);
	for (uint32_t i = 0; i < same_host->layout->nr_homes; i++) {
		if (same_host->servers[i].gate)
			fabric_gate_drop(same_host->servers[i].gate);
	}
	binding_unref(same_host->binding);
	free(same_host->shown);
	free(same_host->servers);
	free(same_host);
}

void same_host_replace(struct afar_target *target, struct same_host *by)
{
	struct same_host *old = atomic_exchange(&target->same_host, by);

	if (!old)
		return;
	epoch_wait();
	end(old);
}

void same_host_wait(const struct afar_target *target)
{
	if (target->same_host)
		epoch_wait();
}

void same_host_close(struct afar_target *target)
{
	same_host_replace(target, NULL);
}
