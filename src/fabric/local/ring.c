/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages through the rings of a link: a stream of bytes each way. The ends tell each other how
 * many bytes they have written and taken. queue.c's polls and endpoint.c's posting call it; it owns
 * nothing.
 *
 * We keep our own copies of what we have written and taken. We read the peer's words once, and
 * check that they are possible. We copy the peer's bytes out of the ring before we look at them.
 */
#include <string.h>

#include "fabric/local/exchange.h"
#include "fabric/local/local.h"

struct ring_header {
	uint32_t length;
	uint32_t reserved; /* 0 */
};
_Static_assert(sizeof(struct ring_header) == LOCAL_RING_ALIGN,
	       "it never lies across the ring's end");

static uint32_t padding_of(uint64_t length)
{
	return (uint32_t)(-length % LOCAL_RING_ALIGN);
}

/* ---- Sending */

/* How many bytes fit. The peer is asked only when `wanted` would not. False: it says what cannot be. */
static bool find_room(struct local_endpoint *endpoint, uint64_t wanted, uint32_t *out)
{
	uint32_t used = endpoint->out_written - endpoint->out_taken, taken;

	if (LOCAL_RING_BYTES - used < wanted) {
		taken = atomic_load_explicit(&endpoint->theirs->taken, memory_order_acquire);
		if (taken - endpoint->out_taken > used)
			return false;
		endpoint->out_taken = taken;
		used = endpoint->out_written - taken;
	}
	*out = LOCAL_RING_BYTES - used;
	return true;
}

static void put(struct local_endpoint *endpoint, const void *data, uint32_t length)
{
	uint32_t place = endpoint->out_written % LOCAL_RING_BYTES;
	uint32_t first = length < LOCAL_RING_BYTES - place ? length : LOCAL_RING_BYTES - place;

	memcpy(endpoint->out_ring + place, data, first);
	memcpy(endpoint->out_ring, (const uint8_t *)data + first, length - first);
	endpoint->out_written += length;
}

/* Puts as much of a message, and of its padding, as there is room for. True: that was all. */
static bool put_message(struct local_endpoint *endpoint, struct local_outgoing *out, uint32_t room)
{
	const struct ring_header header = {.length = (uint32_t)out->length};
	uint64_t left, padding = padding_of(out->length);

	if (!out->has_header) {
		if (room < sizeof(header))
			return false;
		put(endpoint, &header, sizeof(header));
		room -= (uint32_t)sizeof(header);
		out->has_header = true;
	}
	left = out->length - out->sent;
	if (left > room)
		left = room;
	if (left > 0)
		put(endpoint, out->addr + out->sent, (uint32_t)left);
	out->sent += left;
	if (out->sent < out->length || room - left < padding)
		return false;
	endpoint->out_written += (uint32_t)padding;
	return true;
}

static uint64_t wanted_by(const struct local_outgoing *out)
{
	return (out->has_header ? 0 : sizeof(struct ring_header)) + out->length - out->sent +
	       padding_of(out->length);
}

void local_ring_flush(struct local_endpoint *endpoint)
{
	uint32_t written = endpoint->out_written, room;
	struct local_outgoing *out;

	while (endpoint->out_first != endpoint->out_end) {
		out = &endpoint->out[endpoint->out_first % LOCAL_DEPTH_MAX];
		if (!find_room(endpoint, wanted_by(out), &room)) {
			local_endpoint_break(endpoint);
			return;
		}
		if (!put_message(endpoint, out, room))
			break;
		endpoint->out_first++;
		local_endpoint_finish(endpoint, out->context, 0, false);
	}
	if (written == endpoint->out_written)
		return;
	atomic_store_explicit(&endpoint->mine->written, endpoint->out_written,
			      memory_order_release);
	local_talk_wake(endpoint, &endpoint->theirs->is_asleep);
}

/* ---- Receiving */

enum step { STEP_DONE, STEP_STARVED, STEP_BROKEN };

static void get(struct local_endpoint *endpoint, void *data, uint32_t length)
{
	uint32_t place = endpoint->in_taken % LOCAL_RING_BYTES;
	uint32_t first = length < LOCAL_RING_BYTES - place ? length : LOCAL_RING_BYTES - place;

	memcpy(data, endpoint->in_ring + place, first);
	memcpy((uint8_t *)data + first, endpoint->in_ring, length - first);
	endpoint->in_taken += length;
}

static bool lacks_receive(const struct local_endpoint *endpoint)
{
	return !endpoint->in.is_payload && endpoint->receive_first == endpoint->receive_end;
}

static enum step take_header(struct local_endpoint *endpoint, uint32_t available)
{
	const struct local_receive *receive =
		&endpoint->receives[endpoint->receive_first % FABRIC_RECEIVE_MAX];
	struct ring_header header;
	uint64_t copy;

	if (available < sizeof(header) || lacks_receive(endpoint))
		return STEP_STARVED;
	/* Read once, whatever the compiler thinks of memory that changes. */
	copy = *(const volatile uint64_t *)(const void *)(endpoint->in_ring +
							  endpoint->in_taken % LOCAL_RING_BYTES);
	memcpy(&header, &copy, sizeof(header));
	if (header.reserved != 0 || header.length > receive->length)
		return STEP_BROKEN;
	endpoint->in_taken += (uint32_t)sizeof(header);
	endpoint->in = (struct local_incoming){.is_payload = true,
					       .addr = receive->addr,
					       .left = header.length,
					       .padding = padding_of(header.length)};
	return STEP_DONE;
}

static enum step take_payload(struct local_endpoint *endpoint, uint32_t available)
{
	struct local_incoming *in = &endpoint->in;
	uint32_t part = in->left < available ? (uint32_t)in->left : available;
	uint32_t index;

	if (part > 0)
		get(endpoint, in->addr, part);
	in->addr += part;
	in->left -= part;
	if (in->left > 0 || available - part < in->padding)
		return STEP_STARVED;
	endpoint->in_taken += in->padding;
	in->is_payload = false;
	index = endpoint->receive_first++ % FABRIC_RECEIVE_MAX;
	local_endpoint_finish(endpoint, endpoint->receives[index].context, 0, true);
	return STEP_DONE;
}

/* How many bytes there are to take. False: the peer says what cannot be. */
static bool find_available(const struct local_endpoint *endpoint, uint32_t *out)
{
	*out = atomic_load_explicit(&endpoint->theirs->written, memory_order_acquire) -
	       endpoint->in_taken;
	return *out <= LOCAL_RING_BYTES;
}

/* Up to what is there now: a peer that keeps writing must not keep us. */
static enum step take_available(struct local_endpoint *endpoint)
{
	enum step step = STEP_DONE;
	uint32_t end, available;

	if (!find_available(endpoint, &available))
		return STEP_BROKEN;
	end = endpoint->in_taken + available;
	while (step == STEP_DONE) {
		available = end - endpoint->in_taken;
		step = endpoint->in.is_payload ? take_payload(endpoint, available)
					       : take_header(endpoint, available);
	}
	return step;
}

static void receive(struct local_endpoint *endpoint)
{
	uint32_t taken = endpoint->in_taken;

	if (take_available(endpoint) == STEP_BROKEN) {
		local_endpoint_break(endpoint);
		return;
	}
	if (taken == endpoint->in_taken)
		return;
	atomic_store_explicit(&endpoint->mine->taken, endpoint->in_taken, memory_order_release);
	local_talk_wake(endpoint, &endpoint->theirs->wants_room);
}

/* ---- Both */

bool local_ring_progress(struct local_endpoint *endpoint)
{
	uint32_t taken = endpoint->in_taken, written = endpoint->out_written;

	receive(endpoint);
	if (endpoint->state == LOCAL_IS_CONNECTED && endpoint->out_first != endpoint->out_end)
		local_ring_flush(endpoint);
	return taken != endpoint->in_taken || written != endpoint->out_written;
}

bool local_ring_sleep(struct local_endpoint *endpoint)
{
	bool is_sending = endpoint->out_first != endpoint->out_end;
	uint32_t available, room;

	atomic_store(&endpoint->mine->is_asleep, 1);
	atomic_store(&endpoint->mine->wants_room, is_sending);
	atomic_thread_fence(memory_order_seq_cst);
	/* Impossible numbers are something to look at, too. */
	if (!find_available(endpoint, &available) ||
	    !find_room(endpoint, LOCAL_RING_BYTES, &room) ||
	    (available > 0 && !lacks_receive(endpoint)) || (is_sending && room > 0) ||
	    local_queue_of(endpoint)->paged->has_news(endpoint)) {
		atomic_store(&endpoint->mine->is_asleep, 0);
		return false;
	}
	return true;
}
