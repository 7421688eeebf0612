/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric seam: connections, one-sided transfers and queues, on any transport.
 *
 * A transport is some tables of functions in one folder: tcp/, local/, or ofi/ (libfabric's verbs). In
 * driven/ is one over another, which has paged memory where targets are passive.
 * Here is the table that each has; listener.h has that of the end that listens. Tables that only
 * some have are in paged.h, mapped.h and atomics.h. Callers use the inline wrappers. Code above
 * this seam passes a transport's name through, and does not look at it.
 *
 * Threads: any thread may use a fabric, its domains, memory registrations and listeners. A queue
 * and the endpoints on it belong to one thread at a time; the queue's owner serializes their use.
 *
 * Protection: memory is registered in a domain, and a connection is accepted into one. A peer can
 * use the keys of its connection's domain and no others, however it learnt them.
 *
 * Contexts: an operation carries a 64-bit context, and its completion returns it. The seam does not
 * look at it. Closing an endpoint ends its operations: none of them touches local memory
 * afterwards. Their completions may still come out of the queue, or never come. The owner of the
 * contexts therefore puts a generation into them, to tell old ones.
 */
#ifndef FABRIC_FABRIC_H
#define FABRIC_FABRIC_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counter.h"

#define FABRIC_ADDRESS_MAX \
	130 /* bytes of a printed address, final 0 included: a Unix socket's, too */
#define FABRIC_PRIVATE_MAX     48  /* bytes of private data every transport can carry */
#define FABRIC_IOV_MAX	       4   /* local pieces of one transfer */
#define FABRIC_RECEIVE_MAX     8   /* receives that may be posted on one endpoint     */
#define FABRIC_RECEIVE_MOST    128 /* … where the fabric's owner wants more (nr_receives) */
#define FABRIC_NAME_MAX	       16  /* bytes of a transport's name, final 0 included */
#define FABRIC_CONGESTION_MAX  16  /* bytes of a congestion control's name, final 0 included */
#define FABRIC_CONGESTIONS_MAX 64  /* bytes of several names, with commas between them */
/* The largest context of an operation. To libfabric's verbs UINT64_MAX means "no completion". */
#define FABRIC_CONTEXT_MAX (UINT64_MAX - 1)

struct fabric_attributes {
	const char *transport;	       /* "tcp", "local", "verbs"                                 */
	bool is_target_passive;	       /* a stopped target process does not hold transfers up */
	bool needs_local_registration; /* each local piece needs a fabric_memory's descriptor */
	/* The target moves the bytes of transfers between its memory and ours. So the memory of
	 * pieces is registered for peers: with FABRIC_REMOTE_READ for writes, and _WRITE for
	 * reads. */
	bool lends_local_memory;
	bool needs_shared_memory; /* memory for peers must be whole pieces of base/shared.h */
	const char *loopback;	  /* listen here and connect to it, in one process; NULL: none */
	/* A completed write may not be visible yet to those who use another connection or the
	 * target's processor. A later read on the same connection makes it visible. */
	bool writes_need_flush;
	/* Its atomics are processor instructions on the target's memory: atomic against the
	 * target's own processors too. Here fabric_has_atomics() says false, because it speaks of a
	 * NIC's atomics. */
	bool has_processor_atomics;
	/* Atomics return the old word in the other byte order. Known once fabric_has_atomics() is
	 * true. */
	bool has_swapped_results;
	/* Its queues count all bytes in and out, whichever end asked for them. */
	bool counts_bytes;
	uint64_t transfer_bytes_max; /* the longest read or write */
	uint32_t iov_max;	     /* local pieces of one transfer, at most FABRIC_IOV_MAX */
	/* So many bytes more of a read cost less than one more read does, as measured. 0: nobody has. */
	uint64_t gap_bytes;
};

enum fabric_access {
	FABRIC_LOCAL_READ = 0x1,  /* our writes send from here; it may be read-only memory */
	FABRIC_LOCAL_WRITE = 0x2, /* our reads put their bytes here */
	FABRIC_LOCAL = FABRIC_LOCAL_READ | FABRIC_LOCAL_WRITE,
	FABRIC_REMOTE_READ = 0x4,
	FABRIC_REMOTE_WRITE = 0x8, /* also for atomics, where there are any */
};

/* A registration. Local pieces use `descriptor`. Peers use `key` and `base`: the remote address of
 * byte i is base + i. */
struct fabric_memory {
	struct fabric_domain *domain;
	void *handle;
	void *descriptor;
	uint64_t key;
	uint64_t base;
};

struct fabric_piece {
	void *addr;
	size_t length;
	void *descriptor; /* of the fabric_memory around it; NULL where allowed */
};

struct fabric_completion {
	uint64_t context;
	/* 0, or a negative errno. -ETIMEDOUT: the peer went silent, and may still carry the
	 * operation out. -EFAULT: our own memory was not there; this completion comes before those
	 * of all other operations that end with the connection. */
	int status;
	/* `status` is of this transfer alone: its target could not carry it out, and the connection
	 * goes on. */
	bool is_alone;
	/* With is_alone, and -EBADMSG: the target has sent the bytes of a checked read, and others
	 * have come. */
	bool is_altered;
};

enum fabric_event_kind {
	FABRIC_CONNECTED = 1, /* fabric_connect() or fabric_accept() has succeeded */
	FABRIC_CLOSED,	      /* the peer refused, closed or died: close the endpoint */
};

struct fabric_event {
	enum fabric_event_kind kind;
	struct fabric_endpoint *endpoint;
	/* With FABRIC_CLOSED. -ECONNREFUSED: it never was connected. -ETIMEDOUT: as in a
	 * completion. -ECONNRESET: anything else. */
	int status;
};

/* The transport sets the tables. So a call through any of them is as short as one through another. */
struct fabric {
	const struct fabric_ops *ops;
	const struct fabric_listening_ops *listening; /* listener.h */
	/* Tables that some transports have; NULL: this one has none. */
	const struct fabric_paged_ops *paged;	  /* paged.h: memory that a program brings */
	const struct fabric_mapped_ops *mapped;	  /* mapped.h: the peer's memory itself */
	const struct fabric_atomics_ops *atomics; /* atomics.h */
	struct fabric_attributes attributes;
	/* The first domain, opened with the fabric. Endpoints that connect are in it. */
	struct fabric_domain *domain;
	/* Congestion control at our end, for connections and listeners opened from now on: "auto"
	 * (NULL means the same), "system", or a name that fabric_congestion_check() accepts. The
	 * fabric's owner sets it and keeps the string. Transports without a choice ignore it. */
	const char *congestion;
	/* Receives that may be posted on one endpoint: FABRIC_RECEIVE_MAX, unless the fabric's owner
	 * says otherwise before it opens anything. At most FABRIC_RECEIVE_MOST. Not over local. */
	uint32_t nr_receives;
};
struct fabric_domain {
	struct fabric *fabric;
};
struct fabric_queue {
	struct fabric *fabric;
	/* The last poll moved bytes. Nothing else reports the reads and writes of peers here. Where
	 * the target is passive it is set for paged memory alone. */
	bool has_moved;
	/* Bytes of all connections since it was opened, headers included; where counts_bytes. */
	struct counter bytes_in, bytes_out;
};
struct fabric_endpoint {
	struct fabric_queue *queue;
	void *owner; /* as the caller gave it to connect or accept */
};

struct fabric_ops {
	const char *transport;

	/* Opens the transport in this process, on one device. `address` (HOST:PORT) names the
	 * device that has it or that leads to it. With NULL, or an address of all the machine's,
	 * any device serves. -ENODEV: there is none. */
	int (*open)(const char *transport, const char *address, struct fabric **out);
	/* True: its device leads to an address. NULL: there is no choice of devices. */
	bool (*reaches)(struct fabric *fabric, const char *address);
	/* True: an address may lead somewhere from this machine. Does not connect. NULL: it may. */
	bool (*is_same_host)(const char *address);
	void (*close)(struct fabric *fabric);

	/* Opens one more domain. Close its registrations and endpoints before the domain. */
	int (*domain_open)(struct fabric *fabric, struct fabric_domain **out);
	void (*domain_close)(struct fabric_domain *domain);

	/* Registers memory for `access`. It does not touch the memory, nor keep it alive.
	 * -EOPNOTSUPP: peers can be given whole pieces of shared memory only (base/shared.h), and
	 * this is none. */
	int (*memory_register)(struct fabric_domain *domain, void *addr, size_t length,
			       unsigned access, struct fabric_memory *out);
	/* Afterwards no peer can begin a transfer with the key. Returns false if a peer has been
	 * given the memory itself. Whatever the peer promised, it may still write to it, even after
	 * its endpoint is closed. Never use such memory again. Unmap it; then nobody else sees what
	 * is written there. */
	bool (*memory_deregister)(struct fabric_memory *memory);

	/* Opens a queue for up to `depth` transfers in flight per endpoint, or as many as the
	 * transport can. It grows as endpoints come. */
	int (*queue_open)(struct fabric *fabric, uint32_t depth, struct fabric_queue **out);
	/* Close all its endpoints first. */
	void (*queue_close)(struct fabric_queue *queue);
	/* A descriptor that is readable when there may be completions or events. */
	int (*queue_fd)(struct fabric_queue *queue);
	/* Call it before sleeping on the descriptor. 0: sleep. -EAGAIN: there is something to
	 * poll. */
	int (*queue_arm)(struct fabric_queue *queue);
	/* Makes progress and takes completions; never blocks. Returns how many, 0 for none. */
	int (*queue_poll)(struct fabric_queue *queue, struct fabric_completion *out, unsigned max);
	/* A batch: transfers and messages that start between hold and release may wait, to go out
	 * together. Release sends those that wait, and a poll may. Neither blocks. In between the
	 * thread starts, polls and closes, but does not sleep. Both NULL: the transport gains
	 * nothing by waiting. */
	void (*queue_hold)(struct fabric_queue *queue);
	void (*queue_release)(struct fabric_queue *queue);
	/* Takes one connection event; never blocks. Returns 1, or 0 for none. It is cheap, but not
	 * free: call it when a wait has lasted, before sleeping, and when a transfer failed. */
	int (*queue_event)(struct fabric_queue *queue, struct fabric_event *out);

	/* Starts connecting to `address` with private data; FABRIC_CONNECTED or _CLOSED follows.
	 * -EHOSTUNREACH: the place is on another machine, or cannot be reached from here. */
	int (*connect)(struct fabric_queue *queue, const char *address, const void *private_data,
		       size_t private_length, void *owner, struct fabric_endpoint **out);
	/* Closes at once. Afterwards none of its transfers touches local memory. The exception is
	 * memory that the peer was given itself (memory_deregister, and mapped.h). */
	void (*endpoint_close)(struct fabric_endpoint *endpoint);
	/* The congestion control at our end, as the system says; empty if the connection has ended.
	 * NULL: none. */
	void (*endpoint_congestion)(struct fabric_endpoint *endpoint,
				    char out[static FABRIC_CONGESTION_MAX]);

	/* Start one transfer. 0; -EAGAIN: no room, so poll and try again; or an error: close the
	 * endpoint. A write completes when its bytes are in the target's memory; with
	 * writes_need_flush, when they can no longer get lost on the way there. `pieces` is copied
	 * before return; the memory that it describes must stay until completion. Either end may
	 * start transfers. */
	int (*read)(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		    unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context);
	int (*write)(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		     unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context);

	/* Messages. Each takes the receive that was posted first, which completes when the message
	 * has come. A shorter message leaves the rest of the memory as it was; a longer one ends
	 * the connection. A message without a receive waits, and so does everything behind it on
	 * the connection: the sender must know that a receive is posted. Memory and errors are as
	 * with read and write. */
	int (*receive)(struct fabric_endpoint *endpoint, const struct fabric_piece *piece,
		       uint64_t context);
	int (*send)(struct fabric_endpoint *endpoint, const struct fabric_piece *piece,
		    uint64_t context);
};

/* Opens a transport by name, at `address` or at any (NULL). The name of one with "-driven" behind it
 * opens driven/ over that. -EINVAL: no such transport or address. */
int fabric_open_at(const char *transport, const char *address, struct fabric **out);

/* Checks that there is a transport of this name. -EINVAL: no; `problem` says so and what there is,
 * as the end of a sentence. */
int fabric_transport_check(const char *name, char *problem, size_t size);

/* Names the transport that has paged memory where this fabric leads: itself, or what is driven over
 * it. */
void fabric_name_paged(const struct fabric *fabric, char out[static FABRIC_NAME_MAX]);

/* Returns whether a session may use a transport. If it was told to use `path` alone, that is this one, and what is driven
 * over it. If it was told nothing (empty), that is any. */
bool fabric_transport_may_be(const char *transport, const char *path);

/* Checks that `name` may be the setting `congestion` of a fabric here. -EINVAL: no; `problem` says
 * why and what to do, as the end of a sentence. */
int fabric_congestion_check(const char *name, char *problem, size_t size);

static inline int fabric_open(const char *transport, struct fabric **out)
{
	return fabric_open_at(transport, NULL, out);
}

static inline bool fabric_reaches(struct fabric *fabric, const char *address)
{
	return !fabric->ops->reaches || fabric->ops->reaches(fabric, address);
}

static inline bool fabric_is_same_host(const struct fabric *fabric, const char *address)
{
	return !fabric->ops->is_same_host || fabric->ops->is_same_host(address);
}

static inline void fabric_close(struct fabric *fabric)
{
	fabric->ops->close(fabric);
}

static inline int fabric_domain_open(struct fabric *fabric, struct fabric_domain **out)
{
	return fabric->ops->domain_open(fabric, out);
}

static inline void fabric_domain_close(struct fabric_domain *domain)
{
	domain->fabric->ops->domain_close(domain);
}

static inline int fabric_memory_register(struct fabric_domain *domain, void *addr, size_t length,
					 unsigned access, struct fabric_memory *out)
{
	return domain->fabric->ops->memory_register(domain, addr, length, access, out);
}

static inline bool fabric_memory_deregister(struct fabric_memory *memory)
{
	return memory->domain->fabric->ops->memory_deregister(memory);
}

static inline int fabric_queue_open(struct fabric *fabric, uint32_t depth,
				    struct fabric_queue **out)
{
	return fabric->ops->queue_open(fabric, depth, out);
}

static inline void fabric_queue_close(struct fabric_queue *queue)
{
	queue->fabric->ops->queue_close(queue);
}

static inline int fabric_queue_fd(struct fabric_queue *queue)
{
	return queue->fabric->ops->queue_fd(queue);
}

static inline int fabric_queue_arm(struct fabric_queue *queue)
{
	return queue->fabric->ops->queue_arm(queue);
}

static inline int fabric_queue_poll(struct fabric_queue *queue, struct fabric_completion *out,
				    unsigned max)
{
	return queue->fabric->ops->queue_poll(queue, out, max);
}

static inline void fabric_queue_hold(struct fabric_queue *queue)
{
	if (queue->fabric->ops->queue_hold)
		queue->fabric->ops->queue_hold(queue);
}

static inline void fabric_queue_release(struct fabric_queue *queue)
{
	if (queue->fabric->ops->queue_release)
		queue->fabric->ops->queue_release(queue);
}

static inline int fabric_queue_event(struct fabric_queue *queue, struct fabric_event *out)
{
	return queue->fabric->ops->queue_event(queue, out);
}

static inline int fabric_connect(struct fabric_queue *queue, const char *address,
				 const void *private_data, size_t private_length, void *owner,
				 struct fabric_endpoint **out)
{
	return queue->fabric->ops->connect(queue, address, private_data, private_length, owner,
					   out);
}

static inline void fabric_endpoint_close(struct fabric_endpoint *endpoint)
{
	endpoint->queue->fabric->ops->endpoint_close(endpoint);
}

/* An empty string: the transport has none, or the connection has ended. */
static inline void fabric_endpoint_congestion(struct fabric_endpoint *endpoint,
					      char out[static FABRIC_CONGESTION_MAX])
{
	const struct fabric_ops *ops = endpoint->queue->fabric->ops;

	out[0] = '\0';
	if (ops->endpoint_congestion)
		ops->endpoint_congestion(endpoint, out);
}

static inline int fabric_read(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
			      unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	return endpoint->queue->fabric->ops->read(endpoint, pieces, nr_pieces, remote, key,
						  context);
}

static inline int fabric_write(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
			       unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	return endpoint->queue->fabric->ops->write(endpoint, pieces, nr_pieces, remote, key,
						   context);
}

static inline int fabric_receive(struct fabric_endpoint *endpoint, const struct fabric_piece *piece,
				 uint64_t context)
{
	return endpoint->queue->fabric->ops->receive(endpoint, piece, context);
}

static inline int fabric_send(struct fabric_endpoint *endpoint, const struct fabric_piece *piece,
			      uint64_t context)
{
	return endpoint->queue->fabric->ops->send(endpoint, piece, context);
}

#endif
