/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers: the servers that a session knows, one for each incarnation of a server, and one for each
 * store that such an incarnation has open. A peer has the server's address, the session's pass to
 * it, and a control connection. This is made with the pass when first needed, and again when lost.
 * A peer also has reaches, one for each namespace and rights. A reach has the keys granted so far,
 * which all regions share, and the connections that ended under writes.
 *
 * A peer is kept until its session closes. Once its server is known to have another incarnation,
 * all calls answer -AFAR_ELOST, or, for a store, -ESTALE: its bytes are elsewhere then. A reach is kept as long as it has users.
 */
#ifndef CLIENT_PEER_H
#define CLIENT_PEER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <urcu/list.h>

#include "client/session.h"
#include "rpc/capability.h"
#include "rpc/layout.h"
#include "rpc/ticket.h"

/* The manager's statement to a server that the session may have the keys of a layout's extents
 * there. The client can neither read nor change it. */
struct access {
	uint8_t capability[sizeof(struct rpc_capability)];
	uint64_t expiry; /* on clock_ns(); 0: there is none */
};

/* There is one control connection at a time: the next begins after the last has ended. */
enum peer_control {
	CONTROL_NONE,
	CONTROL_CONNECTING,
	CONTROL_OPEN,
	CONTROL_CLOSING,
};

#define PEER_LANES_MAX 8 /* of a server; further lanes are not used */

/* One way to a server's memory. */
struct peer_lane {
	uint32_t number; /* the server's number for it; keys are by it */
	char transport[FABRIC_TRANSPORT_MAX];
	char address[FABRIC_ADDRESS_MAX];
	/* On clock_ns(). The lane has failed lately: until then others are tried first. */
	_Atomic uint64_t rests_until;
};

struct peer {
	struct cds_list_head node; /* in the session's list */
	struct afar_session *session;
	uint64_t server;
	uint64_t incarnation;
	uint64_t store;	  /* whose lanes it has; 0: those to the server's DRAM */
	uint64_t opening; /* of the store's device */
	char device
		[96]; /* of the store: its path at the server, or the end of that; empty: not an operator */
	char name[64];
	char control_host[URI_HOST_MAX];
	uint16_t control_port;
	/* Lanes that the session may use, the best first. A store that its server has not open has
	 * none. */
	struct peer_lane lanes[PEER_LANES_MAX];
	unsigned nr_lanes;
	atomic_uint last_lane; /* over which a connection was begun last; for people */

	_Atomic uint32_t
		hints; /* that transfers may have: FABRIC_PAGED_ONCE, …; known with the first keys */

	/* Its server has another incarnation: all memory of this one is lost, or the store is with
	 * another one. */
	atomic_bool is_lost;

	/* For targets whose homes are used apart (apart.h): when connecting failed last, on clock_ns(), or
	 * 0. `turn` is held while one of them connects. */
	_Atomic uint64_t failed_at;
	pthread_mutex_t turn;
	/* The session's writes to a store: those that have completed, and those in flight. One that ends counts
	 * among the first before it leaves the second. */
	_Atomic uint64_t nr_written, nr_writing;

	pthread_mutex_t lock; /* guards the rest; held for moments only */
	pthread_cond_t changed;
	struct key pass;      /* the session's, for the control connection */
	uint64_t pass_expiry; /* on clock_ns(); 0: there is no pass */
	enum peer_control state;
	bool is_starting; /* a thread resolves the server's name, without the lock */
	struct rpc_connection *control;
	int control_status;	      /* why the last connection ended */
	struct cds_list_head reaches; /* of struct peer_reach; guarded by the session's lock */
};

/* Finds or makes the peer for a server of a layout, or for a store that it has (NULL: its DRAM).
 * Errors, with a sentence: -AFAR_EMALFORMED (no usable address), -ENOMEM. */
int peer_get(struct afar_session *session, const Afar__Server *server,
	     const Afar__StorePlace *store, struct peer **out);

/* A reach is what a connection is for: a namespace's memory on the server, to read, or to read and
 * write. All targets with the same namespace, rights and home of atomics share one path of a
 * queue. */
struct peer_reach {
	struct cds_list_head node; /* in the peer's list; in the session's once it has ended */
	uint64_t ns;
	uint32_t rights;	/* RIGHT_… */
	bool wants_nic_atomics; /* network cards carry out its targets' atomics */
	uint32_t index;		/* in the session, dense: queues find their paths by it */
	void *keys;		/* tree of struct peer_key by extent; guarded by the peer's lock */
	/* Its users. They change under the session's lock. */
	atomic_uint nr_targets;
	unsigned nr_paths;
	/* Connections of any queue that ended under writes; the server may still carry those writes
	 * out. Before a queue of the session writes here again, it has the server close them. */
	struct cds_list_head doubt;
	atomic_uint nr_in_doubt;
	uint64_t changes; /* number of the last change that the server told of; guarded likewise */
};

struct peer_doubt {
	struct cds_list_head node;
	uint64_t connection; /* the server's number for it */
};

/* ---- Reaches: reach.c */

/* Finds or makes a reach, and counts one more target. -ENOMEM. */
int peer_reach(struct peer *peer, uint64_t ns, uint32_t rights, bool wants_nic_atomics,
	       struct peer_reach **out);
/* Counts one target less. None of its writes may be in doubt. */
void peer_leave(struct peer *peer, struct peer_reach *reach);
/* They count paths likewise. A target of the reach must exist when a path is added. */
void peer_add_path(struct peer *peer, struct peer_reach *reach);
void peer_remove_path(struct peer *peer, struct peer_reach *reach);
/* Frees the session's unused reaches. */
void reaches_free(struct afar_session *session);

/* peer_note_doubt() adds a connection in doubt and takes `doubt` over. peer_find_doubt() returns any,
 * or 0 for none. peer_forget_doubt() removes one that the server has closed. */
void peer_note_doubt(struct peer *peer, struct peer_reach *reach, struct peer_doubt *doubt);
uint64_t peer_find_doubt(struct peer *peer, struct peer_reach *reach);
void peer_forget_doubt(struct peer *peer, struct peer_reach *reach, uint64_t connection);

/* Notes the number of a change of layouts that the server told of. No operation then begins on a
 * target of the reach until the target has asked the manager about the change. */
void peer_note_changes(struct peer *peer, struct peer_reach *reach, uint64_t changes);

/* ---- What servers give: peer.c */

/* The place of a copy on a lane. */
struct copy_key {
	uint64_t remote; /* the fabric's address of its first byte */
	uint64_t key;
};

/* A target's request to a server: the keys of its chunks there. */
struct peer_want {
	struct peer_reach *reach;
	const struct access *access; /* covers the layout's extents on the server */
	const struct layout *layout;
	uint32_t home;	       /* of the layout */
	struct copy_key *keys; /* out: by the layout's copies, PEER_LANES_MAX of each */
};

/*
 * Fills in the remote address and key of the layout's chunks on this server, and asks the server if
 * it does not know them all. Blocks, until `deadline`. Errors, with a sentence: -AFAR_ESERVER;
 * -AFAR_ELOST: the server has restarted; -ETIMEDOUT; the server's own. A fresh access from the
 * manager mends two of them. -AFAR_EAUTH: capability or pass is missing, has expired, or the pass
 * was refused. -EACCES: the server refuses the capability.
 */
int peer_grant(struct peer *peer, const struct peer_want *want, uint64_t deadline);

/* A ticket, and the server's number for the connection that it opens. */
struct peer_ticket {
	struct rpc_ticket ticket;
	uint64_t connection;
	/* Set it before asking: generation of the layout to be attached; 0: for transfers. */
	uint64_t attaches;
};

/* Asks for a ticket for one data connection. Get keys for the same reach first. If
 * `out->connection` is not 0, the server closes that connection first: nothing that was posted on
 * it can land any more. Blocks. Errors: those of peer_grant(). */
int peer_ticket(struct peer *peer, struct peer_reach *reach, uint64_t deadline,
		struct peer_ticket *out);

/* Takes the pass out of an access that the manager gave. -AFAR_EMALFORMED, with a sentence. */
int peer_take_pass(struct peer *peer, const Afar__Access *access);

/* Closes the control connection, if there is one. The next call makes one with the newest pass. */
void peer_disconnect(struct peer *peer);

/* Call it when the manager says that the server has another incarnation. */
void peer_lose(struct peer *peer);

/* Returns -AFAR_ELOST, with the sentence; -ESTALE for a store. */
int peer_fail_lost(const struct peer *peer);

/* Frees all peers of a session. Its loop must have stopped. */
void peers_free(struct afar_session *session);

#endif
