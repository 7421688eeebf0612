/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of a job: what it asks servers, and what they grant (job_parts.c). For the kinds of jobs,
 * and for servers.c, which tells of lost connections.
 */
#ifndef MANAGER_JOB_PARTS_H
#define MANAGER_JOB_PARTS_H

#include "manager/jobs/job.h"

/* Asks the server of a pool that is up for memory of the job's namespace. -ENOMEM. */
int job_ask_memory(struct core *core, struct job *job, struct pool *pool, uint64_t bytes,
		   enum extent_class class);
/* Asks a server for something else, which may take it `copying_ms`. If the job ends before the
 * answer comes, the server loses its connection, unless the kind may_tell_late. Takes `request` over, which may be NULL: -ENOMEM.
 * -AFAR_ESERVER: it is not connected. */
int job_ask(struct core *core, struct job *job, uint64_t server, Afar__Request *request,
	    uint64_t copying_ms);
/* Bytes of memory that were granted in this round, and that were asked for. */
uint64_t job_granted(const struct job *job);
uint64_t job_asked(const struct job *job);
/* The server of a pool failed in this round when it was asked for memory of that. */
bool job_has_failed_on(const struct job *job, const struct pool *pool);
/* The server, in the life that it has now, has answered 0 to what the job asked of it. */
bool job_was_answered(const struct job *job, const struct server *server);
/* For `settle`: puts what was granted into the tables and the store, and the outcome for all
 * clients that wait. -ENOMEM, -AFAR_ESERVER. */
int job_record_memory(struct core *core, struct job *job, struct namespace *ns);
/* A server has lost its connection: what it granted there is void. */
void jobs_server_down(struct core *core, const struct live_server *live);

#endif
