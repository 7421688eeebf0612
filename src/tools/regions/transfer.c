/* SPDX-License-Identifier: BSD-3-Clause */
/* Moves a region's bytes; see transfer.h. Called by region put and region get; owns the queue and
 * the buffers. */
#include "transfer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/cli/cli.h"
#include "tools/cli/interrupts.h"

#define WAIT_MS 200 /* after so long, a wait checks whether it was interrupted */
#define SHOW_NS 100000000U

static int open_slots(struct afar_session *session, struct transfer *transfer)
{
	struct transfer_slot *slot;
	int ret;

	while (transfer->nr_slots < TRANSFER_SLOTS &&
	       transfer->nr_slots * transfer->slot_bytes < transfer->length) {
		slot = &transfer->slots[transfer->nr_slots];
		ret = afar_buffer_alloc(session, transfer->slot_bytes, &slot->buffer);
		if (ret)
			return ret;
		slot->iov.buffer = slot->buffer;
		slot->iov.addr = afar_buffer_data(slot->buffer);
		transfer->nr_slots++;
	}
	return 0;
}

int transfer_open(struct afar_session *session, struct afar_region *region, uint64_t length,
		  uint32_t flags, struct transfer *out)
{
	const struct afar_queue_options options = {
		.size = sizeof(options),
		.depth = TRANSFER_SLOTS,
	};
	int ret;

	*out = (struct transfer){
		.region = region,
		.length = length,
		.flags = flags,
		.slot_bytes = length < TRANSFER_SLOT_BYTES ? length : TRANSFER_SLOT_BYTES,
		.is_terminal = isatty(STDERR_FILENO) == 1,
	};
	ret = afar_queue_open(session, &options, &out->queue);
	if (ret)
		return ret;
	ret = afar_queue_connect(out->queue, afar_region_target(region));
	if (!ret)
		ret = open_slots(session, out);
	if (ret) {
		transfer_close(out);
		return ret;
	}
	out->started_ns = clock_ns();
	return 0;
}

/* Takes completions, and waits up to `timeout_ms` for one. */
static int reap(struct transfer *transfer, unsigned min, int timeout_ms)
{
	struct afar_completion completions[TRANSFER_SLOTS];
	struct transfer_slot *slot;
	int n;

	n = afar_queue_wait(transfer->queue, completions, TRANSFER_SLOTS, min, timeout_ms);
	for (int i = 0; i < n; i++) {
		slot = &transfer->slots[completions[i].user_data];
		slot->result = completions[i].result;
		slot->is_busy = false;
	}
	return n < 0 && n != -EINTR ? n : 0;
}

static bool is_anything_busy(const struct transfer *transfer)
{
	for (unsigned i = 0; i < transfer->nr_slots; i++) {
		if (transfer->slots[i].is_busy)
			return true;
	}
	return false;
}

void transfer_close(struct transfer *transfer)
{
	transfer_hide(transfer);
	while (is_anything_busy(transfer) && reap(transfer, 1, -1) == 0)
		;
	for (unsigned i = 0; i < transfer->nr_slots; i++)
		afar_buffer_unregister(transfer->slots[i].buffer);
	afar_queue_close(transfer->queue);
}

struct transfer_slot *transfer_slot(struct transfer *transfer, uint64_t index)
{
	return &transfer->slots[index % transfer->nr_slots];
}

uint64_t transfer_piece_length(const struct transfer *transfer, uint64_t index)
{
	uint64_t left = transfer->length - index * transfer->slot_bytes;

	return left < transfer->slot_bytes ? left : transfer->slot_bytes;
}

int transfer_start(struct transfer *transfer, uint16_t opcode, uint64_t index)
{
	struct transfer_slot *slot = transfer_slot(transfer, index);
	const struct afar_op op = {
		.opcode = opcode,
		.flags = transfer->flags,
		.nr_iov = 1,
		.target = afar_region_target(transfer->region),
		.offset = index * transfer->slot_bytes,
		.iov = &slot->iov,
		.user_data = index % transfer->nr_slots,
	};
	int taken;

	slot->opcode = opcode;
	slot->piece = index;
	slot->iov.length = transfer_piece_length(transfer, index);
	taken = afar_queue_submit(transfer->queue, &op, 1);
	if (taken < 0)
		return taken;
	if (taken == 0)
		return -EBUSY; /* cannot happen: there are as many slots as the queue is deep */
	slot->is_busy = true;
	return reap(transfer, 0, 0);
}

static int await_idle(struct transfer *transfer, const struct transfer_slot *slot)
{
	int ret;

	while (slot->is_busy) {
		if (is_interrupted())
			return -EINTR;
		ret = reap(transfer, 1, WAIT_MS);
		if (ret)
			return ret;
	}
	return 0;
}

/*
 * Connects and repeats an operation. A server closes a session's connections when other memory that
 * it could reach gets another holder; the bytes of this region are still there. If the session or
 * the server has ended, connecting says so.
 */
static int repeat(struct transfer *transfer, const struct transfer_slot *slot)
{
	int ret = afar_queue_connect(transfer->queue, afar_region_target(transfer->region));

	return ret ? ret : transfer_start(transfer, slot->opcode, slot->piece);
}

int transfer_wait(struct transfer *transfer, uint64_t index)
{
	struct transfer_slot *slot = transfer_slot(transfer, index);
	struct afar_completion done;
	int ret;

	ret = await_idle(transfer, slot);
	if (!ret && (slot->result == -AFAR_ESERVER || slot->result == -ENOTCONN)) {
		slot->result = 0;
		ret = repeat(transfer, slot);
		if (!ret)
			ret = await_idle(transfer, slot);
	}
	if (ret)
		return ret;
	done = (struct afar_completion){index % transfer->nr_slots, slot->result};
	slot->result = 0;
	return afar_queue_explain(transfer->queue, &done);
}

/* ---- The line on the terminal */

static double seconds_since(uint64_t then_ns, uint64_t now_ns)
{
	return (double)(now_ns - then_ns) / 1e9;
}

static void rate_text(double bytes_per_second, char out[SIZE_TEXT_MAX])
{
	if (bytes_per_second >= 1e9)
		snprintf(out, SIZE_TEXT_MAX, "%.2f GB/s", bytes_per_second / 1e9);
	else
		snprintf(out, SIZE_TEXT_MAX, "%.0f MB/s", bytes_per_second / 1e6);
}

void transfer_show(struct transfer *transfer, uint64_t done)
{
	char done_text[SIZE_TEXT_MAX], length_text[SIZE_TEXT_MAX], rate[SIZE_TEXT_MAX];
	uint64_t now;

	if (!transfer->is_terminal)
		return;
	now = clock_ns();
	if (now - transfer->started_ns < SHOW_NS || now - transfer->shown_ns < SHOW_NS)
		return;
	rate_text((double)done / seconds_since(transfer->started_ns, now), rate);
	fprintf(stderr, "\r%s of %s  %3.0f %%  %s\033[K", size_text(done, done_text),
		size_text(transfer->length, length_text),
		100.0 * (double)done / (double)transfer->length, rate);
	transfer->shown_ns = now;
	transfer->is_shown = true;
}

void transfer_hide(struct transfer *transfer)
{
	if (transfer->is_shown)
		fputs("\r\033[K", stderr);
	transfer->is_shown = false;
}

void transfer_summary(const struct transfer *transfer, char *out, size_t size)
{
	double seconds = seconds_since(transfer->started_ns, clock_ns());
	char length[SIZE_TEXT_MAX], rate[SIZE_TEXT_MAX];

	rate_text((double)transfer->length / (seconds > 0 ? seconds : 1e-9), rate);
	snprintf(out, size, "%s in %.3f s, %s", size_text(transfer->length, length), seconds, rate);
}
