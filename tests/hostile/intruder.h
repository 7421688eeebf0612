/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client that speaks the protocol by itself, so that it can cheat. It keeps what it should drop, changes
 * what it was given, and stops in the middle. Failures of what an honest client could do, too, fail the
 * running test; what it tries beyond that returns a status.
 */
#ifndef TESTS_INTRUDER_H
#define TESTS_INTRUDER_H

#include <stddef.h>
#include <stdint.h>

#include "rpc/capability.h"
#include "rpc/rpc.h"
#include "rpc/ticket.h"

#define NR_EXTENTS_MAX 16

struct intruder {
	struct rpc_loop *loop;
	struct rpc_connection *manager;
	uint64_t session;
	uint64_t last_id;
};

/* All that the manager told of a region on the cluster's one server. */
struct place {
	uint64_t ns, address, generation, length;
	char control[64], data[64]; /* of the server */
	struct key pass;
	struct rpc_capability capability; /* as on the wire */
	uint64_t extents[NR_EXTENTS_MAX]; /* ascending, each once */
	size_t nr_extents;
	uint64_t first_extent, first_offset; /* where the region begins */
	uint64_t first_length;
};

/* This opens the memory of a region's first chunk. */
struct remote {
	uint64_t key;
	uint64_t at; /* remote address */
};

void intruder_open(struct intruder *intruder, const char *host, uint16_t port,
		   const struct key *key);
void intruder_close(struct intruder *intruder);

uint64_t intruder_make_namespace(struct intruder *intruder, const char *name, uint64_t bytes);
uint64_t intruder_open_namespace(struct intruder *intruder, const char *name);
void intruder_make_region(struct intruder *intruder, uint64_t ns, uint64_t bytes,
			  struct place *out);
void intruder_open_region(struct intruder *intruder, uint64_t ns, const char *name,
			  struct place *out);
/* Frees and closes the region, and gives all memory of its namespace back. */
void intruder_give_back(struct intruder *intruder, const struct place *place);
void intruder_close_region(struct intruder *intruder, const struct place *place);

/* Connects to a server's control port with any key: 0, or why not; `*out` is the caller's to close. */
int intruder_enter(struct intruder *intruder, const char *address, const struct key *pass,
		   struct rpc_connection **out);
/* Connect and Grant, with whatever one likes to send. */
int intruder_ask_ticket(struct rpc_connection *control, uint64_t session, uint64_t ns,
			uint32_t rights, struct rpc_ticket *out);
/* Connect and Grant for attaching a layout. */
int intruder_ask_to_attach(struct rpc_connection *control, uint64_t session, uint64_t ns,
			   uint32_t rights, uint64_t generation, struct rpc_ticket *out);
int intruder_ask_keys(struct rpc_connection *control, uint64_t session, const struct place *place,
		      struct remote *out);

#endif
