/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stage: where the bytes of server-driven transfers stop on their way between a client and what the server keeps them in, for
 * what cannot be the fabric's target itself. Buffers are shared by session, however many connections it has. A stage is a mover's, and
 * so a progress thread's.
 */
#ifndef SERVER_STAGE_H
#define SERVER_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <urcu/list.h>

#include "memory/zones.h"

struct stage {
	struct zones *zones; /* NULL: it is not open */
	struct cds_list_head guests;
};

/* A session that has connections here. */
struct stage_guest;

/* With buffers of `bytes` in all, as zones_open(). */
int stage_open(struct stage *stage, uint64_t bytes);
/* All guests have left. One that is not open: nothing to do. */
void stage_close(struct stage *stage);

static inline bool stage_is_open(const struct stage *stage)
{
	return stage->zones != NULL;
}

/* For a connection of this session. -ENOMEM, with a sentence. */
int stage_enter(struct stage *stage, uint64_t session, struct stage_guest **out);
/* That connection is closed, and has given its buffers back. */
void stage_leave(struct stage_guest *guest);

/* As zones_take() and zones_give(). */
struct zone_buffer *stage_take(struct stage *stage, struct stage_guest *guest, uint64_t length);
void stage_give(struct stage *stage, struct zone_buffer *buffer);

#endif
