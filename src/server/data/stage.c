/* SPDX-License-Identifier: BSD-3-Clause */
/* The sessions on the stage, each with the number of its connections. They are looked up when a
 * connection is accepted. */
#include "server/data/stage.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"

struct stage_guest {
	struct cds_list_head node;
	struct zone_holder holder;
	uint64_t session;
	unsigned nr_connections;
	unsigned nr_own; /* pieces of memory beside the stage */
};

int stage_open(struct stage *stage, uint64_t bytes)
{
	CDS_INIT_LIST_HEAD(&stage->guests);
	return zones_open(bytes, &stage->zones);
}

void stage_close(struct stage *stage)
{
	zones_close(stage->zones);
}

static struct stage_guest *find(const struct stage *stage, uint64_t session)
{
	struct stage_guest *guest;

	cds_list_for_each_entry (guest, &stage->guests, node) {
		if (guest->session == session)
			return guest;
	}
	return NULL;
}

int stage_enter(struct stage *stage, uint64_t session, struct stage_guest **out)
{
	struct stage_guest *guest = find(stage, session);

	if (!guest) {
		guest = calloc(1, sizeof(*guest));
		if (!guest)
			return error_code(-ENOMEM);
		guest->session = session;
		cds_list_add(&guest->node, &stage->guests);
	}
	guest->nr_connections++;
	*out = guest;
	return 0;
}

void stage_leave(struct stage_guest *guest)
{
	if (--guest->nr_connections > 0)
		return;
	cds_list_del(&guest->node);
	free(guest);
}

bool stage_guest_has_none(const struct stage_guest *guest)
{
	return guest->holder.bytes == 0 && guest->nr_own == 0;
}

void stage_guest_count(struct stage_guest *guest, int change)
{
	guest->nr_own += (unsigned)change;
}

struct zone_buffer *stage_take(struct stage *stage, struct stage_guest *guest, uint64_t length)
{
	return zones_take(stage->zones, &guest->holder, length);
}

void stage_give(struct stage *stage, struct zone_buffer *buffer)
{
	zones_give(stage->zones, buffer);
}
