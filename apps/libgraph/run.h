/* SPDX-License-Identifier: BSD-3-Clause */
/* The supersteps of a job; see job.h. */
#ifndef LIBGRAPH_RUN_H
#define LIBGRAPH_RUN_H

#include "job.h"

/* Goes through all of them, and brings the results to worker 0. The workers have met. */
int run_steps(struct afar_graph_job *job);

#endif
