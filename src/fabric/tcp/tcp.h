/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric over plain TCP: declarations that the files of this folder share.
 *
 *   wire.h        what goes over a connection
 *   tcp.c         the transport: fabric, its attributes, the operations table
 *   memory.c      domains, and the memory registered in them
 *   endpoint.c    connecting, accepting, closing, posting
 *   stream.c      sending and receiving frames
 *   paged.c       peers' transfers to paged memory (paged.h)
 *   sums.c        sums of checked transfers (paged.h)
 *   queue.c       polling, events, sleeping
 *   listener.c    strangers, and their requests
 *   congestion.c  which congestion control sockets use
 *
 * A connection is one socket. Each end may read and write the other's registered memory. It keeps
 * its requests in a ring, because replies come in the order of the requests. An end checks
 * everything that a request's frame says before it touches memory, and ends the connection if
 * anything is wrong.
 *
 * Ownership: a queue owns its epoll descriptor. An endpoint belongs to its opener; it owns its
 * socket and rings, and its queue lists it until it is closed.
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
#include "fabric/listener.h"
#include "fabric/paged.h"
#include "fabric/tcp/wire.h"

#define TCP_TRANSFER_MAX (UINT64_C(1) << 30)
/* Over loopback reads beside each other take 0.6 µs each, which is the time of 2 to 4 KiB; over 10 Gb/s of 1 KiB. */
#define TCP_GAP_BYTES (UINT64_C(1) << 10)
#define TCP_DEPTH_MAX 128U /* of an endpoint, whatever its queue asks for */
/* Replies owed at once; further requests wait in the socket. It is as many as a peer may ask for.
 * With fewer, each end could wait for the other to take its replies. */
#define TCP_REPLIES_MAX TCP_DEPTH_MAX
#define TCP_STAGE_BYTES 8192U /* headers, and small payloads */
#define TCP_KNOWN	4U    /* registrations that an endpoint finds without the lock */

#define TCP_IOV_MAX  (FABRIC_IOV_MAX + 1)		 /* a transfer's pieces, and its sums */
#define TCP_SUMS_MAX (FABRIC_PAGED_MAX / CHECKSUM_BLOCK) /* of one transfer */

struct tcp_registration {
	struct keyed keyed; /* first */
	uint8_t *addr;
	uint64_t length;
	struct fabric_pager *pager; /* paged memory's; that has no `addr` */
	unsigned access;	    /* to memory that is there; 0 to paged memory */
	unsigned paged_access;	    /* to paged memory; 0 to memory that is there */
};

struct tcp_domain {
	struct fabric_domain base;
	pthread_rwlock_t lock; /* guards the book */
	struct key_book registrations;
	atomic_ulong generation; /* changes when a registration is removed */
};

/* Copies of registrations. They are valid as long as the domain's generation is the same, so they
 * need no lock. */
struct tcp_known {
	unsigned long generation;
	struct tcp_registration registrations[TCP_KNOWN];
};

/* Types of frames in our lines, beside those on the wire. */
enum tcp_own_type {
	TCP_UNDECIDED = 0x100, /* to send: a reply whose transfer has not ended in the pager */
	TCP_PAGED_REPLY,       /* to send: a reply about paged memory, of whichever type      */
	TCP_PUT,	       /* to receive: a payload for paged memory                      */
	TCP_DROPPED,	       /* to receive: the payload of a write that has failed          */
};

/* A frame to send. */
struct tcp_outgoing {
	struct tcp_frame frame; /* as on the wire */
	struct iovec iov[TCP_IOV_MAX];
	uint64_t length; /* bytes of the payload, if it has one */
	union {
		uint64_t context;
		struct tcp_paged *paged; /* TCP_PAGED_REPLY; NULL: the pager did not take it */
	};
	uint32_t type; /* enum tcp_frame_type or tcp_own_type */
	uint32_t nr_iov;
};

/* A request that waits for its reply. */
struct tcp_expected {
	struct iovec iov[TCP_IOV_MAX];
	uint64_t length; /* of the bytes, without their sums */
	uint64_t context;
	uint32_t type; /* of the expected reply */
	uint32_t nr_iov;
};

struct tcp_receive {
	void *addr;
	uint64_t length;
	uint64_t context;
};

/* The frame that is being received, and where its payload goes. */
struct tcp_incoming {
	bool is_payload;	 /* false: a header is next */
	uint32_t type;		 /* enum tcp_frame_type or tcp_own_type */
	uint64_t length;	 /* as the header says */
	uint64_t left;		 /* of the payload */
	struct tcp_paged *paged; /* TCP_PUT */
	int status;		 /* TCP_FAILED, TCP_DROPPED */
	struct iovec iov[TCP_IOV_MAX];
	unsigned iov_first, nr_iov;
};

enum tcp_state { TCP_IS_CONNECTING, TCP_IS_CONNECTED, TCP_IS_CLOSED };

/* Its rings are indexed by counters. The counters start again at 0 when a ring is empty, so that
 * memory that is seldom used stays unused. */
struct tcp_endpoint {
	struct fabric_endpoint base;
	struct tcp_domain *domain;
	int fd; /* -1: the connection has ended */
	enum tcp_state state;
	enum tcp_state told; /* the state that queue_event() last told */
	bool was_connected;  /* valid in TCP_IS_CLOSED */
	/* Valid in TCP_IS_CLOSED: the peer has not ended the connection, but went silent. */
	bool is_silent;
	/* Valid in TCP_IS_CLOSED: local memory of a request was not there. */
	bool has_fault;
	bool is_fault_told;
	uint32_t fault;			 /* the place of that request in `expected` */
	bool has_greeted;		 /* the hello is sent */
	bool is_hung;			 /* epoll says that the connection has ended */
	bool lacks_receive;		 /* a message waits for a receive */
	bool lacks_place;		 /* a request waits for room among the replies */
	bool lacks_memory;		 /* a request waits for memory of a pager's */
	bool is_ready;			 /* epoll has named it, and no poll has tried it since */
	uint32_t moved_in_span;		 /* the queue's last span in which it moved bytes */
	uint32_t interest;		 /* the events that epoll watches for */
	unsigned patience;		 /* idle polls before it goes cold; 0: it is cold */
	struct cds_list_head warm;	 /* in tcp_queue.warm, when patience > 0 */
	struct cds_list_head connecting; /* in tcp_queue.connecting, or empty    */
	struct cds_list_head eventful;	 /* in tcp_queue.eventful, or empty      */
	struct cds_list_head held;	 /* in tcp_queue.held, or empty          */
	uint64_t held_bytes;		 /* payload that waits for the release */
	struct cds_list_head lacking;	 /* in tcp_queue.lacking, if lacks_memory */
	struct tcp_paging *paging;	 /* NULL: no peer has asked for paged memory */

	/* Requests and messages that have not completed, and replies that are not sent. */
	uint32_t depth, nr_requests, nr_replies;

	/* Frames from `out_first` on are kept. Frames from `out_next` on are not sent, except for
	 * `out_sent` bytes of the first. */
	struct tcp_outgoing *out;
	uint32_t out_mask, out_first, out_next, out_end;
	uint64_t out_sent;

	/* Replies that are due. Their requests are sent up to `expected_sent`. */
	struct tcp_expected *expected;
	uint32_t expected_mask, expected_first, expected_sent, expected_end;
	/* Sums of checked requests: TCP_SUMS_MAX for each place in `expected`; NULL: there was
	 * none. */
	uint32_t *sums;

	struct tcp_receive receives[FABRIC_RECEIVE_MOST];
	uint32_t receive_first, receive_end;

	struct tcp_incoming in;
	struct tcp_known known;
	/* Received bytes that are not processed yet. Before the connection is up: the hello or
	 * welcome. */
	uint32_t stage_begin, stage_end;
	uint8_t stage[TCP_STAGE_BYTES];
};

/*
 * Endpoints are warm or cold. Each poll tries the warm ones. A cold one is left to epoll. Polls ask
 * epoll now and then, and always when no endpoint is warm.
 */
struct tcp_queue {
	struct fabric_queue base;
	uint32_t depth;
	int epoll_fd;
	/* The last poll has returned all that it found, and nothing has come up since. */
	bool is_drained;
	bool is_holding;      /* between hold and release: requests wait */
	int polls_until_look; /* until epoll is asked again */
	/* Polls are counted in numbered spans. nr_moved says how many endpoints have moved
	 * something in this span, nr_moved_before how many did in the span before. */
	uint32_t span;
	unsigned polls_until_span, nr_moved, nr_moved_before;
	unsigned nr_endpoints, nr_warm;
	struct cds_list_head warm;	 /* of tcp_endpoint.warm                 */
	struct cds_list_head connecting; /* of tcp_endpoint.connecting           */
	struct cds_list_head eventful;	 /* of tcp_endpoint.eventful: have an event */
	struct cds_list_head held;	 /* of tcp_endpoint.held: have something to send */
	/* These wait for memory of a pager's, the longest first (tcp_endpoint.lacking). */
	struct cds_list_head lacking;
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

/* Adds a completion. There must be room. */
static inline void tcp_sink_put(struct tcp_sink *sink, uint64_t context, int status)
{
	sink->out[sink->nr++] = (struct fabric_completion){.context = context, .status = status};
}

/* The last completion is a failure, and of that transfer alone. */
static inline void tcp_sink_fail_alone(struct tcp_sink *sink, int status)
{
	sink->out[sink->nr - 1].status = status;
	sink->out[sink->nr - 1].is_alone = true;
}

/* The last completion is a read's, whose bytes are not those that the target has. */
static inline void tcp_sink_fail_altered(struct tcp_sink *sink)
{
	tcp_sink_fail_alone(sink, -EBADMSG);
	sink->out[sink->nr - 1].is_altered = true;
}

/* tcp.c */
extern const struct fabric_ops tcp_ops;

/* memory.c */
int tcp_domain_open(struct fabric *fabric, struct fabric_domain **out);
void tcp_domain_close(struct fabric_domain *domain);
int tcp_memory_register(struct fabric_domain *domain, void *addr, size_t length, unsigned access,
			struct fabric_memory *out);
int tcp_memory_register_paged(struct fabric_domain *domain, struct fabric_pager *pager,
			      uint64_t length, unsigned access, struct fabric_memory *out);
bool tcp_memory_deregister(struct fabric_memory *memory);
/* Finds the memory that a peer asks for, with all the rights in `access`. NULL: the peer may not
 * have it. */
uint8_t *tcp_memory_find(struct tcp_domain *domain, struct tcp_known *known, uint64_t key,
			 uint64_t offset, uint64_t length, unsigned access);
/* Finds the pager of paged memory that a peer asks for, by the rules of tcp_memory_find. */
struct fabric_pager *tcp_memory_find_pager(struct tcp_domain *domain, struct tcp_known *known,
					   uint64_t key, uint64_t offset, uint64_t length,
					   unsigned access);

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
int tcp_paged_transfer(struct fabric_endpoint *endpoint, unsigned flags,
		       const struct fabric_piece *pieces, unsigned nr_pieces, uint64_t remote,
		       uint64_t key, uint64_t context);
int tcp_receive(struct fabric_endpoint *endpoint, const struct fabric_piece *piece,
		uint64_t context);
int tcp_send(struct fabric_endpoint *endpoint, const struct fabric_piece *piece, uint64_t context);
/* Continues with the hello and the welcome. */
void tcp_endpoint_greet(struct tcp_endpoint *endpoint);
/* Ends the connection, for whatever reason. The peer hears of it at once, the owner by the
 * queue. */
void tcp_endpoint_break(struct tcp_endpoint *endpoint);
/* Ends the connection after a system call on the socket has failed with `error`. */
void tcp_endpoint_fail(struct tcp_endpoint *endpoint, int error);
/* Ends the connection because the local memory of a request is not there, or may not be used so.
 * `place` is the request's place in `expected`. */
void tcp_endpoint_fault(struct tcp_endpoint *endpoint, uint32_t place);
/* Adds completions for everything that has ended with the connection, first for the request that
 * was at fault. If the sink had room for all, nothing is left. */
void tcp_endpoint_fail_rest(struct tcp_endpoint *endpoint, struct tcp_sink *sink);

/* stream.c */
/* Sends and receives as much as it can, up to a limit. It receives from the socket only if
 * may_receive. True: bytes were moved. */
bool tcp_stream_progress(struct tcp_endpoint *endpoint, bool may_receive, struct tcp_sink *sink);
/* Sends waiting frames, as far as the socket has room, and up to a limit. True: some bytes were
 * sent. */
bool tcp_stream_flush(struct tcp_endpoint *endpoint);
/* Takes sent frames off the ring. A sent message is a completion, and stays there while the sink is
 * full. */
void tcp_stream_reap(struct tcp_endpoint *endpoint, struct tcp_sink *sink);
/* Finds a place for one more frame. NULL: there is none. tcp_stream_push() then puts it in line. */
struct tcp_outgoing *tcp_stream_place(struct tcp_endpoint *endpoint, uint32_t type,
				      uint64_t length);
static inline void tcp_stream_push(struct tcp_endpoint *endpoint)
{
	endpoint->out_end++;
}

/* The frame that would be sent next waits for a pager, and so do those behind it. */
static inline bool tcp_stream_is_undecided(const struct tcp_endpoint *endpoint)
{
	return endpoint->out_next != endpoint->out_end &&
	       endpoint->out[endpoint->out_next & endpoint->out_mask].type == TCP_UNDECIDED;
}
/* True: a request can be taken, because there is room for its reply. */
static inline bool tcp_stream_has_reply_place(const struct tcp_endpoint *endpoint)
{
	return endpoint->nr_replies < TCP_REPLIES_MAX &&
	       endpoint->out_end - endpoint->out_first <= endpoint->out_mask;
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
/* A request of so many bytes was put in line, first or behind others. Sends it, or lets it wait. */
void tcp_queue_send(struct tcp_queue *queue, struct tcp_endpoint *endpoint, bool is_first,
		    uint64_t bytes);
/* Adds a new endpoint, whose socket is open, to epoll; forget_socket takes its socket out again. */
int tcp_queue_add(struct tcp_queue *queue, struct tcp_endpoint *endpoint);
void tcp_queue_forget_socket(struct tcp_queue *queue, struct tcp_endpoint *endpoint);
void tcp_queue_remove(struct tcp_queue *queue, struct tcp_endpoint *endpoint);
/* Has the next polls try this endpoint. */
void tcp_queue_warm(struct tcp_queue *queue, struct tcp_endpoint *endpoint);
/* The endpoint waits for memory of a pager's: each poll tries it. It waits no more when its request
 * could be taken, or when it has ended. */
void tcp_queue_lack(struct tcp_queue *queue, struct tcp_endpoint *endpoint);
void tcp_queue_stop_lacking(struct tcp_endpoint *endpoint);
/* Call it when the endpoint's state has changed: queue_event() will report it. */
void tcp_queue_tell(struct tcp_queue *queue, struct tcp_endpoint *endpoint);

/* listener.c */
int tcp_listen(struct fabric *fabric, const char *address, struct fabric_listener **out);
void tcp_listener_close(struct fabric_listener *listener);
int tcp_listener_fd(struct fabric_listener *listener);
int tcp_listener_next(struct fabric_listener *listener, struct fabric_request *out);
size_t tcp_listener_sweep(struct fabric_listener *listener, const struct fabric_patience *patience);
void tcp_reject(struct fabric_listener *listener, struct fabric_request *request);
/* Takes over the socket of a request, which is empty afterwards. */
int tcp_request_take(struct fabric_request *request);
void tcp_listener_congestion(struct fabric_listener *listener,
			     char out[static FABRIC_CONGESTION_MAX]);

/* congestion.c: connect, listen and accept prepare a new socket, with the fabric's setting.
 * -ENOENT, -EPERM: the name cannot be had. */
int tcp_congestion_connect(int fd, const char *congestion, const struct fabric_address *peer);
int tcp_congestion_listen(int fd, const char *congestion, const struct sockaddr_storage *own);
void tcp_congestion_accept(int fd, const char *congestion);
/* Copies the name that the kernel says the socket uses; empty: it says none. */
void tcp_congestion_get(int fd, char out[static FABRIC_CONGESTION_MAX]);
int tcp_congestion_check(const char *name, char *problem, size_t size);

#endif
