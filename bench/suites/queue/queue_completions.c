/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `queue` about completions: the three ways to wait for them, against a dispatcher
 * thread that does all the reaping. They measure the time from submitting a small read until the
 * thread that waits for it has it, on average. It is elapsed time, times operations in flight,
 * divided by operations.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "peers/dispatcher.h"
#include "queue.h"

#define NR_READS   UINT64_C(8192)
#define READ_BYTES 64U
#define THREADS	   2U
#define SLOTS	   4U /* at most in flight */

/* The operations that are in flight. */
struct flight {
	struct afar_iov iov[SLOTS];
	struct afar_op ops[SLOTS];
	struct request requests[SLOTS];
	uint64_t nr_submitted;
};

struct completions_stage {
	struct queue_scene scene;
	struct afar_queue *queues[THREADS];
	struct waiter *waiters[SLOTS];
	struct flight flights[THREADS]; /* one thread uses the first */
};

/* A way to wait: how, and with how much in flight. */
struct way {
	int (*run_ours)(struct completions_stage *state, const struct way *way, uint64_t *ns);
	int (*run_dispatched)(struct completions_stage *state, const struct way *way, uint64_t *ns);
	unsigned in_flight;
};

static struct flight *prepare(struct completions_stage *state, unsigned thread)
{
	struct flight *flight = &state->flights[thread];

	*flight = (struct flight){0};
	for (unsigned i = 0; i < SLOTS; i++)
		flight->ops[i] = queue_read(&state->scene, i, READ_BYTES, &flight->iov[i]);
	return flight;
}

static int check(int64_t result)
{
	return result == READ_BYTES ? 0 : scene_fail("a read", (int)result);
}

/* ---- Ours */

static int submit(struct flight *flight, struct afar_queue *queue, unsigned slot)
{
	flight->ops[slot].offset = queue_offset(flight->nr_submitted++, READ_BYTES);
	return queue_submit_all(queue, &flight->ops[slot], 1);
}

static int submit_first(struct flight *flight, struct afar_queue *queue, unsigned nr)
{
	int ret = 0;

	for (unsigned slot = 0; slot < nr && !ret; slot++)
		ret = submit(flight, queue, slot);
	return ret;
}

/* Reaps what there is, and submits again as much. */
static int turn_over(struct flight *flight, struct afar_queue *queue, uint64_t *nr_done)
{
	struct afar_completion done[SLOTS];
	int nr = afar_queue_wait(queue, done, SLOTS, 1, -1);
	int ret = nr > 0 ? 0 : scene_fail("wait", nr ? nr : -EIO);

	for (int i = 0; i < nr && !ret; i++) {
		(*nr_done)++;
		ret = check(done[i].result);
		if (!ret && flight->nr_submitted < NR_READS)
			ret = submit(flight, queue, (unsigned)done[i].user_data);
	}
	return ret;
}

static int reap_any(struct completions_stage *state, const struct way *way, uint64_t *ns)
{
	struct flight *flight = prepare(state, 0);
	uint64_t begin = clock_ns();
	uint64_t nr_done = 0;
	int ret;

	ret = submit_first(flight, state->queues[0], way->in_flight);
	while (!ret && nr_done < NR_READS)
		ret = turn_over(flight, state->queues[0], &nr_done);
	*ns = clock_ns() - begin;
	return ret;
}

static int wait_for_one(struct completions_stage *state, const struct way *way, uint64_t *ns)
{
	struct afar_completion done;
	struct flight *flight = prepare(state, 0);
	uint64_t begin = clock_ns();
	int ret;

	ret = submit_first(flight, state->queues[0], way->in_flight);
	for (uint64_t i = 0; i < NR_READS && !ret; i++) {
		unsigned slot = (unsigned)(i % way->in_flight);

		ret = afar_queue_wait_one(state->queues[0], slot, &done, -1);
		ret = ret ? scene_fail("wait for one", ret) : check(done.result);
		if (!ret && flight->nr_submitted < NR_READS)
			ret = submit(flight, state->queues[0], slot);
	}
	*ns = clock_ns() - begin;
	return ret;
}

/* ---- By a dispatcher */

static int submit_dispatched(struct flight *flight, struct dispatcher *dispatcher, unsigned slot)
{
	flight->ops[slot].offset = queue_offset(flight->nr_submitted++, READ_BYTES);
	return dispatcher_submit(dispatcher, &flight->ops[slot], &flight->requests[slot]);
}

/* For NR_READS operations, `nr` in flight: one waiter for all, or one for each, who are asked in turn. */
static int await_dispatched(struct completions_stage *state, struct flight *flight,
			    struct dispatcher *dispatcher, unsigned nr, unsigned nr_waiters)
{
	unsigned turn = 0;
	int ret = 0;

	for (unsigned slot = 0; slot < nr && !ret; slot++) {
		flight->requests[slot].waiter = state->waiters[slot < nr_waiters ? slot : 0];
		ret = submit_dispatched(flight, dispatcher, slot);
	}
	for (uint64_t i = 0; i < NR_READS && !ret; i++) {
		struct request *done = waiter_wait(state->waiters[turn]);

		turn = turn + 1 < nr_waiters ? turn + 1 : 0;
		ret = check(done->result);
		if (!ret && flight->nr_submitted < NR_READS)
			ret = submit_dispatched(flight, dispatcher,
						(unsigned)(done - flight->requests));
	}
	return ret;
}

static int run_with_dispatcher(struct completions_stage *state, unsigned in_flight,
			       unsigned nr_waiters, uint64_t *ns)
{
	struct dispatcher *dispatcher;
	struct flight *flight = prepare(state, 0);
	uint64_t begin;
	int ret = dispatcher_start(state->queues[0], &dispatcher);

	if (ret)
		return ret;
	begin = clock_ns();
	ret = await_dispatched(state, flight, dispatcher, in_flight, nr_waiters);
	*ns = clock_ns() - begin;
	dispatcher_stop(dispatcher);
	return ret;
}

static int dispatch_any(struct completions_stage *state, const struct way *way, uint64_t *ns)
{
	return run_with_dispatcher(state, way->in_flight, 1, ns);
}

/* Each operation has a waiter of its own. */
static int dispatch_one(struct completions_stage *state, const struct way *way, uint64_t *ns)
{
	return run_with_dispatcher(state, way->in_flight, way->in_flight, ns);
}

/* ---- Groups: threads with a queue each, one operation in flight on each */

struct member {
	struct completions_stage *state;
	struct dispatcher *dispatcher; /* NULL: the queue is its own */
	unsigned index;
	pthread_t thread;
	int status;
};

static int read_one(struct member *member, struct flight *flight)
{
	struct afar_queue *queue = member->state->queues[member->index];
	struct afar_completion done;
	int ret;

	if (member->dispatcher) {
		ret = submit_dispatched(flight, member->dispatcher, member->index);
		return ret ? ret
			   : check(waiter_wait(member->state->waiters[member->index])->result);
	}
	ret = submit(flight, queue, member->index);
	if (ret)
		return ret;
	ret = afar_queue_wait(queue, &done, 1, 1, -1);
	return ret == 1 ? check(done.result) : scene_fail("wait", ret ? ret : -EIO);
}

static void *be_member(void *argument)
{
	struct member *member = argument;
	struct flight *flight = prepare(member->state, member->index);

	flight->requests[member->index].waiter = member->state->waiters[member->index];
	while (!member->status && flight->nr_submitted < NR_READS)
		member->status = read_one(member, flight);
	return NULL;
}

/* Until the last one is through: what starting them takes is next to nothing of it. */
static int run_members(struct completions_stage *state, struct dispatcher *dispatcher, uint64_t *ns)
{
	struct member members[THREADS] = {0};
	uint64_t begin = clock_ns();
	unsigned nr = 0;
	int ret = 0;

	while (nr < THREADS && !ret) {
		members[nr] =
			(struct member){.state = state, .dispatcher = dispatcher, .index = nr};
		ret = -pthread_create(&members[nr].thread, NULL, be_member, &members[nr]);
		if (!ret)
			nr++;
	}
	if (ret)
		bench_fail(ret, "no thread for a group");
	for (unsigned i = 0; i < nr; i++) {
		pthread_join(members[i].thread, NULL);
		if (members[i].status)
			ret = members[i].status;
	}
	*ns = clock_ns() - begin;
	return ret;
}

static int group(struct completions_stage *state, const struct way *way, uint64_t *ns)
{
	(void)way;
	return run_members(state, NULL, ns);
}

static int dispatch_group(struct completions_stage *state, const struct way *way, uint64_t *ns)
{
	struct dispatcher *dispatcher;
	int ret = dispatcher_start(state->queues[0], &dispatcher);

	(void)way;
	if (ret)
		return ret;
	ret = run_members(state, dispatcher, ns);
	dispatcher_stop(dispatcher);
	return ret;
}

/* ---- Rows */

static double latency_us(const struct way *way, uint64_t ns)
{
	return (double)ns * way->in_flight / (double)NR_READS / 1e3;
}

static int settle(struct completions_stage *state, const struct way *way, int status, uint64_t ns,
		  double *value)
{
	if (!status)
		*value = latency_us(way, ns);
	for (unsigned i = 0; i < THREADS && status; i++)
		queue_drain(state->queues[i]);
	return status;
}

static int run_ours(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct way *way = row->parameters;
	uint64_t ns = 0;
	int ret = way->run_ours(stage, way, &ns);

	(void)repetition;
	return settle(stage, way, ret, ns, value);
}

static int run_dispatched(void *stage, const struct bench_row *row, unsigned repetition,
			  double *value)
{
	const struct way *way = row->parameters;
	uint64_t ns = 0;
	int ret = way->run_dispatched(stage, way, &ns);

	(void)repetition;
	return settle(stage, way, ret, ns, value);
}

/* Measures what a dispatcher adds. The side that goes first alternates, as it does between ours and
 * a reference. */
static int run_saved(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	double ours = 0;
	double dispatched = 0;
	int ret = 0;

	if (repetition % 2 == 0)
		ret = run_ours(stage, row, repetition, &ours);
	if (!ret)
		ret = run_dispatched(stage, row, repetition, &dispatched);
	if (!ret && repetition % 2)
		ret = run_ours(stage, row, repetition, &ours);
	*value = dispatched - ours;
	return ret;
}

static int run_two_microseconds(void *stage, const struct bench_row *row, unsigned repetition,
				double *value)
{
	(void)stage;
	(void)row;
	(void)repetition;
	*value = 2;
	return 0;
}

static void teardown(void *stage)
{
	struct completions_stage *state = stage;

	for (unsigned i = 0; i < SLOTS; i++)
		waiter_free(state->waiters[i]);
	for (unsigned i = 0; i < THREADS; i++) {
		if (state->queues[i])
			afar_queue_close(state->queues[i]);
	}
	queue_scene_close(&state->scene);
	free(state);
}

static int setup(void **stage)
{
	struct completions_stage *state = calloc(1, sizeof(*state));
	int ret;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = queue_scene_open(&state->scene);
	for (unsigned i = 0; i < THREADS && !ret; i++)
		ret = queue_scene_connect(&state->scene, QUEUE_SLOTS, &state->queues[i]);
	for (unsigned i = 0; i < SLOTS && !ret; i++)
		ret = waiter_new(&state->waiters[i]);
	if (ret) {
		teardown(state);
		return ret;
	}
	*stage = state;
	return 0;
}

#define ANY(nr)	   (&(const struct way){reap_any, dispatch_any, (nr)})
#define ONE(nr)	   (&(const struct way){wait_for_one, dispatch_one, (nr)})
#define GROUP	   (&(const struct way){group, dispatch_group, 1})
#define DISPATCHER "a dispatcher thread that reaps for all and wakes who waits"
#define TWO	   "2 µs: what Afar must be quicker by than with a dispatcher"

static const struct bench_row rows[] = {
	{"reap any, 1 in flight", "µs", BENCH_LOWER, DISPATCHER, BENCH_REPORTED, ANY(1), run_ours,
	 run_dispatched},
	{"reap any, 4 in flight", "µs", BENCH_LOWER, DISPATCHER, BENCH_REPORTED, ANY(4), run_ours,
	 run_dispatched},
	{"wait for one, 1 in flight", "µs", BENCH_LOWER, DISPATCHER, BENCH_REPORTED, ONE(1),
	 run_ours, run_dispatched},
	{"wait for one, 4 in flight", "µs", BENCH_LOWER, DISPATCHER, BENCH_REPORTED, ONE(4),
	 run_ours, run_dispatched},
	{"groups, 2 threads", "µs", BENCH_LOWER, DISPATCHER, BENCH_REPORTED, GROUP, run_ours,
	 run_dispatched},
	{"saved, reap any, 1 in flight", "µs", BENCH_HIGHER, TWO, 1, ANY(1), run_saved,
	 run_two_microseconds},
	{"saved, reap any, 4 in flight", "µs", BENCH_HIGHER, TWO, 1, ANY(4), run_saved,
	 run_two_microseconds},
	{"saved, wait for one, 1 in flight", "µs", BENCH_HIGHER, TWO, 1, ONE(1), run_saved,
	 run_two_microseconds},
	{"saved, wait for one, 4 in flight", "µs", BENCH_HIGHER, TWO, 1, ONE(4), run_saved,
	 run_two_microseconds},
	{"saved, groups, 2 threads", "µs", BENCH_HIGHER, TWO, 1, GROUP, run_saved,
	 run_two_microseconds},
};

const struct bench_stage queue_completions_stage = {setup, teardown, rows, NR_ROWS(rows)};
