/* SPDX-License-Identifier: BSD-3-Clause */
/* One worker's part in a computation, from its beginning to its end. Functions return 0 or a negative code; app_failure()
 * (failure.h) then has a line. */
#ifndef APPS_GRAPH_WORK_H
#define APPS_GRAPH_WORK_H

#include "compute.h"

struct graph_work {
	struct graph_computation computation;
	struct afar_graph_job *job;
	struct afar_graph_job_stat needs;
	uint64_t nr_edges;
	uint64_t nr_looked; /* edges that this worker has looked at */
	void *results; /* an element for each vertex: double, uint32_t or uint64_t; NULL: a way */
};

/* Opens the graph, and the job. The options stay the caller's. After a failure nothing is to be ended. Errors: those of
 * afar_graph_open() and afar_graph_job_open(); -EINVAL (no such vertex). */
int graph_prepare(struct afar_session *session, const struct graph_options *options,
		  struct graph_work *out);
/* Does it. When it has returned 0, worker 0 has the result. */
int graph_work(struct graph_work *work);
/* Ends the caller's part, and frees the results. Worker 0 gives back what it has reserved; so call it there after the
 * others have ended, as far as they are known. */
void graph_end(struct graph_work *work);

#endif
