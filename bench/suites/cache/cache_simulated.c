/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Caches without pages: LRU, and Multi-Queue as its paper has it (Zhou, Philbin, Li: USENIX 2001). For
 * suite `cache`. They share no code with the server's. A page is an element of one array, and lists go
 * through that by index.
 */
#include <stdlib.h>

#include "cache.h"

#define QUEUES	8U
#define HISTORY 4U /* pages that are remembered, for each frame */
#define LIFE	4U /* times the frames: a page sinks when it was not used for as long */

#define REMEMBERED (QUEUES)	/* the list of pages that went */
#define NR_LISTS   (QUEUES + 1) /* with that */

struct element {
	uint32_t next, previous;
	uint32_t list; /* NR_LISTS: in none */
	uint64_t nr_uses, expires;
};

struct simulated {
	enum simulated_kind kind;
	uint32_t nr_frames, nr_pages;
	uint32_t nr_kept, nr_remembered;
	uint64_t now;
	struct element *elements; /* of the pages, and behind these the heads of the lists */
};

static uint32_t head_of(const struct simulated *simulated, uint32_t list)
{
	return simulated->nr_pages + list;
}

/* The oldest of a list; or its head, if it is empty. */
static uint32_t oldest(const struct simulated *simulated, uint32_t list)
{
	return simulated->elements[head_of(simulated, list)].next;
}

static void take_out(struct simulated *simulated, uint32_t page)
{
	struct element *element = &simulated->elements[page];

	simulated->elements[element->previous].next = element->next;
	simulated->elements[element->next].previous = element->previous;
	element->list = NR_LISTS;
}

static void add(struct simulated *simulated, uint32_t page, uint32_t list)
{
	const uint32_t head = head_of(simulated, list);
	struct element *element = &simulated->elements[page];

	element->list = list;
	element->next = head;
	element->previous = simulated->elements[head].previous;
	simulated->elements[element->previous].next = page;
	simulated->elements[head].previous = page;
	element->expires = simulated->now + (uint64_t)LIFE * simulated->nr_frames;
}

struct simulated *simulated_open(enum simulated_kind kind, uint32_t nr_frames, uint32_t nr_pages)
{
	struct simulated *simulated = calloc(1, sizeof(*simulated));

	if (!simulated)
		return NULL;
	simulated->kind = kind;
	simulated->nr_frames = nr_frames;
	simulated->nr_pages = nr_pages;
	simulated->elements = calloc(nr_pages + NR_LISTS, sizeof(*simulated->elements));
	if (!simulated->elements) {
		free(simulated);
		return NULL;
	}
	for (uint32_t i = 0; i < nr_pages + NR_LISTS; i++)
		simulated->elements[i] =
			(struct element){.next = i, .previous = i, .list = NR_LISTS};
	return simulated;
}

void simulated_close(struct simulated *simulated)
{
	if (!simulated)
		return;
	free(simulated->elements);
	free(simulated);
}

static void forget_oldest(struct simulated *simulated)
{
	const uint32_t page = oldest(simulated, REMEMBERED);

	take_out(simulated, page);
	simulated->elements[page].nr_uses = 0;
	simulated->nr_remembered--;
}

/* LRU remembers nothing. */
static void evict(struct simulated *simulated)
{
	uint32_t list = 0, page;

	while (oldest(simulated, list) == head_of(simulated, list))
		list++;
	page = oldest(simulated, list);
	take_out(simulated, page);
	simulated->nr_kept--;
	if (simulated->kind == SIMULATED_LRU)
		return;
	if (simulated->nr_remembered == HISTORY * simulated->nr_frames)
		forget_oldest(simulated);
	add(simulated, page, REMEMBERED);
	simulated->nr_remembered++;
}

static uint32_t queue_of(const struct simulated *simulated, uint32_t page)
{
	uint64_t uses = simulated->elements[page].nr_uses;
	uint32_t queue = 0;

	if (simulated->kind == SIMULATED_LRU)
		return 0;
	while (uses > 1 && queue < QUEUES - 1) {
		uses /= 2;
		queue++;
	}
	return queue;
}

static void sink(struct simulated *simulated)
{
	simulated->now++;
	for (uint32_t list = 1; list < QUEUES; list++) {
		const uint32_t page = oldest(simulated, list);

		if (page == head_of(simulated, list) ||
		    simulated->elements[page].expires >= simulated->now)
			continue;
		take_out(simulated, page);
		add(simulated, page, list - 1);
	}
}

bool simulated_read(struct simulated *simulated, uint32_t page)
{
	struct element *element = &simulated->elements[page];
	const bool is_hit = element->list < QUEUES;

	if (element->list == REMEMBERED)
		simulated->nr_remembered--;
	if (element->list != NR_LISTS)
		take_out(simulated, page);
	if (!is_hit) {
		if (simulated->nr_kept == simulated->nr_frames)
			evict(simulated);
		simulated->nr_kept++;
	}
	element->nr_uses++;
	add(simulated, page, queue_of(simulated, page));
	sink(simulated);
	return is_hit;
}
