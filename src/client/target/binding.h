/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bindings: all that an open target needs to reach its bytes. A binding has the layout. For each
 * server of that it has the peer, the reach, and the access by which the session may have keys
 * there.
 *
 * A target has one binding at a time. When its layout changes, a new binding replaces the old one
 * as a whole. The new one may be on other servers and may be longer. A binding's contents never
 * change. It only becomes ready, once its keys are there, and unready, once a server tells of a
 * change that it may not include.
 *
 * Threads that move bytes look at a binding within an epoch section (base/epoch.h) and count nothing. Code
 * that needs it for longer takes a reference (target_binding()). target_bind() waits for epoch sections
 * before it drops the target's own reference.
 */
#ifndef CLIENT_BINDING_H
#define CLIENT_BINDING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/target/peer.h"

struct afar_target;

struct binding_server {
	struct peer *peer;
	struct peer_reach *reach; /* counted in as a target of it */
	struct access access;	  /* guarded by the target's lock */
	/* The number of the last change in the namespace there that the layout is known to
	 * include. Guarded by the session's lock. */
	uint64_t changes;
	/* A store's opening, as the handle remembers it; a sync tells whether writes since then may
	 * be lost. Those of a replaced binding are carried over. */
	_Atomic uint64_t opening;
	/* On clock_ns(); 0: it was there. Else no connected server had the store when the binding
	 * was made, or the server was down when accesses were asked for. */
	uint64_t away_since;
	/* For a store: how many of the session's writes there (peer->nr_written) a sync has covered. Then
	 * whether there were some earlier that none has, and whether an older binding may have some in
	 * flight, over another peer. */
	_Atomic uint64_t nr_synced;
	atomic_bool owes_sync, may_owe_sync;
	/* Likewise: it has answered the sync that is under way with -EIO. Writes that it has not made
	 * durable will not become so before it is opened again. */
	atomic_bool has_refused_sync;
	atomic_bool is_keyed; /* has the keys of its copies */
};

/* The manager's description of a layout. The message stays the caller's. */
struct layout_description {
	const Afar__LayoutInfo *message;
	uint64_t number; /* grows with each change of the target's layout */
	uint64_t length; /* bytes of the target */
	uint64_t behind; /* bytes that the layout has behind those */
};

/* Returns the description of a layout that a manager's reply has. */
static inline struct layout_description layout_describe(const Afar__RegionInfo *info)
{
	return (struct layout_description){
		.message = info->layout,
		.number = info->layout_number,
		.length = info->length,
		.behind = info->word_bytes,
	};
}

struct binding {
	struct afar_target *target; /* lives longer */
	atomic_uint nr_references;
	uint64_t number;       /* of the layout */
	uint64_t serial;       /* of the target's bindings: each has another */
	uint64_t length;       /* of the target: the layout may go on behind that */
	struct layout *layout; /* the binding's own */
	/* By the layout's copies, PEER_LANES_MAX of each; NULL until a thread asks for keys. */
	struct copy_key *keys;
	/* It includes all changes that servers have told of, and its homes are keyed: operations may
	 * begin. If its homes are used apart (apart.h), each is keyed when it is wanted. Written with
	 * the session's lock held. */
	atomic_bool is_ready;
	struct binding_server servers[]; /* by the layout's homes */
};

/*
 * Makes a binding from the manager's layout of a target: finds or makes the peers, counts the
 * target into their reaches, takes the accesses. The binding has one reference, and no keys.
 * Errors, with a sentence: -AFAR_EMALFORMED, -ENOMEM.
 */
int binding_new(struct afar_target *target, const struct layout_description *from,
		struct binding **out);
/* Makes a binding with another layout over the same servers, and `from`'s accesses. Takes the
 * layout over, also if it fails: -ENOMEM. The caller holds the lock of `from`'s target. */
int binding_like(const struct binding *from, struct afar_target *target, struct layout *layout,
		 struct binding **out);
/* Takes those of the manager's accesses that are for servers of the layout. No other thread has the
 * binding yet, or the caller holds its target's lock. Errors: as binding_new(). */
int binding_take_accesses(struct binding *binding, Afar__Access *const *messages, size_t count);
/* Takes what the manager says of servers that are down. The caller holds the target's lock. */
void binding_take_away(struct binding *binding, Afar__ServerAway *const *messages, size_t count);
/* Carries over what the handle remembers of stores, before the binding replaces the old one. */
void binding_remember(struct binding *binding, const struct binding *old);
/* Looks once more, when nothing can begin over the old one any more. A store that is reached in another way now needs
 * no sync if no write there was left without one. */
void binding_settle_owed(struct binding *binding, const struct binding *old);
/* Returns whether the reach is one of the binding's. */
bool binding_uses(const struct binding *binding, const struct peer_reach *reach);

/* Returns the key of a copy, by the number of the server's lane. The binding is ready. */
static inline const struct copy_key *binding_key(const struct binding *binding,
						 const struct layout_copy *copy, uint32_t lane)
{
	return &binding->keys[(size_t)(copy - binding->layout->copies) * PEER_LANES_MAX + lane];
}

static inline void binding_ref(struct binding *binding)
{
	atomic_fetch_add_explicit(&binding->nr_references, 1, memory_order_relaxed);
}

/* Drops a reference; the last one frees the binding. Not within an epoch section. NULL is allowed. */
void binding_unref(struct binding *binding);

#endif
