/* SPDX-License-Identifier: BSD-3-Clause */
/* The other workers of a job, as processes of this machine. They end with this process, however
 * that ends. */
#ifndef APPS_COMMON_WORKERS_H
#define APPS_COMMON_WORKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/cli/cli.h"

struct worker {
	pid_t pid;  /* 0: it has ended, and was reaped */
	int status; /* as of wait(2) */
	int lines;  /* a descriptor: what it has said */
};

/* How a job is divided. */
struct job_flags {
	const char *workers, *worker,
		*job; /* --workers, --worker and --job, as they were typed; NULL: not given */
	unsigned number, nr; /* the caller's, and how many there are */
	char name[80];	     /* of the job */
};

struct workers {
	const char *what; /* the job, for people */
	struct worker *workers;
	unsigned nr;		     /* they are workers 1 to nr of the job */
	const struct worker *failed; /* the first that has ended otherwise than well; NULL: none */
};

/* Takes the flags. `nr_default`: of --workers; 0: as many as this process may use cores. Returns 0 or CLI_USAGE. */
int workers_take_flags(const struct cli_command *command, const char *program, unsigned nr_default,
		       struct job_flags *flags);
/*
 * Starts the others. `words` is the command of one of them, without --worker and --job, and ends with NULL: "run", flags,
 * "--", and arguments. Returns 0, or CLI_FAILED with a line.
 */
int workers_start(const struct cli *cli, const char *what, const struct job_flags *flags,
		  const char *const *words, struct workers *out);
/* Reaps those that have ended. Returns whether one has failed. */
bool workers_look(struct workers *workers);
/* Waits up to `timeout_ms` until all have ended, or one has failed. */
void workers_wait(struct workers *workers, int timeout_ms);
/* Ends those that run, and waits for them. */
void workers_stop(struct workers *workers);
/* Prints all that they have said on standard error. */
void workers_tell(const struct workers *workers);
/* Says why the first that has failed did so. Returns CLI_FAILED. */
int workers_complain(const struct workers *workers);
void workers_free(struct workers *workers);

#endif
