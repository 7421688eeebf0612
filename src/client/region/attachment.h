/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An attached range of a region. It owns its address space, a fabric queue, and connections that
 * serve only this range, one to each of its servers. When the session ends or the region is sealed,
 * the server closes its connection and waits for us to do so, too. The connections stand and end
 * together: when one has ended, no byte of the range can be accessed.
 *
 * One thread at a time may use an attachment.
 */
#ifndef CLIENT_ATTACHMENT_H
#define CLIENT_ATTACHMENT_H

#include <unistd.h>

#include "client/namespace/region.h"

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
	struct binding *binding; /* a reference to the one it was made by */
	void *addr;
	size_t length; /* whole pages */
	uint64_t offset;
	bool may_write;
	bool has_ended; /* no byte can be accessed any more */
	struct fabric *fabric;
	struct fabric_queue *queue;
	uint32_t nr_links;
	struct attachment_link *links; /* by the binding's servers */
};

static inline size_t attachment_page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* Attaches a range. The caller has checked the range and the right, and has counted itself into the
 * region. Blocks, until `deadline`. Errors with a sentence: as afar_region_attach(). */
int attachment_make(struct afar_region *region, uint64_t offset, size_t length, bool may_write,
		    uint64_t deadline, struct attachment **out);
void attachment_free(struct attachment *attachment);

/* Handles events. Call it when the queue's descriptor is readable, or may have been before anybody
 * watched it. Ends the attachment if a server asks for that or has died. */
void attachment_attend(struct attachment *attachment);
/* Ends access to the range: no byte of it can be accessed afterwards. Tells its servers. */
void attachment_blank(struct attachment *attachment);

#endif
