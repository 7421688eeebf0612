/* SPDX-License-Identifier: BSD-3-Clause */
/* A graph that is open, for the rooms of libafar-graph, and the boundary of its calls. Inside, a function that fails leaves
 * a line (failure.h). */
#ifndef LIBGRAPH_GRAPH_H
#define LIBGRAPH_GRAPH_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include <afar/graph.h>

#include "apps/graph/layout.h"
#include "place.h"
#include "team.h"
#include "tools/copy/failure.h"
#include "tools/copy/io.h"

struct explorer;

struct afar_graph {
	struct afar_session *session;
	char name[2 * AFAR_NAME_MAX + 2];
	struct place place;
	struct graph_header header;
	struct io io;		   /* of all that is read and written here */
	uint64_t *offsets[2];	   /* where the edges of each vertex begin; NULL: not read yet */
	struct explorer *explorer; /* its memory; NULL: nothing was explored */
	uint64_t nr_read;	   /* edges */
	unsigned nr_users;	   /* cursors and jobs */
	bool has_job;
	struct team *team;		/* of the job that runs; NULL: none, or of one worker */
	int (*is_ended)(void *context); /* of the open job */
	void *context;
};

/* ---- The boundary */

/* Ends a public call: if `ret` is an error, its line becomes afar_last_error(). Returns `ret`. */
int graph_return(int ret);
/* The size of `struct type` in a release in which `last` was its last member. */
#define GRAPH_SIZE(type, last)                                                                 \
	((offsetof(struct type, last) + sizeof(((struct type *)NULL)->last) + sizeof(size_t) - \
	  1) /                                                                                 \
	 sizeof(size_t) * sizeof(size_t))
/* Copies the caller's `struct type`, whose last member was `last` in the first release that had it. -EINVAL. */
#define GRAPH_TAKE(known, given, type, last) \
	graph_take(known, sizeof(struct type), GRAPH_SIZE(type, last), given, #type)
/* Fills in the caller's `struct type` likewise, whose size is set. -EINVAL. */
#define GRAPH_GIVE(given, known, type, last) \
	graph_give(given, known, sizeof(struct type), GRAPH_SIZE(type, last), #type)

int graph_take(void *known, size_t known_bytes, size_t oldest, const void *given, const char *name);
int graph_give(void *given, const void *known, size_t known_bytes, size_t oldest, const char *name);
/* Returns 0, or -EINVAL if the handle is null. */
static inline int graph_check_handle(const void *handle, const char *call)
{
	if (handle)
		return 0;
	app_fail(-EINVAL, "%s: a handle is null", call);
	return -EINVAL; /* which analyzers see here */
}

/* ---- For the other rooms */

/* Reads where the edges of each vertex begin, if that is not done, and checks it. Errors: those of reading; -EBADMSG,
 * -ENOMEM. */
int graph_load(struct afar_graph *graph, enum graph_list list);
/* Returns what graph_load() has read. */
static inline const uint64_t *graph_offsets(const struct afar_graph *graph, enum graph_list list)
{
	return graph->offsets[graph_kept(&graph->header, list)];
}

/* Where the `edge`th edge of the list is in the region. */
static inline uint64_t graph_edge_at(const struct afar_graph *graph, enum graph_list list,
				     uint64_t edge)
{
	return graph_edges_at(&graph->header, list) + 4 * edge * graph_words(&graph->header, list);
}

/* Divides the vertices by work: a vertex counts as some edges. `bounds` gets nr + 1 vertices. */
void graph_divide(const struct afar_graph *graph, enum graph_list list, unsigned nr,
		  uint64_t *bounds);
/* Checks that `nr` edges lead to vertices. -EBADMSG. */
int graph_check_edges(const struct afar_graph *graph, const uint32_t *words, uint64_t nr,
		      unsigned stride);
/* Returns whether the job is to end early. */
bool graph_is_ended(void *graph);
/* Shows the other workers that the caller lives. Call it often. -ECANCELED: the job is to end. */
int graph_live(struct afar_graph *graph);
/* Gets memory for transfers. */
int graph_alloc(struct afar_graph *graph, uint64_t bytes, struct afar_buffer **out);

/* explorer.c */
void explorer_free(struct explorer *explorer);

#endif
