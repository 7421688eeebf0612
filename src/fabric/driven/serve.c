/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The serving end: what a peer asks for becomes a transfer of a pager, and moves between the pager's
 * memory and the peer's. Called by endpoint.c and queue.c, on the thread of the endpoint's queue. An
 * endpoint that was accepted owns its part here.
 *
 * Asks wait until the pager has memory for them, in the order in which they came. A write's bytes are
 * fetched before it begins. A read's are on their way before its answer is sent, on the
 * same connection, and so they are there first.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "fabric/driven/driven.h"

int driven_serve_open(struct driven_endpoint *endpoint)
{
	endpoint->served = calloc(DRIVEN_RECEIVES, sizeof(*endpoint->served));
	if (!endpoint->served)
		return error_code(-ENOMEM);
	for (unsigned i = 0; i < DRIVEN_RECEIVES; i++) {
		endpoint->served[i].endpoint = endpoint;
		CDS_INIT_LIST_HEAD(&endpoint->served[i].node);
		CDS_INIT_LIST_HEAD(&endpoint->served[i].moving);
	}
	return 0;
}

static uint32_t number_of(const struct driven_served *served)
{
	return (uint32_t)(served - served->endpoint->served);
}

static struct driven_queue *queue_of(const struct driven_served *served)
{
	return driven_queue_of(served->endpoint);
}

/* It stays until what it asks for has ended. */
static const struct driven_message *message_of(const struct driven_served *served)
{
	return &served->endpoint->slots->received[number_of(served)];
}

/* ---- Ending */

/* Gives the pager's memory back. Others may be waiting for it. */
static void let_go(struct driven_served *served)
{
	struct driven_queue *queue = queue_of(served);
	struct fabric_pager *pager = served->base.pager;

	if (served->own.domain)
		fabric_memory_deregister(&served->own);
	served->own = (struct fabric_memory){0};
	if (!served->is_taken)
		return;
	served->is_taken = false;
	queue->has_left = true;
	pager->leave(pager, &served->base);
}

static void take_off_all(struct driven_served *served)
{
	driven_take_off(&served->node);
	driven_take_off(&served->moving);
}

static void finish(struct driven_served *served)
{
	let_go(served);
	take_off_all(served);
	driven_post_receive(served->endpoint, number_of(served));
}

void driven_serve_close(struct driven_endpoint *endpoint)
{
	if (driven_is_listed(&endpoint->lacking))
		driven_take_off(&endpoint->lacking);
	for (unsigned i = 0; i < DRIVEN_RECEIVES && endpoint->served; i++) {
		let_go(&endpoint->served[i]);
		take_off_all(&endpoint->served[i]);
	}
	free(endpoint->served);
}

/* ---- Moving bytes */

static void stall(struct driven_served *served)
{
	if (!driven_is_listed(&served->moving))
		cds_list_add_tail(&served->moving, &queue_of(served)->stalled);
}

/* Looks at what came of posting below. True: it was taken. */
static bool was_posted(struct driven_served *served, int ret)
{
	struct driven_endpoint *endpoint = served->endpoint;

	if (ret == 0) {
		served->nr_under_way++;
		return true;
	}
	/* A peer that knows that it is connected may ask before we do. */
	if (ret == -EAGAIN || (ret == -ENOTCONN && !endpoint->is_connected))
		stall(served);
	else
		driven_break(endpoint, -ECONNRESET, NULL);
	return false;
}

/* Posts the moves of all pieces. False: some are left. */
static bool post_moves(struct driven_served *served)
{
	struct driven_endpoint *endpoint = served->endpoint;

	while (served->nr_posted < served->ask.nr_pieces) {
		const struct driven_piece *theirs = &served->ask.pieces[served->nr_posted];
		const struct fabric_piece ours = {(uint8_t *)served->base.addr + served->moved,
						  theirs->length, served->descriptor};
		const uint64_t context = endpoint->context | DRIVEN_MOVE | number_of(served);

		if (!was_posted(served, (served->base.is_write ? fabric_read : fabric_write)(
						endpoint->below, &ours, 1, theirs->addr,
						theirs->key, context)))
			return false;
		served->nr_posted++;
		served->nr_moving++;
		served->moved += theirs->length;
	}
	return true;
}

/* Makes the answer, once. The memory of what brings no bytes is not wanted any more. */
static void make_answer(struct driven_served *served)
{
	struct driven_message *message = &served->endpoint->slots->out[number_of(served)];
	const bool is_read = !served->base.is_write && served->status == 0;
	const uint32_t nr_sums =
		is_read && served->base.is_checked ? driven_nr_sums(served->ask.length) : 0;

	if (served->answer_length > 0)
		return;
	served->answer_length = driven_encode_answer(message, served->ask.number, served->status,
						     served->base.sums, nr_sums);
	if (is_read)
		counter_add(&queue_of(served)->base.bytes_out, served->ask.length);
	else
		let_go(served);
}

static bool post_answer(struct driven_served *served)
{
	const uint32_t number = number_of(served);
	struct driven_endpoint *endpoint = served->endpoint;

	make_answer(served);
	served->is_answered = was_posted(
		served, driven_post_message(endpoint, &endpoint->slots->out[number],
					    served->answer_length, DRIVEN_SEND_ANSWER | number));
	return served->is_answered;
}

static void begin(struct driven_served *served)
{
	struct fabric_pager *pager = served->base.pager;

	served->has_begun = true;
	if (served->base.is_write)
		counter_add(&queue_of(served)->base.bytes_in, served->ask.length);
	pager->begin(pager, &served->base);
}

/* Goes on as far as it can without waiting. */
static void go_on(struct driven_served *served)
{
	const bool is_write = served->base.is_write;

	if (served->endpoint->is_broken)
		return;
	if (!served->has_ended) {
		if (is_write && !served->has_begun && post_moves(served) &&
		    served->nr_under_way == 0)
			begin(served);
		return;
	}
	if (!is_write && served->status == 0 && !post_moves(served))
		return;
	if (!served->is_answered && !post_answer(served))
		return;
	/* A peer that takes no answers keeps nobody's memory. */
	if (served->nr_moving == 0)
		let_go(served);
	if (served->nr_under_way == 0)
		finish(served);
}

void driven_serve_moved(struct driven_endpoint *endpoint, uint32_t number)
{
	struct driven_served *served = &endpoint->served[number];

	served->nr_moving--;
	served->nr_under_way--;
	go_on(served);
}

void driven_serve_answered(struct driven_endpoint *endpoint, uint32_t number)
{
	struct driven_served *served = &endpoint->served[number];

	served->nr_under_way--;
	go_on(served);
}

/* The pager calls it, from anywhere on the queue's thread. The next poll goes on. */
static void note_ended(struct fabric_paged *base)
{
	struct driven_served *served = driven_container(base, struct driven_served);

	served->has_ended = true;
	served->status = base->status;
	cds_list_add_tail(&served->moving, &queue_of(served)->ended);
}

/* ---- Taking */

/* Finds the descriptor of the pager's memory, or registers that for this transfer. */
static int find_descriptor(struct driven_served *served)
{
	const struct driven_fabric *fabric = driven_fabric_of(served->endpoint);
	const struct fabric_paged *base = &served->base;
	int ret;

	if (driven_find_lent(fabric, base->addr, base->length, &served->descriptor))
		return 0;
	ret = fabric_memory_register(fabric->below->domain, base->addr, base->length, FABRIC_LOCAL,
				     &served->own);
	served->descriptor = served->own.descriptor;
	return ret == 0 ? 0 : -ENOMEM;
}

static void start(struct driven_served *served)
{
	struct fabric_paged *base = &served->base;

	if (served->status == 0 && served->is_taken)
		served->status = find_descriptor(served);
	if (served->status != 0 || !served->is_taken) {
		served->has_ended = true;
		go_on(served);
		return;
	}
	if (base->is_write && base->is_checked)
		driven_take_sums(message_of(served), &served->ask, base->sums);
	if (base->is_write)
		go_on(served);
	else
		begin(served);
}

/* Has the pager take memory. Returns what is wrong with the ask; NULL: nothing. */
static const char *take(struct driven_served *served, bool *is_waiting)
{
	const struct driven_ask *ask = &served->ask;
	struct driven_endpoint *endpoint = served->endpoint;
	struct fabric_pager *pager = NULL;
	const char *problem = driven_find_pager(endpoint->domain, ask, &pager);
	int ret;

	*is_waiting = false;
	if (problem)
		return problem;
	served->base = (struct fabric_paged){
		.pager = pager,
		.owner = endpoint->base.owner,
		.offset = ask->offset,
		.length = ask->length,
		.is_write = (ask->flags & DRIVEN_WRITE) != 0,
		.is_durable = (ask->flags & DRIVEN_DURABLE) != 0,
		.is_checked = (ask->flags & DRIVEN_CHECKED) != 0,
		.is_moved_in_place = true,
		.ended = note_ended,
	};
	ret = ask->length > 0 ? pager->take(pager, &served->base) : 0;
	*is_waiting = ret == -EAGAIN;
	if (*is_waiting)
		return NULL;
	served->is_taken = ret == 0 && ask->length > 0;
	served->status = ret;
	cds_list_del(&served->node);
	cds_list_add_tail(&served->node, &endpoint->taken);
	start(served);
	return NULL;
}

/* Takes those that wait, in order, until there is no memory. False: the first still waits. */
static bool take_waiting(struct driven_endpoint *endpoint)
{
	bool is_waiting = false;

	while (!is_waiting && !endpoint->is_broken && !cds_list_empty(&endpoint->waiting)) {
		struct driven_served *first =
			cds_list_first_entry(&endpoint->waiting, struct driven_served, node);
		const char *problem = take(first, &is_waiting);

		if (problem)
			driven_break(endpoint, -ECONNRESET, problem);
	}
	return !is_waiting;
}

static void note_lack(struct driven_endpoint *endpoint, bool is_lacking)
{
	if (is_lacking == driven_is_listed(&endpoint->lacking))
		return;
	if (is_lacking)
		cds_list_add_tail(&endpoint->lacking, &driven_queue_of(endpoint)->lacking);
	else
		driven_take_off(&endpoint->lacking);
}

const char *driven_serve_take(struct driven_endpoint *endpoint, uint32_t number)
{
	struct driven_served *served = &endpoint->served[number];
	const char *problem;

	served->nr_posted = served->nr_moving = served->nr_under_way = 0;
	served->moved = 0;
	served->answer_length = 0;
	served->status = 0;
	served->is_taken = served->has_begun = served->has_ended = served->is_answered = false;
	problem = driven_decode_ask(message_of(served), &served->ask);
	if (problem)
		return problem;
	cds_list_add_tail(&served->node, &endpoint->waiting);
	if (!driven_is_listed(&endpoint->lacking))
		note_lack(endpoint, !take_waiting(endpoint));
	return NULL;
}

/* ---- Polling */

/* Each at most once: what stalls again waits for the next poll. */
static bool go_on_with(struct cds_list_head *list)
{
	CDS_LIST_HEAD(now);
	bool has_moved = false;

	if (cds_list_empty(list))
		return false;
	cds_list_splice(list, &now);
	CDS_INIT_LIST_HEAD(list);
	while (!cds_list_empty(&now)) {
		struct driven_served *served =
			cds_list_first_entry(&now, struct driven_served, moving);

		driven_take_off(&served->moving);
		go_on(served);
		has_moved = true;
	}
	return has_moved;
}

/* In the order in which they began to wait. */
static bool retry_lacking(struct driven_queue *queue)
{
	struct driven_endpoint *endpoint, *next;
	bool has_moved = false;

	queue->has_left = false;
	cds_list_for_each_entry_safe (endpoint, next, &queue->lacking, lacking) {
		if (!take_waiting(endpoint))
			continue;
		note_lack(endpoint, false);
		has_moved = true;
	}
	return has_moved;
}

bool driven_serve_poll(struct driven_queue *queue)
{
	bool has_moved = retry_lacking(queue);

	go_on_with(&queue->stalled);
	return go_on_with(&queue->ended) || has_moved;
}
