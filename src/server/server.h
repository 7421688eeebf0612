/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server lends this machine's memory. It joins the manager over the control channel, gets extents
 * ready when asked, and gives keys and tickets to clients. On transports whose targets are not
 * passive, it runs the progress threads that the one-sided transfers of others need.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "base/key.h"
#include "rpc/rpc.h"

struct server;

#define SERVER_STORES_MAX 16U

/* One way to the memory. */
struct server_lane {
	const char *transport;	/* "tcp", "verbs"                           */
	const char *address;	/* HOST:PORT to listen on; port 0: any      */
	const char *congestion; /* as fabric.congestion; must outlive the server */
};

/* A device of flash. */
struct server_store {
	const char *path;
	uint64_t create_bytes; /* make a file of this size, if nothing is there; 0: do not */
};

struct server_options {
	const char *name; /* for people; NULL: the host's name                          */
	const char *manager_host;
	uint16_t manager_port;
	const struct key *key; /* proved to the manager; copied */
	const char
		*key_file; /* read anew before each attempt to join; NULL: the key stays; copied */
	/* HOST:PORT on which clients' control connections come; port 0: any. */
	const char *control_address;
	const struct server_lane *lanes; /* clients reach the memory by them, the best first */
	unsigned nr_lanes;
	const struct server_store *stores;
	unsigned nr_stores; /* at most SERVER_STORES_MAX */
	uint16_t
		stores_port; /* clients reach each over the first port from here on that no other has; 0: any */
	uint64_t scrub_bytes_per_s; /* stores are read so fast to find bad blocks; 0: not */
	/* A part of the capacity, shared by the stores that it starts with, which keep pages there; 0: none do. */
	uint64_t cache_bytes;
	const char *folder;	 /* keeps the server's number over restarts; NULL: no folder */
	uint64_t capacity_bytes; /* lent at most; 0: half of the machine's memory              */
	uint64_t pool_bytes;	 /* of scrubbed memory that is kept ready; 0: all that came back */
	/* Progress threads of each lane; 0: one. */
	unsigned nr_progress;
	/* How long a progress thread spins before it sleeps; 0: 50, ~0: it does not spin. */
	uint32_t spin_us;
	uint64_t stage_bytes; /* of each progress thread, for server-driven transfers; 0: direct */
	const char *sysfs;    /* tells of network cards; NULL: /sys; must outlive the server */
	/* Runs when server_failure() has something to say, on a thread of its own. May be NULL. */
	void (*gave_up)(void *context);
	void *context;
};

/* Checks that a lane's `congestion` may have this name on this machine. -EINVAL: it may not, and
 * `problem` says why and what to do, as the end of a sentence. */
int server_congestion_check(const char *name, char *problem, size_t size);

/*
 * Starts the server's threads. The server keeps trying to join the manager until it is stopped or
 * gives up. Errors, with a sentence: those of rpc_listen(), fabric_open(), fabric_listen() and
 * store_start().
 */
int server_start(struct rpc_loop *loop, const struct server_options *options, struct server **out);
/* True when the manager has taken the server in. */
int server_is_joined(const struct server *server);
/* True while the manager does not take it in because its records are older than what the server has seen; an operator decides. */
int server_is_kept_out(const struct server *server);
/* Returns 0, or why the server does not try to join any more, with a sentence: the manager does not
 * accept the key of a server that has not joined yet (-AFAR_EAUTH, -EACCES), or has removed it from
 * the cluster (-AFAR_ELOST). */
int server_failure(const struct server *server);
/* Reads the key file anew. If its first key is another one, the server joins anew with that; its memory stays. */
void server_renew_key(struct server *server);
/* Closes the server's connections and frees its memory. Call it before rpc_loop_stop(), and not on
 * the loop's thread. */
void server_stop(struct server *server);

#endif
