/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The grant book: which session has been given which keys of which extents. Each session has keys of its
 * own, which end with it, whoever else it may have told them. Control gives keys through it, fence.c ends
 * them. Thread-safe.
 */
#ifndef SERVER_GRANTS_H
#define SERVER_GRANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/extent.h"

struct grants;

/* The pool stays. */
int grants_open(struct extent_pool *pool, struct grants **out);
/* Ends all keys. */
void grants_close(struct grants *grants);

/*
 * The session's keys of these extents (ascending, each once) of the namespace, made now where it had none
 * yet. A failure leaves the session on the book with what was made. Errors, with a sentence: -ENOMEM,
 * those of extent_pool_key(). `out` has room for all; the registrations stay the book's.
 */
int grants_give(struct grants *grants, uint64_t session, uint64_t namespace,
		const uint64_t *extents, size_t nr_extents, bool may_write, struct extent_key *out);

/* Ends all keys of these extents (ascending, each once), which are being drained, and forgets them. */
void grants_end_extents(struct grants *grants, const uint64_t *extents, size_t nr_extents);
/* Ends all keys of the session, which is not given others any more, and forgets them. */
void grants_end_session(struct grants *grants, uint64_t session);

#endif
