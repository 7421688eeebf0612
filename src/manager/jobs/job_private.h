/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of job_parts.c that only job.c and jobs.c need. */
#ifndef MANAGER_JOB_PRIVATE_H
#define MANAGER_JOB_PRIVATE_H

#include "manager/jobs/job.h"

/* How many servers have not answered, and the first of them. */
unsigned parts_asked(const struct job *job, uint64_t *first);
/* Closes the connections of servers that were told to copy, and have not answered. They must not do
 * that any more when the place is another's. A server does not begin on another connection what it
 * was told on this one. It ends what it has begun before it joins again. */
void parts_stop(struct core *core, const struct job *job);
/* Gives back to servers what they have granted. */
void parts_undo(struct core *core, struct job *job);
/* All are answered, or their calls are. */
void parts_free(struct job *job);

#endif
