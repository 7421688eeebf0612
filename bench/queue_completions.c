/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `queue` about completions: the three ways to wait for them, against a dispatcher
 * thread that does all the reaping. They measure the time from submitting a small read until the
 * thread that waits for it has it, on average: elapsed time, times operations in flight, divided by
 * operations.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "dispatcher.h"
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
	int status = 0;

	for (unsigned slot = 0; slot < nr && !status; slot++)
		status = submit(flight, queue, slot);
	return status;
}

/* Reaps what there is, and submits again as much. */
static int turn_over(struct flight *flight, struct afar_queue *queue, uint64_t *nr_done)
{
	struct afar_completion done[SLOTS];
	int nr = afar_queue_wait(queue, done, SLOTS, 1, -1);
	int status = nr > 0 ? 0 : scene_fail("wait", nr ? nr : -EIO);

	for (int i = 0; i < nr && !status; i++) {
		(*nr_done)++;
		status = check(done[i].result);
		if (!status && flight->nr_submitted < NR_READS)
			status = submit(flight, queue, (unsigned)done[i].user_data);
	}
	return status;
}

static int reap_any(struct completions_stage *state, const struct way *way, uint64_t *ns)
{
	struct flight *flight = prepare(state, 0);
	uint64_t begin = clock_ns();
	uint64_t nr_done = 0;
	int status;

	status = submit_first(flight, state->queues[0], way->in_flight);
	while (!status && nr_done < NR_READS)
		status = turn_over(flight, state->queues[0], &nr_done);
	*ns = clock_ns() - begin;
	return status;
}

static int wait_for_one(struct completions_stage *state, const struct way *way, uint64_t *ns)
{
	struct afar_completion done;
	struct flight *flight = prepare(state, 0);
	uint64_t begin = clock_ns();
	int status;

	status = submit_first(flight, state->queues[0], way->in_flight);
	for (uint64_t i = 0; i < NR_READS && !status; i++) {
		unsigned slot = (unsigned)(i % way->in_flight);

		status = afar_queue_wait_one(state->queues[0], slot, &done, -1);
		status = status ? scene_fail("wait for one", status) : check(done.result);
		if (!status && flight->nr_submitted < NR_READS)
			status = submit(flight, state->queues[0], slot);
	}
	*ns = clock_ns() - begin;
	return status;
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
	int status = 0;

	for (unsigned slot = 0; slot < nr && !status; slot++) {
		flight->requests[slot].waiter = state->waiters[slot < nr_waiters ? slot : 0];
		status = submit_dispatched(flight, dispatcher, slot);
	}
	for (uint64_t i = 0; i < NR_READS && !status; i++) {
		struct request *done = waiter_wait(state->waiters[turn]);

		turn = turn + 1 < nr_waiters ? turn + 1 : 0;
		status = check(done->result);
		if (!status && flight->nr_submitted < NR_READS)
			status = submit_dispatched(flight, dispatcher,
						   (unsigned)(done - flight->requests));
	}
	return status;
}

static int run_with_dispatcher(struct completions_stage *state, unsigned in_flight,
			       unsigned nr_waiters, uint64_t *ns)
{
	struct dispatcher *dispatcher;
	struct flight *flight = prepare(state, 0);
	uint64_t begin;
	int status = dispatcher_start(state->queues[0], &dispatcher);

	if (status)
		return status;
	begin = clock_ns();
	status = await_dispatched(state, flight, dispatcher, in_flight, nr_waiters);
	*ns = clock_ns() - begin;
	dispatcher_stop(dispatcher);
	return status;
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
	int status;

	if (member->dispatcher) {
		status = submit_dispatched(flight, member->dispatcher, member->index);
		return status ? status
			      : check(waiter_wait(member->state->waiters[member->index])->result);
	}
	status = submit(flight, queue, member->index);
	if (status)
		return status;
	status = afar_queue_wait(queue, &done, 1, 1, -1);
	return status == 1 ? check(done.result) : scene_fail("wait", status ? status : -EIO);
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
	int status = 0;

	while (nr < THREADS && !status) {
		members[nr] =
			(struct member){.state = state, .dispatcher = dispatcher, .index = nr};
		status = -pthread_create(&members[nr].thread, NULL, be_member, &members[nr]);
		if (!status)
			nr++;
	}
	if (status)
		bench_fail(status, "no thread for a group");
	for (unsigned i = 0; i < nr; i++) {
		pthread_join(members[i].thread, NULL);
		if (members[i].status)
			status = members[i].status;
	}
	*ns = clock_ns() - begin;
	return status;
}

static int group(struct completions_stage *state, const struct way *way, uint64_t *ns)
{
	(void)way;
	return run_members(state, NULL, ns);
}

static int dispatch_group(struct completions_stage *state, const struct way *way, uint64_t *ns)
{
	struct dispatcher *dispatcher;
	int status = dispatcher_start(state->queues[0], &dispatcher);

	(void)way;
	if (status)
		return status;
	status = run_members(state, dispatcher, ns);
	dispatcher_stop(dispatcher);
	return status;
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
	int status = way->run_ours(stage, way, &ns);

	(void)repetition;
	return settle(stage, way, status, ns, value);
}

static int run_dispatched(void *stage, const struct bench_row *row, unsigned repetition,
			  double *value)
{
	const struct way *way = row->parameters;
	uint64_t ns = 0;
	int status = way->run_dispatched(stage, way, &ns);

	(void)repetition;
	return settle(stage, way, status, ns, value);
}

/* Measures what a dispatcher adds. The side that goes first alternates, as it does between ours and
 * a reference. */
static int run_saved(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	double ours = 0;
	double dispatched = 0;
	int status = 0;

	if (repetition % 2 == 0)
		status = run_ours(stage, row, repetition, &ours);
	if (!status)
		status = run_dispatched(stage, row, repetition, &dispatched);
	if (!status && repetition % 2)
		status = run_ours(stage, row, repetition, &ours);
	*value = dispatched - ours;
	return status;
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
	int status;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	status = queue_scene_open(&state->scene);
	for (unsigned i = 0; i < THREADS && !status; i++)
		status = queue_scene_connect(&state->scene, QUEUE_SLOTS, &state->queues[i]);
	for (unsigned i = 0; i < SLOTS && !status; i++)
		status = waiter_new(&state->waiters[i]);
	if (status) {
		teardown(state);
		return status;
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
