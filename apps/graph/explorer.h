/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exploring a graph: the edges that leave some vertices are read, and say which vertices come next. Many reads are in
 * flight, because each alone takes as long as the network does.
 */
#ifndef APPS_GRAPH_EXPLORER_H
#define APPS_GRAPH_EXPLORER_H

#include "job.h"

struct slot;

struct explorer {
	struct graph_job *job;
	/* Gives the next vertex whose edges are wanted. False: there is none, as long as nothing else comes in. */
	bool (*next)(void *context, uint32_t *vertex);
	/* Takes edges of a vertex; of one with many edges, a part at a time. Returns 0, or what ends the exploring. */
	int (*take)(void *context, uint32_t vertex, const uint32_t *words, uint64_t nr);
	void *context;
	bool does_merge; /* vertices come in order: edges that are near each other are read together */

	/* The explorer's own. */
	struct slot *slots;
	struct afar_buffer *buffer;
	struct io_request *requests;		   /* of the slots */
	uint64_t nr_begun, nr_submitted, nr_ended; /* slots */
	uint32_t vertex; /* whose edges up to `end` are still to be read, from `at` on */
	uint64_t at, end;
};

/* Gets the memory. It is to be closed, whatever this returns. */
int explorer_open(struct explorer *explorer);
/* Explores until there is no next vertex, and all edges were taken. */
int explorer_run(struct explorer *explorer);
/* The queue must be empty: io_drain(). */
void explorer_close(struct explorer *explorer);

#endif
