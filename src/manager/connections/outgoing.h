/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls to servers and clients, and their answers (outgoing.c). */
#ifndef MANAGER_OUTGOING_H
#define MANAGER_OUTGOING_H

#include "manager/connections/live.h"
#include "manager/core_private.h"

/*
 * Called when a call was answered, or never will be (event->answer is NULL). `is_done`: whoever was asked has done it, or has nothing of it.
 * -ENOMEM: the tables are as before, and the call is made again.
 */
typedef int outgoing_answered(struct core *core, struct outgoing *outgoing, struct event *event,
			      bool is_done);
/* A copy of a region's layout. */
struct told_trim {
	uint64_t generation;
	uint32_t copy;
};
/* Extents of one home. */
struct extent_list {
	struct layout_home home;
	uint64_t *numbers;
	uint64_t *namespaces; /* that of each */
	size_t nr;
};
/* With room for `nr`. -ENOMEM. */
int extent_list_open(struct extent_list *list, const struct layout_home *home, size_t nr);
void extent_list_close(struct extent_list *list);
struct outgoing {
	outgoing_answered *answered;
	bool may_fail; /* who asks hears of failures; else the server is told again, and a line says so */
	uint64_t server;
	uint64_t incarnation;
	struct job_part *part;	    /* of a job */
	uint64_t session;	    /* that is to end, or is asked; 0: the server is */
	struct extent_list extents; /* to be released; of trims the home alone */
	struct told_trim *trims;
	size_t nr_trims;
	uint64_t trim_call; /* its number */
	uint64_t fs;	    /* what it is about: the namespace's number */
	uint64_t ino;
	uint64_t *inos; /* likewise, of a question about several */
	size_t nr_inos;
	uint64_t recall; /* its number, or the revoke's, or the round's */
	unsigned what;	 /* HOLD_… */
	uint64_t sweep;	 /* its number there */
	/* The answer for a call that cannot be sent. It is made first, so that there always is
	 * one. */
	struct event *failure;
};
struct outgoing *outgoing_new(outgoing_answered *answered, const struct live_server *live);
/* To whoever is at `peer`. */
struct outgoing *outgoing_new_to(outgoing_answered *answered, void *peer);
void outgoing_free(struct outgoing *outgoing);
#define CORE_NO_TIMEOUT UINT32_MAX
/* A device may take many seconds for each operation, which is no reason to lose its server. The
 * connection tells when a server is gone. */
#define STORE_TIMEOUT_MS 3600000U
/* Sends a call. If it cannot be sent, it is answered with the error in the next run. Takes
 * `outgoing` and `request` over. */
void core_call(struct core *core, void *peer, uint32_t timeout_ms, Afar__Request *request,
	       struct outgoing *outgoing);
static inline void server_call(struct core *core, struct live_server *live, uint32_t timeout_ms,
			       Afar__Request *request, struct outgoing *outgoing)
{
	core_call(core, live->peer, timeout_ms, request, outgoing);
}
/* The request for extents of a namespace, of the server's DRAM or of a store (else 0). NULL: no
 * memory. */
Afar__Request *server_ask_extents(uint64_t ns, uint64_t bytes, enum extent_class class,
				  uint64_t store);
/* The request to release extents. NULL: no memory. */
Afar__Request *server_ask_release(const struct extent_list *list);
/* True: the answer comes over the connection that the server has now. */
bool outgoing_is_current(const struct core *core, const struct outgoing *outgoing,
			 const struct event *event);
/* Calls the server, and takes `outgoing` and `request` over, which may be NULL: without memory for the call it closes the
 * connection. */
void server_call_or_close(struct core *core, struct live_server *live, uint32_t timeout_ms,
			  Afar__Request *request, struct outgoing *outgoing);
/* Likewise has it release extents. Takes the list over. */
void server_call_release(struct core *core, struct live_server *live, outgoing_answered *answered,
			 struct extent_list *list);
/* Asks whether the server lives. Its connection is closed if it does not answer in time. */
#define SERVER_PROBE_MS 2000U
void server_probe(struct core *core, struct live_server *live);
/* Asks the server to release extents that the tables do not have. Takes the list over. */
void server_undo(struct core *core, struct live_server *live, struct extent_list *list);
void server_answered(struct core *core, struct event *event);

#endif
