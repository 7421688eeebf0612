/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages of one data connection: MESSAGE_CREDITS slots, each of which waits for a request, has it
 * served, sends the reply and waits again. Belongs to the progress thread of its connection.
 */
#ifndef SERVER_MAILBOX_H
#define SERVER_MAILBOX_H

#include <stdint.h>

#include "fabric/fabric.h"
#include "rpc/message.h"

struct mailbox;

struct mailbox_options {
	struct fabric_domain *domain; /* that the connection is in */
	uint64_t context;	      /* of its operations: the low 8 bits are the mailbox's */
	/* Fills in the reply's status and value; both are in host order. */
	void (*serve)(void *argument, const struct message_request *request,
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

#endif
