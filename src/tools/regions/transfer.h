/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves a region's bytes through a few registered buffers that are in flight at once, and shows the
 * progress on a terminal. One thread.
 */
#ifndef TOOLS_TRANSFER_H
#define TOOLS_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include <afar/afar.h>

#define TRANSFER_SLOTS	    8
#define TRANSFER_SLOT_BYTES ((uint64_t)4 << 20)

struct transfer_slot {
	struct afar_buffer *buffer;
	struct afar_iov iov;
	uint16_t opcode;
	uint64_t piece;
	bool is_busy;
	int64_t result; /* of its last operation, once it is idle */
};

struct transfer {
	struct afar_region *region;
	struct afar_queue *queue;
	struct transfer_slot slots[TRANSFER_SLOTS];
	unsigned nr_slots;
	uint64_t slot_bytes;
	uint64_t length; /* of the region */
	uint32_t flags;	 /* of its operations: AFAR_OP_… */
	uint64_t started_ns, shown_ns;
	bool is_terminal, is_shown;
};

/* Gets the queue, connections and buffers for `length` bytes of `region`. `flags` are those of its
 * operations. Returns 0, or the library's error with nothing left to close. */
int transfer_open(struct afar_session *session, struct afar_region *region, uint64_t length,
		  uint32_t flags, struct transfer *out);
/* Waits for operations in flight and frees everything. */
void transfer_close(struct transfer *transfer);

/* transfer_slot() returns the slot of the `index`-th piece, transfer_piece_length() how long the
 * piece is. */
struct transfer_slot *transfer_slot(struct transfer *transfer, uint64_t index);
uint64_t transfer_piece_length(const struct transfer *transfer, uint64_t index);

/* Starts the `index`-th piece, AFAR_OP_READ or AFAR_OP_WRITE, through its idle slot. Returns 0 or
 * an error. */
int transfer_start(struct transfer *transfer, uint16_t opcode, uint64_t index);
/* Waits until the slot of the `index`-th piece is idle; tries again if its connection was lost.
 * Returns 0, or the error of its operation or of connecting again, with the library's line. Returns
 * -EINTR after a signal; then the operation may still be in flight. */
int transfer_wait(struct transfer *transfer, uint64_t index);

/* Shows, on a terminal and not too often, that `done` bytes are there. */
void transfer_show(struct transfer *transfer, uint64_t done);
/* Removes that line. */
void transfer_hide(struct transfer *transfer);
/* Writes "868.1 MiB in 0.62 s, 1.47 GB/s" into `out`. */
void transfer_summary(const struct transfer *transfer, char *out, size_t size);

#endif
