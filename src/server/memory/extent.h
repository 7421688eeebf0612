/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool of extents: the memory that this machine lends, its holders, and the scrubbed rest that
 * is ready to be lent. All functions are thread-safe.
 *
 * A namespace gets memory that is zeroed, all of it: fresh from the kernel, or scrubbed in the
 * background after its last holder.
 */
#ifndef SERVER_EXTENT_H
#define SERVER_EXTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <urcu/list.h>

#include "rpc/layout.h"
#include "server/memory/domains.h"

#define EXTENT_BYTES_MAX ((size_t)1 << 30) /* of one extent; the minimum is SEGMENT_MIN */

struct extent_pool;

struct extent_pool_options {
	struct domains *domains; /* to register in */
	uint64_t capacity_bytes; /* lent at most */
	uint64_t pool_bytes;	 /* of scrubbed memory kept; 0: all that comes back */
	/* Registering takes long. True: extents are registered when they are reserved. False: when
	 * a key is first asked for. */
	bool is_registering_slow;
	/* Other processes of this machine are lent the memory itself (base/shared.h). They might
	 * keep it, so an extent's memory is never given to the next holder; that one gets other
	 * memory. An extent is exactly one piece of shared memory. */
	bool is_shared;
	/* The pool's numbers have changed. Runs on the thread that changed them, outside the pool's
	 * lock. May be NULL. */
	void (*changed)(void *context);
	void *context;
};

/* An extent that has a holder. */
struct extent_info {
	uint64_t extent; /* its number: unique on this pool, never used again */
	uint64_t namespace;
	uint64_t length;
	enum extent_class class;
};

struct extent_pool_stat {
	uint64_t capacity_bytes;
	uint64_t granted_bytes;
	uint64_t clean_bytes;	    /* scrubbed */
	uint64_t draining_bytes;    /* released, but transfers may still reach it */
	uint64_t dirty_bytes;	    /* waits for the scrubber, or is being scrubbed */
	uint64_t scrubbed_bytes;    /* since the start */
	uint64_t scrub_bytes_per_s; /* recent speed of scrubbing; 0: none yet */
	size_t nr_granted;
	uint64_t pool_bytes;	   /* of scrubbed memory kept, at most */
	uint64_t nr_registrations; /* since the start */
};

/* A part of an extent, of a store's too. */
struct extent_range {
	uint64_t extent;
	uint64_t offset, length; /* bytes, multiples of 4096 */
};

/* Starts the scrubber; populates nothing. */
int extent_pool_open(const struct extent_pool_options *options, struct extent_pool **out);
/* Ends all keys and unmaps everything. Nobody may be waiting in extent_pool_reserve(). */
void extent_pool_close(struct extent_pool *pool);

/*
 * Gets `bytes`, a multiple of SEGMENT_MIN, ready for `namespace` and registers them, all or none.
 * It takes them from the scrubbed pool. If that is too small, it populates more now with every
 * core. If that is not enough, it waits for the scrubber until `deadline` (on clock_ns()). `*out`
 * is the caller's to free(). Errors, with a sentence: -EINVAL, -ENOSPC, -ENOMEM (for the books),
 * -ETIMEDOUT, -ECANCELED (extent_pool_stop()), those of registering.
 */
int extent_pool_reserve(struct extent_pool *pool, uint64_t namespace, uint64_t bytes,
			uint64_t deadline, struct extent_info **out, size_t *nr_out);
/* Like extent_pool_reserve(), for sealed regions: registered for reading alone, in both of the
 * namespace's domains. */
int extent_pool_reserve_sealed(struct extent_pool *pool, uint64_t namespace, uint64_t bytes,
			       uint64_t deadline, struct extent_info **out, size_t *nr_out);
/* Like extent_pool_reserve(), but from the scrubbed pool alone, which is quick. -EAGAIN: that is
 * not enough, or might have to be populated anew, because it is shared. */
int extent_pool_reserve_clean(struct extent_pool *pool, uint64_t namespace, uint64_t bytes,
			      struct extent_info **out, size_t *nr_out);

/*
 * Extents are released in two steps. After extent_pool_drain() their keys have ended, and nobody
 * gets new ones. It skips numbers that have no holder, or that are draining already.
 * extent_pool_drained() hands the memory to the scrubber. Call it when no connection is left on
 * which a transfer with such a key may have begun.
 */
struct extent_drain {
	struct cds_list_head extents;
	size_t nr_extents;
};
void extent_pool_drain(struct extent_pool *pool, const uint64_t *extents, size_t nr_extents,
		       struct extent_drain *out);
void extent_pool_drained(struct extent_pool *pool, struct extent_drain *drain);
/* Returns whether a connection of this namespace may reach one of the extents. */
bool extent_drain_reached(const struct extent_drain *drain, uint64_t namespace);

/* Runs `each` for the namespaces of the drained extents. It may run for a namespace more than once,
 * and also for namespaces that have other extents left. */
void extent_drain_namespaces(const struct extent_drain *drain,
			     void (*each)(const void *context, uint64_t namespace),
			     const void *context);
/* Returns whether a namespace has an extent that is not released. */
bool extent_pool_has(struct extent_pool *pool, uint64_t namespace);

/* Drains and hands over at once, for extents that nobody has a key of. Returns how many were
 * released. */
size_t extent_pool_release(struct extent_pool *pool, const uint64_t *extents, size_t nr_extents);

/* A client needs this to reach an extent. */
struct extent_key {
	uint64_t length;
	struct {
		uint64_t key; /* the fabric's, in the domain for this reach */
		uint64_t origin;
	} on[DOMAIN_FABRICS_MAX]; /* by the fabric's number */
};

/* Returns the key for this reach; all who ask get the same. Errors, with a sentence: those of
 * domains_get() and of registering; -AFAR_ELOST: the extent has no holder, or another namespace
 * holds it. The two are not told apart. */
int extent_pool_key(struct extent_pool *pool, uint64_t extent, struct reach reach,
		    struct extent_key *out);

/*
 * Finds an aligned 64-bit word of an extent. The caller must have a connection of this namespace
 * open that fence.c knows. Memory that such a connection could reach stays until the connection is
 * closed. -AFAR_ELOST as above, -EINVAL (`offset` is no multiple of 8), -ERANGE, -EROFS (it is
 * sealed); without a sentence.
 */
int extent_pool_word(struct extent_pool *pool, uint64_t extent, uint64_t namespace, uint64_t offset,
		     uint64_t **out);

/* Like extent_pool_word(), for `length` bytes, to be written or read. -EROFS: for writing only. */
int extent_pool_bytes(struct extent_pool *pool, uint64_t extent, uint64_t namespace, bool is_write,
		      uint64_t offset, uint64_t length, char **out);

/*
 * Finds `length` bytes of an extent of this namespace. For the one thread that releases extents:
 * they stay until it does. The extent must be of that class. -AFAR_ELOST, -ERANGE;
 * without a sentence.
 */
int extent_pool_span(struct extent_pool *pool, uint64_t extent, uint64_t namespace,
		     enum extent_class class, uint64_t offset, uint64_t length, char **out);

/* Lists all extents that have a holder, draining ones included. `*out` is the caller's to free().
 * -ENOMEM. */
int extent_pool_list(struct extent_pool *pool, struct extent_info **out, size_t *nr_out);

void extent_pool_stat(struct extent_pool *pool, struct extent_pool_stat *out);

/* Ends waits in extent_pool_reserve(), now and from now on, with -ECANCELED. */
void extent_pool_stop(struct extent_pool *pool);

#endif
