/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric over plain TCP: what the files of this folder share.
 *
 *   wire.h      what goes over a connection
 *   tcp.c       the transport: fabric, what it can do, the operations table
 *   memory.c    domains, and the memory registered in them
 *   endpoint.c  connecting, accepting, closing, posting
 *   stream.c    sending and receiving frames
 *   queue.c     polling, events, sleeping
 *   listener.c  strangers, and their requests
 *   congestion.c  which congestion control sockets use
 *
 * A connection is one socket. Each end may read and write the other's registered memory: it sends requests,
 * whose replies come in the same order, so it keeps them in a ring. Whoever is asked checks everything a
 * frame says before it touches memory, and ends the connection over whatever is wrong.
 *
 * Ownership: a queue owns its epoll descriptor. An endpoint is owned by whoever opened it, owns its socket
 * and rings, and is listed in its queue until it is closed.
 */
#ifndef FABRIC_TCP_TCP_H
#define FABRIC_TCP_TCP_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>
#include <urcu/list.h>

#include "fabric/address.h"
#include "fabric/fabric.h"
#include "fabric/keys.h"
#include "fabric/tcp/wire.h"

#define TCP_TRANSFER_MAX (UINT64_C(1) << 30)
#define TCP_DEPTH_MAX	 128U /* of an endpoint, whatever its queue's */
/* Owed at once; then requests wait. As many as a peer may ask for: if each end could wait for the other to
 * take its replies, both might. */
#define TCP_REPLIES_MAX TCP_DEPTH_MAX
#define TCP_STAGE_BYTES 8192U /* headers, and payloads that are small */
#define TCP_KNOWN	4U    /* registrations that an endpoint remembers */

struct tcp_registration {
	struct keyed keyed; /* first */
	uint8_t *addr;
	uint64_t length;
	unsigned access;
};

struct tcp_domain {
	struct fabric_domain base;
	pthread_rwlock_t lock; /* of the book */
	struct key_book registrations;
	atomic_ulong generation; /* moves when one is taken away */
};

/* Copies of registrations, good as long as the domain's generation is the same: no lock is needed. */
struct tcp_known {
	unsigned long generation;
	struct tcp_registration registrations[TCP_KNOWN];
};

/* A frame to be sent. */
struct tcp_outgoing {
	struct tcp_frame frame; /* as it is sent */
	struct iovec iov[FABRIC_IOV_MAX];
	uint64_t length; /* of the payload */
	uint64_t context;
	uint32_t type;
	uint32_t nr_iov;
};

/* A request whose reply is to come. */
struct tcp_expected {
	struct iovec iov[FABRIC_IOV_MAX];
	uint64_t length;
	uint64_t context;
	uint32_t type; /* of the reply */
	uint32_t nr_iov;
};

struct tcp_receive {
	void *addr;
	uint64_t length;
	uint64_t context;
};

/* Where the payload of the frame that is coming goes. */
struct tcp_incoming {
	bool is_payload; /* else a header comes */
	uint32_t type;
	uint64_t length;
	uint64_t left;
	struct iovec iov[FABRIC_IOV_MAX];
	unsigned iov_first, nr_iov;
};

enum tcp_state { TCP_IS_CONNECTING, TCP_IS_CONNECTED, TCP_IS_CLOSED };

/* Rings are indexed by counters, which begin anew when a ring is empty: what is seldom used stays so. */
struct tcp_endpoint {
	struct fabric_endpoint base;
	struct tcp_domain *domain;
	int fd; /* -1: the connection has ended */
	enum tcp_state state;
	enum tcp_state told; /* the state that queue_event() last told */
	bool was_connected;  /* of TCP_IS_CLOSED */
	bool is_silent; /* of TCP_IS_CLOSED: the peer has not ended it, but is not heard of any more */
	bool has_fault; /* of TCP_IS_CLOSED: local memory of a request was not there */
	bool is_fault_told;
	uint32_t fault;			 /* which it is of those expected */
	bool has_greeted;		 /* the hello is sent */
	bool is_hung;			 /* epoll says that the connection has ended */
	bool lacks_receive;		 /* a message waits for one */
	bool lacks_place;		 /* a request waits for one among the replies */
	bool is_ready;			 /* epoll has named it, and it was not tried since */
	uint32_t moved_in_span;		 /* the last of the queue's */
	uint32_t interest;		 /* what epoll looks for */
	unsigned patience;		 /* until it is left to epoll; 0: cold */
	struct cds_list_head warm;	 /* in tcp_queue.warm, when patience > 0 */
	struct cds_list_head connecting; /* in tcp_queue.connecting, or empty    */
	struct cds_list_head eventful;	 /* in tcp_queue.eventful, or empty      */
	struct cds_list_head held;	 /* in tcp_queue.held, or empty          */
	uint64_t held_bytes;		 /* what waits for the release           */

	/* Requests and messages that are not through, and replies that are not sent. */
	uint32_t depth, nr_requests, nr_replies;

	/* Frames from `out_first` on; from `out_next` on not sent, but for `out_sent` bytes. */
	struct tcp_outgoing *out;
	uint32_t out_mask, out_first, out_next, out_end;
	uint64_t out_sent;

	/* Replies that are to come; the requests of those before `expected_sent` are sent. */
	struct tcp_expected *expected;
	uint32_t expected_mask, expected_first, expected_sent, expected_end;

	struct tcp_receive receives[FABRIC_RECEIVE_MAX];
	uint32_t receive_first, receive_end;

	struct tcp_incoming in;
	struct tcp_known known;
	/* What has come and was not looked at yet; before the connection is up, the hello or welcome. */
	uint32_t stage_begin, stage_end;
	uint8_t stage[TCP_STAGE_BYTES];
};

/*
 * Endpoints are warm or cold. Warm ones are tried by every poll. A cold one is left to epoll, which is
 * asked now and then, and each time when none is warm.
 */
struct tcp_queue {
	struct fabric_queue base;
	uint32_t depth;
	int epoll_fd;
	bool is_drained;	   /* the last poll has told all it found  */
	bool is_holding;	   /* requests wait for one another        */
	unsigned polls_until_look; /* at epoll                             */
	/* Spans are so many polls, and numbered. How many endpoints have moved something in this one, and did in
	 * the one before. */
	uint32_t span;
	unsigned polls_until_span, nr_moved, nr_moved_before;
	unsigned nr_warm;
	struct cds_list_head warm;	 /* of tcp_endpoint.warm                 */
	struct cds_list_head connecting; /* of tcp_endpoint.connecting           */
	struct cds_list_head eventful;	 /* of tcp_endpoint.eventful: have something to tell */
	struct cds_list_head held;	 /* of tcp_endpoint.held: have something to send     */
};

/* Where a poll puts completions. */
struct tcp_sink {
	struct fabric_completion *out;
	unsigned nr, max;
};

#define tcp_container(pointer, type) caa_container_of(pointer, type, base)

static inline bool tcp_sink_is_full(const struct tcp_sink *sink)
{
	return sink->nr == sink->max;
}

/* There must be room. */
static inline void tcp_sink_put(struct tcp_sink *sink, uint64_t context, int status)
{
	sink->out[sink->nr++] = (struct fabric_completion){.context = context, .status = status};
}

/* tcp.c */
extern const struct fabric_ops tcp_ops;

/* memory.c */
int tcp_domain_open(struct fabric *fabric, struct fabric_domain **out);
void tcp_domain_close(struct fabric_domain *domain);
int tcp_memory_register(struct fabric_domain *domain, void *addr, size_t length, unsigned access,
			struct fabric_memory *out);
bool tcp_memory_deregister(struct fabric_memory *memory);
/* The memory a peer asks for, with all the rights in `access`; NULL: it may not. */
uint8_t *tcp_memory_find(struct tcp_domain *domain, struct tcp_known *known, uint64_t key,
			 uint64_t offset, uint64_t length, unsigned access);

/* endpoint.c */
int tcp_connect(struct fabric_queue *queue, const char *address, const void *private_data,
		size_t private_length, void *owner, struct fabric_endpoint **out);
int tcp_accept(struct fabric_request *request, struct fabric_queue *queue,
	       struct fabric_domain *domain, void *owner, struct fabric_endpoint **out);
void tcp_endpoint_close(struct fabric_endpoint *endpoint);
void tcp_endpoint_congestion(struct fabric_endpoint *endpoint,
			     char out[static FABRIC_CONGESTION_MAX]);
int tcp_read(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
	     unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context);
int tcp_write(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
	      unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context);
int tcp_receive(struct fabric_endpoint *endpoint, const struct fabric_piece *piece,
		uint64_t context);
int tcp_send(struct fabric_endpoint *endpoint, const struct fabric_piece *piece, uint64_t context);
/* Goes on with the hello and the welcome. */
void tcp_endpoint_greet(struct tcp_endpoint *endpoint);
/* Ends the connection, for whatever reason: the peer hears of it at once, the owner by the queue. */
void tcp_endpoint_break(struct tcp_endpoint *endpoint);
/* The same, after a system call on the socket has failed with `error`. */
void tcp_endpoint_fail(struct tcp_endpoint *endpoint, int error);
/* The same, because the local memory of a request is not there, or may not be used so: a place among those expected. */
void tcp_endpoint_fault(struct tcp_endpoint *endpoint, uint32_t place);
/* Tells what has ended with the connection, first the request that was at fault. Afterwards, if there was room for all, nothing is left. */
void tcp_endpoint_fail_rest(struct tcp_endpoint *endpoint, struct tcp_sink *sink);

/* stream.c */
/* Moves what can be moved both ways, up to a limit; asks the socket for more if it may. True: something was. */
bool tcp_stream_progress(struct tcp_endpoint *endpoint, bool may_receive, struct tcp_sink *sink);
/* Sends what there is to be sent, as far as the socket has room, and up to a limit. True: something was. */
bool tcp_stream_flush(struct tcp_endpoint *endpoint);
/* Takes sent frames off the ring, up to a message, which is a completion to be told. */
void tcp_stream_reap(struct tcp_endpoint *endpoint, struct tcp_sink *sink);
/* A place for one more frame; NULL: there is none. tcp_stream_push() puts it in line. */
struct tcp_outgoing *tcp_stream_place(struct tcp_endpoint *endpoint, uint32_t type,
				      uint64_t length);
static inline void tcp_stream_push(struct tcp_endpoint *endpoint)
{
	endpoint->out_end++;
}

/* queue.c */
int tcp_queue_open(struct fabric *fabric, uint32_t depth, struct fabric_queue **out);
void tcp_queue_close(struct fabric_queue *queue);
int tcp_queue_fd(struct fabric_queue *queue);
int tcp_queue_arm(struct fabric_queue *queue);
int tcp_queue_poll(struct fabric_queue *queue, struct fabric_completion *out, unsigned max);
int tcp_queue_event(struct fabric_queue *queue, struct fabric_event *out);
void tcp_queue_hold(struct fabric_queue *queue);
void tcp_queue_release(struct fabric_queue *queue);
/* A request of so many bytes has been put in line, first or behind others: sends it, or has it wait. */
void tcp_queue_send(struct tcp_queue *queue, struct tcp_endpoint *endpoint, bool is_first,
		    uint64_t bytes);
/* Looks after a new endpoint, whose socket is there; and no longer. */
int tcp_queue_add(struct tcp_queue *queue, struct tcp_endpoint *endpoint);
void tcp_queue_forget_socket(struct tcp_queue *queue, struct tcp_endpoint *endpoint);
void tcp_queue_remove(struct tcp_queue *queue, struct tcp_endpoint *endpoint);
/* Has the next polls try this endpoint. */
void tcp_queue_warm(struct tcp_queue *queue, struct tcp_endpoint *endpoint);
/* Its state has changed. */
void tcp_queue_tell(struct tcp_queue *queue, struct tcp_endpoint *endpoint);

/* listener.c */
int tcp_listen(struct fabric *fabric, const char *address, struct fabric_listener **out);
void tcp_listener_close(struct fabric_listener *listener);
int tcp_listener_fd(struct fabric_listener *listener);
int tcp_listener_next(struct fabric_listener *listener, struct fabric_request *out);
size_t tcp_listener_sweep(struct fabric_listener *listener, const struct fabric_patience *patience);
void tcp_reject(struct fabric_listener *listener, struct fabric_request *request);
/* The socket of a request, which is taken over: the request has nothing any more. */
int tcp_request_take(struct fabric_request *request);
void tcp_listener_congestion(struct fabric_listener *listener,
			     char out[static FABRIC_CONGESTION_MAX]);

/* congestion.c: each on a new socket, with the fabric's setting. -ENOENT, -EPERM: a name that cannot be had. */
int tcp_congestion_connect(int fd, const char *congestion, const struct fabric_address *peer);
int tcp_congestion_listen(int fd, const char *congestion, const struct sockaddr_storage *own);
void tcp_congestion_accept(int fd, const char *congestion);
/* What the kernel says that the socket uses; empty when it does not. */
void tcp_congestion_get(int fd, char out[static FABRIC_CONGESTION_MAX]);
int tcp_congestion_check(const char *name, char *problem, size_t size);

#endif
