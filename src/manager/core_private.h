/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The core, as the rooms of the manager see it. Each file has a header of its own.
 *
 * Code that changes tables notes it (undo.h). So an operation may fail at any point: its changes
 * are taken back. Effects outside of the core, such as calls and closed connections, wait for the
 * commit, or are good whatever becomes of that.
 */
#ifndef MANAGER_CORE_PRIVATE_H
#define MANAGER_CORE_PRIVATE_H

#include <stdlib.h>

#include "base/error.h"
#include "manager/counts.h"
#include "manager/dispatch/core.h"
#include "manager/tables/state.h"
#include "manager/tables/store.h"
#include "rpc/protobuf.h"

#define CORE_LIST_MAX	  1000U /* entries of one list reply                  */
#define CORE_OUTCOMES_MAX 1024U /* replies kept for one session               */
#define CORE_CLAIM_MS	  30000U
#define CORE_RETRY_NS	  ((uint64_t)1000000000)  /* until a failed commit or call is tried again */
#define CORE_COMPLAINT_NS ((uint64_t)10000000000) /* between lines about failed commits          */
#define CORE_NEVER	  UINT64_MAX
#define CORE_RECOVERY_NS  ((uint64_t)3000000000) /* after a start, for known servers to join   */

struct core {
	struct core_environment environment;
	struct metastore *metastore;
	struct store *store;
	struct keyring *keyring;
	struct undo *undo;   /* of the batch that runs */
	struct undo *beside; /* notes of a request beside it; else empty */
	void (*lend)(void *argument, bool is_lent);
	void *lend_argument;
	struct state *state;
	uint64_t incarnation;
	uint64_t started_at;
	uint64_t lease_ns;
	bool gives_ends;   /* sessions may have ends of files for themselves */
	uint64_t claim_ns; /* to write a version: versions.c */

	struct cds_list_head live_servers; /* struct live_server: connections/live.h */
	struct cds_list_head connected;	   /* struct live_session: connections/live.h */
	struct cds_list_head leased;
	struct cds_list_head ended; /* by the batch that runs */
	struct cds_list_head jobs;  /* struct job: job.h */
	uint64_t claims_pass;	    /* over these: the number of the last (quota.h) */
	struct files *files;	    /* files/files.h */
	uint64_t turn;		    /* of the servers, for reservations */
	uint64_t nr_down;	    /* servers and stores that have gone */
	uint64_t last_trim_call;    /* trims.h */
	uint64_t retry_at;	    /* after a failed commit: no work of its own before */
	uint64_t complain_at;	    /* in the log of the next                           */
	uint64_t forget_at;	    /* servers that have not come back since the manager started */

	struct {
		uint64_t due_at; /* when a change makes it another term */
		char *newer[64]; /* who was refused */
		unsigned nr_newer;
		unsigned nr_accepted; /* of those, the first: an operator has said so */
		uint64_t newest;      /* the highest number that they were told */
	} terms;		      /* terms.h */

	struct cds_list_head waiting; /* requests, each by the rule of its call */
	uint64_t heard_at;	      /* what had come by then has been handled */
	size_t nr_looks;	      /* under way: use.c */
	struct cds_list_head viewing; /* events: views.c */
	struct manager_counts counts;

	/* These are of the batch that runs. */
	struct cds_list_head answering;	  /* requests whose replies wait for the commit */
	struct cds_list_head reading;	  /* requests that change nothing */
	struct cds_list_head gone;	  /* peers to forget */
	struct cds_list_head key_changes; /* principals.c */
	/* Answers that the core gives itself, for calls that could not be sent. */
	struct cds_list_head failed_calls;
};

/* An operation: fills the event's reply or outcome and returns 0, or a negative code with a
 * sentence. CORE_DEFERRED: the event is kept and answered later. */
#define CORE_DEFERRED 1
typedef int core_operation(struct core *core, struct session *session, struct event *event);

/* A rule: until when a request waits before it is carried out. Not later than now: no more.
 * CORE_NEVER: until an event changes that. It is asked again in each run. */
typedef uint64_t core_wait(struct core *core, struct event *event);

/* ---- events.c */

/* The reply begins anew. -ENOMEM: nothing has happened. */
int event_reset(struct event *event);
/* The reply of a request becomes `status` and, if negative, the thread's last sentence. */
void event_fail(struct event *event, int status);
/* Sends the reply and frees the request. */
void event_answer(struct core *core, struct event *event);
uint64_t core_now(const struct core *core);
/* When the first of some requests that wait for a job is to be told which server that waits for. */
uint64_t waiters_due(const struct cds_list_head *waiters);
/* Answers those whose time has come with `status` and the thread's last sentence. */
void waiters_answer_due(struct core *core, struct cds_list_head *waiters, int status);

#endif
