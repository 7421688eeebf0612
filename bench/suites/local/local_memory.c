/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `local` that compare transfers with memcpy() between the same memory: the region, attached, and the
 * transfers' own buffer or mapping. Sizes and the walk over both are the same.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/transfer.h"
#include "local.h"

#define KIB		(UINT64_C(1) << 10)
#define MIB		(UINT64_C(1) << 20)
#define LATENCY_NR	UINT64_C(131072)
#define BANDWIDTH_BYTES (2048 * MIB)

struct memory_stage {
	struct transfer_stage ours; /* first: the row functions of transfer.h take it */
	char *attached;		    /* the region; NULL: not yet                      */
};

static int run_memcpy(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct transfer *transfer = row->parameters;
	const struct memory_stage *state = stage;
	char *mapping = afar_mapping_data(state->ours.scene.mapping);
	char *buffer = afar_buffer_data(state->ours.buffer);
	uint64_t begin = clock_ns();

	(void)repetition;
	for (uint64_t i = 0; i < transfer->nr; i++) {
		uint64_t offset = i * transfer->size % transfer->window_bytes;
		char *remote = state->attached + offset;
		char *local = transfer->depth == 1 ? mapping + offset
						   : buffer + i % transfer->depth * transfer->size;

		memcpy(transfer->is_write ? remote : local, transfer->is_write ? local : remote,
		       transfer->size);
		__asm__ volatile("" ::: "memory"); /* nobody reads it: the copy happens still */
	}
	*value = transfer_value(row, clock_ns() - begin);
	return 0;
}

static void teardown(void *stage)
{
	struct memory_stage *state = stage;

	if (state->attached)
		afar_region_detach(state->ours.scene.region, state->attached);
	transfer_close_ours(&state->ours);
	free(state);
}

static int setup(void **stage)
{
	struct memory_stage *state = calloc(1, sizeof(*state));
	void *attached;
	int ret;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = transfer_open_ours(&state->ours, "local", 0);
	if (!ret) {
		ret = afar_region_attach(state->ours.scene.region, 0, TRANSFER_REGION_BYTES,
					 PROT_READ | PROT_WRITE, &attached);
		if (ret)
			ret = scene_fail("attach the region", ret);
		else
			state->attached = attached;
	}
	if (ret) {
		teardown(state);
		return ret;
	}
	*stage = state;
	return 0;
}

#define MEMCPY "memcpy between the same memory, same sizes and walk"

static const struct bench_row rows[] = {
	{"read 64 B, depth 1", "µs", BENCH_LOWER, MEMCPY, BENCH_REPORTED,
	 TRANSFER_LATENCY(LATENCY_NR, false, 64), transfer_run_mapping, run_memcpy},
	{"read 4 KiB, depth 1", "µs", BENCH_LOWER, MEMCPY, BENCH_REPORTED,
	 TRANSFER_LATENCY(LATENCY_NR, false, 4 * KIB), transfer_run_mapping, run_memcpy},
	{"read 64 KiB, depth 16", "GB/s", BENCH_HIGHER, MEMCPY, TRANSFER_BANDWIDTH_BAR,
	 TRANSFER_BULK(BANDWIDTH_BYTES, false, 64 * KIB), transfer_run_queue, run_memcpy},
	{"read 1 MiB, depth 16", "GB/s", BENCH_HIGHER, MEMCPY, TRANSFER_BANDWIDTH_BAR,
	 TRANSFER_BULK(BANDWIDTH_BYTES, false, MIB), transfer_run_queue, run_memcpy},
	{"write 64 B, depth 1", "µs", BENCH_LOWER, MEMCPY, BENCH_REPORTED,
	 TRANSFER_LATENCY(LATENCY_NR, true, 64), transfer_run_mapping, run_memcpy},
	{"write 4 KiB, depth 1", "µs", BENCH_LOWER, MEMCPY, BENCH_REPORTED,
	 TRANSFER_LATENCY(LATENCY_NR, true, 4 * KIB), transfer_run_mapping, run_memcpy},
	{"write 64 KiB, depth 16", "GB/s", BENCH_HIGHER, MEMCPY, TRANSFER_BANDWIDTH_BAR,
	 TRANSFER_BULK(BANDWIDTH_BYTES, true, 64 * KIB), transfer_run_queue, run_memcpy},
	{"write 1 MiB, depth 16", "GB/s", BENCH_HIGHER, MEMCPY, TRANSFER_BANDWIDTH_BAR,
	 TRANSFER_BULK(BANDWIDTH_BYTES, true, MIB), transfer_run_queue, run_memcpy},
};

const struct bench_stage local_memory_stage = {setup, teardown, rows, NR_ROWS(rows)};
