/* SPDX-License-Identifier: BSD-3-Clause */
/* The other workers of `afar sort run`, as processes of this machine. They end with this process, however that ends. */
#ifndef TOOLS_SORT_WORKERS_H
#define TOOLS_SORT_WORKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cli.h"
#include "sort.h"

struct sort_worker {
	pid_t pid;  /* 0: it has ended, and was reaped */
	int status; /* as of wait(2) */
	int lines;  /* a descriptor: what it has said */
};

struct sort_workers {
	struct sort_worker *workers;
	unsigned nr; /* they are workers 1 to nr of the job */
	const struct sort_worker
		*failed; /* the first that has ended otherwise than well; NULL: none */
};

/* Starts workers 1 to options->nr_workers - 1. Returns 0, or CLI_FAILED with a line. */
int sort_workers_start(const struct cli *cli, const struct sort_options *options,
		       struct sort_workers *out);
/* Reaps those that have ended. Returns whether one has failed. */
bool sort_workers_look(struct sort_workers *workers);
/* Waits up to `timeout_ms` until all have ended, or one has failed. */
void sort_workers_wait(struct sort_workers *workers, int timeout_ms);
/* Ends those that run, and waits for them. */
void sort_workers_stop(struct sort_workers *workers);
/* Prints all that they have said on standard error. */
void sort_workers_tell(const struct sort_workers *workers);
/* Says why the first that has failed did so. Returns CLI_FAILED. */
int sort_workers_complain(const struct sort_workers *workers, const struct sort_options *options);
void sort_workers_free(struct sort_workers *workers);

#endif
