/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers' transfers to paged memory, between the frames of stream.c and a pager. Pagers end them in
 * any order, and replies leave in the order of the requests. That is FlashNet's lazy registration
 * (A. Trivedi's thesis, 5.3.2.1): out-of-order pages, in-order network.
 *
 * An endpoint owns its transfers. One is taken from the time when the pager has memory for it until
 * its reply is sent or the connection ends; otherwise it is idle.
 */
#include <errno.h>
#include <stdlib.h>

#include "fabric/tcp/tcp.h"

static struct tcp_queue *queue_of(const struct tcp_endpoint *endpoint)
{
	return tcp_container(endpoint->base.queue, struct tcp_queue);
}

/* ---- Replies */

static struct tcp_outgoing *push_undecided(struct tcp_endpoint *endpoint, uint64_t length)
{
	struct tcp_outgoing *reply = tcp_stream_place(endpoint, TCP_UNDECIDED, length);

	reply->paged = NULL;
	endpoint->nr_replies++;
	tcp_stream_push(endpoint);
	return reply;
}

static void decide(struct tcp_outgoing *reply, uint32_t wire_type)
{
	reply->frame.type = htole32(wire_type);
	if (wire_type != TCP_READ_REPLY)
		reply->length = 0; /* of the payload */
	reply->type = TCP_PAGED_REPLY;
}

static void decide_failed(struct tcp_outgoing *reply, int status)
{
	uint32_t code = 0U - (uint32_t)status;

	reply->frame.reserved = htole32(tcp_is_code(code) ? code : EIO);
	decide(reply, TCP_FAILED);
}

/* The pager calls it, from anywhere on the queue's thread. */
static void note_ended(struct fabric_paged *base)
{
	struct tcp_paged *paged = tcp_container(base, struct tcp_paged);
	struct tcp_queue *queue = queue_of(paged->endpoint);
	struct tcp_outgoing *reply = paged->reply;

	if (base->status != 0) {
		decide_failed(reply, base->status);
	} else if (base->is_write) {
		decide(reply, TCP_WRITE_ACK);
	} else {
		reply->iov[0] = (struct iovec){base->addr, base->length};
		reply->nr_iov = 1;
		decide(reply, TCP_READ_REPLY);
	}
	/* The next poll sends it: nobody may sleep before. */
	queue->is_drained = false;
	tcp_queue_warm(queue, paged->endpoint);
}

/* ---- Transfers */

static int open_paging(struct tcp_endpoint *endpoint)
{
	struct tcp_paging *paging = calloc(1, sizeof(*paging));

	if (!paging)
		return -ENOMEM;
	CDS_INIT_LIST_HEAD(&paging->taken);
	CDS_INIT_LIST_HEAD(&paging->idle);
	for (unsigned i = 0; i < TCP_REPLIES_MAX; i++) {
		paging->transfers[i].endpoint = endpoint;
		cds_list_add_tail(&paging->transfers[i].node, &paging->idle);
	}
	endpoint->paging = paging;
	return 0;
}

int tcp_paged_take(struct tcp_endpoint *endpoint, struct fabric_pager *pager,
		   const struct tcp_frame *frame, struct tcp_paged **out)
{
	struct tcp_paged *paged;
	int ret = endpoint->paging ? 0 : open_paging(endpoint);

	if (ret != 0)
		return ret;
	/* There is one: as many replies are owed at most, and there is a place for one more. */
	paged = cds_list_first_entry(&endpoint->paging->idle, struct tcp_paged, node);
	paged->base = (struct fabric_paged){
		.pager = pager,
		.owner = endpoint->base.owner,
		.offset = frame->offset,
		.length = frame->length,
		.is_write = frame->type != TCP_READ,
		.is_durable = frame->type == TCP_WRITE_DURABLE,
		.ended = note_ended,
	};
	ret = pager->take(pager, &paged->base);
	if (ret == -EAGAIN)
		tcp_queue_lack(queue_of(endpoint), endpoint);
	else
		tcp_queue_stop_lacking(endpoint);
	if (ret != 0)
		return ret;
	cds_list_move(&paged->node, &endpoint->paging->taken);
	*out = paged;
	return 0;
}

void tcp_paged_begin(struct tcp_paged *paged)
{
	struct fabric_pager *pager = paged->base.pager;

	paged->reply = push_undecided(paged->endpoint, paged->base.length);
	paged->reply->paged = paged;
	pager->begin(pager, &paged->base);
}

void tcp_paged_refuse(struct tcp_endpoint *endpoint, uint64_t length, int status)
{
	decide_failed(push_undecided(endpoint, length), status);
}

/* ---- Ending */

/* Others may be waiting for the memory. */
static void leave(struct tcp_paged *paged)
{
	struct fabric_pager *pager = paged->base.pager;
	struct tcp_queue *queue = queue_of(paged->endpoint);

	cds_list_move(&paged->node, &paged->endpoint->paging->idle);
	pager->leave(pager, &paged->base);
	if (!cds_list_empty(&queue->lacking))
		queue->is_drained = false;
}

void tcp_paged_finish(const struct tcp_outgoing *reply)
{
	if (reply->paged)
		leave(reply->paged);
}

void tcp_paged_end(struct tcp_endpoint *endpoint)
{
	struct tcp_paged *paged, *next;

	tcp_queue_stop_lacking(endpoint);
	if (!endpoint->paging)
		return;
	cds_list_for_each_entry_safe (paged, next, &endpoint->paging->taken, node)
		leave(paged);
}
