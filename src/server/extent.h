/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool of extents: this machine's lent memory, who has what of it, and the scrubbed rest that is
 * ready to be lent. All functions are thread-safe.
 *
 * What a namespace gets is zeroed, all of it: fresh from the kernel, or scrubbed in the background
 * after the last holder.
 */
#ifndef SERVER_EXTENT_H
#define SERVER_EXTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <urcu/list.h>

#include "server/domains.h"

#define EXTENT_BYTES_MAX ((size_t)1 << 30) /* of one extent; the least is SEGMENT_MIN */

struct extent_pool;

struct extent_pool_options {
	struct domains *domains; /* to register in                                 */
	uint64_t capacity_bytes; /* lent at most                                    */
	uint64_t pool_bytes;	 /* of scrubbed memory kept; 0: all that comes back */
	/* Registering takes its time: extents are registered when they are reserved, else when a key is
	 * first asked for. */
	bool is_registering_slow;
	/* Other processes of this machine are lent the memory itself (base/shared.h). Who was lent an extent's
	 * memory might have kept it, so what the next one gets is other memory; and an extent is never a part
	 * of a piece, or more than one. */
	bool is_shared;
	/* Runs, outside the pool's lock, on whatever thread changed the pool's numbers. May be NULL. */
	void (*changed)(void *context);
	void *context;
};

/* An extent that somebody has. */
struct extent_info {
	uint64_t extent; /* its number: unique on this pool, never used again */
	uint64_t namespace;
	uint64_t length;
	bool is_sealed;
};

struct extent_pool_stat {
	uint64_t capacity_bytes;
	uint64_t granted_bytes;
	uint64_t clean_bytes;	    /* scrubbed                                          */
	uint64_t draining_bytes;    /* released, but somebody may still be at it         */
	uint64_t dirty_bytes;	    /* waiting for the scrubber, or under it             */
	uint64_t scrubbed_bytes;    /* since the start                                   */
	uint64_t scrub_bytes_per_s; /* while it scrubs, of late; 0: it has not yet       */
	size_t nr_granted;
	uint64_t pool_bytes;	   /* of scrubbed memory kept, at most */
	uint64_t nr_registrations; /* since the start                  */
};

/* Starts the scrubber; populates nothing. */
int extent_pool_open(const struct extent_pool_options *options, struct extent_pool **out);
/* Ends all keys and unmaps everything. Nobody may be waiting in extent_pool_reserve(). */
void extent_pool_close(struct extent_pool *pool);

/*
 * Gets `bytes`, a multiple of SEGMENT_MIN, ready for `namespace`, all or none, and registers it: from
 * the scrubbed pool, else populated now with every core, else by waiting for the scrubber, until
 * `deadline` (on clock_ns()). `*out` is the caller's to free(). Errors, with a sentence: -EINVAL,
 * -ENOSPC, -ENOMEM (for the books), -ETIMEDOUT, -ECANCELED (extent_pool_stop()), those of registering.
 */
int extent_pool_reserve(struct extent_pool *pool, uint64_t namespace, uint64_t bytes,
			uint64_t deadline, struct extent_info **out, size_t *nr_out);
/* The same for sealed regions: registered to be read alone, in both of the namespace's domains. */
int extent_pool_reserve_sealed(struct extent_pool *pool, uint64_t namespace, uint64_t bytes,
			       uint64_t deadline, struct extent_info **out, size_t *nr_out);
/* The same as the first from the scrubbed pool alone, which is quick: -EAGAIN when that does not suffice, or might have to
 * be populated anew, because it is shared. */
int extent_pool_reserve_clean(struct extent_pool *pool, uint64_t namespace, uint64_t bytes,
			      struct extent_info **out, size_t *nr_out);

/*
 * Releasing, in two steps. After extent_pool_drain() the extents' keys have ended and nobody gets others.
 * Numbers that nobody has, and those that are being drained, are skipped. When no connection is left on which
 * a transfer may have begun with a key, extent_pool_drained() hands the memory to the scrubber.
 */
struct extent_drain {
	struct cds_list_head extents;
	size_t nr_extents;
};
void extent_pool_drain(struct extent_pool *pool, const uint64_t *extents, size_t nr_extents,
		       struct extent_drain *out);
void extent_pool_drained(struct extent_pool *pool, struct extent_drain *drain);
/* Whether a connection of this namespace's may be at one of them. */
bool extent_drain_reached(const struct extent_drain *drain, uint64_t namespace);

/* Runs `each` for the namespaces of what is drained: those that have gone with it, among others, and maybe one
 * more than once. */
void extent_drain_namespaces(const struct extent_drain *drain,
			     void (*each)(const void *context, uint64_t namespace),
			     const void *context);
/* Whether a namespace has an extent that is not released. */
bool extent_pool_has(struct extent_pool *pool, uint64_t namespace);

/* Both at once, for extents that nobody has a key of. Returns how many were released. */
size_t extent_pool_release(struct extent_pool *pool, const uint64_t *extents, size_t nr_extents);

/* What a client needs to reach an extent. */
struct extent_key {
	uint64_t length;
	struct {
		uint64_t key; /* the fabric's, in the domain for this reach */
		uint64_t origin;
	} on[DOMAIN_FABRICS_MAX]; /* by the fabric's number */
};

/* The key for this reach, the same for all who ask. With a sentence: -AFAR_ELOST (nobody has the extent, or
 * another namespace has, which is not told apart), those of domains_get() and of registering. */
int extent_pool_key(struct extent_pool *pool, uint64_t extent, struct reach reach,
		    struct extent_key *out);

/*
 * Where an aligned 64-bit word of an extent is, for a caller that has a connection of this namespace's open
 * which is known to fence.c: memory that it could reach stays until that is closed. -AFAR_ELOST as above,
 * -EINVAL (`offset` is no multiple of 8), -ERANGE, -EROFS (it is sealed); without a sentence.
 */
int extent_pool_word(struct extent_pool *pool, uint64_t extent, uint64_t namespace, uint64_t offset,
		     uint64_t **out);

/* The same for `length` bytes, to be written or read; -EROFS for the first alone. */
int extent_pool_bytes(struct extent_pool *pool, uint64_t extent, uint64_t namespace, bool is_write,
		      uint64_t offset, uint64_t length, char **out);

/*
 * Where `length` bytes of an extent of this namespace's are, for the one thread that releases extents: they
 * stay until it does. `is_sealed` says which kind is meant. -AFAR_ELOST, -ERANGE; without a sentence.
 */
int extent_pool_span(struct extent_pool *pool, uint64_t extent, uint64_t namespace, bool is_sealed,
		     uint64_t offset, uint64_t length, char **out);

/* All extents that somebody has, those that are being drained among them; `*out` is the caller's to free().
 * -ENOMEM. */
int extent_pool_list(struct extent_pool *pool, struct extent_info **out, size_t *nr_out);

void extent_pool_stat(struct extent_pool *pool, struct extent_pool_stat *out);

/* Ends waits in extent_pool_reserve(), now and from now on, with -ECANCELED. */
void extent_pool_stop(struct extent_pool *pool);

#endif
