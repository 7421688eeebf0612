/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `region` that move bytes: against raw libfabric on the same provider with the same
 * sizes, depths, offsets and kind of memory; and over two servers against one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <afar/afar.h>

#include "base/clock.h"
#include "cluster.h"
#include "process.h"
#include "raw_fabric.h"
#include "region.h"
#include "scene.h"

#define KIB		(UINT64_C(1) << 10)
#define MIB		(UINT64_C(1) << 20)
#define REGION_BYTES	(64 * MIB)
#define SERVER_BYTES	(256 * MIB)
#define QUEUE_DEPTH	16U
#define LATENCY_NR	UINT64_C(16384)
#define LATENCY_WINDOW	MIB /* stays in the caches of both sides */
#define BANDWIDTH_BYTES (1024 * MIB)

static double microseconds_each(uint64_t elapsed_ns, uint64_t nr)
{
	return (double)elapsed_ns / (double)nr / 1e3;
}

static double gigabytes_per_second(uint64_t bytes, uint64_t elapsed_ns)
{
	return (double)bytes / (double)elapsed_ns;
}

/* Latency rows are lower-is-better, bandwidth rows higher: a row's value from what was measured. */
static double value_of(const struct bench_row *row, uint64_t elapsed_ns)
{
	const struct transfer *transfer = row->parameters;

	if (row->better == BENCH_LOWER)
		return microseconds_each(elapsed_ns, transfer->nr);
	return gigabytes_per_second(transfer->nr * transfer->size, elapsed_ns);
}

/* ---- Against raw libfabric */

struct transfer_stage {
	struct raw_fabric *raw;
	struct cluster *cluster;
	struct scene scene;
	struct afar_queue *queue;
	struct afar_buffer *buffer; /* QUEUE_DEPTH slots of up to 1 MiB */
	char *plain;		    /* memory that libafar knows nothing of */
};

static int run_raw(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct transfer_stage *state = stage;
	uint64_t elapsed_ns;
	int status = raw_fabric_run(state->raw, row->parameters, &elapsed_ns);

	(void)repetition;
	if (!status)
		*value = value_of(row, elapsed_ns);
	return status;
}

static int run_mapping(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct transfer *transfer = row->parameters;
	struct transfer_stage *state = stage;
	struct afar_mapping *mapping = state->scene.mapping;
	uint64_t begin = clock_ns();

	(void)repetition;
	for (uint64_t i = 0; i < transfer->nr; i++) {
		size_t offset = i * transfer->size % transfer->window_bytes;
		int status = transfer->is_write
				     ? afar_mapping_write(mapping, offset, transfer->size)
				     : afar_mapping_read(mapping, offset, transfer->size);

		if (status)
			return scene_fail(row->name, status);
	}
	*value = value_of(row, clock_ns() - begin);
	return 0;
}

static int run_plain(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct transfer *transfer = row->parameters;
	struct transfer_stage *state = stage;
	struct afar_region *region = state->scene.region;
	uint64_t begin = clock_ns();

	(void)repetition;
	for (uint64_t i = 0; i < transfer->nr; i++) {
		uint64_t offset = i * transfer->size % transfer->window_bytes;
		ssize_t status =
			transfer->is_write
				? afar_region_pwrite(region, state->plain, transfer->size, offset)
				: afar_region_pread(region, state->plain, transfer->size, offset);

		if (status < 0)
			return scene_fail(row->name, (int)status);
	}
	*value = value_of(row, clock_ns() - begin);
	return 0;
}

/* One slot per operation in flight: op and iov are made once, only the offset changes. */
struct slots {
	struct afar_iov iov[QUEUE_DEPTH];
	struct afar_op ops[QUEUE_DEPTH];
};

static void prepare_slots(const struct transfer_stage *state, const struct transfer *transfer,
			  struct slots *slots)
{
	for (unsigned i = 0; i < transfer->depth; i++) {
		slots->iov[i] = (struct afar_iov){
			.buffer = state->buffer,
			.addr = (char *)afar_buffer_data(state->buffer) + i * transfer->size,
			.length = transfer->size,
		};
		slots->ops[i] = (struct afar_op){
			.opcode = transfer->is_write ? AFAR_OP_WRITE : AFAR_OP_READ,
			.nr_iov = 1,
			.target = afar_region_target(state->scene.region),
			.iov = &slots->iov[i],
			.user_data = i,
		};
	}
}

static int submit(struct afar_queue *queue, struct afar_op *op, const struct transfer *transfer,
		  uint64_t sequence)
{
	int status;

	op->offset = sequence * transfer->size % transfer->window_bytes;
	status = afar_queue_submit(queue, op, 1);
	return status == 1 ? 0 : scene_fail("submit", status < 0 ? status : -EAGAIN);
}

/* Submits again to each slot that completes, until all are submitted; returns how many completed. */
static int reap(struct afar_queue *queue, struct slots *slots, const struct transfer *transfer,
		uint64_t *nr_submitted)
{
	struct afar_completion done[QUEUE_DEPTH];
	int nr = afar_queue_wait(queue, done, transfer->depth, 1, -1);

	if (nr < 0)
		return scene_fail("wait", nr);
	for (int i = 0; i < nr; i++) {
		int status = 0;

		if (done[i].result != (int64_t)transfer->size)
			return scene_fail("a transfer", (int)done[i].result);
		if (*nr_submitted < transfer->nr)
			status = submit(queue, &slots->ops[done[i].user_data], transfer,
					(*nr_submitted)++);
		if (status)
			return status;
	}
	return nr;
}

static int run_queue(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct transfer *transfer = row->parameters;
	struct transfer_stage *state = stage;
	struct slots slots;
	uint64_t nr_submitted = 0;
	uint64_t nr_done = 0;
	uint64_t begin;

	(void)repetition;
	prepare_slots(state, transfer, &slots);
	begin = clock_ns();
	while (nr_submitted < transfer->depth && nr_submitted < transfer->nr) {
		int status = submit(state->queue, &slots.ops[nr_submitted], transfer, nr_submitted);

		if (status)
			return status;
		nr_submitted++;
	}
	while (nr_done < transfer->nr) {
		int nr = reap(state->queue, &slots, transfer, &nr_submitted);

		if (nr < 0)
			return nr;
		nr_done += (unsigned)nr;
	}
	*value = value_of(row, clock_ns() - begin);
	return 0;
}

static int open_queue(struct transfer_stage *state)
{
	const struct afar_queue_options options = {.size = sizeof(options), .depth = QUEUE_DEPTH};
	int status = afar_queue_open(state->scene.session, &options, &state->queue);

	if (status)
		return scene_fail("open a queue", status);
	status = afar_queue_connect(state->queue, afar_region_target(state->scene.region));
	if (status)
		return scene_fail("connect the queue", status);
	status = afar_buffer_alloc(state->scene.session, QUEUE_DEPTH * MIB, &state->buffer);
	if (status)
		return scene_fail("allocate a buffer", status);
	/* The reference's memory is populated; so is this. */
	memset(afar_buffer_data(state->buffer), 0, QUEUE_DEPTH * MIB);
	return 0;
}

/* Numbers of transfers that moved nothing would look good. */
static int check_bytes(struct transfer_stage *state)
{
	unsigned char *local = afar_mapping_data(state->scene.mapping);
	int status;

	memset(local, 0x5A, REGION_BYTES);
	status = afar_mapping_write(state->scene.mapping, 0, REGION_BYTES);
	if (status)
		return scene_fail("write the region", status);
	memset(local, 0, REGION_BYTES);
	status = afar_mapping_read(state->scene.mapping, 0, REGION_BYTES);
	if (status)
		return scene_fail("read the region", status);
	for (size_t i = 0; i < REGION_BYTES; i++) {
		if (local[i] != 0x5A)
			return bench_fail(-EIO, "byte %zu read is not the one written", i);
	}
	return 0;
}

static void teardown_transfer(void *stage)
{
	struct transfer_stage *state = stage;

	if (state->queue)
		afar_queue_close(state->queue);
	if (state->buffer)
		afar_buffer_unregister(state->buffer);
	scene_close(&state->scene);
	cluster_stop(state->cluster);
	raw_fabric_close(state->raw);
	bench_memory_unmap(state->plain, MIB);
	free(state);
}

static int setup_transfer(void **stage)
{
	struct transfer_stage *state = calloc(1, sizeof(*state));
	int status;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	state->plain = bench_memory_map(MIB);
	status = state->plain ? 0 : bench_fail(-ENOMEM, "no memory for a buffer");
	if (!status)
		status = raw_fabric_open(REGION_BYTES, &state->raw);
	if (!status)
		status = cluster_start(1, SERVER_BYTES, &state->cluster);
	if (!status)
		status = scene_open(&state->scene, cluster_uri(state->cluster), 0);
	if (!status)
		status = scene_create_region(&state->scene, SCENE_NAMESPACE, 1, REGION_BYTES);
	if (!status)
		status = scene_map(&state->scene, REGION_BYTES);
	if (!status)
		status = open_queue(state);
	if (!status)
		status = check_bytes(state);
	if (status) {
		teardown_transfer(state);
		return status;
	}
	*stage = state;
	return 0;
}

#define LATENCY(write, bytes)                                     \
	(&(const struct transfer){.is_write = (write),            \
				  .size = (bytes),                \
				  .depth = 1,                     \
				  .window_bytes = LATENCY_WINDOW, \
				  .nr = LATENCY_NR})
#define BANDWIDTH(write, bytes, in_flight)                      \
	(&(const struct transfer){.is_write = (write),          \
				  .size = (bytes),              \
				  .depth = (in_flight),         \
				  .window_bytes = REGION_BYTES, \
				  .nr = BANDWIDTH_BYTES / (bytes)})

#define RAW_READ      "raw libfabric: fi_read, same provider, size and depth"
#define RAW_WRITE     "raw libfabric: fi_writemsg with delivery complete, same provider, size and depth"
#define LATENCY_BAR   1.15
#define BANDWIDTH_BAR 0.95

static const struct bench_row transfer_rows[] = {
	{"read 64 B, depth 1", "µs", BENCH_LOWER, RAW_READ, LATENCY_BAR, LATENCY(false, 64),
	 run_mapping, run_raw},
	{"read 4 KiB, depth 1", "µs", BENCH_LOWER, RAW_READ, LATENCY_BAR, LATENCY(false, 4 * KIB),
	 run_mapping, run_raw},
	{"read 4 KiB, depth 1, plain memory", "µs", BENCH_LOWER, RAW_READ, BENCH_REPORTED,
	 LATENCY(false, 4 * KIB), run_plain, run_raw},
	{"read 4 KiB, depth 1, queue", "µs", BENCH_LOWER, RAW_READ, BENCH_REPORTED,
	 LATENCY(false, 4 * KIB), run_queue, run_raw},
	{"read 64 KiB, depth 16", "GB/s", BENCH_HIGHER, RAW_READ, BANDWIDTH_BAR,
	 BANDWIDTH(false, 64 * KIB, QUEUE_DEPTH), run_queue, run_raw},
	{"read 1 MiB, depth 16", "GB/s", BENCH_HIGHER, RAW_READ, BANDWIDTH_BAR,
	 BANDWIDTH(false, MIB, QUEUE_DEPTH), run_queue, run_raw},
	{"write 64 B, depth 1", "µs", BENCH_LOWER, RAW_WRITE, LATENCY_BAR, LATENCY(true, 64),
	 run_mapping, run_raw},
	{"write 4 KiB, depth 1", "µs", BENCH_LOWER, RAW_WRITE, LATENCY_BAR, LATENCY(true, 4 * KIB),
	 run_mapping, run_raw},
	{"write 4 KiB, depth 1, plain memory", "µs", BENCH_LOWER, RAW_WRITE, BENCH_REPORTED,
	 LATENCY(true, 4 * KIB), run_plain, run_raw},
	{"write 4 KiB, depth 1, queue", "µs", BENCH_LOWER, RAW_WRITE, BENCH_REPORTED,
	 LATENCY(true, 4 * KIB), run_queue, run_raw},
	{"write 64 KiB, depth 16", "GB/s", BENCH_HIGHER, RAW_WRITE, BANDWIDTH_BAR,
	 BANDWIDTH(true, 64 * KIB, QUEUE_DEPTH), run_queue, run_raw},
	{"write 1 MiB, depth 16", "GB/s", BENCH_HIGHER, RAW_WRITE, BANDWIDTH_BAR,
	 BANDWIDTH(true, MIB, QUEUE_DEPTH), run_queue, run_raw},
};

const struct bench_stage region_transfer_stage = {setup_transfer, teardown_transfer, transfer_rows,
						  NR_ROWS(transfer_rows)};

/* ---- Two servers against one */

#define STRIPE_SERVERS 2U
#define STRIPE_NR      8U /* 64 MiB transfers per measurement */

struct stripe_stage {
	struct cluster *cluster;
	struct scene wide;
	struct scene narrow;
};

struct cpu_times {
	uint64_t client;
	uint64_t servers[STRIPE_SERVERS];
};

static struct cpu_times read_cpu_times(const struct stripe_stage *state)
{
	struct cpu_times times = {.client = process_cpu_ns(getpid())};

	for (unsigned i = 0; i < STRIPE_SERVERS; i++)
		times.servers[i] = process_cpu_ns(cluster_server(state->cluster, i));
	return times;
}

static int run_large(const struct scene *scene, const struct bench_row *row, double *value)
{
	const struct transfer *transfer = row->parameters;
	uint64_t begin = clock_ns();

	for (uint64_t i = 0; i < transfer->nr; i++) {
		int status = transfer->is_write
				     ? afar_mapping_write(scene->mapping, 0, transfer->size)
				     : afar_mapping_read(scene->mapping, 0, transfer->size);

		if (status)
			return scene_fail(row->name, status);
	}
	*value = value_of(row, clock_ns() - begin);
	return 0;
}

static int run_wide(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct stripe_stage *state = stage;
	struct cpu_times before = read_cpu_times(state);
	uint64_t begin = clock_ns();
	int status = run_large(&state->wide, row, value);
	double elapsed_ns = (double)(clock_ns() - begin);
	struct cpu_times after = read_cpu_times(state);

	(void)repetition;
	if (!status)
		bench_note("%ld cores; CPU seconds per second over two servers: client %.2f, "
			   "servers %.2f and %.2f",
			   sysconf(_SC_NPROCESSORS_ONLN),
			   (double)(after.client - before.client) / elapsed_ns,
			   (double)(after.servers[0] - before.servers[0]) / elapsed_ns,
			   (double)(after.servers[1] - before.servers[1]) / elapsed_ns);
	return status;
}

static int run_narrow(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct stripe_stage *state = stage;

	(void)repetition;
	return run_large(&state->narrow, row, value);
}

static void teardown_stripe(void *stage)
{
	struct stripe_stage *state = stage;

	scene_close(&state->wide);
	scene_close(&state->narrow);
	cluster_stop(state->cluster);
	free(state);
}

static int setup_side(const struct stripe_stage *state, struct scene *scene, const char *name,
		      unsigned width)
{
	int status = scene_open(scene, cluster_uri(state->cluster), 0);

	if (!status)
		status = scene_create_region(scene, name, width, REGION_BYTES);
	return status ? status : scene_map(scene, REGION_BYTES);
}

static int setup_stripe(void **stage)
{
	struct stripe_stage *state = calloc(1, sizeof(*state));
	int status;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	status = cluster_start(STRIPE_SERVERS, SERVER_BYTES, &state->cluster);
	if (!status)
		status = setup_side(state, &state->wide, "wide", STRIPE_SERVERS);
	if (!status)
		status = setup_side(state, &state->narrow, "narrow", 1);
	if (status) {
		teardown_stripe(state);
		return status;
	}
	*stage = state;
	return 0;
}

#define LARGE(write) \
	(&(const struct transfer){.is_write = (write), .size = REGION_BYTES, .nr = STRIPE_NR})
#define ONE_SERVER "the same over one server"

static const struct bench_row stripe_rows[] = {
	{"read 64 MiB striped over two servers", "GB/s", BENCH_HIGHER, ONE_SERVER, BENCH_REPORTED,
	 LARGE(false), run_wide, run_narrow},
	{"write 64 MiB striped over two servers", "GB/s", BENCH_HIGHER, ONE_SERVER, BENCH_REPORTED,
	 LARGE(true), run_wide, run_narrow},
};

const struct bench_stage region_stripe_stage = {setup_stripe, teardown_stripe, stripe_rows,
						NR_ROWS(stripe_rows)};
