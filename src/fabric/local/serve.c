/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The serving end of an exchange: a peer's requests for paged memory become transfers of a pager.
 * All of it runs on the thread of the endpoint's queue. Called by memory.c, endpoint.c, ring.c and
 * queue.c. An endpoint owns its part here, from the first paged key on.
 *
 * A transfer is idle, or its pager has taken it. A write's bytes are copied out of the exchange
 * before it begins, and a read's into it when it has ended. Long copies go in slices, one of each
 * transfer in a poll, so that short transfers of others need not wait for them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/copy.h"
#include "base/log.h"
#include "fabric/local/exchange.h"
#include "fabric/local/memory.h"
#include "fabric/local/references.h"

#define SLICE (UINT64_C(64) << 10)

struct local_served {
	struct fabric_paged base;
	struct local_endpoint *endpoint;
	struct cds_list_head node;   /* in local_serving.idle or .taken */
	struct cds_list_head moving; /* in local_queue.moving, or empty */
	uint8_t *bytes;		     /* in the exchange */
	uint64_t moved;
	uint32_t number; /* the peer's */
	bool has_ended;
};

struct local_serving {
	struct local_exchange *exchange;
	uint32_t nr_taken, nr_answered;
	struct local_given *given;
	uint32_t nr_used;
	struct cds_list_head lacking; /* in local_queue.lacking, or empty: it waits for memory */
	struct cds_list_head idle, taken; /* of local_served.node */
	struct local_served served[LOCAL_DEPTH_MAX];
};

static bool is_in_list(struct cds_list_head *node)
{
	return !cds_list_empty(node);
}

static void take_off(struct cds_list_head *node)
{
	cds_list_del(node);
	CDS_INIT_LIST_HEAD(node);
}

/* ---- Opening and closing */

static struct local_serving *serving_new(struct local_endpoint *endpoint, int fd)
{
	struct local_serving *serving = calloc(1, sizeof(*serving));

	if (!serving)
		return NULL;
	serving->exchange = local_exchange_map(fd);
	if (!serving->exchange) {
		free(serving);
		return NULL;
	}
	CDS_INIT_LIST_HEAD(&serving->lacking);
	CDS_INIT_LIST_HEAD(&serving->idle);
	CDS_INIT_LIST_HEAD(&serving->taken);
	for (unsigned i = 0; i < LOCAL_DEPTH_MAX; i++) {
		serving->served[i].endpoint = endpoint;
		CDS_INIT_LIST_HEAD(&serving->served[i].moving);
		cds_list_add_tail(&serving->served[i].node, &serving->idle);
	}
	return serving;
}

bool local_serve_hand_over(struct local_endpoint *endpoint, const struct local_message *message)
{
	bool is_said;
	int fd;

	if (endpoint->serving)
		return local_talk_say(endpoint->fd, message, -1);
	fd = local_exchange_make();
	if (fd < 0)
		return false;
	endpoint->serving = serving_new(endpoint, fd);
	is_said = endpoint->serving && local_talk_say(endpoint->fd, message, fd);
	close(fd);
	return is_said;
}

static void leave(struct local_served *served)
{
	struct fabric_pager *pager = served->base.pager;

	if (is_in_list(&served->moving))
		take_off(&served->moving);
	cds_list_move(&served->node, &served->endpoint->serving->idle);
	pager->leave(pager, &served->base);
}

void local_serve_close(struct local_endpoint *endpoint)
{
	struct local_serving *serving = endpoint->serving;
	struct local_served *served, *next;

	if (!serving)
		return;
	if (is_in_list(&serving->lacking))
		take_off(&serving->lacking);
	cds_list_for_each_entry_safe (served, next, &serving->taken, node)
		leave(served);
	endpoint->serving = NULL;
	local_given_free(serving->given);
	local_exchange_unmap(serving->exchange);
	free(serving);
}

/* ---- Answers */

/* There is a place: as many as the ring has are taken at most. */
static void answer(struct local_endpoint *endpoint, uint32_t number, int status,
		   const struct local_page_reference *reference)
{
	struct local_serving *serving = endpoint->serving;

	serving->exchange->references[serving->nr_answered % LOCAL_DEPTH_MAX] = *reference;
	serving->exchange->answers[serving->nr_answered++ % LOCAL_DEPTH_MAX] =
		(struct local_page_answer){number, local_status_is_good(status) ? status : -EIO};
	atomic_store_explicit(&serving->exchange->answered, serving->nr_answered,
			      memory_order_release);
	local_talk_wake(endpoint, &endpoint->theirs->is_asleep);
}

/* The pager calls it, from anywhere on the queue's thread. The next poll answers. */
static void note_ended(struct fabric_paged *base)
{
	struct local_served *served = local_container(base, struct local_served);

	served->has_ended = true;
	served->moved = 0;
	cds_list_add_tail(&served->moving, &local_queue_of(served->endpoint)->moving);
}

/* ---- Bytes */

static bool has_bytes(const struct local_served *served)
{
	return !served->has_ended || (!served->base.is_write && served->base.status == 0);
}

/* Copies a slice. True: that was the last. */
static bool copy_slice(struct local_served *served)
{
	const struct fabric_paged *base = &served->base;
	uint64_t length = base->length - served->moved;
	uint8_t *ours = (uint8_t *)base->addr + served->moved;
	uint8_t *theirs = served->bytes + served->moved;

	if (length > SLICE)
		length = SLICE;
	if (base->is_write)
		copy_memory(ours, theirs, length);
	else
		copy_memory(theirs, ours, length);
	served->moved += length;
	return served->moved == base->length;
}

static void copy_sums(const struct local_served *served)
{
	const struct fabric_paged *base = &served->base;
	uint8_t *theirs = served->bytes + local_ask_sums_at(base->length);

	if (!base->is_checked)
		return;
	if (base->is_write)
		memcpy(base->sums, theirs, local_ask_sums_bytes(base->length));
	else
		memcpy(theirs, base->sums, local_ask_sums_bytes(base->length));
}

/* All is copied: a write begins, and what has ended is answered. */
static void move_on(struct local_served *served)
{
	struct local_endpoint *endpoint = served->endpoint;
	struct fabric_queue *queue = endpoint->base.queue;
	struct fabric_pager *pager = served->base.pager;
	const int status = served->base.status;
	struct local_page_reference reference;

	take_off(&served->moving);
	if (has_bytes(served)) {
		copy_sums(served);
		counter_add(served->base.is_write ? &queue->bytes_in : &queue->bytes_out,
			    served->base.length);
	}
	if (!served->has_ended) {
		pager->begin(pager, &served->base);
		return;
	}
	reference = local_refer(endpoint, &endpoint->serving->given, &served->base.reference);
	leave(served);
	answer(endpoint, served->number, status, &reference);
}

static bool move_all(struct local_queue *queue)
{
	struct local_served *served, *next;
	bool has_moved = false;

	cds_list_for_each_entry_safe (served, next, &queue->moving, moving) {
		if (!has_bytes(served) || copy_slice(served))
			move_on(served);
		has_moved = true;
	}
	return has_moved;
}

/* ---- Requests */

enum take { TAKE_DONE, TAKE_LACKS, TAKE_WRONG };

/* A request, and the pager of its memory. */
struct asked {
	struct local_page_ask ask;
	struct fabric_pager *pager;
};

static bool fits(const struct local_page_ask *ask)
{
	const uint64_t begin = (uint64_t)ask->page * LOCAL_PAGE;

	return ask->length <= FABRIC_PAGED_MAX && begin <= LOCAL_EXCHANGE_BYTES &&
	       local_ask_bytes(ask->length, ask->flags) <= LOCAL_EXCHANGE_BYTES - begin;
}

static bool are_flags_good(uint32_t flags)
{
	const bool is_write = flags & FABRIC_PAGED_WRITE;
	const uint32_t others = flags & ~(uint32_t)(FABRIC_PAGED_WRITE | FABRIC_PAGED_DURABLE |
						    FABRIC_PAGED_CHECKED);

	return fabric_paged_hints_fit(others, is_write) &&
	       ((flags & FABRIC_PAGED_DURABLE) == 0 || is_write);
}

/* Returns what is wrong with a request; NULL: nothing. */
static const char *check(struct local_endpoint *endpoint, struct asked *asked)
{
	const struct local_page_ask *ask = &asked->ask;
	struct local_paged_memory memory;

	if (!are_flags_good(ask->flags))
		return "a transfer of a kind that there is not";
	if (!fits(ask))
		return "bytes outside of the shared memory";
	if (!local_memory_find_paged(endpoint->domain, ask->key, &memory))
		return "a key that it does not have, or that has ended";
	if ((memory.access & ((ask->flags & FABRIC_PAGED_WRITE) != 0 ? FABRIC_REMOTE_WRITE
								     : FABRIC_REMOTE_READ)) == 0)
		return "an access that it does not have";
	if (ask->offset > memory.length || ask->length > memory.length - ask->offset)
		return "bytes outside of what the key is for";
	if ((ask->flags & FABRIC_PAGED_CHECKED) != 0 && ask->offset % CHECKSUM_BLOCK != 0)
		return "a checked transfer that begins inside of a block";
	asked->pager = memory.pager;
	return NULL;
}

static int end_wrong(const struct local_endpoint *endpoint, const char *what)
{
	struct ucred peer = {0};
	socklen_t length = sizeof(peer);

	getsockopt(endpoint->fd, SOL_SOCKET, SO_PEERCRED, &peer, &length);
	log_warn_some("a connection of process %d over local is ended: its ring asks for %s",
		      peer.pid, what);
	return TAKE_WRONG;
}

static void begin(struct local_served *served)
{
	struct fabric_pager *pager = served->base.pager;

	if (served->base.is_write)
		cds_list_add_tail(&served->moving, &local_queue_of(served->endpoint)->moving);
	else
		pager->begin(pager, &served->base);
}

static int take(struct local_endpoint *endpoint, const struct asked *asked)
{
	struct local_serving *serving = endpoint->serving;
	struct local_served *served =
		cds_list_first_entry(&serving->idle, struct local_served, node);
	const struct local_page_ask *ask = &asked->ask;
	int ret;

	served->base = (struct fabric_paged){
		.pager = asked->pager,
		.owner = endpoint->base.owner,
		.offset = ask->offset,
		.length = ask->length,
		.is_write = (ask->flags & FABRIC_PAGED_WRITE) != 0,
		.is_durable = (ask->flags & FABRIC_PAGED_DURABLE) != 0,
		.is_checked = (ask->flags & FABRIC_PAGED_CHECKED) != 0,
		.hints = ask->flags & FABRIC_PAGED_HINTS,
		.takes_reference = endpoint->takes_references,
		.ended = note_ended,
	};
	served->bytes = serving->exchange->bytes + (size_t)ask->page * LOCAL_PAGE;
	served->number = ask->number;
	served->moved = 0;
	served->has_ended = false;
	ret = ask->length > 0 ? asked->pager->take(asked->pager, &served->base) : 0;
	if (ret == -EAGAIN)
		return TAKE_LACKS;
	serving->nr_taken++;
	if (ret != 0 || ask->length == 0) {
		answer(endpoint, ask->number, ret, &(struct local_page_reference){0});
		return TAKE_DONE;
	}
	cds_list_move(&served->node, &serving->taken);
	begin(served);
	return TAKE_DONE;
}

/* Tells a pager what the peer has read by itself since the last look, or the last of that. */
static void take_used(struct local_serving *serving, struct fabric_pager *pager)
{
	const uint32_t nr = atomic_load_explicit(&serving->exchange->nr_used, memory_order_relaxed);
	uint32_t i =
		nr - serving->nr_used > LOCAL_USED_MAX ? nr - LOCAL_USED_MAX : serving->nr_used;

	for (; i != nr; i++) {
		const uint64_t used = atomic_load_explicit(
			&serving->exchange->used[i % LOCAL_USED_MAX], memory_order_relaxed);

		pager->used(pager, (uint32_t)(used >> 32), (uint32_t)used);
	}
	serving->nr_used = nr;
}

static int take_next(struct local_endpoint *endpoint)
{
	struct local_serving *serving = endpoint->serving;
	struct asked asked;
	const char *problem;

	if (cds_list_empty(&serving->idle))
		return end_wrong(endpoint, "more at once than there may be");
	local_exchange_copy(&asked.ask,
			    &serving->exchange->asks[serving->nr_taken % LOCAL_DEPTH_MAX],
			    sizeof(asked.ask) / sizeof(uint64_t));
	problem = check(endpoint, &asked);
	if (problem)
		return end_wrong(endpoint, problem);
	if (asked.pager->used)
		take_used(serving, asked.pager);
	return take(endpoint, &asked);
}

static uint32_t nr_news(const struct local_serving *serving)
{
	return atomic_load_explicit(&serving->exchange->asked, memory_order_acquire) -
	       serving->nr_taken;
}

/* One that waits for memory is not asked for more. */
bool local_serve_has_news(const struct local_endpoint *endpoint)
{
	struct local_serving *serving = endpoint->serving;

	return serving && !is_in_list(&serving->lacking) && nr_news(serving) != 0;
}

static void note_lack(struct local_endpoint *endpoint, bool is_lacking)
{
	struct local_serving *serving = endpoint->serving;

	if (is_lacking == is_in_list(&serving->lacking))
		return;
	if (is_lacking)
		cds_list_add_tail(&serving->lacking, &local_queue_of(endpoint)->lacking);
	else
		take_off(&serving->lacking);
}

/* Takes what is there now: a peer that keeps asking must not keep us. True: something was taken. */
static bool take_news(struct local_endpoint *endpoint)
{
	struct local_serving *serving = endpoint->serving;
	uint32_t nr = nr_news(serving), before = serving->nr_taken;
	int ret = TAKE_DONE;

	if (nr > LOCAL_DEPTH_MAX)
		ret = end_wrong(endpoint, "more at once than there may be");
	for (; nr > 0 && ret == TAKE_DONE; nr--)
		ret = take_next(endpoint);
	if (ret == TAKE_WRONG) {
		local_endpoint_break(endpoint);
		return true;
	}
	note_lack(endpoint, ret == TAKE_LACKS);
	return serving->nr_taken != before;
}

bool local_serve_progress(struct local_endpoint *endpoint)
{
	return local_serve_has_news(endpoint) && take_news(endpoint);
}

/* In the order in which they began to wait. */
static bool retry_lacking(struct local_queue *queue)
{
	struct local_serving *serving, *next;
	bool has_moved = false;

	cds_list_for_each_entry_safe (serving, next, &queue->lacking, lacking)
		has_moved |= take_news(serving->served[0].endpoint);
	return has_moved;
}

bool local_serve_poll(struct local_queue *queue)
{
	bool has_moved = move_all(queue);

	return retry_lacking(queue) || has_moved;
}
