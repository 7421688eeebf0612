/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the peers of a loop's accepted connections have us keep, all together: frames that have not come in full, and frames
 * that they do not read. Each connection has bounds of its own (connection.h); many of them must not exhaust the machine
 * either. When it gets too much, who has the most is put out.
 */
#ifndef RPC_HOARD_H
#define RPC_HOARD_H

#include <stdatomic.h>
#include <stddef.h>
#include <urcu/list.h>

#include "rpc/loop.h"

/* Several of the largest frames. */
#define HOARD_BYTES_MAX ((size_t)256 << 20)

/* A loop's. */
struct hoard {
	atomic_size_t bytes;
	struct cds_list_head
		parts; /* of accepted connections, the oldest first; the loop's thread alone */
	struct loop_task relief;
};

/* A connection's; zeroed: it does not count. */
struct hoard_part {
	struct cds_list_head node;
	struct hoard *hoard;
	atomic_size_t bytes;
};

void hoard_init(struct hoard *hoard);
/* Both on the loop's thread; after leaving nothing is added or taken away. */
void hoard_enter(struct hoard *hoard, struct hoard_part *part);
void hoard_leave(struct hoard_part *part);

/* From any thread. Somebody may be put out for it, soon, on the loop's thread. */
void hoard_add(struct rpc_loop *loop, struct hoard_part *part, size_t bytes);
void hoard_take(struct hoard_part *part, size_t bytes);

#endif
