/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Driven connections: paged memory (fabric/paged.h) over a fabric whose targets are passive, such as
 * verbs. The asking end lends the pieces of its memory and sends a message. The serving end moves
 * the bytes itself, one-sided, between that memory and its pager's, and sends the answer. So a
 * transfer has no copy at either end.
 *
 *   driven.c    the fabric over another one, and its listeners
 *   memory.c    domains, and memory
 *   wire.c      messages
 *   endpoint.c  connecting, accepting, closing, messages of those above
 *   ask.c       the end that asks
 *   serve.c     the end that has the pager
 *   queue.c     polling, events, sleeping
 *
 * All connections are in one domain of the fabric below, in which the serving end lends nothing at
 * all. So a peer that knows any key can reach none of its memory. The domains of this fabric are
 * books of keys. Each ask is looked up there, so that rights, fences and the ends of keys hold as on
 * any transport. The asking end lends its peers the memory of its transfers, for as long as it is
 * registered. A peer that names other memory ends its own connection, because the NIC refuses it.
 *
 * Each end posts receives for all that the other may send. An ask keeps its receive until all that it
 * caused has ended. So a peer that asks for more than it may is held up by the fabric below.
 *
 * Ownership: a fabric owns the one below, and each queue, listener and endpoint that of the fabric
 * below.
 */
#ifndef FABRIC_DRIVEN_DRIVEN_H
#define FABRIC_DRIVEN_DRIVEN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

#include "fabric/driven/wire.h"
#include "fabric/keys.h"
#include "fabric/listener.h"

#define DRIVEN_LENT_MAX 4U
/* Asks may come before the last answers are known to be sent. */
#define DRIVEN_RECEIVES (DRIVEN_DEPTH + DRIVEN_DEPTH / 2 + FABRIC_RECEIVE_MAX)
#define DRIVEN_SENDS	(3 * DRIVEN_DEPTH) /* in flight below, of an endpoint */

struct driven_fabric {
	struct fabric base;
	struct fabric *below;
	char name[FABRIC_NAME_MAX];
	struct { /* memory of pagers */
		uint8_t *addr;
		size_t length;
		struct fabric_memory memory;
	} lent[DRIVEN_LENT_MAX];
	unsigned nr_lent;
};

struct driven_domain {
	struct fabric_domain base;
	pthread_rwlock_t lock;
	struct key_book keys; /* struct driven_paged */
};

/* Paged memory that is registered. */
struct driven_paged {
	struct keyed keyed;
	struct fabric_pager *pager;
	uint64_t length;
	unsigned access;
};

/* Memory that is lent to peers: a piece's descriptor. */
struct driven_memory {
	struct fabric_memory below;
	uint8_t *addr;
};

struct driven_listener {
	struct fabric_listener base;
	struct fabric_listener *below;
};

struct driven_place; /* of an endpoint in its queue's table */

struct driven_queue {
	struct fabric_queue base;
	struct fabric_queue *below;
	struct driven_place *places;
	uint32_t nr_places, first_free;
	struct cds_list_head ended;    /* of driven_served.moving: the pager has ended them */
	struct cds_list_head stalled;  /* likewise: the fabric below had no room */
	struct cds_list_head lacking;  /* of driven_endpoint.lacking: they wait for memory */
	struct cds_list_head broken;   /* of driven_endpoint.broken: their asks are to end */
	struct cds_list_head eventful; /* likewise, .eventful: it is to be told that they ended */
	bool has_left;		       /* memory came back since `lacking` was looked at */
};

/* An ask that a receive has brought, and that is being carried out. */
struct driven_served {
	struct fabric_paged base;
	struct driven_endpoint *endpoint;
	struct cds_list_head node;   /* in driven_endpoint.waiting or .taken */
	struct cds_list_head moving; /* in one of the queue's lists, or empty */
	struct driven_ask ask;
	struct fabric_memory own; /* of the bytes, if they are in no lent memory */
	void *descriptor;
	uint32_t nr_posted;    /* pieces */
	uint64_t moved;	       /* their bytes */
	uint32_t nr_moving;    /* of the pieces, below */
	uint32_t nr_under_way; /* below: moves, and the answer */
	size_t answer_length;  /* 0: there is none yet */
	int status;
	bool is_taken;	  /* by the pager */
	bool has_begun;	  /* there */
	bool has_ended;	  /* there, or it never began */
	bool is_answered; /* the answer is posted */
};

/* A transfer that was asked for. */
struct driven_asked {
	struct fabric_piece pieces[FABRIC_IOV_MAX];
	uint64_t context;
	uint32_t length, flags;
	uint32_t nr_pieces;
	bool is_under_way;
	bool is_sending; /* the message's memory is still in use */
};

/* A message of those above that is being sent, or is to be received. */
struct driven_note {
	struct fabric_piece piece;
	uint64_t context;
	bool is_sending;
};

/* Memory for messages, registered below. Answers are the accepting end's, asks the connecting
 * end's. */
struct driven_slots {
	struct driven_message received[DRIVEN_RECEIVES];
	struct driven_message notes[FABRIC_RECEIVE_MAX];
	struct driven_message out[]; /* asks, or answers */
};

struct driven_endpoint {
	struct fabric_endpoint base;
	struct fabric_endpoint *below;
	struct driven_domain *domain;
	uint64_t context; /* of its operations below; the low 16 bits say which */
	uint32_t place;
	bool is_connected;
	bool is_broken; /* nothing more is posted */
	bool is_told;	/* that it has ended */
	int status;	/* of asks that end with it */
	struct driven_slots *slots;
	struct fabric_memory memory; /* of them */
	struct cds_list_head lacking, broken, eventful;
	/* Notes: those that are sent, and, first come first served, those to be received. */
	struct driven_note sends[FABRIC_RECEIVE_MAX], receives[FABRIC_RECEIVE_MAX];
	uint32_t receive_first, receive_end;
	/* The connecting end asks, … */
	struct driven_asked *asked; /* DRIVEN_DEPTH */
	uint32_t nr_free;	    /* of `free`: numbers of places in `asked` */
	uint8_t free[DRIVEN_DEPTH];
	/* … and the accepting end serves. */
	struct driven_served *served; /* DRIVEN_RECEIVES, by receive */
	struct cds_list_head waiting, taken;
};

#define driven_container(pointer, type) caa_container_of(pointer, type, base)

static inline struct driven_queue *driven_queue_of(const struct driven_endpoint *endpoint)
{
	return driven_container(endpoint->base.queue, struct driven_queue);
}

static inline struct driven_fabric *driven_fabric_of(const struct driven_endpoint *endpoint)
{
	return driven_container(endpoint->base.queue->fabric, struct driven_fabric);
}

static inline bool driven_is_listed(struct cds_list_head *node)
{
	return !cds_list_empty(node);
}

static inline void driven_take_off(struct cds_list_head *node)
{
	cds_list_del(node);
	CDS_INIT_LIST_HEAD(node);
}

/* Operations below are named by their endpoint, one of these, and a number. */
enum driven_operation {
	DRIVEN_RECEIVE = 0x000, /* by the receive */
	DRIVEN_SEND_NOTE = 0x100,
	DRIVEN_SEND_ASK = 0x200,
	DRIVEN_SEND_ANSWER = 0x300, /* by the receive that it answers */
	DRIVEN_MOVE = 0x400,	    /* likewise */
};
#define DRIVEN_NUMBERS 0x100U
_Static_assert(DRIVEN_RECEIVES <= DRIVEN_NUMBERS, "a byte is a number");

/* ---- driven.c */

/* Ends the name of a driven fabric; before it stands the name of the one below. */
#define DRIVEN_SUFFIX "-driven"

/* Opens a driven fabric over a transport. Errors are those of opening that. -EINVAL: it cannot be driven. */
int driven_open(const char *transport, const char *address, struct fabric **out);
/* Opens one over an open fabric, and takes that over. -ENOMEM. */
int driven_open_over(struct fabric *below, struct fabric **out);

/* ---- memory.c */

int driven_domain_open(struct fabric *fabric, struct fabric_domain **out);
void driven_domain_close(struct fabric_domain *domain);
int driven_paged_register(struct fabric_domain *domain, struct fabric_pager *pager, uint64_t length,
			  unsigned access, struct fabric_memory *out);
int driven_memory_register(struct fabric_domain *domain, void *addr, size_t length, unsigned access,
			   struct fabric_memory *out);
bool driven_memory_deregister(struct fabric_memory *memory);
int driven_lend(struct fabric *fabric, void *addr, size_t length);
/* Finds a pager by the key of its memory. Returns what is wrong with the ask, as the end of a
 * sentence; NULL: nothing. */
const char *driven_find_pager(struct driven_domain *domain, const struct driven_ask *ask,
			      struct fabric_pager **out);
/* Finds the descriptor below of memory that was lent (fabric_paged_lend()). False: it was not. */
bool driven_find_lent(const struct driven_fabric *fabric, const void *addr, uint64_t length,
		      void **descriptor);

/* ---- endpoint.c */

int driven_connect(struct fabric_queue *queue, const char *address, const void *private_data,
		   size_t private_length, void *owner, struct fabric_endpoint **out);
int driven_accept(struct fabric_request *request, struct fabric_queue *queue,
		  struct fabric_domain *domain, void *owner, struct fabric_endpoint **out);
void driven_endpoint_close(struct fabric_endpoint *endpoint);
void driven_endpoint_congestion(struct fabric_endpoint *endpoint,
				char out[static FABRIC_CONGESTION_MAX]);
int driven_receive(struct fabric_endpoint *endpoint, const struct fabric_piece *piece,
		   uint64_t context);
int driven_send(struct fabric_endpoint *endpoint, const struct fabric_piece *piece,
		uint64_t context);
/* Nothing more is posted on it; what was asked ends with `status`, and the endpoint's owner hears
 * that it has closed. `problem`: what the peer did, for the log; NULL: nothing is said. */
void driven_break(struct driven_endpoint *endpoint, int status, const char *problem);
/* Takes the end of an operation below. True: `*out` is filled in. */
bool driven_take(struct driven_endpoint *endpoint, uint32_t operation,
		 struct fabric_completion *out);
/* Waits for a message again. */
void driven_post_receive(struct driven_endpoint *endpoint, uint32_t number);
/* Sends one of the endpoint's messages. As fabric_send(). */
int driven_post_message(struct driven_endpoint *endpoint, const struct driven_message *message,
			size_t length, uint32_t operation);

/* ---- ask.c */

int driven_ask_open(struct driven_endpoint *endpoint);
void driven_ask_close(struct driven_endpoint *endpoint);
int driven_read(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context);
int driven_write(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		 unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context);
int driven_paged_transfer(struct fabric_endpoint *endpoint, unsigned flags,
			  const struct fabric_piece *pieces, unsigned nr_pieces, uint64_t remote,
			  uint64_t key, uint64_t context);
/* The message of an ask is sent. */
void driven_ask_sent(struct driven_endpoint *endpoint, uint32_t number);
/* Takes an answer. NULL, and `*out` is filled in; otherwise what is wrong with it. */
const char *driven_ask_answered(struct driven_endpoint *endpoint,
				const struct driven_message *message,
				struct fabric_completion *out);
/* Ends one of a broken endpoint's asks. False: there is none. */
bool driven_ask_fail(struct driven_endpoint *endpoint, struct fabric_completion *out);

/* ---- serve.c */

int driven_serve_open(struct driven_endpoint *endpoint);
/* Takes all away from the pagers. The endpoint below is closed. */
void driven_serve_close(struct driven_endpoint *endpoint);
/* Takes what the receive has brought. Returns what is wrong with it; NULL: nothing. */
const char *driven_serve_take(struct driven_endpoint *endpoint, uint32_t number);
/* A move of what the receive asked for is over. */
void driven_serve_moved(struct driven_endpoint *endpoint, uint32_t number);
/* The answer is sent. */
void driven_serve_answered(struct driven_endpoint *endpoint, uint32_t number);
/* Goes on with what has ended or waited. True: there was some. */
bool driven_serve_poll(struct driven_queue *queue);

/* ---- queue.c */

int driven_queue_open(struct fabric *fabric, uint32_t depth, struct fabric_queue **out);
void driven_queue_close(struct fabric_queue *queue);
int driven_queue_fd(struct fabric_queue *queue);
int driven_queue_arm(struct fabric_queue *queue);
int driven_queue_poll(struct fabric_queue *queue, struct fabric_completion *out, unsigned max);
int driven_queue_event(struct fabric_queue *queue, struct fabric_event *out);
void driven_queue_hold(struct fabric_queue *queue);
void driven_queue_release(struct fabric_queue *queue);
/* Gives the endpoint a place in the queue's table, and so its context. -ENOMEM. */
int driven_queue_enter(struct driven_queue *queue, struct driven_endpoint *endpoint);
void driven_queue_leave(struct driven_queue *queue, struct driven_endpoint *endpoint);

#endif
