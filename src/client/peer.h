/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers: the servers that a session knows, one per server incarnation — its address, its control
 * connection (made when first needed, again when lost), and the keys of its extents that were granted
 * so far, which all regions share. A peer is kept until its session closes.
 */
#ifndef CLIENT_PEER_H
#define CLIENT_PEER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <urcu/list.h>

#include "client/layout.h"
#include "client/session.h"
#include "rpc/ticket.h"

struct peer {
	struct cds_list_head node; /* in the session's list */
	struct afar_session *session;
	uint32_t index; /* in the session, dense: queues keep their paths by it */
	uint64_t server;
	uint64_t incarnation;
	char name[64];
	char control_host[URI_HOST_MAX];
	uint16_t control_port;
	char data_address[FABRIC_ADDRESS_MAX];

	pthread_mutex_t lock; /* guards the rest; held over calls to the server */
	pthread_cond_t changed;
	struct rpc_connection *control;
	bool is_control_open;
	bool is_control_closed;
	int control_status;
	void *keys; /* tree of struct peer_key by extent */
};

/* Finds or makes the peer for a server of a layout. Errors with a sentence: -AFAR_EMALFORMED (no
 * usable address), -ENOMEM. */
int peer_get(struct afar_session *session, const Afar__Server *server, struct peer **out);

/*
 * Fills in the remote address and key of all chunks of `layout` on this server (whose index in the
 * layout is `index`), asking the server for those not known yet. Blocks. Errors with a sentence:
 * -AFAR_ESERVER, -AFAR_ELOST (it has restarted), -ETIMEDOUT, or the server's.
 */
int peer_grant(struct peer *peer, uint64_t ns, struct layout *layout, uint32_t index);

/* Asks for a ticket for one data connection. Blocks. Errors as peer_grant(). */
int peer_ticket(struct peer *peer, struct rpc_ticket *out);

/* Frees all peers of a session whose loop has stopped. */
void peers_free(struct afar_session *session);

#endif
