/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection, as the files of rpc/ share it. Its state machine is in connection.c; stream.c moves
 * its bytes, and call.c gives frames their meaning. Accepted connections come from listener.c.
 */
#ifndef RPC_CONNECTION_H
#define RPC_CONNECTION_H

#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <urcu/list.h>

#include "base/uri.h"
#include "rpc/buffer_cap.h"
#include "rpc/frame.h"
#include "rpc/loop.h"
#include "rpc/rpc.h"
#include "rpc/tls.h"

#define CONNECTION_PEER_MAX  (URI_HOST_MAX + 16)  /* "[HOST]:PORT"                             */
#define CONNECTION_QUEUE_MAX (2U * RPC_FRAME_MAX) /* bytes a peer may leave unread */
#define CONNECTION_CALLS_MAX 65536U		  /* requests a peer may have unanswered */
#define CONNECTION_LINGER_MS 1000		  /* for the last frames to arrive */

enum connection_state {
	CONNECTION_CONNECTING, /* the socket is not connected, or there is none yet */
	CONNECTION_HANDSHAKE,
	CONNECTION_OPEN,
	CONNECTION_CLOSING, /* the last frames are on their way; received bytes are dropped */
	CONNECTION_CLOSED,
	CONNECTION_STATES
};

/* A listener's connections whose peers have not proved a key yet. */
struct strangers {
	struct cds_list_head list; /* of rpc_connection.stranger, the oldest first */
	unsigned nr;
};

struct rpc_connection {
	/* Set once. */
	struct rpc_loop *loop;
	struct rpc_handlers handlers;
	char peer[CONNECTION_PEER_MAX];
	char identity[KEY_IDENTITY_MAX + 1]; /* before `opened` runs */

	atomic_uint references;
	_Atomic(void *) context;
	struct buffer_cap_part buffered; /* of an accepted one: bytes that it makes us buffer */

	/* The loop's thread alone. */
	struct loop_resident resident;
	struct loop_source source;     /* its fd is -1 while there is no socket */
	struct loop_task task;	       /* holds a reference while queued */
	struct loop_timer timer;       /* of the handshake, then of lingering */
	struct strangers *strangers;   /* while the peer has not proved its key yet */
	struct cds_list_head stranger; /* in their list */
	struct addrinfo *addresses;    /* to connect to, and the next to try */
	const struct addrinfo *next_address;
	struct key key; /* to prove; wiped once that is done */
	bool is_accepted;
	int closing_status; /* for `closed`, from CONNECTION_CLOSING on */
	uint8_t *received;  /* bytes that are not a whole frame yet */
	size_t received_length, received_capacity;

	pthread_mutex_t lock; /* guards what follows */
	/* Only the loop's thread changes these two; it may read them without the lock. */
	enum connection_state state;
	bool was_open;
	struct tls *tls;
	struct cds_list_head outgoing; /* struct frame_buffer */
	size_t outgoing_bytes;
	int failure; /* set by a sender; the loop's thread acts on it */
	bool is_close_asked, has_more, has_sent_close_notify;
	void *calls_by_id; /* tsearch() tree of the calls below */
	struct cds_list_head calls;
	uint64_t next_request_id;
	uint32_t nr_unanswered;
};

/* connection.c */

/* Makes a connection over the accepted socket `fd`, which it takes over in every case. Returns it
 * as one more stranger, with one reference, the loop's; or NULL. */
struct rpc_connection *connection_accept(struct strangers *strangers, struct rpc_loop *loop, int fd,
					 const char *peer, struct tls_acceptor *acceptor,
					 const struct rpc_handlers *handlers, void *context);
/* Ends the connection at once, on the loop's thread: runs the callbacks, and drops the loop's
 * reference. */
void connection_finish(struct rpc_connection *connection, int status);
/* Sends what is queued, then ends with `status`. On the loop's thread. */
void connection_end(struct rpc_connection *connection, int status);
/* Writes "HOST:PORT" or "[HOST]:PORT". */
void connection_print_peer(char out[CONNECTION_PEER_MAX], const char *host, const char *port);
/* Has the loop's thread end the connection with `failure`. With the lock held. */
void connection_fail(struct rpc_connection *connection, int failure);
/* Has the loop's thread look at the connection: end it, or give it another turn. From any
 * thread. */
void connection_call_attention(struct rpc_connection *connection);

/* stream.c */

/* Queues a frame, and sends it if nothing is before it. Takes `buffer`. With the lock held. False:
 * the connection is ending, and `buffer` was freed. */
bool stream_push(struct rpc_connection *connection, struct frame_buffer *buffer);
/* Writes as much of the queue as the socket takes. With the lock held. */
void stream_flush(struct rpc_connection *connection);
/* Reads for one turn, and acts on what it read. May finish the connection. */
void stream_receive(struct rpc_connection *connection);
/* Wipes and frees the buffer of bytes that came. */
void stream_free_received(struct rpc_connection *connection);
/* Sends more of the last frames, in CONNECTION_CLOSING; reads and drops the rest. May finish the
 * connection. */
void stream_linger(struct rpc_connection *connection);

/* complaint.c */

/* Logs one line about a peer that behaved wrongly, unless there were too many. */
void connection_complain(const struct rpc_connection *connection, const struct tls *tls,
			 int status);

/* call.c */

/* Acts on a frame from the peer. It keeps nothing of the frame unless it sets `*is_taken`. */
void call_receive(struct rpc_connection *connection, Afar__Frame *frame, bool *is_taken);
/* Like call_receive(), for a frame of another protocol version: answers it, or takes it for an
 * answer. */
void call_receive_alien(struct rpc_connection *connection, Afar__Frame *frame, bool *is_taken);
/* Ends every call that waits for a reply. On the loop's thread, when the connection is closed. */
void call_end_all(struct rpc_connection *connection, int status);

#endif
