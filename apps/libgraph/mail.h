/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers exchange it between two supersteps, through a region; see job.h. A worker alone has no mail. */
#ifndef LIBGRAPH_MAIL_H
#define LIBGRAPH_MAIL_H

#include "job.h"

/* All workers together have said it of a step. */
struct mail_sums {
	double added;
	uint64_t nr_active; /* vertices and workers that have more to do, and messages */
};

#define MAIL_LINE_BYTES 256U /* of what a worker says of a step */

void mail_lay_out(struct afar_graph_job *job);
/*
 * Exchanges the values and the messages of a step, adds up `sums`, and waits for all. `side` is 0 or 1, another one in each
 * step. `failed`: the caller's step has failed so, with a line. All then get the error of the first worker that has failed,
 * with its line.
 */
int mail_exchange(struct afar_graph_job *job, unsigned side, int failed, struct mail_sums *sums);
/* Brings the results of all to worker 0. */
int mail_collect(struct afar_graph_job *job);

#endif
