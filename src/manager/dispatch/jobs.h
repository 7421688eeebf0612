/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes jobs through their life; for the core alone (jobs.c). */
#ifndef MANAGER_JOBS_H
#define MANAGER_JOBS_H

#include "manager/core_private.h"

/* Before a batch's commit, and behind it. */
void jobs_settle(struct core *core);
void jobs_committed(struct core *core, int status);
/* Between batches: asks servers, ends jobs. */
void jobs_drive(struct core *core);
/* Tells clients whose time is up which server their job waits for. The job goes on. */
void jobs_tell(struct core *core);
/* When that is due next, or a job is to be tried again. */
uint64_t jobs_next(const struct core *core);
void jobs_close(struct core *core);

#endif
