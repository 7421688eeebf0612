/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric seam: connections, one-sided transfers and queues, on any transport.
 *
 * A transport is one `struct fabric_ops` in one folder: tcp/, local/, or ofi/ (libfabric's verbs).
 * Callers use the inline wrappers below. Code above this seam passes a transport's name through,
 * and does not look at it.
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
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "base/counter.h"
#include "base/hold.h"

#define FABRIC_ADDRESS_MAX \
	130 /* bytes of a printed address, final 0 included: a Unix socket's, too */
#define FABRIC_PRIVATE_MAX     48 /* bytes of private data every transport can carry */
#define FABRIC_IOV_MAX	       4  /* local pieces of one transfer */
#define FABRIC_RECEIVE_MAX     8  /* receives that may be posted on one endpoint     */
#define FABRIC_CONGESTION_MAX  16 /* bytes of a congestion control's name, final 0 included */
#define FABRIC_CONGESTIONS_MAX 64 /* bytes of several names, with commas between them */
#define FABRIC_PAGED_MAX       (UINT64_C(1) << 20) /* bytes of one transfer to paged memory */
/* The largest context of an operation. To libfabric's verbs UINT64_MAX means "no completion". */
#define FABRIC_CONTEXT_MAX (UINT64_MAX - 1)

struct fabric_attributes {
	const char *transport;	       /* "tcp", "local", "verbs"                                 */
	bool is_target_passive;	       /* a stopped target process does not hold transfers up */
	bool needs_local_registration; /* each local piece needs a fabric_memory's descriptor */
	bool needs_shared_memory;      /* memory for peers must be whole pieces of base/shared.h */
	const char *loopback; /* listen here and connect to it, in one process; NULL: none */
	/* A completed write may not be visible yet to those who use another connection or the
	 * target's processor. A later read on the same connection makes it visible. */
	bool writes_need_flush;
	/* Its atomics are processor instructions on the target's memory: atomic against the
	 * target's own processors too. fabric_has_atomics() speaks of a NIC's atomics, and says
	 * false here. */
	bool has_processor_atomics;
	/* Atomics return the old word in the other byte order. Known once fabric_has_atomics() is
	 * true. */
	bool has_swapped_results;
	/* Its queues count all bytes in and out, whichever end asked for them. */
	bool counts_bytes;
	uint64_t transfer_bytes_max; /* the longest read or write */
	uint32_t iov_max;	     /* local pieces of one transfer, at most FABRIC_IOV_MAX */
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

/* One transfer of a peer to paged memory. It belongs to the transport. */
struct fabric_paged {
	struct fabric_pager *pager;
	void *owner;	 /* of the endpoint it came by, as given to accept */
	uint64_t offset; /* into the registered memory; inside of it */
	uint64_t length; /* 1 to FABRIC_PAGED_MAX */
	bool is_write;
	bool is_durable; /* a write: it ends once it survives the loss of power */
	bool is_checked; /* it begins with a block of CHECKSUM_BLOCK bytes, and has sums */
	void *addr;	 /* where the bytes are, or are to be: `take` sets it */
	/* If it is checked, where the CRC32C of each block is, or is to be: `take` sets it, too. The
	 * sum of a block that the transfer has in part is that with zeros behind. A write begins
	 * with those that its peer has made. A read has those that are kept when it ends. */
	uint32_t *sums;
	void *taken;				   /* the pager's own note */
	int status;				   /* for fabric_paged_ended() */
	void (*ended)(struct fabric_paged *paged); /* the transport's */
};

/*
 * Memory that is not there: a program brings its bytes and keeps them, transfer by transfer. A peer
 * reads and writes it as other memory. All calls come on the thread of the endpoint's queue. A call
 * may call fabric_paged_ended(), and nothing else of the fabric. A pager stays as long as its
 * registrations, and until all its transfers have left.
 */
struct fabric_pager {
	/* Takes memory for all bytes of the transfer, and its sums: sets `addr`, `sums` and `taken`. -EAGAIN: there is
	 * none now; the transfer, and what is behind it on the connection, waits, and each poll of
	 * the queue asks again, in the order in which connections began to wait. So poll the queue
	 * when there may be memory again. Another error: the transfer fails with it. */
	int (*take)(struct fabric_pager *pager, struct fabric_paged *paged);
	/* A read: brings the bytes to `addr`. A write: they are at `addr`; keeps them. Calls
	 * fabric_paged_ended() when it has ended, from within this call or later. */
	void (*begin)(struct fabric_pager *pager, struct fabric_paged *paged);
	/* The transport is done with a transfer for which `take` returned 0: its reply is sent, or
	 * its connection is closed. The pager looks at `paged` no more. If the transfer has begun
	 * and not ended, the memory stays the pager's until its device is done with it;
	 * fabric_paged_ended() is not called. */
	void (*leave)(struct fabric_pager *pager, struct fabric_paged *paged);
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

/* How many times a thread is inside a gate. Each has a cache line of its own. */
struct fabric_inside {
	_Alignas(64) atomic_uint nr;
};

/*
 * A gate guards windows, that is, mapped memory of a peer. It shuts for good before that memory
 * goes away, with its connection or with one of the connection's keys. A thread enters within a
 * hold (base/hold.h) and may use the memory until it leaves, because the peer waits for it
 * (endpoint_end). The gate is freed when its connection and all its counted users
 * (fabric_gate_drop()) are done with it.
 *
 * Each thread counts itself in a place of its own. Plain stores do for that if the peer has the
 * kernel put barriers into our threads between shutting the gate and looking who is inside
 * (hold_reach_all()).
 */
struct fabric_gate {
	const atomic_uint *_Atomic word; /* the peer changes it, too */
	unsigned open;			 /* the word's value while the gate is open */
	struct fabric_inside *inside;	 /* HOLD_NUMBERS of them; the peer reads them */
	bool is_reached;		 /* plain stores do */
	/* Called within a hold, after the gate has shut and the last thread has left. */
	void (*left)(const struct fabric_gate *gate);
	atomic_uint nr_users;
};

/* A peer's memory behind a key, mapped into this process. */
struct fabric_window {
	uint8_t *addr; /* of remote address 0 */
	uint64_t length;
	unsigned access; /* FABRIC_REMOTE_* */
	struct fabric_gate *gate;
};

/* A stranger's request to connect. Accept it or reject it, exactly once. */
struct fabric_request {
	void *handle;
	char peer[FABRIC_ADDRESS_MAX];
	uint8_t private_data[FABRIC_PRIVATE_MAX];
	size_t private_length; /* longer data was cut to FABRIC_PRIVATE_MAX */
};

/* How long strangers may keep a connection open at a listener without a request to connect. */
struct fabric_patience {
	uint32_t silence_ms;
	uint32_t nr_per_host; /* beyond this number, a host's oldest may stay only for: */
	uint32_t crowd_ms;
};

struct fabric {
	const struct fabric_ops *ops;
	struct fabric_attributes attributes;
	/* The first domain, opened with the fabric. Endpoints that connect are in it. */
	struct fabric_domain *domain;
	/* Congestion control at our end, for connections and listeners opened from now on: "auto"
	 * (NULL means the same), "system", or a name that fabric_congestion_check() accepts. The
	 * fabric's owner sets it and keeps the string. Transports without a choice ignore it. */
	const char *congestion;
};
struct fabric_domain {
	struct fabric *fabric;
};
struct fabric_queue {
	struct fabric *fabric;
	/* The last poll moved bytes. Nothing else reports the reads and writes of peers here. Never
	 * set where the target is passive. */
	bool has_moved;
	/* Bytes of all connections since it was opened, headers included; where counts_bytes. */
	struct counter bytes_in, bytes_out;
};
struct fabric_endpoint {
	struct fabric_queue *queue;
	void *owner; /* as the caller gave it to connect or accept */
};
struct fabric_listener {
	struct fabric *fabric;
	/* Where it listens, to be advertised: HOST:PORT, unix:PATH@MARK. */
	char address[FABRIC_ADDRESS_MAX];
};

struct fabric_ops {
	const char *transport;

	/* Opens the transport in this process, on one device. `address` (HOST:PORT) names the
	 * device that has it or that leads to it. With NULL, or an address of all the machine's,
	 * any device serves. -ENODEV: there is none. */
	int (*open)(const char *transport, const char *address, struct fabric **out);
	/* Whether its device leads to an address. NULL: there is no choice of devices. */
	bool (*reaches)(struct fabric *fabric, const char *address);
	/* Whether an address may lead somewhere from this machine; does not connect. NULL: it
	 * may. */
	bool (*is_near)(const char *address);
	void (*close)(struct fabric *fabric);
	/*
	 * For transports whose transfers need no target, because nothing else tells them of a
	 * death. The descriptor is readable when a connected peer may have died; it lasts until
	 * close(). note_deaths() then makes new transfers to dead peers fail, without a poll of
	 * their queues; any thread may call it. Both NULL: such transfers fail by themselves.
	 */
	int (*deaths_fd)(struct fabric *fabric);
	void (*note_deaths)(struct fabric *fabric);

	/* Opens one more domain. Close its registrations and endpoints before the domain. */
	int (*domain_open)(struct fabric *fabric, struct fabric_domain **out);
	void (*domain_close)(struct fabric_domain *domain);

	/* Registers memory for `access`. It does not touch the memory, nor keep it alive.
	 * -EOPNOTSUPP: peers can be given whole pieces of shared memory only (base/shared.h), and
	 * this is none. */
	int (*memory_register)(struct fabric_domain *domain, void *addr, size_t length,
			       unsigned access, struct fabric_memory *out);
	/* Afterwards no peer can begin a transfer with the key. Returns false if a peer has been
	 * given the memory itself: whatever the peer promised, it may still write to it, even after
	 * its endpoint is closed. Never use such memory again. Unmap it; then nobody else sees what
	 * is written there. */
	bool (*memory_deregister)(struct fabric_memory *memory);
	/* Registers `length` bytes that are the pager's, for peers. One transfer to them is at most
	 * FABRIC_PAGED_MAX bytes; a longer one ends the connection. A transfer that the pager
	 * cannot carry out ends alone (fabric_completion.is_alone). Deregister it as other memory;
	 * a transfer in progress goes on. NULL: the transport cannot. */
	int (*memory_register_paged)(struct fabric_domain *domain, struct fabric_pager *pager,
				     uint64_t length, unsigned access, struct fabric_memory *out);

	/* Listens on HOST:PORT (port 0: any free one), or unix:PATH (no path: any free one).
	 * -EADDRINUSE, -EADDRNOTAVAIL. */
	int (*listen)(struct fabric *fabric, const char *address, struct fabric_listener **out);
	void (*listener_close)(struct fabric_listener *listener);
	/* A descriptor that is readable when listener_next() may have something. */
	int (*listener_fd)(struct fabric_listener *listener);
	/* Takes the next request; never blocks. -EAGAIN: there is none, and it is safe to sleep on
	 * the fd. Other errors, with a sentence: nobody can be let in now; the fd tells when to try
	 * again. */
	int (*listener_next)(struct fabric_listener *listener, struct fabric_request *out);
	/* Ends the connections of strangers who were silent for too long. A stranger's silence
	 * counts from the first sweep that finds it, or earlier. Returns how many silent strangers
	 * it found; sweep again for them. One thread at a time may sweep, while others use the
	 * listener. NULL: the transport lets strangers keep nothing open. */
	size_t (*listener_sweep)(struct fabric_listener *listener,
				 const struct fabric_patience *patience);
	/* The congestion control that accepted connections begin with, as the system says. NULL:
	 * none. */
	void (*listener_congestion)(struct fabric_listener *listener,
				    char out[static FABRIC_CONGESTION_MAX]);
	/* Starts accepting; FABRIC_CONNECTED follows on the queue. The peer can use the keys of
	 * `domain` alone. After an error the request must still be rejected. */
	int (*accept)(struct fabric_request *request, struct fabric_queue *queue,
		      struct fabric_domain *domain, void *owner, struct fabric_endpoint **out);
	void (*reject)(struct fabric_listener *listener, struct fabric_request *request);

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
	 * memory that the peer was given itself (memory_deregister, endpoint_end). */
	void (*endpoint_close)(struct fabric_endpoint *endpoint);
	/* The congestion control at our end, as the system says; empty if the connection has ended.
	 * NULL: none. */
	void (*endpoint_congestion)(struct fabric_endpoint *endpoint,
				    char out[static FABRIC_CONGESTION_MAX]);

	/* Prepares for transfers with a key, so that the first costs no more than the others. 0:
	 * ready. -EAGAIN: on its way; poll, then call again. An error: the connection has ended.
	 * NULL: nothing to do. */
	int (*prepare)(struct fabric_endpoint *endpoint, uint64_t key);
	/* Maps the memory behind a prepared key into our address space: `length` bytes from
	 * `remote` on, at `addr`, in place of what is mapped there. All three are whole pages. When
	 * the key or the connection ends, the addresses become inaccessible, and the peer waits for
	 * that (endpoint_end). The address space stays the caller's. Errors, without a sentence:
	 * -ENOENT: the key is not ready, or has ended; -EACCES: not with this access; -EINVAL: not
	 * whole pages; -ERANGE; -ENOMEM. NULL: the transport cannot. */
	int (*attach)(struct fabric_endpoint *endpoint, uint64_t key, uint64_t remote,
		      size_t length, bool may_write, void *addr);
	/* Finds the memory behind a prepared key, for the processor of any thread. Its gate is
	 * counted for the caller, who gives it back by fabric_gate_drop(). A copy between
	 * fabric_gate_enter() and _leave() is as good as a completed transfer, if _leave() says
	 * true. -ENOTCONN; -EAGAIN: prepare the key; -ENOMEM. NULL: the transport cannot. */
	int (*window)(struct fabric_endpoint *endpoint, uint64_t key, struct fabric_window *out);
	/* Takes back the memory that the peer was given. Nothing can be posted any more, and all
	 * that was posted ends. FABRIC_CLOSED follows when the peer is not at the memory and cannot
	 * come back, or its process is gone. A peer that is not at the memory just then causes no
	 * delay. One that was stopped in the middle of an access does, without a limit. NULL: peers
	 * are given nothing, and closing is enough. */
	void (*endpoint_end)(struct fabric_endpoint *endpoint);

	/* Start one transfer. 0; -EAGAIN: no room, so poll and try again; or an error: close the
	 * endpoint. A write completes when its bytes are in the target's memory; with
	 * writes_need_flush, when they can no longer get lost on the way there. `pieces` is copied
	 * before return; the memory that it describes must stay until completion. Either end may
	 * start transfers. */
	int (*read)(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		    unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context);
	int (*write)(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		     unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context);
	/* A write that completes when its bytes survive the loss of power. For paged memory alone;
	 * to other memory it ends the connection. NULL: the transport cannot. */
	int (*write_durable)(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
			     unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context);
	/*
	 * Transfers that are checked from our memory to what is behind the pager, and back. Sums of
	 * all blocks go with the bytes: those of a write are made here, before the call returns, so
	 * its memory must be there; those of a read are compared when its bytes are in our memory.
	 * A transfer is of FABRIC_PAGED_MAX bytes at most, and begins with a block. It ends inside of
	 * one only if there are zeros behind, and a write makes them zeros. -EBADMSG alone: some
	 * block is other than it was sent. For paged memory alone; to other memory it ends the
	 * connection. -ENOMEM: the transfer was not started, and the endpoint stays. NULL: the
	 * transport cannot.
	 */
	int (*read_checked)(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
			    unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context);
	int (*write_checked)(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
			     unsigned nr_pieces, uint64_t remote, uint64_t key, bool is_durable,
			     uint64_t context);

	/* Whether NICs carry out atomics, without a target that runs. The first call may try them
	 * for a moment. Any thread. NULL: no; the next two are then NULL, too, unless
	 * has_processor_atomics. */
	bool (*has_atomics)(struct fabric *fabric);
	/* On the 64-bit word at `remote`, a multiple of 8, in the target's byte order. The key must
	 * allow writing. On completion `result`, of 8 bytes, holds the old word. They are atomic
	 * only against others that go through the target's same NIC: not against its processor
	 * (unless has_processor_atomics), nor against reads and writes. writes_need_flush applies,
	 * as to writes. */
	int (*fetch_add)(struct fabric_endpoint *endpoint, const struct fabric_piece *result,
			 uint64_t remote, uint64_t key, uint64_t operand, uint64_t context);
	int (*compare_swap)(struct fabric_endpoint *endpoint, const struct fabric_piece *result,
			    uint64_t remote, uint64_t key, uint64_t compare, uint64_t operand,
			    uint64_t context);

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

/* Opens a transport by name, at `address` or at any (NULL). -EINVAL: no such transport or
 * address. */
int fabric_open_at(const char *transport, const char *address, struct fabric **out);

/* Whether there is a transport of this name. -EINVAL: no; `problem` says so and what there is, as the
 * end of a sentence. */
int fabric_transport_check(const char *name, char *problem, size_t size);

/* Whether `name` may be the setting `congestion` of a fabric here. -EINVAL: no; `problem` says why
 * and what to do, as the end of a sentence. */
int fabric_congestion_check(const char *name, char *problem, size_t size);

static inline int fabric_open(const char *transport, struct fabric **out)
{
	return fabric_open_at(transport, NULL, out);
}

static inline bool fabric_reaches(struct fabric *fabric, const char *address)
{
	return !fabric->ops->reaches || fabric->ops->reaches(fabric, address);
}

static inline bool fabric_is_near(const struct fabric *fabric, const char *address)
{
	return !fabric->ops->is_near || fabric->ops->is_near(address);
}

static inline void fabric_close(struct fabric *fabric)
{
	fabric->ops->close(fabric);
}

/* -1: the transport has none. */
static inline int fabric_deaths_fd(struct fabric *fabric)
{
	return fabric->ops->deaths_fd ? fabric->ops->deaths_fd(fabric) : -1;
}

static inline void fabric_note_deaths(struct fabric *fabric)
{
	fabric->ops->note_deaths(fabric);
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

/* -EOPNOTSUPP: the transport cannot. */
static inline int fabric_memory_register_paged(struct fabric_domain *domain,
					       struct fabric_pager *pager, uint64_t length,
					       unsigned access, struct fabric_memory *out)
{
	const struct fabric_ops *ops = domain->fabric->ops;

	return ops->memory_register_paged
		       ? ops->memory_register_paged(domain, pager, length, access, out)
		       : -EOPNOTSUPP;
}

static inline bool fabric_memory_deregister(struct fabric_memory *memory)
{
	return memory->domain->fabric->ops->memory_deregister(memory);
}

static inline int fabric_listen(struct fabric *fabric, const char *address,
				struct fabric_listener **out)
{
	return fabric->ops->listen(fabric, address, out);
}

static inline void fabric_listener_close(struct fabric_listener *listener)
{
	listener->fabric->ops->listener_close(listener);
}

static inline int fabric_listener_fd(struct fabric_listener *listener)
{
	return listener->fabric->ops->listener_fd(listener);
}

static inline int fabric_listener_next(struct fabric_listener *listener, struct fabric_request *out)
{
	return listener->fabric->ops->listener_next(listener, out);
}

static inline size_t fabric_listener_sweep(struct fabric_listener *listener,
					   const struct fabric_patience *patience)
{
	const struct fabric_ops *ops = listener->fabric->ops;

	return ops->listener_sweep ? ops->listener_sweep(listener, patience) : 0;
}

/* An empty string: the transport has none. */
static inline void fabric_listener_congestion(struct fabric_listener *listener,
					      char out[static FABRIC_CONGESTION_MAX])
{
	out[0] = '\0';
	if (listener->fabric->ops->listener_congestion)
		listener->fabric->ops->listener_congestion(listener, out);
}

static inline int fabric_accept(struct fabric_request *request, struct fabric_queue *queue,
				struct fabric_domain *domain, void *owner,
				struct fabric_endpoint **out)
{
	return queue->fabric->ops->accept(request, queue, domain, owner, out);
}

static inline void fabric_reject(struct fabric_listener *listener, struct fabric_request *request)
{
	listener->fabric->ops->reject(listener, request);
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

static inline int fabric_prepare(struct fabric_endpoint *endpoint, uint64_t key)
{
	const struct fabric_ops *ops = endpoint->queue->fabric->ops;

	return ops->prepare ? ops->prepare(endpoint, key) : 0;
}

static inline bool fabric_can_attach(const struct fabric *fabric)
{
	return fabric->ops->attach;
}

static inline int fabric_attach(struct fabric_endpoint *endpoint, uint64_t key, uint64_t remote,
				size_t length, bool may_write, void *addr)
{
	return endpoint->queue->fabric->ops->attach(endpoint, key, remote, length, may_write, addr);
}

/* -EOPNOTSUPP: transfers are the only way. */
static inline int fabric_window(struct fabric_endpoint *endpoint, uint64_t key,
				struct fabric_window *out)
{
	const struct fabric_ops *ops = endpoint->queue->fabric->ops;

	return ops->window ? ops->window(endpoint, key, out) : -EOPNOTSUPP;
}

/* Call it within a hold. */
static inline bool fabric_gate_is_open(const struct fabric_gate *gate)
{
	const atomic_uint *word = atomic_load_explicit(&gate->word, memory_order_acquire);

	return atomic_load(word) == gate->open;
}

/* The peer sees it after what was done before, and before we read the gate's word again. */
static inline void fabric_gate_count(const struct fabric_gate *gate, unsigned change)
{
	const unsigned number = hold_number();
	atomic_uint *nr = &gate->inside[number].nr;

	if (!gate->is_reached || number == HOLD_SHARED) {
		atomic_fetch_add(nr, change);
		return;
	}
	atomic_store_explicit(nr, atomic_load_explicit(nr, memory_order_relaxed) + change,
			      memory_order_release);
	atomic_signal_fence(memory_order_seq_cst);
}

/* Call it when the gate is shut. Of threads that leave at once, at least one sees that all left. */
static inline void fabric_gate_left(const struct fabric_gate *gate)
{
	atomic_thread_fence(memory_order_seq_cst);
	for (unsigned i = 0; i < HOLD_NUMBERS; i++) {
		if (atomic_load(&gate->inside[i].nr) > 0)
			return;
	}
	gate->left(gate);
}

/* Call it in the same hold. True: what was done since fabric_gate_enter() counts. */
static inline bool fabric_gate_leave(struct fabric_gate *gate)
{
	fabric_gate_count(gate, -1U);
	if (__builtin_expect(fabric_gate_is_open(gate), 1))
		return true;
	fabric_gate_left(gate);
	return false;
}

/* Call it within a hold. True: the thread may touch the memory until it leaves. False: it is
 * shut. */
static inline bool fabric_gate_enter(struct fabric_gate *gate)
{
	if (!fabric_gate_is_open(gate))
		return false;
	fabric_gate_count(gate, 1);
	if (__builtin_expect(fabric_gate_is_open(gate), 1))
		return true;
	fabric_gate_leave(gate);
	return false;
}

static inline void fabric_gate_drop(struct fabric_gate *gate)
{
	if (atomic_fetch_sub(&gate->nr_users, 1) == 1)
		free(gate);
}

/* False: there is nothing to wait for; closing is enough, now. */
static inline bool fabric_endpoint_end(struct fabric_endpoint *endpoint)
{
	const struct fabric_ops *ops = endpoint->queue->fabric->ops;

	if (ops->endpoint_end)
		ops->endpoint_end(endpoint);
	return ops->endpoint_end;
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

/* -EOPNOTSUPP: the transport cannot. */
static inline int fabric_write_durable(struct fabric_endpoint *endpoint,
				       const struct fabric_piece *pieces, unsigned nr_pieces,
				       uint64_t remote, uint64_t key, uint64_t context)
{
	const struct fabric_ops *ops = endpoint->queue->fabric->ops;

	return ops->write_durable
		       ? ops->write_durable(endpoint, pieces, nr_pieces, remote, key, context)
		       : -EOPNOTSUPP;
}

/* -EOPNOTSUPP: the transport cannot. */
static inline int fabric_read_checked(struct fabric_endpoint *endpoint,
				      const struct fabric_piece *pieces, unsigned nr_pieces,
				      uint64_t remote, uint64_t key, uint64_t context)
{
	const struct fabric_ops *ops = endpoint->queue->fabric->ops;

	return ops->read_checked
		       ? ops->read_checked(endpoint, pieces, nr_pieces, remote, key, context)
		       : -EOPNOTSUPP;
}

/* -EOPNOTSUPP: the transport cannot. */
static inline int fabric_write_checked(struct fabric_endpoint *endpoint,
				       const struct fabric_piece *pieces, unsigned nr_pieces,
				       uint64_t remote, uint64_t key, bool is_durable,
				       uint64_t context)
{
	const struct fabric_ops *ops = endpoint->queue->fabric->ops;

	return ops->write_checked ? ops->write_checked(endpoint, pieces, nr_pieces, remote, key,
						       is_durable, context)
				  : -EOPNOTSUPP;
}

/* The pager says, once, how a transfer that it has begun has ended: 0, or a negative code. The
 * reply goes out in the next poll of the queue, and nobody may sleep before. */
static inline void fabric_paged_ended(struct fabric_paged *paged, int status)
{
	paged->status = status;
	paged->ended(paged);
}

static inline bool fabric_has_atomics(struct fabric *fabric)
{
	return fabric->ops->has_atomics && fabric->ops->has_atomics(fabric);
}

static inline int fabric_fetch_add(struct fabric_endpoint *endpoint,
				   const struct fabric_piece *result, uint64_t remote, uint64_t key,
				   uint64_t operand, uint64_t context)
{
	return endpoint->queue->fabric->ops->fetch_add(endpoint, result, remote, key, operand,
						       context);
}

static inline int fabric_compare_swap(struct fabric_endpoint *endpoint,
				      const struct fabric_piece *result, uint64_t remote,
				      uint64_t key, uint64_t compare, uint64_t operand,
				      uint64_t context)
{
	return endpoint->queue->fabric->ops->compare_swap(endpoint, result, remote, key, compare,
							  operand, context);
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
