/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs: requests that take several steps, because servers have to be asked. All kinds share the list
 * of jobs (job.c), and the servers' answers with the memory that they grant (job_parts.c). They share
 * the steps, too (jobs.c): clients that wait and hear in time which server it is, sessions that end,
 * commits that fail. A kind is a table of functions, and one struct that begins with a struct job (reserve.c,
 * resize.c, seal.c).
 *
 * A job takes two steps in turn. `ask` runs between two batches: it looks at the tables, and asks
 * servers. When all of them have answered, `settle` runs in a batch: it changes the tables, in that
 * batch's commit.
 *   JOB_ASK ── ask ─▶ JOB_ASKED ── answers ─▶ JOB_SETTLE ── settle ─▶ JOB_COMMITTING
 *   JOB_COMMITTING ── commit ─▶ JOB_ASK, or the job is done and gone
 *
 * Either step may put itself off by returning its own state: then it runs again in the next run.
 * From any state a job may become JOB_FAILED. Between batches it is ended then: its clients are
 * answered, and what it took and was granted is given back. It stays (JOB_ENDED) until the last
 * server has answered, so that a request that comes again does not begin it anew.
 *
 * Jobs are not stored. When the manager ends, servers report extents that it does not know as they
 * join again, and it has them released. For the same reason a server that loses its connection
 * voids what it granted to jobs.
 */
#ifndef MANAGER_JOB_H
#define MANAGER_JOB_H

#include "manager/core_private.h"

enum job_state { JOB_ASK, JOB_ASKED, JOB_SETTLE, JOB_COMMITTING, JOB_DONE, JOB_FAILED, JOB_ENDED };

struct job;
struct job_part;

struct job_kind {
	bool ends_with_session; /* that began it */
	bool may_tell_late;	/* what servers do for it harms nobody after its end: they go on */
	/* Between batches. Asks at least one server (job_ask…()) and returns JOB_ASKED, or returns
	 * JOB_ASK: later. Its changes of the tables are in memory alone, and taken back if it
	 * fails. A negative code with a sentence: the job fails. */
	int (*ask)(struct core *core, struct job *job);
	/* In a batch. Returns JOB_ASK, JOB_DONE, or JOB_SETTLE: later. Without changes of the
	 * tables JOB_ASK holds whatever becomes of the commit. A negative code with a sentence: its
	 * changes are taken back, and the job fails. */
	int (*settle)(struct core *core, struct job *job);
	/* A server has answered 0. The changes that this makes to the tables are what the server
	 * has done: they are not taken back. NULL: nothing is to be done with it. */
	void (*part_answered)(struct core *core, struct job *job, const struct job_part *part,
			      const Afar__Reply *answer);
	/* A server failed with `status`, or has gone with what it granted (`part->granted`). 0: the
	 * job goes on without it; else the code, with a sentence, that the job fails with. */
	int (*part_failed)(struct core *core, struct job *job, const struct job_part *part,
			   int status);
	/* Gives back what `ask` took of the tables, if it is not given back yet. May run in a batch
	 * and be taken back. NULL: it took nothing. -ENOMEM. */
	int (*give_back)(struct core *core, struct job *job);
	/* Returns how many servers have to release memory before the job goes on, and the first of
	 * them. NULL: it never waits for that. */
	unsigned (*awaits)(const struct core *core, const struct job *job, uint64_t *first);
	void (*free)(struct job *job);
};

struct job {
	struct cds_list_head node; /* of the core's jobs */
	const struct job_kind *kind;
	enum job_state state;
	enum job_state next; /* JOB_COMMITTING: with the commit */
	char title[64];	     /* "reserve 8 MiB": sentences begin with it */
	uint64_t begun_at;
	uint64_t session; /* that began it, by this request: */
	uint64_t request_id;
	uint64_t namespace_number;
	uint64_t region; /* the generation of the one whose layout it changes; 0: of none */
	enum outcome_kind outcome; /* when it is done */
	uint64_t outcome_value;
	uint64_t claim;	 /* bytes that it may ask servers for; 0: it was not let yet (quota.h) */
	bool is_queued;	 /* a limit is not enough for it beside those begun before */
	bool is_dropped; /* with its namespace, by the batch that runs */
	int status;	 /* JOB_FAILED, JOB_ENDED; what clients are told: */
	char *sentence;	 /* NULL: the code's own */
	uint64_t retry_at;
	struct cds_list_head parts;   /* of this round */
	struct cds_list_head waiters; /* requests */
};

enum part_state { PART_ASKED, PART_ANSWERED, PART_FAILED };

/* One server's part of a job: what it was asked, and what it granted. */
struct job_part {
	struct cds_list_head node;
	struct job *job;
	enum part_state state;
	uint64_t server;
	uint64_t incarnation;
	uint64_t store; /* of the server's, that was asked for memory; 0: its DRAM was */
	uint64_t bytes; /* of memory that was asked for; 0: it was asked for something else */
	enum extent_class class;
	uint64_t pending;    /* bytes that count at its pool: asked for, or in no table yet */
	uint64_t copying_ms; /* that its server may take; counts there too */
	uint64_t granted;    /* bytes of: */
	struct {
		uint64_t number;
		uint64_t length;
	} * extents;
	size_t nr_extents;
	char *said; /* the server's sentence, when it failed; may be NULL. It may say anything */
};

/* Takes over a job whose kind, title, namespace and outcome are set, and lets the event, which it
 * takes over, wait for it. */
void job_begin(struct core *core, struct job *job, const struct session *session,
	       struct event *event);
/* Lets another request, which it takes over, wait for a job. */
void job_wait(struct job *job, struct event *event);
/* The thread's last sentence says why. Does nothing to a job that has failed already. */
void job_fail(struct job *job, int status);
static inline bool job_is_over(const struct job *job)
{
	return job->state == JOB_FAILED || job->state == JOB_ENDED;
}

/* Returns the job that changes the layout of a region, if one has not ended. While it runs, nobody else changes it. */
struct job *job_of_region(const struct core *core, uint64_t generation);
/* Returns until when a request may wait for that; 0: there is none. */
uint64_t job_of_region_wait(const struct core *core, const struct event *event,
			    uint64_t generation);

int job_record_outcomes(struct core *core, const struct job *job);

/* -ETIMEDOUT with a sentence that tells which server the job waits for, how long, and how far it has come. */
int job_fail_slow(const struct core *core, const struct job *job);

/* Attaches a request that comes again to its running job. */
bool jobs_attach(struct core *core, struct event *event);
/* The namespace's memory goes: jobs that took of it give it back, and fail with the commit.
 * -ENOMEM. */
int jobs_drop(struct core *core, uint64_t ns);

#endif
