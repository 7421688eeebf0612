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
#include "server/domains.h"

#define TICKET_LIFETIME_S 10

struct tickets;

/* With a signing key of its own, which never leaves it. */
int tickets_open(uint64_t incarnation, uint32_t lifetime_s, struct tickets **out);
void tickets_close(struct tickets *tickets);

/* What a data connection is let in for. */
struct admission {
	uint64_t session;
	struct reach reach;
	uint64_t connection; /* its number: the nonce of its ticket */
};

/* From now on it gets tickets, each for another connection. The session has not ended. -ENOMEM. */
int tickets_entitle(struct tickets *tickets, const struct admission *admission);

/* Makes one, and numbers its connection. When too many are out and not used yet, the oldest of them is worth
 * nothing any more. With a sentence: -EACCES (it is not entitled), -AFAR_ESESSION. */
int tickets_issue(struct tickets *tickets, struct admission *admission, struct rpc_ticket *out);

/* Takes back what somebody shows: 0 with what it was made for if we made it, not too long ago, and nobody
 * has shown it before. -EACCES with a sentence. */
int tickets_redeem(struct tickets *tickets, const void *bytes, size_t length,
		   struct admission *out);

/* The session does not want this connection any more: if its ticket is not used yet, it is worth nothing. */
void tickets_cancel(struct tickets *tickets, uint64_t session, uint64_t connection);

/*
 * The session has ended: its unused tickets are worth nothing any more, it gets no others and is entitled to
 * nothing; sessions' numbers are never used again. -ENOMEM: that cannot be remembered, and nothing was done.
 */
int tickets_revoke(struct tickets *tickets, uint64_t session);
/* 0, or -AFAR_ESESSION with a sentence. */
int tickets_check_session(struct tickets *tickets, uint64_t session);

#endif
