/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suite `verbs`: transfers over RDMA against raw libfabric on its verbs provider. It measures what
 * Afar adds. An operation itself takes many times longer over soft-RoCE, and in an emulated
 * machine, than over a network made for it.
 */
#include <errno.h>
#include <glob.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "harness/harness.h"
#include "harness/transfer.h"
#include "verbs.h"

#define NR_ROWS(rows)	(sizeof(rows) / sizeof((rows)[0]))
#define KIB		(UINT64_C(1) << 10)
#define MIB		(UINT64_C(1) << 20)
#define LATENCY_NR	UINT64_C(1024)
#define BANDWIDTH_BYTES (32 * MIB)
#define SPIN_US		1000U

#define RAW_READ  "raw libfabric: fi_read, provider verbs, same size and depth"
#define RAW_WRITE "raw libfabric: fi_write, provider verbs, same size and depth"

static const struct bench_row rows[] = {
	{"read 64 B, depth 1", "µs", BENCH_LOWER, RAW_READ, TRANSFER_LATENCY_BAR,
	 TRANSFER_LATENCY(LATENCY_NR, false, 64), transfer_run_mapping, transfer_run_raw},
	{"read 4 KiB, depth 1", "µs", BENCH_LOWER, RAW_READ, TRANSFER_LATENCY_BAR,
	 TRANSFER_LATENCY(LATENCY_NR, false, 4 * KIB), transfer_run_mapping, transfer_run_raw},
	{"read 64 KiB, depth 16", "GB/s", BENCH_HIGHER, RAW_READ, TRANSFER_BANDWIDTH_BAR,
	 TRANSFER_BULK(BANDWIDTH_BYTES, false, 64 * KIB), transfer_run_queue, transfer_run_raw},
	{"write 64 B, depth 1", "µs", BENCH_LOWER, RAW_WRITE, TRANSFER_LATENCY_BAR,
	 TRANSFER_LATENCY(LATENCY_NR, true, 64), transfer_run_mapping, transfer_run_raw},
	{"write 4 KiB, depth 1", "µs", BENCH_LOWER, RAW_WRITE, TRANSFER_LATENCY_BAR,
	 TRANSFER_LATENCY(LATENCY_NR, true, 4 * KIB), transfer_run_mapping, transfer_run_raw},
	{"write 64 KiB, depth 16", "GB/s", BENCH_HIGHER, RAW_WRITE, TRANSFER_BANDWIDTH_BAR,
	 TRANSFER_BULK(BANDWIDTH_BYTES, true, 64 * KIB), transfer_run_queue, transfer_run_raw},
};

/* The reference always spins. In an emulated machine an operation takes longer than what a session spins by
 * default, and the row would be about sleeping. */
static int setup(void **state)
{
	return transfer_setup_spinning(SPIN_US, state);
}

static const struct bench_stage stage = {setup, transfer_teardown, rows, NR_ROWS(rows)};

static bool has_device(void)
{
	glob_t found;
	bool is_there = glob("/sys/class/infiniband/*", 0, NULL, &found) == 0;

	globfree(&found);
	return is_there;
}

const char *verbs_obstacle(void)
{
	if (!has_device())
		return "this machine has no RDMA device; one with soft-RoCE: "
		       "scripts/check-verbs --run \"build/afar bench SUITE\"";
	if (!getenv("AFAR_TEST_HOST"))
		return "set AFAR_TEST_HOST to an address of the RDMA device";
	return NULL;
}

/* From here on clusters and raw libfabric use verbs. */
static int choose_verbs(void)
{
	const char *obstacle = verbs_obstacle();

	if (obstacle)
		return bench_fail(-ENODEV, "verbs: %s", obstacle);
	return setenv("AFAR_TEST_TRANSPORT", "verbs", 1) ? -errno : 0;
}

const struct bench_suite bench_suite_verbs = {
	.name = "verbs",
	.summary = "remote DRAM and flash over RDMA verbs: against raw libfabric, a thread for "
		   "each client, the layer",
	.check = choose_verbs,
	.stages = (const struct bench_stage *const[]){&stage, &verbs_flash_stage},
	.nr_stages = 2,
};
