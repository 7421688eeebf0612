/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's tickets: makes those that clients show when they connect for data, and takes each back
 * once. Thread-safe.
 */
#ifndef SERVER_TICKETS_H
#define SERVER_TICKETS_H

#include <stddef.h>
#include <stdint.h>

#include "rpc/ticket.h"

#define TICKET_LIFETIME_S 10

struct tickets;

/* With a signing key of its own, which never leaves it. */
int tickets_open(uint64_t incarnation, uint32_t lifetime_s, struct tickets **out);
void tickets_close(struct tickets *tickets);

/* Makes one for the session. -EBUSY with a sentence: too many are out and not used yet. */
int tickets_issue(struct tickets *tickets, uint64_t session, struct rpc_ticket *out);

/* Takes back what somebody shows: 0 with its session if we made it, not too long ago, and nobody has
 * shown it before. -EACCES with a sentence. */
int tickets_redeem(struct tickets *tickets, const void *bytes, size_t length, uint64_t *session);

/*
 * The session has ended: its unused tickets are worth nothing any more, and it gets no others; sessions'
 * numbers are never used again. -ENOMEM: that cannot be remembered, and nothing was done.
 */
int tickets_revoke(struct tickets *tickets, uint64_t session);
/* 0, or -AFAR_ESESSION with a sentence. */
int tickets_check_session(struct tickets *tickets, uint64_t session);

#endif
