/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A mailbox's slots, in one piece of memory that is registered if the transport wants that. A slot
 * is RECEIVING, then SERVED, then READY with a reply, then SENDING, then RECEIVING again. Replies
 * leave in the order of the requests, because the client's receives take them in that order.
 */
#include "server/data/mailbox.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <urcu/list.h>

#include "base/error.h"

enum slot_state { SLOT_RECEIVING, SLOT_SERVED, SLOT_READY, SLOT_SENDING };

struct slot {
	struct cds_list_head node; /* in the mailbox's list while SERVED or READY */
	enum slot_state state;
	struct message_request request;
	struct message_reply reply;
};

struct mailbox {
	struct mailbox_options options;
	struct fabric_endpoint *endpoint;
	struct fabric_memory memory; /* of the slots */
	struct cds_list_head owed;   /* SERVED and READY slots, in the order of their requests */
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

	slot->state = SLOT_RECEIVING;
	/* Clears it, because a request that is too short leaves the rest as it was. */
	slot->request = (struct message_request){0};
	return fabric_receive(mailbox->endpoint, &piece, context_of(mailbox, slot));
}

static int reply(struct mailbox *mailbox, struct slot *slot)
{
	const struct fabric_piece piece = {&slot->reply, sizeof(slot->reply),
					   mailbox->memory.descriptor};

	return fabric_send(mailbox->endpoint, &piece, context_of(mailbox, slot));
}

/* Sends the ready replies up to the first slot that is not ready, as far as there is room. Without
 * room, a completion continues this. */
static int push(struct mailbox *mailbox)
{
	struct slot *slot, *next;
	int ret;

	cds_list_for_each_entry_safe (slot, next, &mailbox->owed, node) {
		if (slot->state != SLOT_READY)
			return 0;
		ret = reply(mailbox, slot);
		if (ret == -EAGAIN && mailbox->nr_sending > 0)
			return 0;
		if (ret != 0)
			return ret;
		cds_list_del(&slot->node);
		slot->state = SLOT_SENDING;
		mailbox->nr_sending++;
	}
	return 0;
}

/* Takes the reply of a slot, in host order, and sends what can be sent. */
static int settle(struct mailbox *mailbox, struct slot *slot, const struct message_reply *answer)
{
	slot->reply = (struct message_reply){
		.tag = htole32(answer->tag),
		.status = (int32_t)htole32((uint32_t)answer->status),
		.value = htole64(answer->value),
	};
	slot->state = SLOT_READY;
	return push(mailbox);
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
		.key = le64toh(slot->request.key),
	};
	struct message_reply answer = {.tag = request.tag};

	slot->state = SLOT_SERVED;
	cds_list_add_tail(&slot->node, &mailbox->owed);
	if (!mailbox->options.serve(mailbox->options.argument, (unsigned)(slot - mailbox->slots),
				    &request, &answer))
		return 0;
	return settle(mailbox, slot, &answer);
}

int mailbox_answer(struct mailbox *mailbox, unsigned number, int status, uint64_t value)
{
	struct slot *slot = &mailbox->slots[number];
	const struct message_reply answer = {
		.tag = le32toh(slot->request.tag), .status = status, .value = value};

	return settle(mailbox, slot, &answer);
}

int mailbox_complete(struct mailbox *mailbox, const struct fabric_completion *completion)
{
	struct slot *slot = &mailbox->slots[(uint8_t)completion->context % MESSAGE_CREDITS];
	int ret;

	if (completion->status != 0)
		return completion->status;
	if (slot->state != SLOT_SENDING)
		return serve(mailbox, slot);
	mailbox->nr_sending--;
	ret = receive(mailbox, slot);
	return ret != 0 ? ret : push(mailbox);
}

int mailbox_start(struct mailbox *mailbox, struct fabric_endpoint *endpoint)
{
	int ret = 0;

	mailbox->endpoint = endpoint;
	for (unsigned i = 0; i < MESSAGE_CREDITS && ret == 0; i++)
		ret = receive(mailbox, &mailbox->slots[i]);
	return ret;
}

int mailbox_open(const struct mailbox_options *options, struct mailbox **out)
{
	struct mailbox *mailbox = calloc(1, sizeof(*mailbox));
	int ret;

	if (!mailbox)
		return error_code(-ENOMEM);
	mailbox->options = *options;
	CDS_INIT_LIST_HEAD(&mailbox->owed);
	ret = fabric_memory_register(options->domain, mailbox->slots, sizeof(mailbox->slots),
				     FABRIC_LOCAL, &mailbox->memory);
	if (ret != 0) {
		free(mailbox);
		return ret;
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
