/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames as bytes: four bytes of little-endian length, then one packed Afar__Frame. */
#ifndef RPC_FRAME_H
#define RPC_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <urcu/list.h>

#include "rpc/rpc.h"

#define FRAME_HEADER 4 /* bytes of the length word */

/* A frame on its way out, in the queue of one connection. */
struct frame_buffer {
	struct cds_list_head entry;
	size_t length; /* of `bytes`, the length word included */
	size_t sent;
	bool is_to_wipe; /* it may have secrets */
	uint8_t bytes[];
};

/* Packs `frame`. The caller frees `*out` with frame_buffer_free(). -EMSGSIZE, with a sentence; -ENOMEM. */
int frame_encode(const Afar__Frame *frame, struct frame_buffer **out);
void frame_buffer_free(struct frame_buffer *buffer);
/* Returns whether a message may have secrets. */
bool frame_is_to_wipe(const Afar__Frame *frame);

static inline uint32_t frame_length(const uint8_t header[FRAME_HEADER])
{
	return (uint32_t)header[0] | (uint32_t)header[1] << 8 | (uint32_t)header[2] << 16 |
	       (uint32_t)header[3] << 24;
}

#endif
