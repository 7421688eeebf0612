/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric between processes of one machine: what the files of this folder share.
 *
 *   wire.h      what two processes say to each other
 *   local.c     the transport: fabric, what it can do, the operations table
 *   mourning.c  servers that have died
 *   place.c     addresses: sockets in the file system, and whether they are on this machine
 *   memory.c    domains, the memory registered in them, and who was lent it
 *   mapping.c   the memory that a peer has lent: finding it, copying, putting it where somebody wants it
 *   endpoint.c  connecting, accepting, closing, posting
 *   talk.c      messages over the socket
 *   ring.c      messages over the link
 *   queue.c     polling, events, sleeping
 *   listener.c  strangers, and their requests
 *
 * A one-sided transfer is a copy: the first that names a key asks the peer for the memory behind it, which
 * comes as a descriptor and stays mapped until the key or the connection ends. Nobody but the kernel keeps a
 * peer from what it has a descriptor of. Hence: only whole files are lent (base/shared.h), one who may only
 * read gets a descriptor for reading, and memory that was lent is never used again (fabric.h, memory_deregister).
 *
 * A transfer that was overtaken by the end of its key looks into the link after it has copied, so it is
 * never told to have been done when the memory was somebody else's, or nobody's.
 *
 * Who ends a connection need not wait for a peer that is not at the memory at that moment, however long it
 * sleeps: before it copies again it finds that the connection has ended (local_touch_begin()).
 *
 * Ownership: a queue owns its epoll descriptor. An endpoint is owned by whoever opened it, owns its socket,
 * link and mappings, and is listed in its queue until it is closed.
 */
#ifndef FABRIC_LOCAL_LOCAL_H
#define FABRIC_LOCAL_LOCAL_H

#include <pthread.h>
#include <sys/un.h>
#include <urcu/list.h>

#include "fabric/fabric.h"
#include "fabric/keys.h"
#include "fabric/local/wire.h"

#define LOCAL_TRANSFER_MAX (UINT64_C(8) << 20) /* what posting may copy at once          */
#define LOCAL_MESSAGE_MAX  (UINT64_C(1) << 30)
#define LOCAL_DEPTH_MAX	   128U /* of an endpoint, whatever its queue's; a power of two  */
#define LOCAL_ASKED_MAX	   16U	/* keys that an endpoint asks for at once                */
#define LOCAL_KNOWN	   8U	/* mappings that an endpoint need not look for           */
#define LOCAL_DONE_MAX	   256U /* at least LOCAL_DEPTH_MAX + FABRIC_RECEIVE_MAX         */
_Static_assert(LOCAL_DONE_MAX >= LOCAL_DEPTH_MAX + FABRIC_RECEIVE_MAX, "all can end at once");

struct local_fabric {
	struct fabric base;
	/* Over the sockets of those that we have connected to, which tell of their death. The lock keeps their endpoints
	 * where they are while they are told. */
	int mourn_fd;
	pthread_mutex_t mourn_lock;
};

struct local_domain {
	struct fabric_domain base;
	pthread_mutex_t lock;
	struct key_book registrations;
};

struct local_registration {
	struct keyed keyed; /* first */
	uint64_t length;
	unsigned access;
	int fd; /* of all of the memory, its owner's */
	bool was_lent;
	struct cds_list_head loans; /* of local_loan.of_registration */
};

/* That an endpoint's peer has a registration's memory. The domain's lock guards both lists. */
struct local_loan {
	struct cds_list_head of_registration;
	struct cds_list_head of_endpoint; /* in local_endpoint.loans */
	struct local_endpoint *endpoint;
};

/* Memory that the peer has lent. */
struct local_mapping {
	uint64_t key; /* first: the tree is searched for it */
	uint8_t *addr;
	uint64_t length;
	unsigned access;
	struct cds_list_head pieces; /* of local_piece */
};

/* A part of it that somebody has got at an address of his: it is touched all the time. */
struct local_piece {
	struct cds_list_head node; /* in its mapping's list */
	void *addr;
	size_t length;
};

enum local_opcode { LOCAL_READ, LOCAL_WRITE, LOCAL_FETCH_ADD, LOCAL_COMPARE_SWAP };

/* What is done to the peer's memory, now or when that comes. */
struct local_transfer {
	struct fabric_piece pieces[FABRIC_IOV_MAX]; /* of an atomic: what the word was */
	uint64_t remote, key, context;
	uint64_t operand, compare;
	uint32_t nr_pieces;
	enum local_opcode opcode;
};

/* A message that is not in the ring yet, or not all of it. */
struct local_outgoing {
	const uint8_t *addr;
	uint64_t length;
	uint64_t sent;
	uint64_t context;
	bool has_header; /* is in the ring */
};

/* Where the message that is coming goes. */
struct local_incoming {
	bool is_payload; /* else a header comes */
	uint8_t *addr;
	uint64_t left;
	uint32_t padding; /* after it */
};

struct local_receive {
	void *addr;
	uint64_t length;
	uint64_t context;
};

/* In this order, any of which may be left out. An ending one has no link any more; it waits for its peer, which was at
 * our memory, to hang up, which it does after it has unmapped all. */
enum local_state { LOCAL_IS_CONNECTING, LOCAL_IS_CONNECTED, LOCAL_IS_ENDING, LOCAL_IS_CLOSED };

/* Rings are indexed by counters. */
struct local_endpoint {
	struct fabric_endpoint base;
	struct local_domain *domain;
	int fd; /* -1: the connection has ended */
	enum local_state state;
	enum local_state told;		 /* the state that queue_event() last told */
	bool was_connected;		 /* of LOCAL_IS_ENDING and LOCAL_IS_CLOSED */
	bool has_greeted;		 /* the hello is sent */
	bool is_watched;		 /* its peer's death is seen: mourning.c */
	unsigned patience;		 /* polls until it is left to the doorbell; 0: cold */
	struct cds_list_head warm;	 /* in local_queue.warm, when patience > 0 */
	struct cds_list_head connecting; /* in local_queue.connecting, or empty    */
	struct cds_list_head eventful;	 /* in local_queue.eventful, or empty      */
	struct cds_list_head finished;	 /* in local_queue.finished, or empty      */

	/* What connecting needs until then. */
	struct sockaddr_un peer;
	struct local_hello hello;
	uint32_t hello_length;

	struct local_link *link; /* NULL: not yet, or not any more */
	struct local_side *mine;
	struct local_side *theirs;
	uint8_t *out_ring;
	const uint8_t *in_ring;
	/* What `mine` says, which the peer might change; and what it has said itself that it has taken. */
	uint32_t out_written, in_taken, out_taken;
	uint32_t nr_touching;
	bool is_reached; /* by the peer's barriers: plain stores will do to be counted */

	/* Revoked keys: told to the peer; heard from it. */
	uint32_t nr_revoked_told, nr_revoked_heard;
	struct cds_list_head loans; /* the domain's lock guards it */

	void *mappings;		  /* tree of local_mapping, by key */
	struct fabric_gate *gate; /* of the windows on them; NULL: there are none */
	struct local_mapping *known[LOCAL_KNOWN];
	uint64_t asked[LOCAL_ASKED_MAX];
	uint32_t nr_asked;

	/* Requests and messages, and receives, whose completions were not taken. */
	uint32_t depth, nr_requests, nr_receives;

	struct local_incoming in;
	uint32_t receive_first, receive_end;
	uint32_t out_first, out_end;
	uint32_t nr_waiting; /* in order */
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
 * Endpoints whose rings may have something are warm, and looked at by every poll. A cold one has told its peer
 * that it is asleep, and is left to epoll, which is asked now and then, and each time when there is nothing
 * else.
 */
struct local_queue {
	struct fabric_queue base;
	uint32_t depth;
	int epoll_fd;
	unsigned polls_until_look;	 /* at epoll                          */
	struct cds_list_head warm;	 /* of local_endpoint.warm            */
	struct cds_list_head connecting; /* of local_endpoint.connecting      */
	struct cds_list_head eventful;	 /* of local_endpoint.eventful        */
	struct cds_list_head finished;	 /* of local_endpoint.finished: have completions */
};

#define local_container(pointer, type) caa_container_of(pointer, type, base)

static inline struct local_queue *local_queue_of(const struct local_endpoint *endpoint)
{
	return local_container(endpoint->base.queue, struct local_queue);
}

/* local.c */
extern const struct fabric_ops local_ops;

/* place.c */
/* Where to listen, from "unix:PATH" or "unix:" for a place of our own: *out gets the socket's name, and the
 * address' text is to be had by local_place_print() once it is bound. -EINVAL, -EACCES, with a sentence. */
int local_place_choose(const char *address, struct sockaddr_un *out);
/* Binds there, readable and writable for this user alone; replaces what a dead server has left.
 * -EADDRINUSE, -EADDRNOTAVAIL, without a sentence. */
int local_place_bind(int fd, const struct sockaddr_un *place);
/* "unix:PATH@MARK": the mark is the machine's, its start's and the socket's. -errno. */
int local_place_print(const struct sockaddr_un *place, char out[static FABRIC_ADDRESS_MAX]);
/* Removes it, if it is still the one of this mark. */
void local_place_remove(const char *address);
/* Finds the socket of an address. -EINVAL: it is no such address. -EHOSTUNREACH: it is not this machine's, or
 * not to be seen from here. With sentences. */
int local_place_find(const char *address, struct sockaddr_un *out);
/* Whether a peer's process may be talked to: it is this user's or root's. */
bool local_place_is_trusted(int fd);

/* memory.c */
int local_domain_open(struct fabric *fabric, struct fabric_domain **out);
void local_domain_close(struct fabric_domain *domain);
int local_memory_register(struct fabric_domain *domain, void *addr, size_t length, unsigned access,
			  struct fabric_memory *out);
bool local_memory_deregister(struct fabric_memory *memory);
/* Gives the endpoint's peer what it asks for. False: it may not, or does not take it. */
bool local_memory_lend(struct local_endpoint *endpoint, uint64_t key);
/* The endpoint's peer has nothing any more, as far as revoking goes. */
void local_memory_forget(struct local_endpoint *endpoint);

/* mapping.c */
/* NULL: the peer has not lent it. */
struct local_mapping *local_mapping_find(struct local_endpoint *endpoint, uint64_t key);
/* Maps what the peer has lent; `fd` stays the caller's. False: it is nothing that can be. */
bool local_mapping_add(struct local_endpoint *endpoint, const struct local_message *lent, int fd);
void local_mapping_remove(struct local_endpoint *endpoint, uint64_t key);
void local_mapping_remove_all(struct local_endpoint *endpoint);
int local_attach(struct fabric_endpoint *endpoint, uint64_t key, uint64_t remote, size_t length,
		 bool may_write, void *addr);
/* Does it. False: it is out of range, or not with this access. */
bool local_mapping_do(const struct local_mapping *mapping, const struct local_transfer *transfer);
/* The peer has lent the memory behind the key, and it is known what it has revoked: a window on it. -EAGAIN: it has not
 * lent it. -ENOMEM. */
int local_mapping_window(struct local_endpoint *endpoint, uint64_t key, struct fabric_window *out);

/* mourning.c */
int local_mourning_open(struct local_fabric *fabric);
void local_mourning_close(struct local_fabric *fabric);
/* The endpoint has got its link; false: it cannot be watched. It is about to lose it. */
bool local_mourning_watch(struct local_endpoint *endpoint);
void local_mourning_forget(struct local_endpoint *endpoint);
int local_mourn_fd(struct fabric *fabric);
void local_mourn(struct fabric *fabric);

/* endpoint.c */
/* Out before the peer's word is read. */
static inline void local_touch_count(struct local_endpoint *endpoint, uint32_t nr)
{
	if (!endpoint->is_reached) {
		atomic_store(&endpoint->mine->nr_touching, nr);
		return;
	}
	atomic_store_explicit(&endpoint->mine->nr_touching, nr, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst);
}

/* Around each touch of memory that the peer has lent. In between, before memory is touched, and once more behind the end
 * it is to be looked whether the peer has ended all (local_endpoint_catch_up()): what has not in between does not become
 * anybody else's before the end (fabric.h, endpoint_end), and a peer that has seen the touch and ended meanwhile
 * waits to hear that it is over. Touches are counted. The end is for an endpoint that may have been broken
 * meanwhile, too. */
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
/* Goes on with the hello and the welcome. */
void local_endpoint_greet(struct local_endpoint *endpoint);
/* Takes the link that came with the welcome, or that we have made. False: it is none. */
bool local_endpoint_link(struct local_endpoint *endpoint, int fd, enum local_side_index side);
/* It is up. */
void local_endpoint_open(struct local_endpoint *endpoint);
/* Hears what the peer has revoked, if it has revoked anything. False: the connection has ended. */
bool local_endpoint_catch_up(struct local_endpoint *endpoint);
/* Does what has waited for memory that is there now. */
void local_endpoint_resume(struct local_endpoint *endpoint);
/* Ends the connection, for whatever reason: the peer hears of it at once, the owner by the queue. */
void local_endpoint_break(struct local_endpoint *endpoint);
/* A completion to be told. */
void local_endpoint_finish(struct local_endpoint *endpoint, uint64_t context, int status,
			   bool is_receive);

/* talk.c */
/* Takes what is in the socket, which may end the connection. */
void local_talk_listen(struct local_endpoint *endpoint);
/* Sends a message, with a descriptor unless `fd` is negative. False: there is no room, or nobody. Any thread's. */
bool local_talk_say(int socket_fd, const struct local_message *message, int fd);
static inline struct local_message local_talk_message(enum local_message_type type, uint64_t key)
{
	return (struct local_message){.magic = LOCAL_WIRE_MAGIC,
				      .version = LOCAL_WIRE_VERSION,
				      .type = (uint8_t)type,
				      .key = key};
}
/* A word of the link, which the other end sleeps on, has changed: wakes it if it does. */
void local_talk_wake(struct local_endpoint *endpoint, atomic_uint *is_asleep);

/* ring.c */
/* Moves what can be moved both ways, up to a limit. True: something was. */
bool local_ring_progress(struct local_endpoint *endpoint);
/* Puts what is to be sent into the ring, as far as there is room. */
void local_ring_flush(struct local_endpoint *endpoint);
/* Has the peer ring when there is something for local_ring_progress(). False: there is already. */
bool local_ring_sleep(struct local_endpoint *endpoint);

/* queue.c */
int local_queue_open(struct fabric *fabric, uint32_t depth, struct fabric_queue **out);
void local_queue_close(struct fabric_queue *queue);
int local_queue_fd(struct fabric_queue *queue);
int local_queue_arm(struct fabric_queue *queue);
int local_queue_poll(struct fabric_queue *queue, struct fabric_completion *out, unsigned max);
int local_queue_event(struct fabric_queue *queue, struct fabric_event *out);
/* Looks after a new endpoint, whose socket is there; and no longer. */
int local_queue_add(struct local_queue *queue, struct local_endpoint *endpoint);
void local_queue_forget_socket(struct local_queue *queue, struct local_endpoint *endpoint);
void local_queue_remove(struct local_queue *queue, struct local_endpoint *endpoint);
/* Has the next polls try this endpoint. */
void local_queue_warm(struct local_queue *queue, struct local_endpoint *endpoint);
/* Leaves it to epoll. */
void local_queue_cool(struct local_endpoint *endpoint);
/* Its state has changed. */
void local_queue_tell(struct local_queue *queue, struct local_endpoint *endpoint);

/* listener.c */
int local_listen(struct fabric *fabric, const char *address, struct fabric_listener **out);
void local_listener_close(struct fabric_listener *listener);
int local_listener_fd(struct fabric_listener *listener);
int local_listener_next(struct fabric_listener *listener, struct fabric_request *out);
size_t local_listener_sweep(struct fabric_listener *listener,
			    const struct fabric_patience *patience);
void local_reject(struct fabric_listener *listener, struct fabric_request *request);
/* The socket of a request, which is taken over: the request has nothing any more. */
int local_request_take(struct fabric_request *request);

#endif
