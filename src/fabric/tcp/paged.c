/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers' transfers to paged memory, between the frames of stream.c and a pager. Pagers end them in
 * any order, and replies leave in the order of the requests. The scheme is FlashNet's lazy
 * registration (A. Trivedi's thesis, 5.3.2.1): out-of-order pages, in-order network.
 *
 * An endpoint owns its transfers. One is taken from the time when the pager has memory for it until
 * its reply is sent or the connection ends. Otherwise it is idle.
 */
#include <errno.h>
#include <stdlib.h>

#include "fabric/tcp/paged.h"

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
	reply->length = 0; /* of the payload */
	for (uint32_t i = 0; i < reply->nr_iov; i++)
		reply->length += reply->iov[i].iov_len;
	reply->type = TCP_PAGED_REPLY;
}

/* Has the bytes sent, and their sums, if they are wanted. */
static void decide_read(struct tcp_outgoing *reply, const struct fabric_paged *base)
{
	reply->iov[0] = (struct iovec){base->addr, base->length};
	reply->nr_iov = 1;
	if (base->is_checked) {
		tcp_sums_swap(base->sums, base->length);
		reply->iov[reply->nr_iov++] =
			(struct iovec){base->sums, tcp_sums_bytes(base->length)};
	}
	decide(reply, base->is_checked ? TCP_CHECKED_REPLY : TCP_READ_REPLY);
}

static void decide_failed(struct tcp_outgoing *reply, int status)
{
	uint32_t code = 0U - (uint32_t)status;

	reply->frame.word = htole32(tcp_is_code(code) ? code : EIO);
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
		decide_read(reply, base);
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
		.is_write = !tcp_is_read(frame->type),
		.is_durable = tcp_is_durable(frame->type),
		.is_checked = tcp_is_checked(frame->type),
		.hints = frame->word,
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
	if (paged->base.is_checked && paged->base.is_write)
		tcp_sums_swap(paged->base.sums, paged->base.length);
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
