/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A mailbox's slots, in one piece of memory that is registered where the transport wants it. A slot is
 * RECEIVING, then READY with a reply, then SENDING, then RECEIVING again. Replies leave in the order of the
 * requests: the client's receives are taken in that order.
 */
#include "server/mailbox.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <urcu/list.h>

#include "base/error.h"

struct slot {
	struct cds_list_head ready; /* in the mailbox's list while READY */
	struct message_request request;
	struct message_reply reply;
	bool is_sending; /* else it receives, or is READY */
};

struct mailbox {
	struct mailbox_options options;
	struct fabric_endpoint *endpoint;
	struct fabric_memory memory; /* of the slots */
	struct cds_list_head ready;  /* replies to be sent, first to leave first */
	unsigned nr_sending;
	struct slot slots[MESSAGE_CREDITS];
};
_Static_assert(MESSAGE_CREDITS <= FABRIC_RECEIVE_MAX, "each has a receive");

static uint64_t context_of(const struct mailbox *mailbox, const struct slot *slot)
{
	return mailbox->options.context | (uint64_t)(slot - mailbox->slots);
}

static int receive(struct mailbox *mailbox, struct slot *slot)
{
	const struct fabric_piece piece = {&slot->request, sizeof(slot->request),
					   mailbox->memory.descriptor};

	/* A request that is too short leaves the rest as it was. */
	slot->request = (struct message_request){0};
	return fabric_receive(mailbox->endpoint, &piece, context_of(mailbox, slot));
}

static int reply(struct mailbox *mailbox, struct slot *slot)
{
	const struct fabric_piece piece = {&slot->reply, sizeof(slot->reply),
					   mailbox->memory.descriptor};

	return fabric_send(mailbox->endpoint, &piece, context_of(mailbox, slot));
}

/* Sends what there is room for. Without room the completion of another one makes some. */
static int push(struct mailbox *mailbox)
{
	struct slot *slot, *next;
	int status;

	cds_list_for_each_entry_safe (slot, next, &mailbox->ready, ready) {
		status = reply(mailbox, slot);
		if (status == -EAGAIN && mailbox->nr_sending > 0)
			return 0;
		if (status != 0)
			return status;
		cds_list_del(&slot->ready);
		slot->is_sending = true;
		mailbox->nr_sending++;
	}
	return 0;
}

static int serve(struct mailbox *mailbox, struct slot *slot)
{
	const struct message_request request = {
		.kind = le32toh(slot->request.kind),
		.tag = le32toh(slot->request.tag),
		.extent = le64toh(slot->request.extent),
		.offset = le64toh(slot->request.offset),
		.operand = le64toh(slot->request.operand),
		.compare = le64toh(slot->request.compare),
	};
	struct message_reply answer = {.tag = request.tag};

	mailbox->options.serve(mailbox->options.argument, &request, &answer);
	slot->reply = (struct message_reply){
		.tag = htole32(answer.tag),
		.status = (int32_t)htole32((uint32_t)answer.status),
		.value = htole64(answer.value),
	};
	cds_list_add_tail(&slot->ready, &mailbox->ready);
	return push(mailbox);
}

int mailbox_complete(struct mailbox *mailbox, const struct fabric_completion *completion)
{
	struct slot *slot = &mailbox->slots[(uint8_t)completion->context % MESSAGE_CREDITS];
	int status;

	if (completion->status != 0)
		return completion->status;
	if (!slot->is_sending)
		return serve(mailbox, slot);
	slot->is_sending = false;
	mailbox->nr_sending--;
	status = receive(mailbox, slot);
	return status != 0 ? status : push(mailbox);
}

int mailbox_start(struct mailbox *mailbox, struct fabric_endpoint *endpoint)
{
	int status = 0;

	mailbox->endpoint = endpoint;
	for (unsigned i = 0; i < MESSAGE_CREDITS && status == 0; i++)
		status = receive(mailbox, &mailbox->slots[i]);
	return status;
}

int mailbox_open(const struct mailbox_options *options, struct mailbox **out)
{
	struct mailbox *mailbox = calloc(1, sizeof(*mailbox));
	int status;

	if (!mailbox)
		return error_code(-ENOMEM);
	mailbox->options = *options;
	CDS_INIT_LIST_HEAD(&mailbox->ready);
	status = fabric_memory_register(options->domain, mailbox->slots, sizeof(mailbox->slots),
					FABRIC_LOCAL, &mailbox->memory);
	if (status != 0) {
		free(mailbox);
		return status;
	}
	*out = mailbox;
	return 0;
}

void mailbox_close(struct mailbox *mailbox)
{
	if (!mailbox)
		return;
	fabric_memory_deregister(&mailbox->memory);
	free(mailbox);
}
