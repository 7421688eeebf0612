/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A range of a region that is attached. It owns its address space, a fabric queue and connections that are for this alone,
 * one to each server of the range, which that closes, and waits for, when the session ends or the region is
 * sealed. They stand and end together: when one has ended, nothing of the range can be touched any more.
 *
 * One thread at a time.
 */
#ifndef CLIENT_ATTACHMENT_H
#define CLIENT_ATTACHMENT_H

#include <unistd.h>

#include "client/region.h"

enum attachment_link_state { LINK_NONE, LINK_CONNECTING, LINK_UP, LINK_ENDED };

/* The connection to one server of the layout. */
struct attachment_link {
	struct fabric_endpoint *endpoint; /* NULL: none */
	const struct peer_lane *lane;
	enum attachment_link_state state;
};

struct attachment {
	struct cds_list_head node; /* in the session's list */
	struct afar_region *region;
	struct binding *binding; /* a reference: that it was made by */
	void *addr;
	size_t length; /* whole pages */
	uint64_t offset;
	bool may_write;
	bool has_ended; /* nothing can be touched any more */
	struct fabric *fabric;
	struct fabric_queue *queue;
	uint32_t nr_links;
	struct attachment_link *links; /* by the binding's servers */
};

static inline size_t attachment_page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* The range and the right have been checked, and the caller has been counted into the region. Blocks, until
 * `deadline`. Errors with a sentence: as afar_region_attach(). */
int attachment_make(struct afar_region *region, uint64_t offset, size_t length, bool may_write,
		    uint64_t deadline, struct attachment **out);
void attachment_free(struct attachment *attachment);

/* Its queue's descriptor is readable, or was when nobody looked: lets go, if a server wants that or has died. */
void attachment_attend(struct attachment *attachment);
/* Lets go: nothing of the range can be touched any more, and its servers hear of that. */
void attachment_blank(struct attachment *attachment);

#endif
