/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two sides of rows that move bytes, and what they need. These are raw libfabric, a cluster of one
 * server, a mapping, a queue and a buffer. Sizes, depths, offsets and the kind of memory are the same
 * on both.
 */
#include "transfer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <afar/afar.h>

#include "base/clock.h"

#define MIB	     (UINT64_C(1) << 20)
#define SERVER_BYTES (256 * MIB)

static double microseconds_each(uint64_t elapsed_ns, uint64_t nr)
{
	return (double)elapsed_ns / (double)nr / 1e3;
}

static double gigabytes_per_second(uint64_t bytes, uint64_t elapsed_ns)
{
	return (double)bytes / (double)elapsed_ns;
}

double transfer_value(const struct bench_row *row, uint64_t elapsed_ns)
{
	const struct transfer *transfer = row->parameters;

	if (row->better == BENCH_LOWER)
		return microseconds_each(elapsed_ns, transfer->nr);
	return gigabytes_per_second(transfer->nr * transfer->size, elapsed_ns);
}

int transfer_run_raw(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct transfer_stage *state = stage;
	uint64_t elapsed_ns;
	int ret = raw_fabric_run(state->raw, row->parameters, &elapsed_ns);

	(void)repetition;
	if (!ret)
		*value = transfer_value(row, elapsed_ns);
	return ret;
}

int transfer_run_mapping(void *stage, const struct bench_row *row, unsigned repetition,
			 double *value)
{
	const struct transfer *transfer = row->parameters;
	struct transfer_stage *state = stage;
	struct afar_mapping *mapping = state->scene.mapping;
	uint64_t begin = clock_ns();

	(void)repetition;
	for (uint64_t i = 0; i < transfer->nr; i++) {
		size_t offset = i * transfer->size % transfer->window_bytes;
		int ret = transfer->is_write ? afar_mapping_write(mapping, offset, transfer->size)
					     : afar_mapping_read(mapping, offset, transfer->size);

		if (ret)
			return scene_fail(row->name, ret);
	}
	*value = transfer_value(row, clock_ns() - begin);
	return 0;
}

int transfer_run_plain(void *stage, const struct bench_row *row, unsigned repetition, double *value)
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
	*value = transfer_value(row, clock_ns() - begin);
	return 0;
}

/* One slot per operation in flight: op and iov are made once, only the offset changes. */
struct slots {
	struct afar_iov iov[TRANSFER_DEPTH];
	struct afar_op ops[TRANSFER_DEPTH];
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
	int ret;

	op->offset = sequence * transfer->size % transfer->window_bytes;
	ret = afar_queue_submit(queue, op, 1);
	return ret == 1 ? 0 : scene_fail("submit", ret < 0 ? ret : -EAGAIN);
}

/* Submits again to each slot that completes, until all are submitted; returns how many completed. */
static int reap(struct afar_queue *queue, struct slots *slots, const struct transfer *transfer,
		uint64_t *nr_submitted)
{
	struct afar_completion done[TRANSFER_DEPTH];
	int nr = afar_queue_wait(queue, done, transfer->depth, 1, -1);

	if (nr < 0)
		return scene_fail("wait", nr);
	for (int i = 0; i < nr; i++) {
		int ret = 0;

		if (done[i].result != (int64_t)transfer->size)
			return scene_fail_operation("a transfer", queue, &done[i]);
		if (*nr_submitted < transfer->nr)
			ret = submit(queue, &slots->ops[done[i].user_data], transfer,
				     (*nr_submitted)++);
		if (ret)
			return ret;
	}
	return nr;
}

int transfer_run_queue(void *stage, const struct bench_row *row, unsigned repetition, double *value)
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
		int ret = submit(state->queue, &slots.ops[nr_submitted], transfer, nr_submitted);

		if (ret)
			return ret;
		nr_submitted++;
	}
	while (nr_done < transfer->nr) {
		int nr = reap(state->queue, &slots, transfer, &nr_submitted);

		if (nr < 0)
			return nr;
		nr_done += (unsigned)nr;
	}
	*value = transfer_value(row, clock_ns() - begin);
	return 0;
}

static int open_queue(struct transfer_stage *state)
{
	const struct afar_queue_options options = {.size = sizeof(options),
						   .depth = TRANSFER_DEPTH};
	int ret = afar_queue_open(state->scene.session, &options, &state->queue);

	if (ret)
		return scene_fail("open a queue", ret);
	ret = afar_queue_connect(state->queue, afar_region_target(state->scene.region));
	if (ret)
		return scene_fail("connect the queue", ret);
	ret = afar_buffer_alloc(state->scene.session, TRANSFER_DEPTH * MIB, &state->buffer);
	if (ret)
		return scene_fail("allocate a buffer", ret);
	/* The reference's memory is populated; so is this. */
	memset(afar_buffer_data(state->buffer), 0, TRANSFER_DEPTH * MIB);
	return 0;
}

/* Numbers of transfers that moved nothing would look good. */
static int check_bytes(struct transfer_stage *state)
{
	unsigned char *local = afar_mapping_data(state->scene.mapping);
	int ret;

	memset(local, 0x5A, TRANSFER_REGION_BYTES);
	ret = afar_mapping_write(state->scene.mapping, 0, TRANSFER_REGION_BYTES);
	if (ret)
		return scene_fail("write the region", ret);
	memset(local, 0, TRANSFER_REGION_BYTES);
	ret = afar_mapping_read(state->scene.mapping, 0, TRANSFER_REGION_BYTES);
	if (ret)
		return scene_fail("read the region", ret);
	for (size_t i = 0; i < TRANSFER_REGION_BYTES; i++) {
		if (local[i] != 0x5A)
			return bench_fail(-EIO, "byte %zu read is not the one written", i);
	}
	return 0;
}

static int open_session(struct transfer_stage *state, uint32_t spin_us)
{
	const struct afar_session_options options = {.size = sizeof(options), .spin_us = spin_us};
	int ret = afar_session_open(cluster_uri(state->cluster), &options, &state->scene.session);

	return ret ? scene_fail("open a session", ret) : 0;
}

int transfer_open_ours(struct transfer_stage *state, const char *transport, uint32_t spin_us)
{
	int ret;

	state->plain = bench_memory_map(MIB);
	ret = state->plain ? 0 : bench_fail(-ENOMEM, "no memory for a buffer");
	if (!ret)
		ret = transport ? cluster_start_over(transport, 1, SERVER_BYTES, &state->cluster)
				: cluster_start(1, SERVER_BYTES, &state->cluster);
	if (!ret)
		ret = open_session(state, spin_us);
	if (!ret)
		ret = scene_create_region(&state->scene, SCENE_NAMESPACE, 1, TRANSFER_REGION_BYTES);
	if (!ret)
		ret = scene_map(&state->scene, TRANSFER_REGION_BYTES);
	if (!ret)
		ret = open_queue(state);
	return ret ? ret : check_bytes(state);
}

void transfer_close_ours(struct transfer_stage *state)
{
	if (state->queue)
		afar_queue_close(state->queue);
	if (state->buffer)
		afar_buffer_unregister(state->buffer);
	scene_close(&state->scene);
	cluster_stop(state->cluster);
	bench_memory_unmap(state->plain, MIB);
}

void transfer_teardown(void *stage)
{
	struct transfer_stage *state = stage;

	transfer_close_ours(state);
	raw_fabric_close(state->raw);
	free(state);
}

int transfer_setup_spinning(uint32_t spin_us, void **stage)
{
	struct transfer_stage *state = calloc(1, sizeof(*state));
	int ret;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = raw_fabric_open(TRANSFER_REGION_BYTES, &state->raw);
	if (!ret)
		ret = transfer_open_ours(state, NULL, spin_us);
	if (ret) {
		transfer_teardown(state);
		return ret;
	}
	*stage = state;
	return 0;
}

int transfer_setup(void **stage)
{
	return transfer_setup_spinning(0, stage);
}
