/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Graphs in remote memory, and computations of your own on them: link with libafar-graph. `afar graph import` makes a graph,
 * which is one region. A program keeps what it computes of vertices in its own memory, and reads edges when it needs them.
 * So the edges may be more than fit into its machine.
 *
 * Several workers, processes of any machines, divide the vertices. They go on in supersteps. In each one a vertex sees
 * the values that all had after the step before, and the messages that were sent to it. This follows Carafe (A. Trivedi,
 * "End-to-End Considerations in the Unification of High-Performance I/O", ETH Zürich 2016, §6.5.2).
 *
 * A graph, its cursors and its job belong to one thread at a time. Functions return 0 or a count, or a negative code;
 * afar_last_error() then has a line. All may return -EINVAL (a null handle, a struct of another size), -ENOMEM, and the
 * errors of afar_region_open(), afar_region_pread() and afar_queue_open(). Functions that read also return -EBADMSG: the
 * region is no graph, or was damaged. An edge to a vertex that there is not is found, too. So programs need not check the
 * vertices that they get.
 */
#ifndef AFAR_GRAPH_H
#define AFAR_GRAPH_H

#include <afar/afar.h>

#ifdef __cplusplus
extern "C" {
#endif

struct afar_graph;
struct afar_graph_cursor;
struct afar_graph_job;

#define AFAR_GRAPH_VERTICES_MAX UINT32_MAX /* they are numbered from 0 */

enum afar_graph_direction {
	AFAR_GRAPH_OUT = 0, /* edges that leave a vertex, with their weights */
	AFAR_GRAPH_IN = 1,  /* edges that arrive */
};

/* ---- Opening ---------------------------------------------------------------------------------- */

struct afar_graph_stat {
	size_t size; /* sizeof(struct afar_graph_stat) */
	uint64_t nr_vertices, nr_edges;
	uint64_t nr_read;      /* edges that were read over this handle */
	uint32_t is_weighted;  /* 0 or 1 */
	uint32_t is_symmetric; /* 0 or 1: each edge goes both ways */
};

/* Opens the graph in the region "NAMESPACE:NAME". The session stays the caller's, and open. Blocks. */
int afar_graph_open(struct afar_session *session, const char *name, struct afar_graph **out);
/* Closes it and frees its memory. -EBUSY: a cursor or a job of it is open. */
int afar_graph_close(struct afar_graph *graph);
/* Fills in what is known of it; `out->size` is set. Does not block. */
int afar_graph_stat(const struct afar_graph *graph, struct afar_graph_stat *out);

/* ---- Edges ------------------------------------------------------------------------------------ */

/* The edges of one vertex, in memory of the library. They are in no order. */
struct afar_graph_edges {
	const uint32_t *words; /* of each edge: its other end, and perhaps its weight */
	uint64_t nr;	       /* edges */
	uint64_t nr_ahead;     /* words behind these that may be looked at, too: the next ones */
	uint32_t stride;       /* words of an edge: 1, or 2 with weights */
	uint32_t reserved;
};

/* The vertex at the other end of edge `i`. */
static inline uint32_t afar_graph_neighbour(const struct afar_graph_edges *edges, uint64_t i)
{
	return edges->words[i * edges->stride];
}

/* The weight of edge `i`. It is 1 if there is none. Edges that arrive have weights in a symmetric graph only. */
static inline uint32_t afar_graph_weight(const struct afar_graph_edges *edges, uint64_t i)
{
	return edges->stride == 2 ? edges->words[i * 2 + 1] : 1;
}

struct afar_graph_vertex {
	uint32_t number;
	uint32_t reserved;
	struct afar_graph_edges edges;
	const void *message; /* in a computation: its messages, combined; NULL: none */
};

/* Returns how many edges the vertex has. The first call reads where the edges of all begin, and blocks. -ERANGE: there is no
 * such vertex. */
int64_t afar_graph_degree(struct afar_graph *graph, enum afar_graph_direction direction,
			  uint32_t vertex);

/*
 * Opens a cursor. It goes through the vertices from `first` to `end` - 1 in their order, with the edges of that direction.
 * Edges are read in large pieces, and the next pieces are in flight while one is used. It can be moved again. Blocks.
 * -ERANGE: there are not so many vertices.
 */
int afar_graph_cursor_open(struct afar_graph *graph, enum afar_graph_direction direction,
			   uint64_t first, uint64_t end, struct afar_graph_cursor **out);
/* Goes on to the next vertex. Returns 1, or 0 at the end. The edges stay until the next call on the cursor. Blocks while edges
 * are on their way. */
int afar_graph_cursor_next(struct afar_graph_cursor *cursor, struct afar_graph_vertex *out);
/* Goes to `first`, to end before `end`. -ERANGE. */
int afar_graph_cursor_move(struct afar_graph_cursor *cursor, uint64_t first, uint64_t end);
int afar_graph_cursor_close(struct afar_graph_cursor *cursor);

/* ---- Exploring -------------------------------------------------------------------------------- */

#define AFAR_GRAPH_IN_FLIGHT_MAX 256U

enum afar_graph_exploration_flag {
	/* Vertices come in their order, nearly: edges that are near each other are read together. */
	AFAR_GRAPH_IN_ORDER = 1,
};

struct afar_graph_exploration {
	size_t size;	       /* sizeof(struct afar_graph_exploration) */
	uint32_t nr_in_flight; /* reads, 1 to AFAR_GRAPH_IN_FLIGHT_MAX; 0: 64 */
	uint32_t flags;	       /* AFAR_GRAPH_IN_ORDER, or 0 */
	/* Gives the next vertex whose edges are wanted, and returns 1. Returns 0 if there is none, unless more edges come
	 * in: then it is asked again. */
	int (*next)(void *context, uint32_t *vertex);
	/* Takes edges that leave a vertex; if there are many, a part at a time. Returns 0, or a negative code that ends the
	 * exploration. */
	int (*take)(void *context, uint32_t vertex, const struct afar_graph_edges *edges);
	void *context; /* for both */
};

/*
 * Explores: reads the edges of vertices here and there, which say what comes next. Many reads are in flight, because each
 * alone takes as long as the network does. Returns 0 when there is no next vertex and all edges were taken, or what `take`
 * returned. Both functions may not use the graph otherwise. Blocks.
 * Errors: -ERANGE (there is no such vertex), -EINVAL (a function is NULL, or a number is out of range).
 */
int afar_graph_explore(struct afar_graph *graph, const struct afar_graph_exploration *exploration);

/* ---- Computing -------------------------------------------------------------------------------- */

/* A superstep. The library makes it, and it may grow at its end. */
struct afar_graph_step {
	struct afar_graph_job *job;
	void *context;	     /* the program's */
	const void *values;  /* of all vertices, as they were after the step before */
	double sum;	     /* of what all workers added in the step before */
	double added;	     /* the caller adds to it */
	uint64_t first, end; /* the caller's vertices */
	uint32_t number;     /* from 0 */
	uint32_t reserved;
};

#define AFAR_GRAPH_ITEM_MAX	  64U  /* bytes of a value, a message or a result */
#define AFAR_GRAPH_PARAMETERS_MAX 256U /* bytes */
#define AFAR_GRAPH_WORKERS_MAX	  1024U

/*
 * A computation. Each function returns 0, or a negative code that ends the job at every worker. A function may leave
 * a line for that with afar_fail(). Functions that are NULL are not called.
 */
struct afar_graph_program {
	size_t size;		   /* sizeof(struct afar_graph_program) */
	const char *name;	   /* up to 63 bytes; equal at all workers */
	const void *parameters;	   /* equal at all workers, too; NULL: none */
	uint32_t parameters_bytes; /* up to AFAR_GRAPH_PARAMETERS_MAX */
	uint32_t direction;	   /* enum afar_graph_direction: the edges that `compute` gets */
	uint32_t value_bytes;	   /* that a vertex shows to all, up to AFAR_GRAPH_ITEM_MAX */
	uint32_t message_bytes;	   /* likewise; 0: none are sent */
	uint32_t result_bytes;	   /* of a vertex, likewise; 0: the values are the result */
	uint32_t nr_steps;	   /* at most; 0: until all rest */
	/* Sets the first value of a vertex. There are no values and no sum yet; it may add to the sum of step 0. */
	int (*start)(struct afar_graph_step *step, uint32_t vertex, void *value);
	/* The worker's own part of a step, once and before its vertices. Returns 1 if it has more to do, too. */
	int (*work)(struct afar_graph_step *step);
	/* Computes a vertex of the caller's. `value` has the one of the step before, and is to be the next. Returns 1 unless
	 * the vertex rests. When all rest, and nothing was sent, the job is over. */
	int (*compute)(struct afar_graph_step *step, const struct afar_graph_vertex *vertex,
		       void *value);
	/* Makes one message of two that are for one vertex, in any order. Cannot be NULL if there are messages. */
	void (*combine)(void *message, const void *other);
	/* At worker 0, which alone fails with it, after the last step: takes another worker's results, of `nr` vertices from `first` on. NULL: each worker's
	 * results are those of its own vertices. */
	int (*merge)(void *context, uint64_t first, uint64_t nr, const void *results);
	void *context;
};

struct afar_graph_job_options {
	size_t size;	     /* sizeof(struct afar_graph_job_options) */
	const char *ns;	     /* the namespace of what workers exchange; NULL: the graph's */
	const char *meet_ns; /* where they meet, in memory; NULL: one of these two */
	const char
		*name; /* of the region where they meet; all give the same. Unused by one worker */
	uint32_t worker;      /* which of them the caller is, from 0; worker 0 leads the others */
	uint32_t nr_workers;  /* up to AFAR_GRAPH_WORKERS_MAX; 0 and 1: nobody meets */
	uint32_t patience_ms; /* a worker that shows no life for so long is given up; 0: 30 000 */
	uint32_t reserved;
	int (*is_ended)(
		void *context); /* asked often: whether to end early, with -ECANCELED. NULL: never */
	void *context;
};

struct afar_graph_job_stat {
	size_t size;		    /* sizeof(struct afar_graph_job_stat) */
	uint64_t ns_bytes;	    /* that workers exchange through; 0: one works alone */
	char ns[AFAR_NAME_MAX + 1]; /* where those are */
};

/*
 * Opens the caller's part in a job. Worker 0 makes the regions of the job, and reserves what their namespaces lack. The
 * others wait for it, up to patience_ms; they may come before it. The graph stays the caller's and cannot be closed
 * before. The options and the program are copied with their strings and parameters; the contexts stay the caller's. `options` may be NULL: one worker. Blocks.
 * Errors: -EINVAL (options, or a program, that cannot be), -EEXIST (a job of this name), -ETIMEDOUT (worker 0 has not
 * come), -ENOSPC, -EACCES.
 */
int afar_graph_job_open(struct afar_graph *graph, const struct afar_graph_program *program,
			const struct afar_graph_job_options *options, struct afar_graph_job **out);
/* Fills in what the job takes; `out->size` is set. Does not block. */
int afar_graph_job_stat(const struct afar_graph_job *job, struct afar_graph_job_stat *out);
/*
 * Does the caller's part, once, until the job is over. Then all workers have all values, and worker 0 has all results. If
 * a worker's function fails, or finds the graph damaged, all workers end with that error. They end, too, when one dies.
 * Blocks. Errors: those of the functions; -ETIMEDOUT (a worker shows no life), -EREMOTEIO or -ESHUTDOWN (one has ended
 * early), -EINVAL (worker 0 computes something else), -ECANCELED (is_ended said so), -EBADMSG (a worker sent what cannot be).
 */
int afar_graph_job_run(struct afar_graph_job *job);
/* The values of all vertices, and the results: result_bytes for each, as one array. NULL before the job runs, and if there are
 * none. They are the job's. `work` and `compute` write the results: of the caller's vertices, or with `merge` of any. */
const void *afar_graph_job_values(const struct afar_graph_job *job);
void *afar_graph_job_results(const struct afar_graph_job *job);
/* Ends the caller's part and frees its memory. Worker 0 gives back what was reserved, and waits some seconds for that. So it is
 * called there after the others have ended, as far as they are known. Returns 0. */
int afar_graph_job_close(struct afar_graph_job *job);

/* Sends `message` to a vertex, for `compute` or afar_graph_receive() in the next step. Does not block. -ERANGE: there is no such
 * vertex, or there are no messages. */
int afar_graph_send(struct afar_graph_step *step, uint32_t vertex, const void *message);
/* Takes the next of the caller's vertices that has a message, and copies the message. Returns 1, or 0 if there is none left. For
 * `work`. Does not block. */
int afar_graph_receive(struct afar_graph_step *step, uint32_t *vertex, void *message);

#ifdef __cplusplus
}
#endif
#endif
