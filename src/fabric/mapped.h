/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric seam: memory of a peer that is mapped into this process.
 *
 * A transport between processes of one machine can give a peer the memory itself. Its transfers are
 * then copies, which need no target. So this table also has what such copies take away: a wait for
 * peers at the memory (end), and news of dead targets. Gates guard the memory for threads that
 * touch it without the transport. A fabric without this capability has `mapped` NULL.
 */
#ifndef FABRIC_MAPPED_H
#define FABRIC_MAPPED_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/epoch.h"
#include "fabric/fabric.h"

/* How many times a thread is inside a gate. Each has a cache line of its own. */
struct fabric_inside {
	_Alignas(64) atomic_uint nr;
};

/*
 * A gate guards windows, that is, mapped memory of a peer. It shuts for good before that memory
 * goes away, with its connection or with one of the connection's keys. A thread enters within an
 * epoch section (base/epoch.h) and may use the memory until it leaves, because the peer waits for it
 * (fabric_endpoint_end()). The gate is freed when its connection and all its counted users
 * (fabric_gate_drop()) are done with it.
 *
 * Each thread counts itself in a place of its own. Plain stores do for that if the peer has the
 * kernel put barriers into our threads (epoch_reach_all()). The peer does so between shutting the
 * gate and looking who is inside.
 */
struct fabric_gate {
	const atomic_uint *_Atomic word; /* the peer changes it, too */
	unsigned open;			 /* the word's value while the gate is open */
	struct fabric_inside *inside;	 /* EPOCH_NUMBERS of them; the peer reads them */
	bool is_reached;		 /* plain stores do */
	/* Called within an epoch section, after the gate has shut and the last thread has left. */
	void (*left)(const struct fabric_gate *gate);
	atomic_uint nr_users;
};

/* Pages of a peer's pager that this process can read without it (paged.h), while the gate is open. */
struct fabric_pages {
	/* Copies bytes behind a key. False: they are not all there; read them by a transfer. */
	bool (*read)(struct fabric_pages *pages, uint64_t key, uint64_t remote, void *to,
		     uint64_t length);
};

/* A peer's memory behind a key, mapped into this process. */
struct fabric_window {
	uint8_t *addr;		    /* of remote address 0; NULL: a pager has it, and … */
	struct fabric_pages *pages; /* … shows some of it here; NULL: nothing */
	uint64_t length;
	unsigned access; /* FABRIC_REMOTE_* */
	struct fabric_gate *gate;
};

struct fabric_mapped_ops {
	/* Prepares for transfers with a key, so that the first costs no more than the others. 0:
	 * ready. -EAGAIN: on its way; poll, then call again. An error: the connection has ended. */
	int (*prepare)(struct fabric_endpoint *endpoint, uint64_t key);
	/* Maps the memory behind a prepared key into our address space: `length` bytes from
	 * `remote` on, at `addr`, in place of what is mapped there. All three are whole pages. When
	 * the key or the connection ends, the addresses become inaccessible, and the peer waits for
	 * that (end). The address space stays the caller's. Errors, without a sentence:
	 * -ENOENT: the key is not ready, or has ended; -EACCES: not with this access; -EINVAL: not
	 * whole pages; -ERANGE; -ENOMEM. */
	int (*attach)(struct fabric_endpoint *endpoint, uint64_t key, uint64_t remote,
		      size_t length, bool may_write, void *addr);
	/* Finds the memory behind a prepared key, for the processor of any thread. Its gate is
	 * counted for the caller, who gives it back by fabric_gate_drop(). A copy between
	 * fabric_gate_enter() and _leave() is as good as a completed transfer, if _leave() says
	 * true. -ENOTCONN; -EAGAIN: prepare the key; -ENOMEM. */
	int (*window)(struct fabric_endpoint *endpoint, uint64_t key, struct fabric_window *out);
	/* Takes back the memory that the peer was given. Nothing can be posted any more, and all
	 * that was posted ends. FABRIC_CLOSED follows when the peer is not at the memory and cannot
	 * come back, or its process is gone. A peer that is not at the memory just then causes no
	 * delay. One that was stopped in the middle of an access does, without a limit. */
	void (*end)(struct fabric_endpoint *endpoint);
	/* A descriptor that is readable when a connected peer may have died, because nothing else
	 * tells of a death. It lasts until the fabric is closed. */
	int (*deaths_fd)(struct fabric *fabric);
	/* Then makes new transfers to dead peers fail, without a poll of their queues. Any thread
	 * may call it. */
	void (*note_deaths)(struct fabric *fabric);
};

static inline int fabric_prepare(struct fabric_endpoint *endpoint, uint64_t key)
{
	const struct fabric_mapped_ops *mapped = endpoint->queue->fabric->mapped;

	return mapped ? mapped->prepare(endpoint, key) : 0;
}

static inline int fabric_attach(struct fabric_endpoint *endpoint, uint64_t key, uint64_t remote,
				size_t length, bool may_write, void *addr)
{
	return endpoint->queue->fabric->mapped->attach(endpoint, key, remote, length, may_write,
						       addr);
}

/* -EOPNOTSUPP: transfers are the only way. */
static inline int fabric_window(struct fabric_endpoint *endpoint, uint64_t key,
				struct fabric_window *out)
{
	const struct fabric_mapped_ops *mapped = endpoint->queue->fabric->mapped;

	return mapped ? mapped->window(endpoint, key, out) : -EOPNOTSUPP;
}

/* False: there is nothing to wait for; closing is enough, now. */
static inline bool fabric_endpoint_end(struct fabric_endpoint *endpoint)
{
	const struct fabric_mapped_ops *mapped = endpoint->queue->fabric->mapped;

	if (mapped)
		mapped->end(endpoint);
	return mapped;
}

/* -1: transfers to a dead target fail by themselves. */
static inline int fabric_deaths_fd(struct fabric *fabric)
{
	return fabric->mapped ? fabric->mapped->deaths_fd(fabric) : -1;
}

static inline void fabric_note_deaths(struct fabric *fabric)
{
	fabric->mapped->note_deaths(fabric);
}

/* ---- Gates */

/* Call it within an epoch section. */
static inline bool fabric_gate_is_open(const struct fabric_gate *gate)
{
	const atomic_uint *word = atomic_load_explicit(&gate->word, memory_order_acquire);

	return atomic_load(word) == gate->open;
}

/* The peer sees it after what was done before, and before we read the gate's word again. */
static inline void fabric_gate_count(const struct fabric_gate *gate, unsigned change)
{
	const unsigned number = epoch_number();
	atomic_uint *nr = &gate->inside[number].nr;

	if (!gate->is_reached || number == EPOCH_SHARED) {
		atomic_fetch_add(nr, change);
		return;
	}
	atomic_store_explicit(nr, atomic_load_explicit(nr, memory_order_relaxed) + change,
			      memory_order_release);
	atomic_signal_fence(memory_order_seq_cst);
}

/* Call it when the gate is shut. At least one of the threads that leave at once sees that all
 * left. */
static inline void fabric_gate_left(const struct fabric_gate *gate)
{
	atomic_thread_fence(memory_order_seq_cst);
	for (unsigned i = 0; i < EPOCH_NUMBERS; i++) {
		if (atomic_load(&gate->inside[i].nr) > 0)
			return;
	}
	gate->left(gate);
}

/* Call it in the same epoch section. True: what was done since fabric_gate_enter() counts. */
static inline bool fabric_gate_leave(struct fabric_gate *gate)
{
	fabric_gate_count(gate, -1U);
	if (__builtin_expect(fabric_gate_is_open(gate), 1))
		return true;
	fabric_gate_left(gate);
	return false;
}

/* Call it within an epoch section. True: the thread may touch the memory until it leaves. False: it is
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

#endif
