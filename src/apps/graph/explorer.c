/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the edges of vertices here and there, with many reads in flight; see explorer.h. Called by distances.c. */
#include "explorer.h"

#include <errno.h>
#include <stdlib.h>

#include "failure.h"

#define SLOT_BYTES    ((uint64_t)64 << 10)
#define SLOT_VERTICES 128U
#define GAP_BYTES     1024U /* that are rather read, and not used, than left out by another read */
#define LIVE_EVERY    256U  /* slots between two signs of life */

/* A read of edges that follow each other, of one vertex or several. */
struct slot {
	struct io_request request;
	uint64_t first, end; /* edges */
	unsigned nr;
	uint32_t vertices[SLOT_VERTICES];
};

int explorer_open(struct explorer *explorer)
{
	struct graph_job *job = explorer->job;

	explorer->slots = calloc(job->options.nr_in_flight, sizeof(*explorer->slots));
	if (!explorer->slots)
		return app_fail(-ENOMEM, "%s: out of memory", job->what);
	return job_alloc(job, SLOT_BYTES * job->options.nr_in_flight, &explorer->buffer);
}

void explorer_close(struct explorer *explorer)
{
	if (explorer->buffer)
		afar_buffer_unregister(explorer->buffer);
	free(explorer->slots);
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

/* Submits the slot that is being filled, if there is one. */
static int submit(struct explorer *explorer)
{
	const uint64_t number = explorer->nr_begun - 1;
	const struct graph *graph = explorer->job->graph;
	struct slot *slot;

	if (!explorer->is_filling)
		return 0;
	explorer->is_filling = false;
	slot = slot_of(explorer, number);
	return io_read(&explorer->job->io, &slot->request, &graph->place,
		       graph_edge_at(graph, GRAPH_OUT, slot->first), explorer->buffer,
		       data_of(explorer, number),
		       4 * words_of(explorer) * (slot->end - slot->first));
}

/* Whether the edges of the vertex fit behind those in the slot that is being filled. */
static bool does_fit(const struct explorer *explorer)
{
	const struct slot *slot;

	if (!explorer->is_filling || !explorer->does_merge)
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
	explorer->is_filling = true;
}

/* Adds the edges of the vertex to a slot, as many as fit. */
static int add(struct explorer *explorer)
{
	const uint64_t room = SLOT_BYTES / 4 / words_of(explorer);
	struct slot *slot;
	int ret;

	if (!does_fit(explorer)) {
		ret = submit(explorer);
		if (ret)
			return ret;
		begin_slot(explorer);
	}
	slot = slot_of(explorer, explorer->nr_begun - 1);
	slot->vertices[slot->nr++] = explorer->vertex;
	slot->end = explorer->end - slot->first <= room ? explorer->end : slot->first + room;
	explorer->at = slot->end;
	return 0;
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

static int ask(struct explorer *explorer)
{
	int ret = 0;

	while (!ret &&
	       explorer->nr_begun - explorer->nr_ended < explorer->job->options.nr_in_flight &&
	       find_next(explorer))
		ret = add(explorer);
	return ret ? ret : submit(explorer);
}

/* ---- Taking */

/* Takes what the oldest slot has brought. */
static int take_slot(struct explorer *explorer)
{
	const uint64_t *offsets = graph_offsets(explorer->job->graph, GRAPH_OUT);
	const uint64_t number = explorer->nr_ended;
	const uint32_t *words = data_of(explorer, number);
	struct slot *slot = slot_of(explorer, number);
	int ret = io_wait(&explorer->job->io, &slot->request);

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
