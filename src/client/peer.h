/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers: the servers that a session knows, one per server incarnation — its address, the session's pass
 * to it, its control connection (made with the pass when first needed, again when lost), and what it has of
 * the namespaces there (reaches): the keys that were granted so far, which all regions share, and the
 * connections that ended under writes. A peer is kept until its session closes; once its server is known to
 * have another incarnation, all it answers is -AFAR_ELOST. A reach is kept as long as somebody uses it.
 */
#ifndef CLIENT_PEER_H
#define CLIENT_PEER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <urcu/list.h>

#include "client/layout.h"
#include "client/session.h"
#include "rpc/capability.h"
#include "rpc/ticket.h"

/* The manager's word to a server that the session may have the keys of a layout's extents there. The
 * client cannot read it, let alone change it. */
struct access {
	uint8_t capability[sizeof(struct rpc_capability)];
	uint64_t expiry; /* on clock_ns(); 0: there is none */
};

/* One connection at a time: the next is begun when the last is gone. */
enum peer_control {
	CONTROL_NONE,
	CONTROL_CONNECTING,
	CONTROL_OPEN,
	CONTROL_CLOSING,
};

#define PEER_LANES_MAX 8 /* of a server; those behind them are not used */

/* A way to a server's memory. */
struct peer_lane {
	uint32_t number; /* the server's: keys are by it */
	char transport[FABRIC_TRANSPORT_MAX];
	char address[FABRIC_ADDRESS_MAX];
	_Atomic uint64_t rests_until; /* on clock_ns(): it did not work, others are tried before */
};

struct peer {
	struct cds_list_head node; /* in the session's list */
	struct afar_session *session;
	uint64_t server;
	uint64_t incarnation;
	char name[64];
	char control_host[URI_HOST_MAX];
	uint16_t control_port;
	struct peer_lane
		lanes[PEER_LANES_MAX]; /* those that the session may take, the best first */
	unsigned nr_lanes;

	atomic_bool is_lost; /* its server has another incarnation: what this one held is gone */

	pthread_mutex_t lock; /* guards the rest; held for moments */
	pthread_cond_t changed;
	struct key pass;      /* the session's, for the control connection */
	uint64_t pass_expiry; /* on clock_ns(); 0: there is none           */
	enum peer_control state;
	bool is_starting; /* a thread resolves the server's name, without the lock */
	struct rpc_connection *control;
	int control_status;	      /* why the last connection is gone */
	struct cds_list_head reaches; /* of struct peer_reach; guarded by the session's lock */
};

/* Finds or makes the peer for a server of a layout. Errors with a sentence: -AFAR_EMALFORMED (no
 * usable address), -ENOMEM. */
int peer_get(struct afar_session *session, const Afar__Server *server, struct peer **out);

/* What connections are for: a namespace's memory on the server, to read it, or to read and write it. All
 * targets of the namespace with these rights, and the same home of their atomics, share a queue's connection. */
struct peer_reach {
	struct cds_list_head node; /* in the peer's list, or the session's of those that ended */
	uint64_t ns;
	uint32_t rights;	/* RIGHT_… */
	bool wants_nic_atomics; /* its targets' atomics are done by network cards */
	uint32_t index;		/* in the session, dense: queues keep their paths by it */
	void *keys;		/* tree of struct peer_key by extent; guarded by the peer's lock */
	/* Its users, which change under the session's lock. */
	atomic_uint nr_targets;
	unsigned nr_paths;
	/* Connections of any queue that ended under writes, which the server may do yet: those of the
	 * session's queues that write here next have the server close them before. */
	struct cds_list_head loose; /* of struct peer_loose; guarded by the session's lock */
	atomic_uint nr_loose;
	uint64_t seals; /* number of the last sealing that the server told of; likewise */
};

struct peer_loose {
	struct cds_list_head node;
	uint64_t connection; /* the server's number for it */
};

/* ---- Reaches: reach.c */

/* Finds or makes it, for one more target. -ENOMEM. */
int peer_reach(struct peer *peer, uint64_t ns, uint32_t rights, bool wants_nic_atomics,
	       struct peer_reach **out);
/* A target is done with it: nothing of its writes is loose. */
void peer_leave(struct peer *peer, struct peer_reach *reach);
/* The same for paths, whose targets have it. */
void peer_add_path(struct peer *peer, struct peer_reach *reach);
void peer_remove_path(struct peer *peer, struct peer_reach *reach);
/* Frees those of a session that nobody uses. */
void reaches_free(struct afar_session *session);

/* Notes one, which is taken over; finds any, 0: there is none; forgets what the server has closed. */
void peer_note_loose(struct peer *peer, struct peer_reach *reach, struct peer_loose *loose);
uint64_t peer_find_loose(struct peer *peer, struct peer_reach *reach);
void peer_forget_loose(struct peer *peer, struct peer_reach *reach, uint64_t connection);

/* The server says so: operations begin on no target of the reach before it was found out what was sealed. */
void peer_note_seals(struct peer *peer, struct peer_reach *reach, uint64_t seals);

/* ---- What servers give: peer.c */

/* What a target wants of a server: the keys of its chunks there. */
struct peer_want {
	struct peer_reach *reach;
	const struct access *access; /* covers the layout's extents on the server */
	struct layout *layout;
	uint32_t index; /* of the server, in the layout */
};

/*
 * Fills in the remote address and key of the layout's chunks on this server, asking the server if it does
 * not know them all. Blocks, until `deadline`. Errors with a sentence: -AFAR_ESERVER, -AFAR_ELOST (it has
 * restarted), -ETIMEDOUT, the server's; -AFAR_EAUTH when capability or pass is missing or has expired, or
 * the pass was refused, -EACCES when the server refuses the capability: the manager gives fresh ones.
 */
int peer_grant(struct peer *peer, const struct peer_want *want, uint64_t deadline);

/* A ticket, and the server's number for the connection that it opens. */
struct peer_ticket {
	struct rpc_ticket ticket;
	uint64_t connection;
	uint64_t
		attaches; /* asked for with it: generation of the layout to be attached; 0: for transfers */
};

/* Asks for a ticket for one data connection; keys for the same have been got. The connection numbered
 * `out->connection`, if not 0, is closed at the server by then: nothing that was posted on it can land any
 * more. Blocks. Errors as peer_grant(). */
int peer_ticket(struct peer *peer, struct peer_reach *reach, uint64_t deadline,
		struct peer_ticket *out);

/* Takes the pass of an access that the manager gave. -AFAR_EMALFORMED with a sentence. */
int peer_take_pass(struct peer *peer, const Afar__Access *access);

/* Closes the control connection, if there is one, so that the next call makes one with the newest pass. */
void peer_disconnect(struct peer *peer);

/* The manager says that the server has another incarnation. */
void peer_lose(struct peer *peer);

/* -AFAR_ELOST, with the sentence. */
int peer_fail_lost(const struct peer *peer);

/* Frees all peers of a session whose loop has stopped. */
void peers_free(struct afar_session *session);

#endif
