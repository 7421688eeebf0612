/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages of one data connection: MESSAGE_CREDITS slots. Each slot waits for a request, has it
 * served at once or after a while, sends the reply, and waits again. The connection's progress
 * thread owns it.
 */
#ifndef SERVER_MAILBOX_H
#define SERVER_MAILBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "rpc/message.h"

struct mailbox;

struct mailbox_options {
	struct fabric_domain *domain; /* the connection's domain */
	uint64_t context;	      /* of its operations; the low 7 bits are the mailbox's */
	/* Fills in the reply's status and value; both are in host order. False: there is no reply
	 * yet; mailbox_answer() for this slot brings it, after this has returned. */
	bool (*serve)(void *argument, unsigned slot, const struct message_request *request,
		      struct message_reply *reply);
	void *argument;
};

/* Makes a mailbox. With a sentence: -ENOMEM, those of fabric_memory_register(). */
int mailbox_open(const struct mailbox_options *options, struct mailbox **out);
/* Call it when the endpoint is closed. NULL is allowed. */
void mailbox_close(struct mailbox *mailbox);

/* Waits for requests from now on. An error: close the endpoint. */
int mailbox_start(struct mailbox *mailbox, struct fabric_endpoint *endpoint);
/* Takes a completion with its context. An error: close the endpoint. */
int mailbox_complete(struct mailbox *mailbox, const struct fabric_completion *completion);
/* Gives the reply of a slot for which `serve` returned false. An error: close the endpoint. */
int mailbox_answer(struct mailbox *mailbox, unsigned slot, int status, uint64_t value);

#endif
