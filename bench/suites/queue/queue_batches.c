/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `queue` about batches. Reads in flight fill all slots, and are submitted in batches
 * of a size. The value is reads for each second of CPU time of the thread that does it.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "harness/process.h"
#include "queue.h"

#define DEPTH	 QUEUE_SLOTS
#define NR_READS UINT64_C(65536)

struct batches {
	size_t size;	/* of each read                 */
	unsigned batch; /* that ours submits at a time */
};

/* The rates of one measurement, per second of its time. */
struct pace {
	double operations;
	double client_cpu;
	double server_cpu;
};

struct batches_stage {
	struct queue_scene scene;
	struct afar_queue *queue;
	struct afar_iov iov[DEPTH];
	struct afar_op ops[DEPTH]; /* the free ones first: nr_free of them */
	unsigned nr_free;
	struct pace ours;
	struct pace reference;
};

static uint64_t thread_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* Submits the free operations in batches: as many as are full. */
static int submit_batches(struct batches_stage *state, const struct batches *batches,
			  uint64_t *nr_submitted)
{
	while (state->nr_free >= batches->batch && *nr_submitted < NR_READS) {
		struct afar_op *first = &state->ops[state->nr_free - batches->batch];
		int ret;

		for (unsigned i = 0; i < batches->batch; i++)
			first[i].offset = queue_offset((*nr_submitted)++, batches->size);
		ret = queue_submit_all(state->queue, first, batches->batch);
		if (ret)
			return ret;
		state->nr_free -= batches->batch;
	}
	return 0;
}

/* Waits until there are enough for a batch, and takes what has come. */
static int reap(struct batches_stage *state, const struct batches *batches)
{
	struct afar_completion done[DEPTH];
	unsigned wanted = state->nr_free < batches->batch ? batches->batch - state->nr_free : 1;
	int nr = afar_queue_wait(state->queue, done, DEPTH, wanted, -1);

	if (nr <= 0)
		return scene_fail("wait", nr ? nr : -EIO);
	for (int i = 0; i < nr; i++) {
		unsigned slot = (unsigned)done[i].user_data;

		if (done[i].result != (int64_t)batches->size)
			return scene_fail_operation("a read", state->queue, &done[i]);
		state->ops[state->nr_free++] =
			queue_read(&state->scene, slot, batches->size, &state->iov[slot]);
	}
	return 0;
}

static int run(struct batches_stage *state, const struct batches *batches, struct pace *pace,
	       double *value)
{
	uint64_t server_ns = process_cpu_ns(cluster_server(state->scene.cluster, 0));
	uint64_t cpu_ns = thread_cpu_ns();
	uint64_t begin = clock_ns();
	uint64_t nr_submitted = 0;
	double elapsed_ns;
	int ret = 0;

	for (unsigned i = 0; i < DEPTH; i++)
		state->ops[i] = queue_read(&state->scene, i, batches->size, &state->iov[i]);
	state->nr_free = DEPTH;
	while (!ret && (nr_submitted < NR_READS || state->nr_free < DEPTH)) {
		ret = submit_batches(state, batches, &nr_submitted);
		if (!ret)
			ret = reap(state, batches);
	}
	if (ret) {
		queue_drain(state->queue);
		return ret;
	}
	elapsed_ns = (double)(clock_ns() - begin);
	cpu_ns = thread_cpu_ns() - cpu_ns;
	server_ns = process_cpu_ns(cluster_server(state->scene.cluster, 0)) - server_ns;
	*pace = (struct pace){
		.operations = (double)NR_READS / elapsed_ns * 1e6,
		.client_cpu = (double)cpu_ns / elapsed_ns,
		.server_cpu = (double)server_ns / elapsed_ns,
	};
	*value = (double)NR_READS / (double)cpu_ns * 1e6;
	bench_note("thousands per second: %.0f, of the reference %.0f; CPU seconds per second: "
		   "client %.2f and %.2f, server %.2f and %.2f",
		   state->ours.operations, state->reference.operations, state->ours.client_cpu,
		   state->reference.client_cpu, state->ours.server_cpu,
		   state->reference.server_cpu);
	return 0;
}

static int run_batches(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct batches_stage *state = stage;

	(void)repetition;
	return run(state, row->parameters, &state->ours, value);
}

static int run_singles(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct batches *batches = row->parameters;
	struct batches_stage *state = stage;

	(void)repetition;
	return run(state, &(const struct batches){batches->size, 1}, &state->reference, value);
}

static void teardown(void *stage)
{
	struct batches_stage *state = stage;

	if (state->queue)
		afar_queue_close(state->queue);
	queue_scene_close(&state->scene);
	free(state);
}

static int setup(void **stage)
{
	struct batches_stage *state = calloc(1, sizeof(*state));
	int ret;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = queue_scene_open(&state->scene);
	if (!ret)
		ret = queue_scene_connect(&state->scene, DEPTH, &state->queue);
	if (ret) {
		teardown(state);
		return ret;
	}
	*stage = state;
	return 0;
}

#define BATCHES(bytes, nr) (&(const struct batches){(bytes), (nr)})
#define SINGLES		   "the same in batches of 1; operations per CPU second of the client's thread"
#define BATCH_BAR	   1.2

static const struct bench_row rows[] = {
	{"read 64 B, depth 32, batch 8 / batch 1", "k/s", BENCH_HIGHER, SINGLES, BENCH_REPORTED,
	 BATCHES(64, 8), run_batches, run_singles},
	{"read 64 B, depth 32, batch 32 / batch 1", "k/s", BENCH_HIGHER, SINGLES, BATCH_BAR,
	 BATCHES(64, 32), run_batches, run_singles},
	{"read 4 KiB, depth 32, batch 8 / batch 1", "k/s", BENCH_HIGHER, SINGLES, BENCH_REPORTED,
	 BATCHES(4096, 8), run_batches, run_singles},
	{"read 4 KiB, depth 32, batch 32 / batch 1", "k/s", BENCH_HIGHER, SINGLES, BATCH_BAR,
	 BATCHES(4096, 32), run_batches, run_singles},
};

const struct bench_stage queue_batches_stage = {setup, teardown, rows, NR_ROWS(rows)};
