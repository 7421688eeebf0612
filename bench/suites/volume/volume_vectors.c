/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `volume` on requests of many pages, as a disk gets them: pages that lie apart in memory
 * and together on the disk. They go as one operation with a piece for each, or as an operation for each in
 * one submission. B. Goglin's thesis, figure 15 (MXBD). The limit is raw libfabric (raw_fabric.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "peers/raw_fabric.h"
#include "volume.h"

#define BYTES	     (64 * MIB)
#define SERVER_BYTES (2 * BYTES)
#define PAGE	     (4 * KIB)
#define PAGES_MAX    512U   /* in flight */
#define NR_PAGES     32768U /* of one measurement */
#define BAR	     0.9

struct vectors {
	bool is_write;
	unsigned nr_pieces; /* pages of one operation    */
	unsigned batch;	    /* operations of one submission */
	unsigned depth;	    /* operations in flight      */
	unsigned limit;	    /* pages of one operation of raw libfabric, with as many in flight */
};

struct vectors_stage {
	struct raw_fabric *raw;
	struct cluster *cluster;
	struct scene scene; /* its session alone */
	struct afar_volume *volume;
	struct afar_queue *queue;
	struct afar_buffer *buffer; /* of two pages for each in flight: every second one is used */
	struct afar_iov iov[PAGES_MAX];
	struct afar_op ops[FLASH_QUEUE_DEPTH]; /* the free ones first: nr_free of them */
	unsigned nr_free;
	uint64_t next; /* byte of the volume */
};

static double value_of(uint64_t elapsed_ns)
{
	return (double)NR_PAGES * PAGE / (double)elapsed_ns;
}

/* ---- Ours */

static void prepare(struct vectors_stage *stage, const struct vectors *vectors)
{
	char *memory = afar_buffer_data(stage->buffer);

	for (unsigned i = 0; i < vectors->depth * vectors->nr_pieces; i++)
		stage->iov[i] = (struct afar_iov){stage->buffer, memory + 2 * i * PAGE, PAGE};
	for (unsigned i = 0; i < vectors->depth; i++)
		stage->ops[i] = (struct afar_op){
			.opcode = vectors->is_write ? AFAR_OP_WRITE : AFAR_OP_READ,
			.nr_iov = vectors->nr_pieces,
			.target = afar_volume_target(stage->volume),
			.iov = &stage->iov[i * vectors->nr_pieces],
			.user_data = i * vectors->nr_pieces,
		};
	stage->nr_free = vectors->depth;
}

static int submit(struct vectors_stage *stage, const struct vectors *vectors, unsigned *nr_left)
{
	while (stage->nr_free >= vectors->batch && *nr_left > 0) {
		struct afar_op *first = &stage->ops[stage->nr_free - vectors->batch];
		int nr;

		for (unsigned i = 0; i < vectors->batch; i++) {
			first[i].offset = stage->next;
			stage->next = (stage->next + vectors->nr_pieces * PAGE) % BYTES;
		}
		nr = afar_queue_submit(stage->queue, first, vectors->batch);
		if (nr != (int)vectors->batch)
			return scene_fail("submit", nr < 0 ? nr : -EAGAIN);
		stage->nr_free -= vectors->batch;
		*nr_left -= vectors->batch;
	}
	return 0;
}

/* Waits until there are enough for a submission, or for all. */
static int reap(struct vectors_stage *stage, const struct vectors *vectors, unsigned nr_left)
{
	struct afar_completion done[FLASH_QUEUE_DEPTH];
	unsigned wanted = nr_left > 0 ? vectors->batch - stage->nr_free : 1;
	int nr = afar_queue_wait(stage->queue, done, FLASH_QUEUE_DEPTH, wanted, -1);

	if (nr <= 0)
		return scene_fail("wait", nr ? nr : -EIO);
	for (int i = 0; i < nr; i++) {
		struct afar_op *op = &stage->ops[stage->nr_free++];

		if (done[i].result != (int64_t)(vectors->nr_pieces * PAGE))
			return scene_fail_operation("a transfer", stage->queue, &done[i]);
		op->iov = &stage->iov[done[i].user_data];
		op->user_data = done[i].user_data;
	}
	return 0;
}

static int run_vectors(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct vectors *vectors = row->parameters;
	struct vectors_stage *stage = state;
	unsigned nr_left = NR_PAGES / vectors->nr_pieces;
	uint64_t begin = clock_ns();
	int ret = 0;

	(void)repetition;
	prepare(stage, vectors);
	while (!ret && (nr_left > 0 || stage->nr_free < vectors->depth)) {
		ret = submit(stage, vectors, &nr_left);
		if (!ret)
			ret = reap(stage, vectors, nr_left);
	}
	*value = value_of(clock_ns() - begin);
	return ret;
}

/* ---- References */

static int run_raw(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct vectors *vectors = row->parameters;
	const struct transfer transfer = {
		.is_write = vectors->is_write,
		.size = vectors->limit * PAGE,
		.depth = vectors->depth * vectors->nr_pieces / vectors->limit,
		.window_bytes = BYTES,
		.nr = NR_PAGES / vectors->limit,
	};
	struct vectors_stage *stage = state;
	uint64_t elapsed_ns = 0;
	int ret = raw_fabric_run(stage->raw, &transfer, &elapsed_ns);

	(void)repetition;
	if (!ret)
		*value = value_of(elapsed_ns);
	return ret;
}

static int run_calls(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct vectors *vectors = row->parameters;
	struct vectors_stage *stage = state;
	char *memory = afar_buffer_data(stage->buffer);
	uint64_t begin = clock_ns();

	(void)repetition;
	for (unsigned i = 0; i < NR_PAGES; i++) {
		char *page = memory + 2 * (i % PAGES_MAX) * PAGE;
		uint64_t offset = i * PAGE % BYTES;
		ssize_t nr = vectors->is_write
				     ? afar_volume_pwrite(stage->volume, page, PAGE, offset, 0)
				     : afar_volume_pread(stage->volume, page, PAGE, offset);

		if (nr < 0)
			return scene_fail(row->name, (int)nr);
	}
	*value = value_of(clock_ns() - begin);
	return 0;
}

/* ---- The stage */

static void teardown(void *state)
{
	struct vectors_stage *stage = state;

	if (stage->queue)
		afar_queue_close(stage->queue);
	if (stage->buffer)
		afar_buffer_unregister(stage->buffer);
	volume_close(stage->volume);
	scene_close(&stage->scene);
	cluster_stop(stage->cluster);
	raw_fabric_close(stage->raw);
	free(stage);
}

static int open_queue(struct vectors_stage *stage)
{
	const struct afar_queue_options options = {.size = sizeof(options),
						   .depth = FLASH_QUEUE_DEPTH};
	const size_t length = (size_t)2 * PAGES_MAX * PAGE;
	int ret = afar_queue_open(stage->scene.session, &options, &stage->queue);

	if (!ret)
		ret = afar_queue_connect(stage->queue, afar_volume_target(stage->volume));
	if (!ret)
		ret = afar_buffer_alloc(stage->scene.session, length, &stage->buffer);
	if (ret)
		return scene_fail("open a queue", ret);
	memset(afar_buffer_data(stage->buffer), 0x5A, length);
	return 0;
}

static int setup(void **state)
{
	struct vectors_stage *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = raw_fabric_open(BYTES, &stage->raw);
	if (!ret)
		ret = cluster_start(1, SERVER_BYTES, &stage->cluster);
	if (!ret)
		ret = scene_open(&stage->scene, cluster_uri(stage->cluster), 0);
	if (!ret)
		ret = volume_make(stage->scene.session, "vectors", AFAR_TIER_DRAM, BYTES);
	if (!ret)
		ret = volume_open(stage->scene.session, "vectors", 0, &stage->volume);
	if (!ret)
		ret = open_queue(stage);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

#define LIMIT "raw libfabric: one piece for all pages of a vector, or of 32 single operations"
#define CALLS "a blocking call for each page"
#define VECTORS(name, reference, bar, run, ...)                                                   \
	{                                                                                         \
		name, "GB/s", BENCH_HIGHER, reference, bar, &(const struct vectors){__VA_ARGS__}, \
			run_vectors, run                                                          \
	}
#define AGAINST_LIMIT(name, bar, ...) VECTORS(name, LIMIT, bar, run_raw, __VA_ARGS__)
#define AGAINST_CALLS(name, ...)      VECTORS(name, CALLS, BENCH_REPORTED, run_calls, __VA_ARGS__)
/* The members of struct vectors, in order. */
#define ONE(write)     (write), 64, 1, 8, 64
#define BATCHES(write) (write), 1, 32, 64, 32
#define SINGLES(write) (write), 1, 1, 64, 32

static const struct bench_row rows[] = {
	AGAINST_LIMIT("vectors, read, one operation of 64 pages, depth 8", BAR, ONE(false)),
	AGAINST_LIMIT("vectors, write, one operation of 64 pages, depth 8", BAR, ONE(true)),
	AGAINST_LIMIT("vectors, read, 32 operations at once, depth 64", BAR, BATCHES(false)),
	AGAINST_LIMIT("vectors, write, 32 operations at once, depth 64", BAR, BATCHES(true)),
	AGAINST_LIMIT("vectors, read, one by one, depth 64", BENCH_REPORTED, SINGLES(false)),
	AGAINST_LIMIT("vectors, write, one by one, depth 64", BENCH_REPORTED, SINGLES(true)),
	AGAINST_CALLS("vectors, read, one operation of 64 pages / calls", false, 64, 1, 1),
	AGAINST_CALLS("vectors, write, one operation of 64 pages / calls", true, 64, 1, 1),
	AGAINST_CALLS("vectors, read, 64 operations at once / calls", false, 1, 64, 64),
	AGAINST_CALLS("vectors, write, 64 operations at once / calls", true, 1, 64, 64),
};

const struct bench_stage volume_vectors_stage = {setup, teardown, rows, NR_ROWS(rows)};
