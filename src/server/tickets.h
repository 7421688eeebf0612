/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's tickets: makes those that clients show when they connect for data, and takes each back
 * once. A ticket is for what its session has been given keys of: that is remembered until the session ends,
 * so that it can connect again while the manager, who speaks for it, is away. Thread-safe.
 */
#ifndef SERVER_TICKETS_H
#define SERVER_TICKETS_H

#include <stddef.h>
#include <stdint.h>

#include "rpc/ticket.h"
#include "server/extent.h"

#define TICKET_LIFETIME_S 10

struct tickets;

/* With a signing key of its own, which never leaves it. Sessions that ended are remembered for `memory_s`:
 * until then the session may have something that gets it entitled again. */
int tickets_open(uint64_t incarnation, uint32_t lifetime_s, uint32_t memory_s,
		 struct tickets **out);
void tickets_close(struct tickets *tickets);

/* What a data connection is let in for. */
struct admission {
	uint64_t session;
	struct reach reach;
	uint64_t connection; /* its number: the nonce of its ticket */
	/* Generation of the layout whose memory its client has in its address space; 0: it is for transfers. Who
	 * attaches loses that only when his session ends or that layout does, and is waited for then. */
	uint64_t attaches;
	uint64_t seals; /* number of the namespace's last sealing when it was made; 0: none */
};

/* From now on it gets tickets, each for another connection. The session has not ended. -ENOMEM. */
int tickets_entitle(struct tickets *tickets, const struct admission *admission);

/* When the namespace has no memory in the pool any more, nobody is entitled to it. Looks at the pool with its
 * own lock held: who is entitled because there is new memory stays so. */
void tickets_forget_namespace(struct tickets *tickets, struct extent_pool *pool,
			      uint64_t namespace);

/* Makes one, and numbers its connection. When too many are out and not used yet, the oldest of them is worth
 * nothing any more. With a sentence: -EACCES (it is not entitled), -AFAR_ESESSION. */
int tickets_issue(struct tickets *tickets, struct admission *admission, struct rpc_ticket *out);

/* Takes back what somebody shows: 0 with what it was made for if we made it, not too long ago, and nobody
 * has shown it before. -EACCES with a sentence. */
int tickets_redeem(struct tickets *tickets, const void *bytes, size_t length,
		   struct admission *out);

/*
 * A region of the namespace is being sealed: unused tickets for the namespace are worth nothing any more, and
 * those made from now on tell that. Sealings are numbered up through all namespaces of this incarnation; that
 * there was one is forgotten when the namespace has no memory any more. -ENOMEM: nothing was done.
 */
int tickets_note_seal(struct tickets *tickets, uint64_t namespace);

/* The session does not want this connection any more: if its ticket is not used yet, it is worth nothing. */
void tickets_cancel(struct tickets *tickets, uint64_t session, uint64_t connection);

/*
 * The session has ended: its unused tickets are worth nothing any more, it gets no others and is entitled to
 * nothing, as long as that is remembered. Sessions' numbers are not used again. -ENOMEM: it cannot be
 * remembered, and nothing was done.
 */
int tickets_revoke(struct tickets *tickets, uint64_t session);
/* 0, or -AFAR_ESESSION with a sentence. */
int tickets_check_session(struct tickets *tickets, uint64_t session);

/* What is remembered. */
struct tickets_stat {
	size_t nr_out;
	size_t nr_sessions; /* that are entitled to something, or were   */
	size_t nr_reaches;  /* that they are entitled to, all together   */
	size_t nr_ended;    /* sessions                                  */
};
void tickets_stat(struct tickets *tickets, struct tickets_stat *out);

#endif
