/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts itself before the operations of a fabric. Owns the completions that are ahead of their writes. */
#include "early.h"

#include <errno.h>

#define AHEAD_MAX    64U
#define IS_COMPLETED ((uint64_t)1 << 63) /* in the context of a write that has been reported */

struct ahead {
	struct fabric_queue *queue;
	uint64_t context;
};

static const struct fabric_ops *real;
static struct fabric_ops ours;
static struct ahead ahead[AHEAD_MAX];
static unsigned nr_ahead;

static int early_write(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		       unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	int ret;

	if (nr_ahead == AHEAD_MAX)
		return -EAGAIN;
	ret = real->write(endpoint, pieces, nr_pieces, remote, key, context | IS_COMPLETED);
	if (!ret)
		ahead[nr_ahead++] = (struct ahead){endpoint->queue, context};
	return ret;
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

	while ((unsigned)count < max && take_ahead(queue, &out[count]))
		count++;
	while ((unsigned)count < max && real->queue_poll(queue, &completion, 1) == 1) {
		if (!(completion.context & IS_COMPLETED))
			out[count++] = completion;
	}
	return count;
}

static int early_arm(struct fabric_queue *queue)
{
	for (unsigned i = 0; i < nr_ahead; i++) {
		if (ahead[i].queue == queue)
			return -EAGAIN;
	}
	return real->queue_arm(queue);
}

void early_begin(struct fabric *fabric)
{
	real = fabric->ops;
	ours = *real;
	ours.write = early_write;
	ours.queue_poll = early_poll;
	ours.queue_arm = early_arm;
	fabric->ops = &ours;
	fabric->attributes.writes_need_flush = true;
}
