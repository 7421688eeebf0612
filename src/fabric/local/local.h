/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric between processes of one machine: declarations that the files of this folder share.
 *
 *   wire.h      what two processes say to each other
 *   local.c     the transport: fabric, its attributes, the operations table
 *   deaths.c    notices servers that have died
 *   place.c     addresses: sockets in the file system, and whether they are on this machine
 *   memory.c    domains, the memory registered in them, and the peers that it was lent to (memory.h)
 *   mapping.c   memory that a peer has lent: find it, copy, attach it at a caller's address
 *   endpoint.c  connect, accept, close, post
 *   talk.c, hear.c  messages over the socket
 *   ring.c      messages over the link
 *   exchange.c  transfers to memory that a pager has: shared memory for requests and bytes
 *   ask.c, serve.c  … at the end that asks, and at the pager's (exchange.h)
 *   references.c, refer.c  pages that are found again without the pager, at both ends (references.h)
 *   queue.c     polling, events, sleeping
 *   watch.c     what a queue watches of an endpoint
 *   listener.c  strangers and their requests
 *
 * A one-sided transfer is a copy, unless a pager has the memory. The first transfer that names a key asks the peer for the memory
 * behind it. The memory comes as a descriptor, and stays mapped until the key or the connection
 * ends. Only the kernel limits a peer's use of a descriptor. Therefore we lend only whole files
 * (base/shared.h), and a peer that may only read gets a descriptor for reading. Memory that was
 * lent is never used again (fabric.h, memory_deregister).
 *
 * A transfer looks into the link after it has copied. If its key ended meanwhile, it fails; so a
 * transfer never reports success for memory that was no longer the peer's.
 *
 * Ending a connection does not wait for a peer that is not at the memory just then, however long it
 * sleeps. The peer finds that the connection has ended before it copies again
 * (local_touch_begin()).
 *
 * Ownership: a queue owns its epoll descriptor. An endpoint belongs to its opener; it owns its
 * socket, link and mappings, and its queue lists it until it is closed.
 */
#ifndef FABRIC_LOCAL_LOCAL_H
#define FABRIC_LOCAL_LOCAL_H

#include <pthread.h>
#include <sys/un.h>
#include <urcu/list.h>

#include "fabric/atomics.h"
#include "fabric/fabric.h"
#include "fabric/listener.h"
#include "fabric/local/wire.h"
#include "fabric/mapped.h"

#define LOCAL_TRANSFER_MAX (UINT64_C(8) << 20) /* one posted transfer copies no more */
#define LOCAL_GAP_BYTES	   UINT64_C(256)       /* another read is little more than a copy */
#define LOCAL_MESSAGE_MAX  (UINT64_C(1) << 30)
#define LOCAL_DEPTH_MAX	   128U	 /* of an endpoint, whatever its queue asks for; a power of two */
#define LOCAL_ASKED_MAX	   16U	 /* keys that an endpoint asks for at once */
#define LOCAL_KNOWN	   8U	 /* mappings that an endpoint finds without a search */
#define LOCAL_PATIENCE	   4096U /* idle polls of an endpoint before it is left to epoll */
#define LOCAL_DONE_MAX	   256U	 /* at least LOCAL_DEPTH_MAX + FABRIC_RECEIVE_MAX */
_Static_assert(LOCAL_DONE_MAX >= LOCAL_DEPTH_MAX + FABRIC_RECEIVE_MAX, "all can end at once");

struct local_fabric {
	struct fabric base;
	/* An epoll descriptor over the sockets of our outgoing connections; it reports when their
	 * peers die. The lock keeps the endpoints in place while local_deaths_note() marks them. */
	int deaths_fd;
	pthread_mutex_t deaths_lock;
};

/* Memory that the peer has lent, mapped. */
struct local_mapping {
	uint64_t key;  /* first, because the tree is searched for it */
	bool is_paged; /* a pager has it: nothing is mapped, and the peer is asked for transfers */
	uint8_t *addr;
	uint64_t length;
	unsigned access;
	struct cds_list_head pieces; /* of local_piece */
};

/* A part of a mapping, attached at a caller's address. Counts as touched while it exists. */
struct local_piece {
	struct cds_list_head node; /* in its mapping's list */
	void *addr;
	size_t length;
};

enum local_opcode { LOCAL_READ, LOCAL_WRITE, LOCAL_FETCH_ADD, LOCAL_COMPARE_SWAP };

/* An operation on the peer's memory. It waits here if that memory has not come yet. */
struct local_transfer {
	struct fabric_piece pieces[FABRIC_IOV_MAX]; /* of an atomic: takes the old word */
	uint64_t remote, key, context;
	uint64_t operand, compare;
	uint32_t nr_pieces;
	enum local_opcode opcode;
	uint32_t
		paged; /* FABRIC_PAGED_DURABLE, …: all but the direction; not 0 for paged memory alone */
};

/* A message that is not, or not all, in the ring yet. */
struct local_outgoing {
	const uint8_t *addr;
	uint64_t length;
	uint64_t sent;
	uint64_t context;
	bool has_header; /* the header is in the ring */
};

/* The message that is being received. */
struct local_incoming {
	bool is_payload; /* false: a header is next */
	uint8_t *addr;
	uint64_t left;
	uint32_t padding; /* after the payload */
};

struct local_receive {
	void *addr;
	uint64_t length;
	uint64_t context;
};

/* States come in this order; any may be skipped. An ending endpoint has no link any more. Its peer
 * was at our memory; the endpoint waits until the peer has unmapped all of it and hangs up. */
enum local_state { LOCAL_IS_CONNECTING, LOCAL_IS_CONNECTED, LOCAL_IS_ENDING, LOCAL_IS_CLOSED };

/* Its rings (receives, done, out) are indexed by counters. */
struct local_endpoint {
	struct fabric_endpoint base;
	struct local_domain *domain;
	int fd; /* -1: the connection has ended */
	enum local_state state;
	enum local_state told;		 /* the state that queue_event() last told */
	bool was_connected;		 /* valid in LOCAL_IS_ENDING and LOCAL_IS_CLOSED */
	bool has_greeted;		 /* the hello is sent */
	bool is_watched;		 /* deaths.c watches for its peer's death */
	unsigned patience;		 /* idle polls before it goes cold; 0: it is cold */
	struct cds_list_head warm;	 /* in local_queue.warm, when patience > 0 */
	struct cds_list_head connecting; /* in local_queue.connecting, or empty    */
	struct cds_list_head eventful;	 /* in local_queue.eventful, or empty      */
	struct cds_list_head finished;	 /* in local_queue.finished, or empty      */

	/* Used until the connection is made. */
	struct sockaddr_un peer;
	struct local_hello hello;
	uint32_t hello_length;

	struct local_link *link; /* NULL: not yet, or no longer */
	struct local_side *mine;
	struct local_side *theirs;
	uint8_t *out_ring;
	const uint8_t *in_ring;
	/* Our own copies of the words in `mine`, because the peer might change those; and
	 * `out_taken`, how much the peer says that it has taken. */
	uint32_t out_written, in_taken, out_taken;
	uint32_t nr_touching;
	bool is_reached; /* by the peer's barriers: plain stores do to count touches */

	/* Revoked keys: how many we have told the peer of, and how many it has told us of. */
	uint32_t nr_revoked_told, nr_revoked_heard;
	struct cds_list_head loans; /* the domain's lock guards it */

	struct local_asking *asking;	     /* ask.c's; NULL: no key of the peer's is a pager's */
	struct local_serving *serving;	     /* serve.c's; NULL: the peer has no such key of ours */
	struct local_references *references; /* as `asking` */
	bool takes_references;		     /* the peer */

	void *mappings;		  /* tree of local_mapping, by key */
	struct fabric_gate *gate; /* of the windows on the mappings; NULL: there are none */
	struct local_mapping *known[LOCAL_KNOWN];
	uint64_t asked[LOCAL_ASKED_MAX];
	uint32_t nr_asked;

	/* Requests and messages, and receives, whose completions are not taken yet. */
	uint32_t depth, nr_requests, nr_receives;

	struct local_incoming in;
	uint32_t receive_first, receive_end;
	uint32_t out_first, out_end;
	uint32_t nr_waiting; /* in the order of posting */
	uint32_t done_first, done_end;
	struct local_receive receives[FABRIC_RECEIVE_MAX];
	struct local_done {
		struct fabric_completion completion;
		bool is_receive;
	} done[LOCAL_DONE_MAX];
	struct local_outgoing out[LOCAL_DEPTH_MAX];
	struct local_transfer waiting[LOCAL_DEPTH_MAX];
};

/*
 * Each poll looks at warm endpoints, because their rings may hold something. A cold one has told
 * its peer that it is asleep, and is left to epoll. Polls ask epoll now and then, and always when
 * there is nothing else to look at.
 */
struct local_paged_calls; /* exchange.h */
struct local_queue {
	struct fabric_queue base;
	const struct local_paged_calls *paged;
	uint32_t depth;
	int epoll_fd;
	unsigned polls_until_look;	 /* at epoll                          */
	struct cds_list_head warm;	 /* of local_endpoint.warm            */
	struct cds_list_head connecting; /* of local_endpoint.connecting      */
	struct cds_list_head eventful;	 /* of local_endpoint.eventful        */
	struct cds_list_head finished;	 /* of local_endpoint.finished: have completions */
	/* serve.c's: transfers with bytes to copy or an answer to give, and endpoints that wait for a
	 * pager's memory. */
	struct cds_list_head moving, lacking;
	struct local_life *life; /* refer.c's; NULL: nobody needs it yet */
};

#define local_container(pointer, type) caa_container_of(pointer, type, base)

static inline struct local_queue *local_queue_of(const struct local_endpoint *endpoint)
{
	return local_container(endpoint->base.queue, struct local_queue);
}

/* local.c */
extern const struct fabric_ops local_ops;

/* place.c */
/* Chooses where to listen: at PATH for "unix:PATH", at a place of our own for "unix:". *out gets
 * the socket's name. Once it is bound, local_place_print() makes the address' text. -EINVAL,
 * -EACCES, with a sentence. */
int local_place_choose(const char *address, struct sockaddr_un *out);
/* Binds the socket, readable and writable for this user alone. Replaces what a dead server has
 * left. -EADDRINUSE, -EADDRNOTAVAIL, without a sentence. */
int local_place_bind(int fd, const struct sockaddr_un *place);
/* Prints "unix:PATH@MARK". The mark is made of the machine's boot and the socket's inode.
 * -errno. */
int local_place_print(const struct sockaddr_un *place, char out[static FABRIC_ADDRESS_MAX]);
/* Removes the socket, if it still is the one with this mark. */
void local_place_remove(const char *address);
/* Finds the socket of an address. -EINVAL: this is no such address. -EHOSTUNREACH: it is another
 * machine's, or cannot be seen from here. With sentences. */
int local_place_find(const char *address, struct sockaddr_un *out);
/* True if the peer's process belongs to this user or to root; talk to no other. */
bool local_place_is_trusted(int fd);

/* mapping.c */
/* NULL: the peer has not lent it. */
struct local_mapping *local_mapping_find(struct local_endpoint *endpoint, uint64_t key);
/* Maps memory that the peer has lent; `fd` stays the caller's. False: it cannot be mapped
 * safely. */
bool local_mapping_add(struct local_endpoint *endpoint, const struct local_message *lent, int fd);
/* Adds memory that the peer's pager has. */
bool local_mapping_add_paged(struct local_endpoint *endpoint, const struct local_message *told);
void local_mapping_remove(struct local_endpoint *endpoint, uint64_t key);
void local_mapping_remove_all(struct local_endpoint *endpoint);
int local_attach(struct fabric_endpoint *endpoint, uint64_t key, uint64_t remote, size_t length,
		 bool may_write, void *addr);
/* Carries the transfer out. False: it is out of range, or not allowed by the mapping's access. */
bool local_mapping_do(const struct local_mapping *mapping, const struct local_transfer *transfer);
/* Makes a window on the memory behind the key. Call local_endpoint_catch_up() first, because the
 * key may have been revoked. -EAGAIN: the peer has not lent it. -ENOMEM. */
int local_mapping_window(struct local_endpoint *endpoint, uint64_t key, struct fabric_window *out);

/* deaths.c */
int local_deaths_open(struct local_fabric *fabric);
void local_deaths_close(struct local_fabric *fabric);
/* Watches an endpoint that has just got its link. False: it cannot be watched. */
bool local_deaths_watch(struct local_endpoint *endpoint);
/* Stops watching. Call it before the endpoint loses its link. */
void local_deaths_forget(struct local_endpoint *endpoint);
int local_deaths_fd(struct fabric *fabric);
void local_deaths_note(struct fabric *fabric);

/* endpoint.c */
/* The peer sees the count before we read the peer's word. */
static inline void local_touch_count(struct local_endpoint *endpoint, uint32_t nr)
{
	if (!endpoint->is_reached) {
		atomic_store(&endpoint->mine->nr_touching, nr);
		return;
	}
	atomic_store_explicit(&endpoint->mine->nr_touching, nr, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst);
}

/* Call begin before each touch of memory that the peer has lent, and end after it. Touches are
 * counted. After begin, and again after end, ask local_endpoint_catch_up() whether the peer has
 * ended everything. If it had not at the first look, the memory becomes nobody else's before end
 * (fabric_endpoint_end()). A peer that ends meanwhile has seen the count, and waits to hear that
 * the touch is over. Call end also for an endpoint that was broken in between. */
static inline void local_touch_begin(struct local_endpoint *endpoint)
{
	local_touch_count(endpoint, ++endpoint->nr_touching);
}

static inline void local_touch_end(struct local_endpoint *endpoint)
{
	endpoint->nr_touching--;
	if (endpoint->link)
		local_touch_count(endpoint, endpoint->nr_touching);
}

int local_connect(struct fabric_queue *queue, const char *address, const void *private_data,
		  size_t private_length, void *owner, struct fabric_endpoint **out);
int local_accept(struct fabric_request *request, struct fabric_queue *queue,
		 struct fabric_domain *domain, void *owner, struct fabric_endpoint **out);
void local_endpoint_close(struct fabric_endpoint *endpoint);
int local_prepare(struct fabric_endpoint *endpoint, uint64_t key);
int local_window(struct fabric_endpoint *endpoint, uint64_t key, struct fabric_window *out);
void local_endpoint_end(struct fabric_endpoint *endpoint);
int local_read(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
	       unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context);
int local_write(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context);
int local_fetch_add(struct fabric_endpoint *endpoint, const struct fabric_piece *result,
		    uint64_t remote, uint64_t key, uint64_t operand, uint64_t context);
int local_compare_swap(struct fabric_endpoint *endpoint, const struct fabric_piece *result,
		       uint64_t remote, uint64_t key, uint64_t compare, uint64_t operand,
		       uint64_t context);
int local_receive(struct fabric_endpoint *endpoint, const struct fabric_piece *piece,
		  uint64_t context);
int local_send(struct fabric_endpoint *endpoint, const struct fabric_piece *piece,
	       uint64_t context);
/* Continues with the hello and the welcome. */
void local_endpoint_greet(struct local_endpoint *endpoint);
/* Maps the link that came with the welcome, or that we have made. False: it is not a valid link. */
bool local_endpoint_link(struct local_endpoint *endpoint, int fd, enum local_side_index side);
/* The connection is up: tells its owner, and lets polls look at it. */
void local_endpoint_open(struct local_endpoint *endpoint);
/* Takes in the keys that the peer has revoked since the last call. False: the connection has
 * ended. */
bool local_endpoint_catch_up(struct local_endpoint *endpoint);
/* Runs the transfers whose memory has come. */
void local_endpoint_resume(struct local_endpoint *endpoint);
/* Ends the connection, for whatever reason. The peer hears of it at once, the owner by the
 * queue. */
void local_endpoint_break(struct local_endpoint *endpoint);
/* Adds a completion for queue_poll() to hand out. */
void local_endpoint_finish(struct local_endpoint *endpoint, uint64_t context, int status,
			   bool is_receive);
/* Likewise, of a request. */
void local_endpoint_finish_with(struct local_endpoint *endpoint,
				const struct fabric_completion *completion);
/* Posts a transfer, of which all but the pieces is filled in. */
int local_transfer_post(struct fabric_endpoint *endpoint, struct local_transfer *transfer,
			const struct fabric_piece *pieces, unsigned nr_pieces);

/* hear.c */
/* Takes the messages that are in the socket; one of them may end the connection. */
void local_hear(struct local_endpoint *endpoint);

/* talk.c */
/* Sends a message, with a descriptor unless `fd` is negative. False: there is no room, or no peer.
 * Any thread may call it. */
bool local_talk_say(int socket_fd, const struct local_message *message, int fd);
static inline struct local_message local_talk_message(enum local_message_type type, uint64_t key)
{
	return (struct local_message){.magic = LOCAL_WIRE_MAGIC,
				      .version = LOCAL_WIRE_VERSION,
				      .type = (uint8_t)type,
				      .key = key};
}
/* Call it after changing a word of the link that the other end sleeps on. Wakes that end if it
 * sleeps. */
void local_talk_wake(struct local_endpoint *endpoint, atomic_uint *is_asleep);

/* ring.c */
/* Moves bytes both ways, up to a limit. True: some were moved. */
bool local_ring_progress(struct local_endpoint *endpoint);
/* Puts outgoing messages into the ring, as far as there is room. */
void local_ring_flush(struct local_endpoint *endpoint);
/* Asks the peer to wake us when local_ring_progress() has something to do. False: it has
 * already. */
bool local_ring_sleep(struct local_endpoint *endpoint);

/* queue.c */
int local_queue_open(struct fabric *fabric, uint32_t depth, struct fabric_queue **out);
void local_queue_close(struct fabric_queue *queue);
int local_queue_fd(struct fabric_queue *queue);
int local_queue_arm(struct fabric_queue *queue);
int local_queue_poll(struct fabric_queue *queue, struct fabric_completion *out, unsigned max);
int local_queue_event(struct fabric_queue *queue, struct fabric_event *out);

/* watch.c */
/* Adds a new endpoint, whose socket is open, to epoll; forget_socket takes its socket out again. */
int local_queue_add(struct local_queue *queue, struct local_endpoint *endpoint);
void local_queue_forget_socket(struct local_queue *queue, struct local_endpoint *endpoint);
void local_queue_remove(struct local_queue *queue, struct local_endpoint *endpoint);
/* Has the next polls look at this endpoint. */
void local_queue_warm(struct local_queue *queue, struct local_endpoint *endpoint);
/* Leaves the endpoint to epoll. */
void local_queue_cool(struct local_endpoint *endpoint);
/* Call it when the endpoint's state has changed: queue_event() will report it. */
void local_queue_tell(struct local_queue *queue, struct local_endpoint *endpoint);

/* listener.c */
int local_listen(struct fabric *fabric, const char *address, struct fabric_listener **out);
void local_listener_close(struct fabric_listener *listener);
int local_listener_fd(struct fabric_listener *listener);
int local_listener_next(struct fabric_listener *listener, struct fabric_request *out);
size_t local_listener_sweep(struct fabric_listener *listener,
			    const struct fabric_patience *patience);
void local_reject(struct fabric_listener *listener, struct fabric_request *request);
/* Takes over the socket of a request, which is empty afterwards. */
int local_request_take(struct fabric_request *request);

#endif
