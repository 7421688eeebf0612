/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of a path: requests to its server's CPU, and for each the place of its reply. There are
 * as many slots as the server accepts at once. A slot belongs to one transfer from its request to
 * its reply.
 */
#ifndef CLIENT_MESSAGE_H
#define CLIENT_MESSAGE_H

#include <stdbool.h>

#include <urcu/list.h>

#include "fabric/fabric.h"
#include "rpc/message.h"

struct message_slot {
	struct cds_list_head node; /* in the box's list while it is free */
	struct message_request request;
	struct message_reply reply;
	void *owner;	     /* whoever sent it */
	unsigned nr_pending; /* completions: of the sending and the receiving */
	bool is_armed;	     /* free, but a receive is posted into it already: it is taken next */
};

struct message_box {
	struct fabric_memory memory; /* of the slots, where the transport wants it registered */
	uint64_t context;	     /* of the operations; the low bits are the slot's number */
	struct cds_list_head free;
	struct message_slot slots[MESSAGE_CREDITS];
};

#define MESSAGE_SLOT_MASK ((uint64_t)MESSAGE_CREDITS - 1)
_Static_assert((MESSAGE_CREDITS & MESSAGE_SLOT_MASK) == 0, "a power of two");

/* Errors as fabric_memory_register(). */
int message_box_open(struct message_box *box, struct fabric_domain *domain);
/* Closes a box, or does nothing to a zeroed one. */
void message_box_close(struct message_box *box);
/* Prepares the box for a new connection on which nothing is posted. Its completions will have
 * `context`, whose MESSAGE_SLOT_MASK is free. */
void message_box_reset(struct message_box *box, uint64_t context);

/* Sends a request. The caller gives its fields in host order, without the tag, which this sets.
 * -EAGAIN: all slots are taken, or there is no room; errors as fabric_send(). Two completions
 * follow. */
int message_send(struct message_box *box, struct fabric_endpoint *endpoint,
		 const struct message_request *request, void *owner);
/* Takes a completion with its context. `*out` is the slot if the reply is there, else NULL.
 * -AFAR_EMALFORMED: no request matches the reply, so replies cannot be assigned any more. */
int message_complete(struct message_box *box, uint64_t context, struct message_slot **out);
/* Gives the slot back and returns the reply: 0 with the value, the server's error, or
 * -AFAR_EMALFORMED, as above. */
int message_take(struct message_box *box, struct message_slot *slot, uint64_t *value);

#endif
