/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server: lends this machine's memory. Joins the manager over the control channel, gets extents
 * ready when asked, gives keys and tickets to clients, and runs the progress threads that the
 * one-sided transfers of others need on transports whose targets are not passive.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "base/key.h"
#include "rpc/rpc.h"

struct server;

/* A way to the memory. */
struct server_lane {
	const char *transport;	/* "tcp", "verbs"                           */
	const char *address;	/* HOST:PORT to listen on; port 0: any      */
	const char *congestion; /* as fabric.congestion; stays              */
};

struct server_options {
	const char *name; /* for people; NULL: the host's name                          */
	const char *manager_host;
	uint16_t manager_port;
	const struct key *key; /* to join with; copied                                       */
	const char
		*control_address; /* HOST:PORT to listen on for clients' control; port 0: any   */
	const struct server_lane *lanes; /* by which clients reach the memory, the best first   */
	unsigned nr_lanes;
	const char *folder;	 /* keeps the server's number over restarts; NULL: nowhere     */
	uint64_t capacity_bytes; /* lent at most; 0: half of the machine's memory              */
	uint64_t pool_bytes;	 /* of scrubbed memory kept ready; 0: all that came back       */
	unsigned
		nr_progress; /* progress threads of each lane; 0: one                                   */
	uint32_t spin_us;     /* a progress thread spins so long before it sleeps; 0: 50, ~0: not */
	uint64_t stage_bytes; /* buffers of each, for server-driven transfers; 0: direct */
	const char *sysfs;    /* what tells of network cards; NULL: /sys; stays                */
	void (*gave_up)(
		void *context); /* server_failure() has something to say; on a thread of its own; may be NULL */
	void *context;
};

/* Whether a lane's `congestion` may have this name on this machine. -EINVAL: no, and `problem` says why and what to do, as the
 * end of a sentence. */
int server_congestion_check(const char *name, char *problem, size_t size);

/*
 * Starts the server's threads; it keeps trying to join the manager until it is stopped or gives up. Errors with a
 * sentence: those of rpc_listen(), fabric_open() and fabric_listen().
 */
int server_start(struct rpc_loop *loop, const struct server_options *options, struct server **out);
/* True once the manager has taken it in. */
int server_is_joined(const struct server *server);
/* 0, or why it does not try to join any more, with a sentence: the manager does not accept the key of a server that has not
 * joined yet (-AFAR_EAUTH, -EACCES), or has removed it from the cluster (-AFAR_ELOST). */
int server_failure(const struct server *server);
/* Closes its connections, frees its memory. Before rpc_loop_stop(); not on the loop's thread. */
void server_stop(struct server *server);

#endif
