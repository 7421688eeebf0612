/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric seam: connections, one-sided transfers and queues, whatever carries them.
 *
 * A transport is one `struct fabric_ops` in one folder (tcp/; local/; ofi/ over libfabric's verbs). Callers use the inline
 * wrappers below; nothing above this seam names a transport except to pass its name through.
 *
 * Threads: a fabric, its domains, memory registrations and listeners may be used from any thread. A queue
 * and the endpoints on it belong to one thread at a time (whoever owns the queue serializes).
 *
 * Protection: memory is registered in a domain, and a connection is accepted into one. A peer can use
 * the keys of the domain that its connection is in, and no others, whoever may have told it those.
 *
 * Contexts: an operation carries a 64-bit context which its completion returns. The seam does not
 * look at it. Closing an endpoint ends its operations: afterwards none of them can touch local memory
 * any more, but completions of theirs may still come out of the queue, or never: whoever owns the
 * contexts must tell old ones by a generation inside them.
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

#define FABRIC_ADDRESS_MAX     64 /* bytes of a printed address, final 0 included   */
#define FABRIC_PRIVATE_MAX     48 /* bytes of private data every transport can carry */
#define FABRIC_IOV_MAX	       4  /* local pieces of one transfer                    */
#define FABRIC_RECEIVE_MAX     8  /* receives that may be posted on one endpoint     */
#define FABRIC_CONGESTION_MAX  16 /* bytes of a congestion control's name, final 0 included */
#define FABRIC_CONGESTIONS_MAX 64 /* bytes of several, with commas between them         */
/* Of an operation. The value above it means to libfabric's verbs that no completion is wanted. */
#define FABRIC_CONTEXT_MAX (UINT64_MAX - 1)

struct fabric_attributes {
	const char *transport;	       /* "tcp", "local", "verbs"                                 */
	bool is_target_passive;	       /* a target outside the library does not hold transfers up */
	bool needs_local_registration; /* local memory needs a fabric_memory's descriptor         */
	bool needs_shared_memory; /* what peers are to reach is whole pieces of base/shared.h */
	const char *loopback;	  /* an address to listen at and connect to it; NULL: none   */
	/* A completed write may not be seen yet by who does not come over the same connection: a read
	 * behind it, on that connection, makes sure. */
	bool writes_need_flush;
	/* Its atomics are a processor's instructions on the target's memory, atomic against those of the target's own
	 * processors, too, and not what fabric_has_atomics() means. */
	bool has_processor_atomics;
	/* What atomics bring back is in the other byte order. Known when fabric_has_atomics() has said yes. */
	bool has_swapped_results;
	/* Its queues count the bytes that come and go, whoever has asked for them. */
	bool counts_bytes;
	uint64_t transfer_bytes_max; /* longest single read or write                            */
	uint32_t iov_max;	     /* local pieces of one transfer, at most FABRIC_IOV_MAX     */
};

enum fabric_access {
	FABRIC_LOCAL_READ = 0x1,  /* what our own writes send; it may be read-only memory */
	FABRIC_LOCAL_WRITE = 0x2, /* where our own reads put what they get                */
	FABRIC_LOCAL = FABRIC_LOCAL_READ | FABRIC_LOCAL_WRITE,
	FABRIC_REMOTE_READ = 0x4,
	FABRIC_REMOTE_WRITE = 0x8, /* atomics, too, where there are any */
};

/* A registration. `descriptor` goes with local pieces, `key` and `base` to whoever reads it remotely:
 * the remote address of byte i is base + i. */
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
	void *descriptor; /* of the fabric_memory it lies in, or NULL where that is allowed */
};

struct fabric_completion {
	uint64_t context;
	/* 0, or a negative errno. -ETIMEDOUT: the peer is silent, and may do it yet. -EFAULT: the local memory was not
	 * there; it comes before all else that ends with the connection. */
	int status;
};

enum fabric_event_kind {
	FABRIC_CONNECTED = 1, /* fabric_connect() or fabric_accept() is through              */
	FABRIC_CLOSED,	      /* the peer refused, closed or died: close the endpoint        */
};

struct fabric_event {
	enum fabric_event_kind kind;
	struct fabric_endpoint *endpoint;
	/* Of FABRIC_CLOSED: -ECONNREFUSED when it never was connected; -ETIMEDOUT as in a completion; else
	 * -ECONNRESET. */
	int status;
};

/* How often a thread is inside a gate, in a line of the cache of its own. */
struct fabric_inside {
	_Alignas(64) atomic_uint nr;
};

/*
 * What windows are looked through: it shuts for good before what is behind them goes, with the connection or with a
 * key of it. Whoever has entered it within a hold (base/hold.h) has the memory until he leaves: the peer waits for him
 * (endpoint_end). It is freed when its connection and all who have counted themselves in are done with it.
 *
 * Each thread counts itself in a place of its own, by plain stores where the peer has the kernel put barriers into our threads
 * between shutting the gate and looking who is inside (hold_reach_all()).
 */
struct fabric_gate {
	const atomic_uint *_Atomic word; /* which the peer changes, too */
	unsigned open;			 /* what it is as long as the gate is open */
	struct fabric_inside *inside;	 /* HOLD_NUMBERS of them, which the peer sees */
	bool is_reached;		 /* plain stores will do */
	/* The last has left, and the gate is shut. Within a hold. */
	void (*left)(const struct fabric_gate *gate);
	atomic_uint nr_users;
};

/* The memory behind a key, in this process. */
struct fabric_window {
	uint8_t *addr; /* of remote address 0 */
	uint64_t length;
	unsigned access; /* FABRIC_REMOTE_* */
	struct fabric_gate *gate;
};

/* A stranger's wish to connect: to be accepted or rejected, exactly once. */
struct fabric_request {
	void *handle;
	char peer[FABRIC_ADDRESS_MAX];
	uint8_t private_data[FABRIC_PRIVATE_MAX];
	size_t private_length; /* what came, truncated to FABRIC_PRIVATE_MAX */
};

/* How long strangers may keep a connection open at a listener without asking to connect. */
struct fabric_patience {
	uint32_t silence_ms;
	uint32_t nr_per_host; /* where there are more from one host, the oldest go sooner: */
	uint32_t crowd_ms;
};

struct fabric {
	const struct fabric_ops *ops;
	struct fabric_attributes attributes;
	/* What the fabric is opened with. The endpoints that connect are in it. */
	struct fabric_domain *domain;
	/* Which congestion control our end uses of connections that are made, and listeners that are opened, from then on:
	 * "auto", which NULL is, too, "system", or a name that fabric_congestion_check() lets pass. Set by whoever has opened
	 * the fabric, and stays his. Transports without a choice do not look at it. */
	const char *congestion;
};
struct fabric_domain {
	struct fabric *fabric;
};
struct fabric_queue {
	struct fabric *fabric;
	/* The last poll has moved bytes: nothing else tells so of what peers read and write here. Not set where
	 * the target is passive. */
	bool has_moved;
	/* Over all its connections since it was opened, with headers; on transports that count. */
	struct counter bytes_in, bytes_out;
};
struct fabric_endpoint {
	struct fabric_queue *queue;
	void *owner; /* the caller's, as given to connect or accept */
};
struct fabric_listener {
	struct fabric *fabric;
	char address
		[FABRIC_ADDRESS_MAX]; /* where it listens, to be advertised: HOST:PORT, unix:PATH@MARK */
};

struct fabric_ops {
	const char *transport;

	/* Opens the transport in this process, on one device: the one that `address`, HOST:PORT, is at or is
	 * reached by; any, if that is NULL or any of the machine's. -ENODEV: there is none. */
	int (*open)(const char *transport, const char *address, struct fabric **out);
	/* Whether its device is the one by which to get to an address. NULL: there are no devices to choose from. */
	bool (*reaches)(struct fabric *fabric, const char *address);
	/* Whether something may be at an address, seen from this machine, without connecting. NULL: it may. */
	bool (*is_near)(const char *address);
	void (*close)(struct fabric *fabric);
	/* A descriptor that is readable when a peer that was connected to may have gone, which nobody else tells where
	 * transfers need no target; until close(). Then mourn(), on any thread, makes transfers to those that have gone
	 * fail that are posted from then on, without their queue being polled. NULL, both: such a transfer
	 * fails by itself. */
	int (*mourn_fd)(struct fabric *fabric);
	void (*mourn)(struct fabric *fabric);

	/* One more domain. Closing it wants its registrations and endpoints closed before. */
	int (*domain_open)(struct fabric *fabric, struct fabric_domain **out);
	void (*domain_close)(struct fabric_domain *domain);

	/* Registers memory for `access`. Does not touch or keep the memory alive. -EOPNOTSUPP: peers can be
	 * given whole pieces of shared memory only (base/shared.h), and this is none. */
	int (*memory_register)(struct fabric_domain *domain, void *addr, size_t length,
			       unsigned access, struct fabric_memory *out);
	/* Afterwards no peer can begin a transfer with the key. False: what a peer was given of the memory it
	 * may still write to, whatever it has promised, and after its endpoint is closed, too. Such memory is
	 * never used again, but unmapped: then nothing of it can be seen by anybody else. */
	bool (*memory_deregister)(struct fabric_memory *memory);

	/* Listens on HOST:PORT (port 0: any free one), or unix:PATH (no path: any free one). -EADDRINUSE,
	 * -EADDRNOTAVAIL. */
	int (*listen)(struct fabric *fabric, const char *address, struct fabric_listener **out);
	void (*listener_close)(struct fabric_listener *listener);
	/* A descriptor that is readable when listener_next() may have something. */
	int (*listener_fd)(struct fabric_listener *listener);
	/* The next request, without blocking. -EAGAIN: none (safe to sleep on the fd). Other errors, with a
	 * sentence: nobody can be let in just now; the fd tells when to try again. */
	int (*listener_next)(struct fabric_listener *listener, struct fabric_request *out);
	/* Ends the connections of strangers who have been silent for too long; how long is counted at the
	 * latest from the first sweep that finds them. Returns how many silent strangers it found, which are to be
	 * looked at again. One thread at a time, beside any others that use the listener. NULL: the
	 * transport does not let strangers keep anything open. */
	size_t (*listener_sweep)(struct fabric_listener *listener,
				 const struct fabric_patience *patience);
	/* Which congestion control those have at first who connect, as the system says. NULL: none. */
	void (*listener_congestion)(struct fabric_listener *listener,
				    char out[static FABRIC_CONGESTION_MAX]);
	/* Starts accepting; FABRIC_CONNECTED follows on the queue. The peer can use the keys of `domain`
	 * alone. On an error the request is still to be rejected. */
	int (*accept)(struct fabric_request *request, struct fabric_queue *queue,
		      struct fabric_domain *domain, void *owner, struct fabric_endpoint **out);
	void (*reject)(struct fabric_listener *listener, struct fabric_request *request);

	/* A queue for up to `depth` transfers in flight per endpoint, or as many as the transport can;
	 * grows inside as endpoints come. */
	int (*queue_open)(struct fabric *fabric, uint32_t depth, struct fabric_queue **out);
	/* All its endpoints must be closed. */
	void (*queue_close)(struct fabric_queue *queue);
	/* A descriptor that is readable when there may be completions or events. */
	int (*queue_fd)(struct fabric_queue *queue);
	/* Before sleeping on the descriptor: 0 when it is safe, -EAGAIN when there is something to poll. */
	int (*queue_arm)(struct fabric_queue *queue);
	/* Makes progress and takes completions; never blocks. Returns how many, 0 for none. */
	int (*queue_poll)(struct fabric_queue *queue, struct fabric_completion *out, unsigned max);
	/* Between the two, transfers and messages that are started on the queue may wait for one another, to go out
	 * together: the second sends what has waited, and polling may. Neither blocks. In
	 * between the thread starts, polls and closes, and does not sleep. NULL, both: nothing is gained by waiting. */
	void (*queue_hold)(struct fabric_queue *queue);
	void (*queue_release)(struct fabric_queue *queue);
	/* Takes one connection event; never blocks. Returns 1, or 0 for none. Cheap, but not free: look
	 * when a wait has lasted, before sleeping, and when a transfer failed. */
	int (*queue_event)(struct fabric_queue *queue, struct fabric_event *out);

	/* Starts connecting to `address` with private data; FABRIC_CONNECTED or _CLOSED follows. -EHOSTUNREACH:
	 * it is a place on another machine, or not to be seen from here. */
	int (*connect)(struct fabric_queue *queue, const char *address, const void *private_data,
		       size_t private_length, void *owner, struct fabric_endpoint **out);
	/* Closes at once. Afterwards none of its transfers touches local memory, but what a peer has been given
	 * of it (memory_deregister, endpoint_end). */
	void (*endpoint_close)(struct fabric_endpoint *endpoint);
	/* Which congestion control our end uses, as the system says; empty: the connection has ended. NULL: none. */
	void (*endpoint_congestion)(struct fabric_endpoint *endpoint,
				    char out[static FABRIC_CONGESTION_MAX]);

	/* Gets ready what transfers with a key will need, so that the first is like all others: 0 when it is, -EAGAIN
	 * while it is on its way (poll, then again); an error: the connection has ended. NULL: nothing is
	 * needed. */
	int (*prepare)(struct fabric_endpoint *endpoint, uint64_t key);
	/* Puts the memory itself that a key is for, which has been got ready, into our address space: `length` bytes
	 * from `remote` on, at `addr`, in place of what is mapped there; all of them whole pages. Once the key or
	 * the connection has ended, nobody can touch anything there any more, which the peer waits for
	 * (endpoint_end); the address space stays the caller's. -ENOENT: it is not ready, or has ended; -EACCES: not
	 * with this access; -EINVAL: no whole pages; -ERANGE; -ENOMEM; without a sentence. NULL: there is no such
	 * way to memory. */
	int (*attach)(struct fabric_endpoint *endpoint, uint64_t key, uint64_t remote,
		      size_t length, bool may_write, void *addr);
	/* The memory behind a key that is ready, for any thread's processor: its gate is counted for the caller. What is
	 * done through it between entering and leaving, and was not too late, is as a transfer that has
	 * completed. -ENOTCONN; -EAGAIN: prepare it. NULL: memory is not to be had so. */
	int (*window)(struct fabric_endpoint *endpoint, uint64_t key, struct fabric_window *out);
	/* Has the peer let go of what it was given of our memory: nothing begins any more, all that was posted ends, and
	 * FABRIC_CLOSED follows when the peer is not at it any more and comes to it no more, or its process is gone.
	 * One that is not at it at the moment does not hold that up; one that was stopped in the middle
	 * does, for nobody knows how long. NULL: peers are given nothing, closing is enough. */
	void (*endpoint_end)(struct fabric_endpoint *endpoint);

	/* Start one transfer: 0, -EAGAIN (no room: poll, then again), or an error (close the endpoint).
	 * A write completes when the bytes are in the target's memory, or, with writes_need_flush, when
	 * nothing of it can get lost any more on the way there. Pieces are copied from `pieces`
	 * before return; the memory they describe must stay until completion. Either end may. */
	int (*read)(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		    unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context);
	int (*write)(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		     unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context);

	/* Whether there are atomics of NICs, which need no target that runs. May try them for a moment, the first time;
	 * any thread. NULL: there are none, and the next two are NULL, too, unless it has_processor_atomics. */
	bool (*has_atomics)(struct fabric *fabric);
	/* On the 64-bit word at `remote`, a multiple of 8, in the target's byte order, with a key for writing. When
	 * it has completed, what the word was before is in `result`, of 8 bytes. Atomic against others
	 * that go through the same NIC of the target alone: not against its processor (but has_processor_atomics says
	 * otherwise), nor against reads and writes. As with writes, writes_need_flush counts. */
	int (*fetch_add)(struct fabric_endpoint *endpoint, const struct fabric_piece *result,
			 uint64_t remote, uint64_t key, uint64_t operand, uint64_t context);
	int (*compare_swap)(struct fabric_endpoint *endpoint, const struct fabric_piece *result,
			    uint64_t remote, uint64_t key, uint64_t compare, uint64_t operand,
			    uint64_t context);

	/* Messages: each takes the receive that was posted first. A receive completes when one has come, which
	 * may be shorter than its memory, whose rest is as it was; one that is longer ends the connection.
	 * What comes when no receive is posted waits, and everything behind it on the connection: whoever
	 * sends must know that there is one. Memory and errors as with read and write. */
	int (*receive)(struct fabric_endpoint *endpoint, const struct fabric_piece *piece,
		       uint64_t context);
	int (*send)(struct fabric_endpoint *endpoint, const struct fabric_piece *piece,
		    uint64_t context);
};

/* Opens a transport by name, at an address or at any. -EINVAL: no such transport, or no address. */
int fabric_open_at(const char *transport, const char *address, struct fabric **out);

/* Whether `name` may be the setting `congestion` of fabrics here. -EINVAL: no, and `problem` says why and what to do, as
 * the end of a sentence. */
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

/* -1: there is none. */
static inline int fabric_mourn_fd(struct fabric *fabric)
{
	return fabric->ops->mourn_fd ? fabric->ops->mourn_fd(fabric) : -1;
}

static inline void fabric_mourn(struct fabric *fabric)
{
	fabric->ops->mourn(fabric);
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

/* Empty: none. */
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

/* Empty: none. */
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
	return fabric->ops->attach != NULL;
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

/* Within a hold. */
static inline bool fabric_gate_is_open(const struct fabric_gate *gate)
{
	const atomic_uint *word = atomic_load_explicit(&gate->word, memory_order_acquire);

	return atomic_load(word) == gate->open;
}

/* Out, for the peer, behind what was done before, and before its word is read once more. */
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

/* The gate is shut. Of several who leave at a time at least one sees that all have left. */
static inline void fabric_gate_left(const struct fabric_gate *gate)
{
	atomic_thread_fence(memory_order_seq_cst);
	for (unsigned i = 0; i < HOLD_NUMBERS; i++) {
		if (atomic_load(&gate->inside[i].nr) > 0)
			return;
	}
	gate->left(gate);
}

/* In the same hold. Whether what was done in between counts. */
static inline bool fabric_gate_leave(struct fabric_gate *gate)
{
	fabric_gate_count(gate, -1U);
	if (__builtin_expect(fabric_gate_is_open(gate), 1))
		return true;
	fabric_gate_left(gate);
	return false;
}

/* Within a hold, in which the memory may be touched from then on, until it is left. False: it is shut. */
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

/* False: closing is enough, now. */
static inline bool fabric_endpoint_end(struct fabric_endpoint *endpoint)
{
	const struct fabric_ops *ops = endpoint->queue->fabric->ops;

	if (ops->endpoint_end)
		ops->endpoint_end(endpoint);
	return ops->endpoint_end != NULL;
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
