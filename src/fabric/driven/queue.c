/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queues over those of the fabric below. A poll takes what has ended there, and each of these goes to
 * its endpoint. The operations of endpoints that are closed may still end there: their contexts have
 * a number that nobody has again.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "fabric/driven/driven.h"

#define POLLED_MAX  64U
#define PLACES_MIN  16U
#define PLACES_MAX  65536U
#define PLACE_SHIFT 16U
#define SERIAL_BITS 32U
#define NO_PLACE    UINT32_MAX

/* A context is a serial number, a place, and an operation. */
struct driven_place {
	struct driven_endpoint *endpoint; /* NULL: it is free */
	uint32_t serial, next_free;
};

/* ---- Places */

static int grow(struct driven_queue *queue)
{
	const uint32_t nr = queue->nr_places > 0 ? 2 * queue->nr_places : PLACES_MIN;
	struct driven_place *places =
		nr > PLACES_MAX ? NULL : realloc(queue->places, nr * sizeof(*places));

	if (!places)
		return error_code(-ENOMEM);
	for (uint32_t i = queue->nr_places; i < nr; i++)
		places[i] = (struct driven_place){.next_free = i + 1 < nr ? i + 1 : NO_PLACE};
	queue->places = places;
	queue->first_free = queue->nr_places;
	queue->nr_places = nr;
	return 0;
}

int driven_queue_enter(struct driven_queue *queue, struct driven_endpoint *endpoint)
{
	struct driven_place *place;
	int ret = queue->first_free == NO_PLACE ? grow(queue) : 0;

	if (ret != 0)
		return ret;
	endpoint->place = queue->first_free;
	place = &queue->places[endpoint->place];
	queue->first_free = place->next_free;
	place->endpoint = endpoint;
	/* Never 0, nor the largest: a context is neither 0 nor UINT64_MAX. */
	place->serial = place->serial % (UINT32_MAX - 1) + 1;
	endpoint->context = (uint64_t)place->serial << SERIAL_BITS | (uint64_t)endpoint->place
									     << PLACE_SHIFT;
	return 0;
}

void driven_queue_leave(struct driven_queue *queue, struct driven_endpoint *endpoint)
{
	struct driven_place *place = &queue->places[endpoint->place];

	place->endpoint = NULL;
	place->next_free = queue->first_free;
	queue->first_free = endpoint->place;
	endpoint->context = 0;
}

/* NULL: it is closed. */
static struct driven_endpoint *find(const struct driven_queue *queue, uint64_t context)
{
	const uint32_t place = (uint16_t)(context >> PLACE_SHIFT);

	if (place >= queue->nr_places ||
	    queue->places[place].serial != (uint32_t)(context >> SERIAL_BITS))
		return NULL;
	return queue->places[place].endpoint;
}

/* ---- Polling */

static int end_broken(struct driven_queue *queue, struct fabric_completion *out, unsigned max)
{
	unsigned nr = 0;

	while (nr < max && !cds_list_empty(&queue->broken)) {
		struct driven_endpoint *endpoint =
			cds_list_first_entry(&queue->broken, struct driven_endpoint, broken);

		if (driven_ask_fail(endpoint, &out[nr]))
			nr++;
		else
			driven_take_off(&endpoint->broken);
	}
	return (int)nr;
}

static int take_all(struct driven_queue *queue, const struct fabric_completion *completions, int nr,
		    struct fabric_completion *out)
{
	int nr_out = 0;

	for (int i = 0; i < nr; i++) {
		struct driven_endpoint *endpoint = find(queue, completions[i].context);

		if (!endpoint)
			continue;
		if (completions[i].status != 0)
			driven_break(endpoint, completions[i].status, NULL);
		else if (driven_take(endpoint, (uint16_t)completions[i].context, &out[nr_out]))
			nr_out++;
	}
	return nr_out;
}

int driven_queue_poll(struct fabric_queue *base, struct fabric_completion *out, unsigned max)
{
	struct driven_queue *queue = driven_container(base, struct driven_queue);
	struct fabric_completion completions[POLLED_MAX];
	int nr = fabric_queue_poll(queue->below, completions, max < POLLED_MAX ? max : POLLED_MAX);
	int nr_out;

	fabric_queue_hold(queue->below);
	nr_out = take_all(queue, completions, nr, out);
	base->has_moved = driven_serve_poll(queue) || nr > 0 || queue->below->has_moved;
	fabric_queue_release(queue->below);
	if (!cds_list_empty(&queue->broken))
		nr_out += end_broken(queue, out + nr_out, max - (unsigned)nr_out);
	return nr_out;
}

void driven_queue_hold(struct fabric_queue *base)
{
	fabric_queue_hold(driven_container(base, struct driven_queue)->below);
}

void driven_queue_release(struct fabric_queue *base)
{
	fabric_queue_release(driven_container(base, struct driven_queue)->below);
}

/* ---- Events */

static bool tell_broken(struct driven_queue *queue, struct fabric_event *out)
{
	struct driven_endpoint *endpoint;

	if (cds_list_empty(&queue->eventful))
		return false;
	endpoint = cds_list_first_entry(&queue->eventful, struct driven_endpoint, eventful);
	driven_take_off(&endpoint->eventful);
	endpoint->is_told = true;
	*out = (struct fabric_event){
		.kind = FABRIC_CLOSED,
		.endpoint = &endpoint->base,
		.status = endpoint->status == -ETIMEDOUT ? -ETIMEDOUT : -ECONNRESET,
	};
	return true;
}

int driven_queue_event(struct fabric_queue *base, struct fabric_event *out)
{
	struct driven_queue *queue = driven_container(base, struct driven_queue);

	while (fabric_queue_event(queue->below, out) == 1) {
		struct driven_endpoint *endpoint = out->endpoint->owner;

		out->endpoint = &endpoint->base;
		if (endpoint->is_told)
			continue;
		if (out->kind == FABRIC_CONNECTED) {
			endpoint->is_connected = true;
			return 1;
		}
		endpoint->is_told = true;
		if (driven_is_listed(&endpoint->eventful))
			driven_take_off(&endpoint->eventful);
		driven_break(endpoint, out->status == -ETIMEDOUT ? -ETIMEDOUT : -ECONNRESET, NULL);
		return 1;
	}
	return tell_broken(queue, out);
}

/* ---- Sleeping */

int driven_queue_fd(struct fabric_queue *base)
{
	return fabric_queue_fd(driven_container(base, struct driven_queue)->below);
}

int driven_queue_arm(struct fabric_queue *base)
{
	struct driven_queue *queue = driven_container(base, struct driven_queue);

	if (!cds_list_empty(&queue->ended) || !cds_list_empty(&queue->broken) ||
	    !cds_list_empty(&queue->eventful) ||
	    (queue->has_left && !cds_list_empty(&queue->lacking)))
		return -EAGAIN;
	return fabric_queue_arm(queue->below);
}

/* ---- Opening and closing */

int driven_queue_open(struct fabric *base, uint32_t depth, struct fabric_queue **out)
{
	struct driven_fabric *fabric = driven_container(base, struct driven_fabric);
	struct driven_queue *queue = calloc(1, sizeof(*queue));
	int ret;

	if (!queue)
		return error_code(-ENOMEM);
	queue->base.fabric = base;
	queue->first_free = NO_PLACE;
	CDS_INIT_LIST_HEAD(&queue->ended);
	CDS_INIT_LIST_HEAD(&queue->stalled);
	CDS_INIT_LIST_HEAD(&queue->lacking);
	CDS_INIT_LIST_HEAD(&queue->broken);
	CDS_INIT_LIST_HEAD(&queue->eventful);
	(void)depth; /* a connection has what it needs */
	ret = fabric_queue_open(fabric->below, DRIVEN_SENDS, &queue->below);
	if (ret != 0) {
		free(queue);
		return ret;
	}
	*out = &queue->base;
	return 0;
}

void driven_queue_close(struct fabric_queue *base)
{
	struct driven_queue *queue = driven_container(base, struct driven_queue);

	fabric_queue_close(queue->below);
	free(queue->places);
	free(queue);
}
