/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's tickets. A client shows one when it connects for data; the server makes them, and
 * accepts each once. A session gets tickets for what it has been given keys of. The server
 * remembers that until the session ends, so that the session can connect again while the manager,
 * which speaks for it, is away. Thread-safe.
 */
#ifndef SERVER_TICKETS_H
#define SERVER_TICKETS_H

#include <stddef.h>
#include <stdint.h>

#include "rpc/ticket.h"
#include "server/data/admission.h"
#include "server/memory/extent.h"

struct stores;

#define TICKET_LIFETIME_S 10

struct tickets;

/* Opens with a signing key of its own, which never leaves it. Ended sessions are remembered for
 * `memory_s`, because until then the session may have a pass or a capability that would entitle it
 * again. */
int tickets_open(uint64_t incarnation, uint32_t lifetime_s, uint32_t memory_s,
		 struct tickets **out);
void tickets_close(struct tickets *tickets);

/* Ends all sessions that there are, as tickets_revoke() does. -ENOMEM: some may have ended. */
int tickets_revoke_all(struct tickets *tickets);

/* Lets the session get tickets from now on, each for another connection. It must not have ended.
 * -ENOMEM. */
int tickets_entitle(struct tickets *tickets, const struct admission *admission);

/* If the namespace has nothing in the pool and the stores any more, nobody is entitled to it any
 * more. It looks at those with its own lock held, so that a session that is entitled because of new
 * memory stays so. */
void tickets_forget_namespace(struct tickets *tickets, struct extent_pool *pool,
			      struct stores *stores, uint64_t namespace);

/* Makes a ticket, and numbers its connection. If too many unused tickets are out, the oldest
 * becomes invalid. With a sentence: -EACCES (the session is not entitled), -AFAR_ESESSION. */
int tickets_issue(struct tickets *tickets, struct admission *admission, struct rpc_ticket *out);

/* Accepts a ticket that somebody shows. 0, and the purpose it was made for: we made it, not too
 * long ago, and nobody has shown it before. -EACCES, with a sentence. */
int tickets_redeem(struct tickets *tickets, const void *bytes, size_t length,
		   struct admission *out);

/*
 * Call it when a region of the namespace is being sealed. Unused tickets for the namespace become
 * invalid, and those made from now on tell of the sealing. Sealings are numbered through all
 * namespaces of this incarnation. A sealing is forgotten when the namespace has no memory any more.
 * -ENOMEM: nothing was done.
 */
int tickets_note_seal(struct tickets *tickets, uint64_t namespace);

/* The session gives up this connection: its ticket, if unused, becomes invalid. */
void tickets_cancel(struct tickets *tickets, uint64_t session, uint64_t connection);

/*
 * The session has ended: its unused tickets become invalid. For as long as that is remembered, it
 * gets no others and is entitled to nothing. Numbers of sessions are not used again. -ENOMEM: it
 * cannot be remembered, and nothing was done.
 */
int tickets_revoke(struct tickets *tickets, uint64_t session);
/* Returns 0, or -AFAR_ESESSION with a sentence. */
int tickets_check_session(struct tickets *tickets, uint64_t session);

/* The amount that is remembered. */
struct tickets_stat {
	size_t nr_out;
	size_t nr_sessions; /* that are, or were, entitled to something */
	size_t nr_reaches;  /* that they are entitled to, in all */
	size_t nr_ended;    /* sessions */
};
void tickets_stat(struct tickets *tickets, struct tickets_stat *out);

#endif
