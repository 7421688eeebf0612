/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts itself before the operations of a fabric. Owns the completions that are ahead of their writes, and the
 * writes that it holds back, every other one. It does so because networks are quick, and emulated ones do
 * what they are told at once. */
#include "early.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AHEAD_MAX    64U
#define NR_POLLS     512		 /* that a write is held for */
#define IS_COMPLETED ((uint64_t)1 << 63) /* in the context of a write that has been reported */

struct ahead {
	struct fabric_queue *queue;
	uint64_t context;
};

struct held {
	struct fabric_endpoint *endpoint;
	struct fabric_piece pieces[FABRIC_IOV_MAX];
	uint64_t remote, key, context;
	unsigned nr_pieces;
	int nr_polls; /* so many more, and it goes */
};

static const struct fabric_ops *real;
static struct fabric_ops ours;
static struct ahead ahead[AHEAD_MAX];
static struct held held[AHEAD_MAX]; /* in order */
static unsigned nr_ahead, nr_held;

static int early_write(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		       unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	struct held *write = &held[nr_held];

	if (nr_ahead == AHEAD_MAX || nr_held == AHEAD_MAX)
		return -EAGAIN;
	*write = (struct held){
		.endpoint = endpoint,
		.nr_pieces = nr_pieces,
		.remote = remote,
		.key = key,
		.context = context | IS_COMPLETED,
		.nr_polls = rand() % 2 * NR_POLLS,
	};
	memcpy(write->pieces, pieces, nr_pieces * sizeof(*pieces));
	nr_held++;
	ahead[nr_ahead++] = (struct ahead){endpoint->queue, context};
	return 0;
}

/* All that is held of an endpoint. */
static int let_go(struct fabric_endpoint *endpoint)
{
	unsigned nr_kept = 0;
	int ret = 0;

	for (unsigned i = 0; i < nr_held; i++) {
		const struct held *write = &held[i];

		if (!ret && write->endpoint == endpoint) {
			ret = real->write(endpoint, write->pieces, write->nr_pieces, write->remote,
					  write->key, write->context);
			if (!ret)
				continue;
		}
		held[nr_kept++] = *write;
	}
	nr_held = nr_kept;
	return ret;
}

static int early_read(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		      unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	int ret = let_go(endpoint);

	return ret ? ret : real->read(endpoint, pieces, nr_pieces, remote, key, context);
}

static void let_go_when_due(void)
{
	struct fabric_endpoint *due = NULL;

	for (unsigned i = 0; i < nr_held; i++) {
		if (--held[i].nr_polls <= 0)
			due = held[i].endpoint;
	}
	if (due)
		let_go(due);
}

static bool take_ahead(struct fabric_queue *queue, struct fabric_completion *out)
{
	for (unsigned i = 0; i < nr_ahead; i++) {
		if (ahead[i].queue != queue)
			continue;
		*out = (struct fabric_completion){.context = ahead[i].context};
		ahead[i] = ahead[--nr_ahead];
		return true;
	}
	return false;
}

static int early_poll(struct fabric_queue *queue, struct fabric_completion *out, unsigned max)
{
	struct fabric_completion completion;
	int count = 0;

	let_go_when_due();
	while ((unsigned)count < max && take_ahead(queue, &out[count]))
		count++;
	while ((unsigned)count < max && real->queue_poll(queue, &completion, 1) == 1) {
		if (!(completion.context & IS_COMPLETED))
			out[count++] = completion;
	}
	return count;
}

/* A thread that sleeps does not poll. */
static int early_arm(struct fabric_queue *queue)
{
	return nr_ahead || nr_held ? -EAGAIN : real->queue_arm(queue);
}

void early_begin(struct fabric *fabric)
{
	real = fabric->ops;
	ours = *real;
	ours.read = early_read;
	ours.write = early_write;
	ours.queue_poll = early_poll;
	ours.queue_arm = early_arm;
	fabric->ops = &ours;
	fabric->attributes.writes_need_flush = true;
}
