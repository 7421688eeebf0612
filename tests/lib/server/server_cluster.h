/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests of a whole server: a fake manager, a server that has joined it, and a client. The
 * client speaks for one session at the server's control port and has one data connection. A
 * failure in here fails the test.
 */
#ifndef TESTS_SERVER_CLUSTER_H
#define TESTS_SERVER_CLUSTER_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/bytes.h"
#include "lib/fabric/data_client.h"
#include "lib/server/fake_manager.h"
#include "rpc/ticket.h"
#include "server/server.h"

#define NAMESPACE 5U
#define SESSION	  11U
#define CAPACITY  (32 * MIB)

/* ---- The cluster: a fake manager, a server, and a client of the server's control port */

struct cluster {
	struct fake_manager manager;
	struct rpc_loop *loop; /* the server's */
	struct server *server;
	char folder[32];

	uint64_t flash_bytes; /* of the server's store, a file in the folder; 0: it has none */
	unsigned nr_lanes;    /* of the server                   */
	unsigned lane;	      /* that the client goes by         */

	struct rpc_loop *client_loop;
	struct rpc_connection *control; /* the client's */
	uint64_t session;		/* that it speaks for */
	struct data_client data;
	uint64_t connection; /* the number of the last that a ticket was got for */
	uint64_t replaces;   /* what the next ticket is asked for in place of; 0: nothing */
	uint32_t wanted;     /* of the rights of a capability, those to ask keys for; 0: all */
};

/* The server has one lane, or so many, and `nr_progress` progress threads. */
void cluster_open(struct cluster *cluster, unsigned nr_progress);
void cluster_open_lanes(struct cluster *cluster, unsigned nr_lanes, unsigned nr_progress);
/* The server has a store. */
void cluster_open_flash(struct cluster *cluster, uint64_t bytes);
void cluster_close(struct cluster *cluster);
/* The client's part alone. */
void cluster_close_client(struct cluster *cluster);
/* Removes a folder with the files in it. */
void cluster_remove_folder(const char *folder);

/* The file of the store. */
void cluster_flash_path(const struct cluster *cluster, char out[static 64]);

/* Starts the cluster's server, and waits until it has joined. */
void start_server(struct cluster *cluster, unsigned nr_progress);
void stop_server(struct cluster *cluster);

/* ---- What a client does. All that return an int return 0 or what they were refused with. */

/* Connects to the control port with any key, as control_open() does (control.h). */
int try_control(struct cluster *cluster, const struct key *pass, struct rpc_connection **out);
/* The client speaks for that session from now on, over a new control connection. */
void connect_control(struct cluster *cluster, uint64_t session);

/* Asks for a ticket without looking whose session the connection is, and what it has keys of. */
int ask_ticket(struct cluster *cluster, uint64_t session, uint64_t namespace, uint32_t rights,
	       struct rpc_ticket *out);
/* Gets a ticket for a session that has got keys of the namespace; with all rights, of NAMESPACE. */
int get_ticket_for(struct cluster *cluster, uint64_t session, uint64_t namespace, uint32_t rights,
		   struct rpc_ticket *out);
int get_ticket(struct cluster *cluster, uint64_t session, struct rpc_ticket *out);

struct key_of {
	uint64_t length, key, origin;
};

/* Asks for keys, with a capability as it goes on the wire. `out` has one for each extent. */
int ask_keys(struct cluster *cluster, uint64_t session, uint64_t namespace, uint64_t *extents,
	     size_t nr_extents, const void *capability, size_t length, struct key_of *out);
/* Gets keys for the client's session, with a capability for these rights; for all. */
int get_keys_with(struct cluster *cluster, uint64_t namespace, uint32_t rights, uint64_t *extents,
		  size_t nr_extents, struct key_of *out);
int get_keys(struct cluster *cluster, uint64_t namespace, uint64_t *extents, size_t nr_extents,
	     struct key_of *out);

/*
 * Makes the data connection anew, for a session, a namespace and rights; all rights of NAMESPACE.
 */
int connect_data_for(struct cluster *cluster, uint64_t session, uint64_t namespace,
		     uint32_t rights);
int connect_data(struct cluster *cluster, uint64_t session);

/* These are for the server's store: the keys of extents, and a connection for `client`. */
int get_flash_keys(struct cluster *cluster, uint64_t namespace, uint64_t *extents,
		   size_t nr_extents, struct key_of *out);
int connect_flash(struct cluster *cluster, struct data_client *client, uint64_t session,
		  uint64_t namespace);

/* Reserves one extent of NAMESPACE and gets its key. */
struct fake_extent reserve_one(struct cluster *cluster, struct key_of *key);

#endif
