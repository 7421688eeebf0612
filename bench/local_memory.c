/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `local` that compare transfers with memcpy() between the same kinds of memory: a shared mapping of
 * a memfd, as servers lend it, and private memory. Sizes and the walk over both are the same.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "local.h"
#include "transfer.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define KIB		(UINT64_C(1) << 10)
#define MIB		(UINT64_C(1) << 20)
#define HUGE_PAGE	(2 * MIB)
#define PRIVATE_BYTES	(TRANSFER_DEPTH * MIB)
#define LATENCY_NR	UINT64_C(131072)
#define BANDWIDTH_BYTES (2048 * MIB)

struct memory_stage {
	struct transfer_stage ours; /* first: the row functions of transfer.h take it */
	char *shared;		    /* the reference's; TRANSFER_REGION_BYTES         */
	char *private;		    /* PRIVATE_BYTES                                  */
};

/* At a multiple of huge pages, which it is made of where the kernel does that. NULL: there is none. */
static char *map_shared(size_t bytes)
{
	int fd = memfd_create("afar-bench", MFD_CLOEXEC);
	char *space, *addr;

	if (fd < 0)
		return NULL;
	space = mmap(NULL, bytes + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (space == MAP_FAILED || ftruncate(fd, (off_t)bytes)) {
		close(fd);
		return NULL;
	}
	addr = space + (HUGE_PAGE - (uintptr_t)space % HUGE_PAGE) % HUGE_PAGE;
	addr = mmap(addr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	close(fd);
	if (addr == MAP_FAILED)
		return NULL;
	memset(addr, 0, bytes);
	madvise(addr, bytes, MADV_COLLAPSE);
	return addr;
}

static int run_memcpy(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct transfer *transfer = row->parameters;
	const struct memory_stage *state = stage;
	uint64_t begin = clock_ns();

	(void)repetition;
	for (uint64_t i = 0; i < transfer->nr; i++) {
		uint64_t offset = i * transfer->size % transfer->window_bytes;
		char *shared = state->shared + offset;
		char *private =
			state->private +
			(transfer->depth == 1 ? offset : i % transfer->depth * transfer->size);

		memcpy(transfer->is_write ? shared : private, transfer->is_write ? private : shared,
		       transfer->size);
		__asm__ volatile("" ::: "memory"); /* nobody reads it: the copy happens still */
	}
	*value = transfer_value(row, clock_ns() - begin);
	return 0;
}

static void teardown(void *stage)
{
	struct memory_stage *state = stage;

	transfer_close_ours(&state->ours);
	bench_memory_unmap(state->private, PRIVATE_BYTES);
	if (state->shared)
		munmap(state->shared, TRANSFER_REGION_BYTES);
	free(state);
}

static int setup(void **stage)
{
	struct memory_stage *state = calloc(1, sizeof(*state));
	int status;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	state->shared = map_shared(TRANSFER_REGION_BYTES);
	state->private = bench_memory_map(PRIVATE_BYTES);
	status = state->shared && state->private
			 ? 0
			 : bench_fail(-ENOMEM, "no memory for the reference");
	if (!status)
		status = transfer_open_ours(&state->ours, "local", 0);
	if (status) {
		teardown(state);
		return status;
	}
	*stage = state;
	return 0;
}

#define MEMCPY "memcpy between the same kinds of memory, same sizes and walk"

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
