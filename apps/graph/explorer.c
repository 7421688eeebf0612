/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the edges of vertices here and there, with many reads in flight; see explorer.h. Called by distances.c. */
#include "explorer.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/copy/failure.h"

#define SLOT_BYTES    ((uint64_t)64 << 10)
#define SLOT_VERTICES 128U
#define GAP_BYTES     1024U /* that are rather read, and not used, than left out by another read */
#define LIVE_EVERY    256U  /* slots between two signs of life */

/* A read of edges that follow each other, of one vertex or several. */
struct slot {
	uint64_t first, end; /* edges */
	unsigned nr;
	uint32_t vertices[SLOT_VERTICES];
};

int explorer_open(struct explorer *explorer)
{
	struct graph_job *job = explorer->job;
	const unsigned nr = job->options.nr_in_flight;

	explorer->slots = calloc(nr, sizeof(*explorer->slots));
	explorer->requests = calloc(nr, sizeof(*explorer->requests));
	if (!explorer->slots || !explorer->requests)
		return app_fail(-ENOMEM, "%s: out of memory", job->what);
	return job_alloc(job, SLOT_BYTES * nr, &explorer->buffer);
}

void explorer_close(struct explorer *explorer)
{
	if (explorer->buffer)
		afar_buffer_unregister(explorer->buffer);
	free(explorer->slots);
	free(explorer->requests);
	explorer->requests = NULL;
	explorer->buffer = NULL;
	explorer->slots = NULL;
}

static unsigned words_of(const struct explorer *explorer)
{
	return graph_words(&explorer->job->graph->header, GRAPH_OUT);
}

static struct slot *slot_of(const struct explorer *explorer, uint64_t number)
{
	return &explorer->slots[number % explorer->job->options.nr_in_flight];
}

static uint32_t *data_of(const struct explorer *explorer, uint64_t number)
{
	char *data = afar_buffer_data(explorer->buffer);

	return (uint32_t *)(void *)(data +
				    number % explorer->job->options.nr_in_flight * SLOT_BYTES);
}

/* ---- Asking */

static void write_request(struct explorer *explorer, uint64_t number)
{
	const struct graph *graph = explorer->job->graph;
	const struct slot *slot = slot_of(explorer, number);

	explorer->requests[number % explorer->job->options.nr_in_flight] = (struct io_request){
		.end = &graph->place.end,
		.offset = graph_edge_at(graph, GRAPH_OUT, slot->first),
		.iov = {explorer->buffer, data_of(explorer, number),
			4 * words_of(explorer) * (slot->end - slot->first)},
	};
}

/* Submits the slots that were filled. They follow each other in the ring, over its end at most once. */
static int submit(struct explorer *explorer)
{
	const unsigned nr_slots = explorer->job->options.nr_in_flight;
	int ret = 0;

	for (uint64_t i = explorer->nr_submitted; i < explorer->nr_begun; i++)
		write_request(explorer, i);
	while (!ret && explorer->nr_submitted < explorer->nr_begun) {
		uint64_t first = explorer->nr_submitted % nr_slots;
		uint64_t nr = explorer->nr_begun - explorer->nr_submitted;

		if (nr > nr_slots - first)
			nr = nr_slots - first;
		ret = io_read_all(&explorer->job->io, explorer->requests + first, (unsigned)nr);
		explorer->nr_submitted += nr;
	}
	return ret;
}

/* Returns whether the edges of the vertex fit behind those in the slot that is being filled. */
static bool does_fit(const struct explorer *explorer)
{
	const struct slot *slot;

	if (explorer->nr_begun == explorer->nr_submitted || !explorer->does_merge)
		return false;
	slot = slot_of(explorer, explorer->nr_begun - 1);
	return slot->nr < SLOT_VERTICES && explorer->at >= slot->end &&
	       4 * words_of(explorer) * (explorer->at - slot->end) <= GAP_BYTES &&
	       4 * words_of(explorer) * (explorer->end - slot->first) <= SLOT_BYTES;
}

static void begin_slot(struct explorer *explorer)
{
	struct slot *slot = slot_of(explorer, explorer->nr_begun++);

	slot->first = slot->end = explorer->at;
	slot->nr = 0;
}

/* Adds the edges of the vertex to a slot, as many as fit. */
static void add(struct explorer *explorer)
{
	const uint64_t room = SLOT_BYTES / 4 / words_of(explorer);
	struct slot *slot;

	if (!does_fit(explorer))
		begin_slot(explorer);
	slot = slot_of(explorer, explorer->nr_begun - 1);
	slot->vertices[slot->nr++] = explorer->vertex;
	slot->end = explorer->end - slot->first <= room ? explorer->end : slot->first + room;
	explorer->at = slot->end;
}

static bool find_next(struct explorer *explorer)
{
	const uint64_t *offsets = graph_offsets(explorer->job->graph, GRAPH_OUT);

	while (explorer->at == explorer->end) {
		if (!explorer->next(explorer->context, &explorer->vertex))
			return false;
		explorer->at = offsets[explorer->vertex];
		explorer->end = offsets[explorer->vertex + 1ULL];
	}
	return true;
}

/* Asks for more when half of the slots are free, so that many requests go out together. */
static int ask(struct explorer *explorer)
{
	const unsigned nr_slots = explorer->job->options.nr_in_flight;

	if (2 * (explorer->nr_begun - explorer->nr_ended) > nr_slots)
		return 0;
	while (explorer->nr_begun - explorer->nr_ended < nr_slots && find_next(explorer))
		add(explorer);
	return submit(explorer);
}

/* ---- Taking */

/* Takes what the oldest slot has brought. */
static int take_slot(struct explorer *explorer)
{
	const uint64_t *offsets = graph_offsets(explorer->job->graph, GRAPH_OUT);
	const uint64_t number = explorer->nr_ended;
	const uint32_t *words = data_of(explorer, number);
	struct slot *slot = slot_of(explorer, number);
	int ret = io_wait(&explorer->job->io,
			  &explorer->requests[number % explorer->job->options.nr_in_flight]);

	for (unsigned i = 0; i < slot->nr && !ret; i++) {
		uint64_t first = offsets[slot->vertices[i]],
			 end = offsets[slot->vertices[i] + 1ULL];

		if (first < slot->first)
			first = slot->first;
		if (end > slot->end)
			end = slot->end;
		explorer->job->nr_looked += end - first;
		ret = explorer->take(explorer->context, slot->vertices[i],
				     words + (first - slot->first) * words_of(explorer),
				     end - first);
	}
	explorer->nr_ended++;
	return ret;
}

int explorer_run(struct explorer *explorer)
{
	int ret;

	for (;;) {
		ret = ask(explorer);
		if (ret || explorer->nr_begun == explorer->nr_ended)
			return ret;
		ret = take_slot(explorer);
		if (!ret && explorer->nr_ended % LIVE_EVERY == 0)
			ret = job_live(explorer->job);
		if (ret)
			return ret;
	}
}
