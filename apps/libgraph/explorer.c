/* SPDX-License-Identifier: BSD-3-Clause */
/* Exploring: reading the edges of vertices here and there, with many reads in flight; see afar/graph.h. A graph keeps the memory
 * for the next exploration. */

#include <errno.h>
#include <stdlib.h>

#include "graph.h"
#include "tools/copy/failure.h"

#define SLOT_BYTES    ((uint64_t)64 << 10)
#define SLOT_VERTICES 128U
#define GAP_BYTES     1024U /* that are rather read, and not used, than left out by another read */
#define LIVE_EVERY    256U  /* slots between two signs of life */
#define IN_FLIGHT     64U

/* A read of edges that follow each other, of one vertex or several. */
struct slot {
	uint64_t first, end; /* edges */
	unsigned nr;
	uint32_t vertices[SLOT_VERTICES];
};

struct explorer {
	struct afar_graph *graph;
	struct afar_graph_exploration of;
	unsigned nr_slots; /* reads in flight, at most */
	unsigned stride;   /* words of an edge */
	const uint64_t *offsets;
	bool is_theirs; /* the failure: of a function of the program's, which may have left a line */

	unsigned room; /* slots that there is memory for */
	struct slot *slots;
	struct io_request *requests; /* of the slots */
	struct afar_buffer *buffer;

	uint64_t nr_begun, nr_submitted, nr_ended; /* slots */
	uint32_t vertex; /* whose edges up to `end` are still to be read, from `at` on */
	uint64_t at, end;
};

static void free_slots(struct explorer *explorer)
{
	if (explorer->buffer)
		afar_buffer_unregister(explorer->buffer);
	free(explorer->slots);
	free(explorer->requests);
	explorer->requests = NULL;
	explorer->buffer = NULL;
	explorer->slots = NULL;
	explorer->room = 0;
}

static int make_slots(struct explorer *explorer, unsigned nr)
{
	int ret;

	if (nr <= explorer->room)
		return 0;
	free_slots(explorer);
	explorer->slots = calloc(nr, sizeof(*explorer->slots));
	explorer->requests = calloc(nr, sizeof(*explorer->requests));
	if (!explorer->slots || !explorer->requests)
		return app_fail(-ENOMEM, "graph %s: out of memory", explorer->graph->name);
	ret = graph_alloc(explorer->graph, SLOT_BYTES * nr, &explorer->buffer);
	if (!ret)
		explorer->room = nr;
	return ret;
}

void explorer_free(struct explorer *explorer)
{
	if (!explorer)
		return;
	free_slots(explorer);
	free(explorer);
}

static struct slot *slot_of(const struct explorer *explorer, uint64_t number)
{
	return &explorer->slots[number % explorer->nr_slots];
}

static uint32_t *data_of(const struct explorer *explorer, uint64_t number)
{
	char *data = afar_buffer_data(explorer->buffer);

	return (uint32_t *)(void *)(data + number % explorer->nr_slots * SLOT_BYTES);
}

/* ---- Asking */

static void write_request(struct explorer *explorer, uint64_t number)
{
	const struct afar_graph *graph = explorer->graph;
	const struct slot *slot = slot_of(explorer, number);

	explorer->requests[number % explorer->nr_slots] = (struct io_request){
		.end = &graph->place.end,
		.offset = graph_edge_at(graph, GRAPH_OUT, slot->first),
		.iov = {explorer->buffer, data_of(explorer, number),
			4 * explorer->stride * (slot->end - slot->first)},
	};
}

/* Submits the slots that were filled. They follow each other in the ring, over its end at most once. */
static int submit(struct explorer *explorer)
{
	const unsigned nr_slots = explorer->nr_slots;
	int ret = 0;

	for (uint64_t i = explorer->nr_submitted; i < explorer->nr_begun; i++)
		write_request(explorer, i);
	while (!ret && explorer->nr_submitted < explorer->nr_begun) {
		uint64_t first = explorer->nr_submitted % nr_slots;
		uint64_t nr = explorer->nr_begun - explorer->nr_submitted;

		if (nr > nr_slots - first)
			nr = nr_slots - first;
		ret = io_read_all(&explorer->graph->io, explorer->requests + first, (unsigned)nr);
		explorer->nr_submitted += nr;
	}
	return ret;
}

/* Returns whether the edges of the vertex fit behind those in the slot that is being filled. */
static bool does_fit(const struct explorer *explorer)
{
	const struct slot *slot;

	if (explorer->nr_begun == explorer->nr_submitted ||
	    !(explorer->of.flags & AFAR_GRAPH_IN_ORDER))
		return false;
	slot = slot_of(explorer, explorer->nr_begun - 1);
	return slot->nr < SLOT_VERTICES && explorer->at >= slot->end &&
	       4 * explorer->stride * (explorer->at - slot->end) <= GAP_BYTES &&
	       4 * explorer->stride * (explorer->end - slot->first) <= SLOT_BYTES;
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
	const uint64_t room = SLOT_BYTES / 4 / explorer->stride;
	struct slot *slot;

	if (!does_fit(explorer))
		begin_slot(explorer);
	slot = slot_of(explorer, explorer->nr_begun - 1);
	slot->vertices[slot->nr++] = explorer->vertex;
	slot->end = explorer->end - slot->first <= room ? explorer->end : slot->first + room;
	explorer->at = slot->end;
}

/* Returns 1 if there are edges to ask for, else 0, or an error. */
static int find_next(struct explorer *explorer)
{
	int ret;

	while (explorer->at == explorer->end) {
		ret = explorer->of.next(explorer->of.context, &explorer->vertex);
		explorer->is_theirs = ret < 0;
		if (ret <= 0)
			return ret;
		if (explorer->vertex >= explorer->graph->header.nr_vertices)
			return app_fail(-ERANGE, "explore graph %s: there is no vertex %u",
					explorer->graph->name, explorer->vertex);
		explorer->at = explorer->offsets[explorer->vertex];
		explorer->end = explorer->offsets[explorer->vertex + 1ULL];
	}
	return 1;
}

/* Asks for more when half of the slots are free, so that many requests go out together. */
static int ask(struct explorer *explorer)
{
	const unsigned nr_slots = explorer->nr_slots;
	int ret = 1;

	if (2 * (explorer->nr_begun - explorer->nr_ended) > nr_slots)
		return 0;
	while (ret > 0 && explorer->nr_begun - explorer->nr_ended < nr_slots) {
		ret = find_next(explorer);
		if (ret > 0)
			add(explorer);
	}
	return ret < 0 ? ret : submit(explorer);
}

/* ---- Taking */

/* Takes the edges of a vertex, or those of them that the slot has. */
static int take(struct explorer *explorer, const struct slot *slot, const uint32_t *words,
		uint32_t vertex)
{
	uint64_t first = explorer->offsets[vertex], end = explorer->offsets[vertex + 1ULL];
	struct afar_graph_edges edges = {.stride = explorer->stride};
	int ret;

	if (first < slot->first)
		first = slot->first;
	if (end > slot->end)
		end = slot->end;
	edges.words = words + (first - slot->first) * explorer->stride;
	edges.nr = end - first;
	explorer->graph->nr_read += edges.nr;
	ret = graph_check_edges(explorer->graph, edges.words, edges.nr, explorer->stride);
	if (ret)
		return ret;
	ret = explorer->of.take(explorer->of.context, vertex, &edges);
	explorer->is_theirs = ret < 0;
	return ret < 0 ? ret : 0;
}

/* Takes what the oldest slot has brought. */
static int take_slot(struct explorer *explorer)
{
	const uint64_t number = explorer->nr_ended;
	const uint32_t *words = data_of(explorer, number);
	struct slot *slot = slot_of(explorer, number);
	int ret = io_wait(&explorer->graph->io, &explorer->requests[number % explorer->nr_slots]);

	for (unsigned i = 0; i < slot->nr && !ret; i++)
		ret = take(explorer, slot, words, slot->vertices[i]);
	explorer->nr_ended++;
	return ret;
}

static int run(struct explorer *explorer)
{
	int ret;

	for (;;) {
		ret = ask(explorer);
		if (ret || explorer->nr_begun == explorer->nr_ended)
			return ret;
		ret = take_slot(explorer);
		if (!ret && explorer->nr_ended % LIVE_EVERY == 0)
			ret = graph_live(explorer->graph);
		if (ret)
			return ret;
	}
}

/* ---- The call */

static int begin(struct afar_graph *graph, const struct afar_graph_exploration *exploration)
{
	struct explorer *explorer = graph->explorer;
	struct afar_graph_exploration of;
	unsigned nr;
	int ret = GRAPH_TAKE(&of, exploration, afar_graph_exploration, context);

	if (ret)
		return ret;
	nr = of.nr_in_flight ? of.nr_in_flight : IN_FLIGHT;
	if (!of.next || !of.take || nr > AFAR_GRAPH_IN_FLIGHT_MAX ||
	    of.flags & ~(uint32_t)AFAR_GRAPH_IN_ORDER)
		return app_fail(-EINVAL,
				"explore graph %s: a function is missing, a flag unknown, or %u "
				"reads in flight are more than %u",
				graph->name, nr, AFAR_GRAPH_IN_FLIGHT_MAX);
	if (!explorer)
		explorer = graph->explorer = calloc(1, sizeof(*explorer));
	if (!explorer)
		return app_fail(-ENOMEM, "graph %s: out of memory", graph->name);
	explorer->graph = graph;
	explorer->of = of;
	explorer->nr_slots = nr;
	explorer->stride = graph_words(&graph->header, GRAPH_OUT);
	explorer->nr_begun = explorer->nr_submitted = explorer->nr_ended = 0;
	explorer->at = explorer->end = 0;
	explorer->is_theirs = false;
	ret = make_slots(explorer, nr);
	if (!ret)
		ret = graph_load(graph, GRAPH_OUT);
	explorer->offsets = graph_offsets(graph, GRAPH_OUT);
	return ret;
}

int afar_graph_explore(struct afar_graph *graph, const struct afar_graph_exploration *exploration)
{
	int ret = graph_check_handle(graph, "afar_graph_explore");

	if (!ret)
		ret = begin(graph, exploration);
	if (ret)
		return graph_return(ret);
	ret = run(graph->explorer);
	if (ret)
		io_drain(&graph->io); /* reads go into memory that the next exploration uses */
	return graph->explorer->is_theirs ? ret : graph_return(ret);
}
