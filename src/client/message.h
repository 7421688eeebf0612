/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of a path: requests to its server's CPU, as many at once as the server waits for, each with the
 * place for its reply. A slot belongs to one transfer from its request to its reply.
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
	bool is_armed; /* free, but a receive is posted into it already: the next to be taken */
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
/* Of one that was not opened, too, if it is zeroed. */
void message_box_close(struct message_box *box);
/* The connection is new, and nothing is posted on it; its completions will have this context, whose
 * MESSAGE_SLOT_MASK is free. */
void message_box_reset(struct message_box *box, uint64_t context);

/* Sends a request whose fields are in host order but for the tag, which is ours. -EAGAIN: all slots are taken,
 * or there is no room; errors as fabric_send(). Two completions follow. */
int message_send(struct message_box *box, struct fabric_endpoint *endpoint,
		 const struct message_request *request, void *owner);
/* Takes a completion with its context. `*out` is the slot when the reply is there, else NULL.
 * -AFAR_EMALFORMED: a reply that nobody asked for; replies cannot be told from each other any more. */
int message_complete(struct message_box *box, uint64_t context, struct message_slot **out);
/* Gives the slot back and says what the reply says: 0 with the value, the server's error, or
 * -AFAR_EMALFORMED, as above. */
int message_take(struct message_box *box, struct message_slot *slot, uint64_t *value);

#endif
