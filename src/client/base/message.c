/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of a path. The n-th receive takes the n-th reply on a connection, so each request posts
 * its receive first. */
#include "client/base/message.h"

#include <endian.h>
#include <errno.h>

#include <afar/error.h>

int message_box_open(struct message_box *box, struct fabric_domain *domain)
{
	message_box_reset(box, 0);
	return fabric_memory_register(domain, box->slots, sizeof(box->slots), FABRIC_LOCAL,
				      &box->memory);
}

void message_box_close(struct message_box *box)
{
	if (box->memory.domain)
		fabric_memory_deregister(&box->memory);
}

void message_box_reset(struct message_box *box, uint64_t context)
{
	box->context = context;
	CDS_INIT_LIST_HEAD(&box->free);
	for (unsigned i = 0; i < MESSAGE_CREDITS; i++) {
		box->slots[i].is_armed = false;
		box->slots[i].nr_pending = 0;
		cds_list_add_tail(&box->slots[i].node, &box->free);
	}
}

static uint32_t tag_of(const struct message_box *box, const struct message_slot *slot)
{
	return (uint32_t)(slot - box->slots);
}

static uint64_t context_of(const struct message_box *box, const struct message_slot *slot)
{
	return box->context | tag_of(box, slot);
}

static int arm(struct message_box *box, struct message_slot *slot, struct fabric_endpoint *endpoint)
{
	const struct fabric_piece piece = {&slot->reply, sizeof(slot->reply),
					   box->memory.descriptor};
	int ret;

	if (slot->is_armed)
		return 0;
	/* Fills in a status that no server sends, because none is positive. So a reply that is too
	 * short is detected. */
	slot->reply =
		(struct message_reply){.tag = UINT32_MAX, .status = (int32_t)htole32(INT32_MAX)};
	ret = fabric_receive(endpoint, &piece, context_of(box, slot));
	slot->is_armed = !ret;
	return ret;
}

int message_send(struct message_box *box, struct fabric_endpoint *endpoint,
		 const struct message_request *request, void *owner)
{
	struct message_slot *slot;
	struct fabric_piece piece;
	int ret;

	if (cds_list_empty(&box->free))
		return -EAGAIN;
	slot = cds_list_first_entry(&box->free, struct message_slot, node);
	ret = arm(box, slot, endpoint);
	if (ret)
		return ret;
	slot->request = (struct message_request){
		.kind = htole32(request->kind),
		.tag = htole32(tag_of(box, slot)),
		.extent = htole64(request->extent),
		.offset = htole64(request->offset),
		.operand = htole64(request->operand),
		.compare = htole64(request->compare),
		.key = htole64(request->key),
	};
	piece = (struct fabric_piece){&slot->request,
				      message_is_move(request->kind) ? sizeof(slot->request)
								     : MESSAGE_ATOMIC_BYTES,
				      box->memory.descriptor};
	ret = fabric_send(endpoint, &piece, context_of(box, slot));
	if (ret)
		return ret;
	slot->is_armed = false;
	slot->nr_pending = 2;
	slot->owner = owner;
	cds_list_del(&slot->node);
	return 0;
}

int message_complete(struct message_box *box, uint64_t context, struct message_slot **out)
{
	struct message_slot *slot = &box->slots[context & MESSAGE_SLOT_MASK];

	*out = NULL;
	if (slot->nr_pending == 0)
		return -AFAR_EMALFORMED;
	if (--slot->nr_pending == 0)
		*out = slot;
	return 0;
}

int message_take(struct message_box *box, struct message_slot *slot, uint64_t *value)
{
	int32_t status = (int32_t)le32toh((uint32_t)slot->reply.status);

	cds_list_add_tail(&slot->node, &box->free);
	if (le32toh(slot->reply.tag) != tag_of(box, slot) || status > 0)
		return -AFAR_EMALFORMED;
	*value = le64toh(slot->reply.value);
	return status;
}
