/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of paged.c (peers' transfers to paged memory) and sums.c (of checked transfers) for the
 * other files of this folder. */
#ifndef FABRIC_TCP_PAGED_H
#define FABRIC_TCP_PAGED_H

#include "fabric/tcp/tcp.h"

/* A peer's transfer that a pager has taken. */
struct tcp_paged {
	struct fabric_paged base;
	struct tcp_endpoint *endpoint;
	struct tcp_outgoing *reply; /* once it has begun */
	struct cds_list_head node;  /* in tcp_paging.taken or .idle */
};

/* An endpoint's transfers to paged memory: as many as it may owe replies. */
struct tcp_paging {
	struct cds_list_head taken, idle; /* of tcp_paged.node */
	struct tcp_paged transfers[TCP_REPLIES_MAX];
};

/* paged.c; for all, there is a place for the reply */
/* Has the pager take memory for what a peer asks with `frame` (in our byte order). 0, with `*out`.
 * -EAGAIN: there is none now; the queue knows that the endpoint waits. Another error: the transfer
 * has failed, and is to be answered with that. */
int tcp_paged_take(struct tcp_endpoint *endpoint, struct fabric_pager *pager,
		   const struct tcp_frame *frame, struct tcp_paged **out);
/* Puts its reply in line, to be decided later, and has the pager begin. */
void tcp_paged_begin(struct tcp_paged *paged);
/* Puts in line that a transfer of so many bytes has failed, which no pager has taken. */
void tcp_paged_refuse(struct tcp_endpoint *endpoint, uint64_t length, int status);
/* The reply is sent. */
void tcp_paged_finish(const struct tcp_outgoing *reply);
/* The connection has ended: takes its transfers away from their pagers. */
void tcp_paged_end(struct tcp_endpoint *endpoint);

/* sums.c */
/* Makes room for the sums of the endpoint's requests. -ENOMEM. */
int tcp_sums_open(struct tcp_endpoint *endpoint);
/* Adds the sums to a checked request and its reply, both of which are filled in otherwise. */
void tcp_sums_prepare(const struct tcp_endpoint *endpoint, struct tcp_expected *expected,
		      struct tcp_outgoing *out);
/* True: the bytes of the checked read whose turn it is are those whose sums have come. */
bool tcp_sums_fit(const struct tcp_endpoint *endpoint);
/* Changes the sums of so many bytes between our byte order and that of the wire. */
void tcp_sums_swap(uint32_t *sums, uint64_t length);

#endif
