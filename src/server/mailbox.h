/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages of one data connection: MESSAGE_CREDITS slots, each of which waits for a request, has it
 * served, at once or after a while, sends the reply and waits again. Belongs to the progress thread of its connection.
 */
#ifndef SERVER_MAILBOX_H
#define SERVER_MAILBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "rpc/message.h"

struct mailbox;

struct mailbox_options {
	struct fabric_domain *domain; /* that the connection is in */
	uint64_t context;	      /* of its operations: the low 7 bits are the mailbox's */
	/* Fills in the reply's status and value; both are in host order. False: it is not there yet, and comes by
	 * mailbox_answer() for this slot, after this has returned. */
	bool (*serve)(void *argument, unsigned slot, const struct message_request *request,
		      struct message_reply *reply);
	void *argument;
};

/* Makes one. With a sentence: -ENOMEM, those of fabric_memory_register(). */
int mailbox_open(const struct mailbox_options *options, struct mailbox **out);
/* The endpoint is closed. NULL is fine. */
void mailbox_close(struct mailbox *mailbox);

/* Waits for requests from now on. An error: close the endpoint. */
int mailbox_start(struct mailbox *mailbox, struct fabric_endpoint *endpoint);
/* Takes a completion with its context. An error: close the endpoint. */
int mailbox_complete(struct mailbox *mailbox, const struct fabric_completion *completion);
/* The reply of a slot that was not there. An error: close the endpoint. */
int mailbox_answer(struct mailbox *mailbox, unsigned slot, int status);

#endif
