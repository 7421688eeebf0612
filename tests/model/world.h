/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A state of the model of chunk.c, what must hold in it, and what hostile sessions make of it by themselves.
 */
#ifndef TESTS_MODEL_WORLD_H
#define TESTS_MODEL_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "chunk.h"
#include "search.h"

#define SERVERS_MAX  2
#define SESSIONS_MAX 3

enum memory { FREE, GRANTED, DRAINING, KEYLESS, FENCED };
enum link { LINK_DOWN, LINK_JOINING, LINK_JOINED };
enum record { RECORD_NONE, RECORD_GRANTED, RECORD_RELEASING };
enum life { LIVE, ENDING, GONE };

/* Bytes only: states are compared as memory. Sets of sessions are bits. Numbers of extents are small and
 * taken again once nothing in the state has them any more, which is the same as never. */
struct server {
	uint8_t is_up;
	uint8_t link;
	/* The manager's: */
	uint8_t is_known; /* the incarnation is the one on record */
	uint8_t record, record_ns, record_number;
	uint8_t fences;	      /* ending sessions whose end it has not confirmed */
	uint8_t ends_sent;    /* of those, told on this connection              */
	uint8_t release_sent; /* likewise                                       */
	uint8_t is_reserving;
	/* On their way to the server, or waiting there: */
	uint8_t ask_reserve; /* the namespace, from 1      */
	uint8_t ask_release; /* the number                 */
	uint8_t ask_ends;
	/* On their way to the manager: */
	uint8_t say_reserved_ns, say_reserved; /* the number */
	uint8_t say_released;		       /* the number */
	uint8_t say_ended;
	/* The server's: */
	uint8_t join_release; /* the number that the manager's answer to its joining lists */
	uint8_t memory, memory_ns, memory_number;
	uint8_t content;	/* the namespaces whose bytes may be in it */
	uint8_t is_release_due; /* an answer, when the memory is fenced    */
	uint8_t closing;	/* sessions that end: endpoints to close   */
	uint8_t ends_due;	/* answers, when they are                  */
	uint8_t is_key_out;	/* somebody was given the present key      */
	uint8_t noted;		/* who was                                 */
	uint8_t ended;
	uint8_t passes, capabilities, tickets;
	uint8_t endpoints;
	uint8_t writing; /* of those, with a write half through */
};

struct world {
	uint8_t is_manager_up;
	uint8_t nr_failures_left;
	uint8_t lives[SESSIONS_MAX];
	uint8_t open;	 /* sessions with a region open */
	uint8_t revoked; /* sessions whose rights were taken */
	struct server servers[SERVERS_MAX];
};
_Static_assert(sizeof(struct world) == 7 + 2 * sizeof(struct server), "no padding");

/* The last session is in the second namespace, the others in the first. */
unsigned namespace_of(const struct chunk_world *rules, unsigned session);
uint8_t sessions_of(const struct chunk_world *rules, unsigned ns);
/* One that no place of the server's has. */
uint8_t fresh_number(const struct server *server);
/* The manager's record is of what the server has granted. */
bool is_record_true(const struct server *server);
/* These sessions are given the present key. */
void take_keys(struct server *server, uint8_t sessions);

/* For struct model. */
const char *world_wrong(const void *context, const void *state);
bool world_is_well(const void *context, const void *state);
/* Passes a state on to the search, after the hostile sessions have done what they can. */
void reach(struct search *search, const struct chunk_world *rules, const char *step,
	   enum step_kind kind, struct world *next);

#endif
