/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints, and the messages on them: those of the users of the fabric (notes), asks and answers. All
 * are sent from and received into memory of the endpoint's own. Called by whoever owns the
 * endpoint's queue.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "fabric/driven/driven.h"

/* ---- Messages below */

void driven_post_receive(struct driven_endpoint *endpoint, uint32_t number)
{
	struct driven_message *message = &endpoint->slots->received[number];
	const struct fabric_piece piece = {message, sizeof(*message), endpoint->memory.descriptor};
	int ret;

	if (endpoint->is_broken)
		return;
	message->head = (struct driven_head){0}; /* a message that is too short leaves it so */
	ret = fabric_receive(endpoint->below, &piece, endpoint->context | DRIVEN_RECEIVE | number);
	if (ret != 0)
		driven_break(endpoint, -ECONNRESET, NULL);
}

int driven_post_message(struct driven_endpoint *endpoint, const struct driven_message *message,
			size_t length, uint32_t operation)
{
	const struct fabric_piece piece = {(void *)(uintptr_t)message, length,
					   endpoint->memory.descriptor};

	return endpoint->is_broken
		       ? -ENOTCONN
		       : fabric_send(endpoint->below, &piece, endpoint->context | operation);
}

/* ---- Opening and closing */

static int open_slots(struct driven_endpoint *endpoint, size_t nr_out)
{
	struct fabric *below = driven_fabric_of(endpoint)->below;
	const size_t length = sizeof(*endpoint->slots) + nr_out * sizeof(struct driven_message);
	int ret;

	endpoint->slots = calloc(1, length);
	if (!endpoint->slots)
		return error_code(-ENOMEM);
	ret = fabric_memory_register(below->domain, endpoint->slots, length, FABRIC_LOCAL,
				     &endpoint->memory);
	if (ret != 0) {
		free(endpoint->slots);
		endpoint->slots = NULL;
	}
	return ret;
}

/* Frees what there is of it. */
static void endpoint_free(struct driven_endpoint *endpoint)
{
	if (endpoint->context != 0)
		driven_queue_leave(driven_queue_of(endpoint), endpoint);
	driven_ask_close(endpoint);
	driven_serve_close(endpoint);
	if (endpoint->slots) {
		fabric_memory_deregister(&endpoint->memory);
		free(endpoint->slots);
	}
	cds_list_del(&endpoint->broken);
	cds_list_del(&endpoint->eventful);
	free(endpoint);
}

static struct driven_endpoint *endpoint_new(struct fabric_queue *queue,
					    struct fabric_domain *domain, bool is_accepting,
					    void *owner, int *error)
{
	struct driven_endpoint *endpoint = calloc(1, sizeof(*endpoint));

	if (!endpoint) {
		*error = error_code(-ENOMEM);
		return NULL;
	}
	endpoint->base.queue = queue;
	endpoint->base.owner = owner;
	endpoint->domain = driven_container(domain, struct driven_domain);
	endpoint->status = -ECONNRESET;
	CDS_INIT_LIST_HEAD(&endpoint->lacking);
	CDS_INIT_LIST_HEAD(&endpoint->broken);
	CDS_INIT_LIST_HEAD(&endpoint->eventful);
	CDS_INIT_LIST_HEAD(&endpoint->waiting);
	CDS_INIT_LIST_HEAD(&endpoint->taken);
	*error = driven_queue_enter(driven_container(queue, struct driven_queue), endpoint);
	if (*error == 0)
		*error = open_slots(endpoint, is_accepting ? DRIVEN_RECEIVES : DRIVEN_DEPTH);
	if (*error == 0)
		*error = is_accepting ? driven_serve_open(endpoint) : driven_ask_open(endpoint);
	if (*error == 0)
		return endpoint;
	endpoint_free(endpoint);
	return NULL;
}

/* The peer may send before it knows that it is connected. */
static void wait_for_messages(struct driven_endpoint *endpoint)
{
	for (uint32_t i = 0; i < DRIVEN_RECEIVES; i++)
		driven_post_receive(endpoint, i);
}

int driven_connect(struct fabric_queue *base, const char *address, const void *private_data,
		   size_t private_length, void *owner, struct fabric_endpoint **out)
{
	struct driven_queue *queue = driven_container(base, struct driven_queue);
	struct driven_endpoint *endpoint;
	int ret;

	endpoint = endpoint_new(base, base->fabric->domain, false, owner, &ret);
	if (!endpoint)
		return ret;
	queue->below->fabric->congestion = base->fabric->congestion;
	ret = fabric_connect(queue->below, address, private_data, private_length, endpoint,
			     &endpoint->below);
	if (ret != 0) {
		endpoint_free(endpoint);
		return ret;
	}
	wait_for_messages(endpoint);
	*out = &endpoint->base;
	return 0;
}

int driven_accept(struct fabric_request *request, struct fabric_queue *base,
		  struct fabric_domain *domain, void *owner, struct fabric_endpoint **out)
{
	struct driven_queue *queue = driven_container(base, struct driven_queue);
	struct driven_endpoint *endpoint;
	int ret;

	endpoint = endpoint_new(base, domain, true, owner, &ret);
	if (!endpoint)
		return ret;
	ret = fabric_accept(request, queue->below, queue->below->fabric->domain, endpoint,
			    &endpoint->below);
	if (ret != 0) {
		endpoint_free(endpoint);
		return ret;
	}
	wait_for_messages(endpoint);
	*out = &endpoint->base;
	return 0;
}

void driven_endpoint_close(struct fabric_endpoint *base)
{
	struct driven_endpoint *endpoint = driven_container(base, struct driven_endpoint);

	/* First: nothing is on its way to or from any memory then. */
	fabric_endpoint_close(endpoint->below);
	endpoint_free(endpoint);
}

void driven_endpoint_congestion(struct fabric_endpoint *base,
				char out[static FABRIC_CONGESTION_MAX])
{
	fabric_endpoint_congestion(driven_container(base, struct driven_endpoint)->below, out);
}

void driven_break(struct driven_endpoint *endpoint, int status, const char *problem)
{
	struct driven_queue *queue = driven_queue_of(endpoint);

	if (endpoint->is_broken)
		return;
	if (problem)
		log_warn_some("a connection over %s is ended: its peer asks for %s",
			      driven_fabric_of(endpoint)->name, problem);
	endpoint->is_broken = true;
	endpoint->status = status;
	cds_list_add_tail(&endpoint->broken, &queue->broken);
	if (!endpoint->is_told)
		cds_list_add_tail(&endpoint->eventful, &queue->eventful);
}

/* ---- Notes */

int driven_receive(struct fabric_endpoint *base, const struct fabric_piece *piece, uint64_t context)
{
	struct driven_endpoint *endpoint = driven_container(base, struct driven_endpoint);

	if (endpoint->is_broken)
		return -ENOTCONN;
	if (endpoint->receive_end - endpoint->receive_first == FABRIC_RECEIVE_MAX)
		return -EAGAIN;
	endpoint->receives[endpoint->receive_end++ % FABRIC_RECEIVE_MAX] =
		(struct driven_note){.piece = *piece, .context = context};
	return 0;
}

int driven_send(struct fabric_endpoint *base, const struct fabric_piece *piece, uint64_t context)
{
	struct driven_endpoint *endpoint = driven_container(base, struct driven_endpoint);
	struct driven_message *message;
	uint32_t number = 0;
	int ret;

	if (piece->length > DRIVEN_NOTE_MAX)
		return -EMSGSIZE;
	while (number < FABRIC_RECEIVE_MAX && endpoint->sends[number].is_sending)
		number++;
	if (number == FABRIC_RECEIVE_MAX)
		return -EAGAIN;
	message = &endpoint->slots->notes[number];
	ret = driven_post_message(endpoint, message,
				  driven_encode_note(message, piece->addr, piece->length),
				  DRIVEN_SEND_NOTE | number);
	if (ret == 0)
		endpoint->sends[number] =
			(struct driven_note){.context = context, .is_sending = true};
	return ret;
}

static const char *take_note(struct driven_endpoint *endpoint, const struct driven_message *message,
			     struct fabric_completion *out)
{
	const struct driven_note *note =
		&endpoint->receives[endpoint->receive_first % FABRIC_RECEIVE_MAX];
	const void *bytes;
	size_t length;
	const char *problem = driven_decode_note(message, &bytes, &length);

	if (problem)
		return problem;
	if (endpoint->receive_first == endpoint->receive_end)
		return "more messages at once than there may be";
	if (length > note->piece.length)
		return "a message that is too long";
	memcpy(note->piece.addr, bytes, length);
	endpoint->receive_first++;
	*out = (struct fabric_completion){.context = note->context};
	return NULL;
}

/* ---- What has ended below */

/* A message has come. True: `*out` is filled in. */
static bool take_message(struct driven_endpoint *endpoint, uint32_t number,
			 struct fabric_completion *out)
{
	const struct driven_message *message = &endpoint->slots->received[number];
	const char *problem = "a message that is none";
	bool is_asked = false, has_ended = false;

	switch (driven_kind_of(message)) {
	case DRIVEN_NOTE:
		problem = take_note(endpoint, message, out);
		has_ended = !problem;
		break;
	case DRIVEN_ASK:
		is_asked = true;
		if (endpoint->served)
			problem = driven_serve_take(endpoint, number);
		break;
	case DRIVEN_ANSWER:
		if (!endpoint->asked)
			break;
		problem = driven_ask_answered(endpoint, message, out);
		has_ended = !problem;
		break;
	default:
		break;
	}
	if (problem)
		driven_break(endpoint, -ECONNRESET, problem);
	else if (!is_asked)
		driven_post_receive(endpoint, number);
	return has_ended;
}

bool driven_take(struct driven_endpoint *endpoint, uint32_t operation,
		 struct fabric_completion *out)
{
	const uint32_t number = operation % DRIVEN_NUMBERS;

	if (endpoint->is_broken)
		return false;
	switch (operation - number) {
	case DRIVEN_RECEIVE:
		return take_message(endpoint, number, out);
	case DRIVEN_SEND_NOTE:
		endpoint->sends[number].is_sending = false;
		*out = (struct fabric_completion){.context = endpoint->sends[number].context};
		return true;
	case DRIVEN_SEND_ASK:
		driven_ask_sent(endpoint, number);
		return false;
	case DRIVEN_SEND_ANSWER:
		driven_serve_answered(endpoint, number);
		return false;
	default:
		driven_serve_moved(endpoint, number);
		return false;
	}
}
