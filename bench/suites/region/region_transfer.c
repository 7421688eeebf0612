/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `region` that move bytes. Some are compared with raw libfabric on the same provider
 * with the same sizes, depths, offsets and kind of memory. Others compare two servers with one.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <afar/afar.h>

#include "base/clock.h"
#include "harness/cluster.h"
#include "harness/process.h"
#include "harness/scene.h"
#include "harness/transfer.h"
#include "region.h"

#define KIB		(UINT64_C(1) << 10)
#define MIB		(UINT64_C(1) << 20)
#define SERVER_BYTES	(256 * MIB)
#define LATENCY_NR	UINT64_C(16384)
#define BANDWIDTH_BYTES (1024 * MIB)

/* ---- Against raw libfabric */

#define RAW_READ  "raw libfabric: fi_read, same provider, size and depth"
#define RAW_WRITE "raw libfabric: fi_writemsg with delivery complete, same provider, size and depth"

static const struct bench_row transfer_rows[] = {
	{"read 64 B, depth 1", "µs", BENCH_LOWER, RAW_READ, TRANSFER_LATENCY_BAR,
	 TRANSFER_LATENCY(LATENCY_NR, false, 64), transfer_run_mapping, transfer_run_raw},
	{"read 4 KiB, depth 1", "µs", BENCH_LOWER, RAW_READ, TRANSFER_LATENCY_BAR,
	 TRANSFER_LATENCY(LATENCY_NR, false, 4 * KIB), transfer_run_mapping, transfer_run_raw},
	{"read 4 KiB, depth 1, plain memory", "µs", BENCH_LOWER, RAW_READ, BENCH_REPORTED,
	 TRANSFER_LATENCY(LATENCY_NR, false, 4 * KIB), transfer_run_plain, transfer_run_raw},
	{"read 4 KiB, depth 1, queue", "µs", BENCH_LOWER, RAW_READ, BENCH_REPORTED,
	 TRANSFER_LATENCY(LATENCY_NR, false, 4 * KIB), transfer_run_queue, transfer_run_raw},
	{"read 64 KiB, depth 16", "GB/s", BENCH_HIGHER, RAW_READ, TRANSFER_BANDWIDTH_BAR,
	 TRANSFER_BULK(BANDWIDTH_BYTES, false, 64 * KIB), transfer_run_queue, transfer_run_raw},
	{"read 1 MiB, depth 16", "GB/s", BENCH_HIGHER, RAW_READ, TRANSFER_BANDWIDTH_BAR,
	 TRANSFER_BULK(BANDWIDTH_BYTES, false, MIB), transfer_run_queue, transfer_run_raw},
	{"write 64 B, depth 1", "µs", BENCH_LOWER, RAW_WRITE, TRANSFER_LATENCY_BAR,
	 TRANSFER_LATENCY(LATENCY_NR, true, 64), transfer_run_mapping, transfer_run_raw},
	{"write 4 KiB, depth 1", "µs", BENCH_LOWER, RAW_WRITE, TRANSFER_LATENCY_BAR,
	 TRANSFER_LATENCY(LATENCY_NR, true, 4 * KIB), transfer_run_mapping, transfer_run_raw},
	{"write 4 KiB, depth 1, plain memory", "µs", BENCH_LOWER, RAW_WRITE, BENCH_REPORTED,
	 TRANSFER_LATENCY(LATENCY_NR, true, 4 * KIB), transfer_run_plain, transfer_run_raw},
	{"write 4 KiB, depth 1, queue", "µs", BENCH_LOWER, RAW_WRITE, BENCH_REPORTED,
	 TRANSFER_LATENCY(LATENCY_NR, true, 4 * KIB), transfer_run_queue, transfer_run_raw},
	{"write 64 KiB, depth 16", "GB/s", BENCH_HIGHER, RAW_WRITE, TRANSFER_BANDWIDTH_BAR,
	 TRANSFER_BULK(BANDWIDTH_BYTES, true, 64 * KIB), transfer_run_queue, transfer_run_raw},
	{"write 1 MiB, depth 16", "GB/s", BENCH_HIGHER, RAW_WRITE, TRANSFER_BANDWIDTH_BAR,
	 TRANSFER_BULK(BANDWIDTH_BYTES, true, MIB), transfer_run_queue, transfer_run_raw},
};

const struct bench_stage region_transfer_stage = {transfer_setup, transfer_teardown, transfer_rows,
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
		int ret = transfer->is_write ? afar_mapping_write(scene->mapping, 0, transfer->size)
					     : afar_mapping_read(scene->mapping, 0, transfer->size);

		if (ret)
			return scene_fail(row->name, ret);
	}
	*value = transfer_value(row, clock_ns() - begin);
	return 0;
}

static int run_wide(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct stripe_stage *state = stage;
	struct cpu_times before = read_cpu_times(state);
	uint64_t begin = clock_ns();
	int ret = run_large(&state->wide, row, value);
	double elapsed_ns = (double)(clock_ns() - begin);
	struct cpu_times after = read_cpu_times(state);

	(void)repetition;
	if (!ret)
		bench_note("%ld cores; CPU seconds per second over two servers: client %.2f, "
			   "servers %.2f and %.2f",
			   sysconf(_SC_NPROCESSORS_ONLN),
			   (double)(after.client - before.client) / elapsed_ns,
			   (double)(after.servers[0] - before.servers[0]) / elapsed_ns,
			   (double)(after.servers[1] - before.servers[1]) / elapsed_ns);
	return ret;
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
	int ret = scene_open(scene, cluster_uri(state->cluster), 0);

	if (!ret)
		ret = scene_create_region(scene, name, width, TRANSFER_REGION_BYTES);
	return ret ? ret : scene_map(scene, TRANSFER_REGION_BYTES);
}

static int setup_stripe(void **stage)
{
	struct stripe_stage *state = calloc(1, sizeof(*state));
	int ret;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = cluster_start(STRIPE_SERVERS, SERVER_BYTES, &state->cluster);
	if (!ret)
		ret = setup_side(state, &state->wide, "wide", STRIPE_SERVERS);
	if (!ret)
		ret = setup_side(state, &state->narrow, "narrow", 1);
	if (ret) {
		teardown_stripe(state);
		return ret;
	}
	*stage = state;
	return 0;
}

#define LARGE(write)               \
	(&(const struct transfer){ \
		.is_write = (write), .size = TRANSFER_REGION_BYTES, .nr = STRIPE_NR})
#define ONE_SERVER "the same over one server"

static const struct bench_row stripe_rows[] = {
	{"read 64 MiB striped over two servers", "GB/s", BENCH_HIGHER, ONE_SERVER, BENCH_REPORTED,
	 LARGE(false), run_wide, run_narrow},
	{"write 64 MiB striped over two servers", "GB/s", BENCH_HIGHER, ONE_SERVER, BENCH_REPORTED,
	 LARGE(true), run_wide, run_narrow},
};

const struct bench_stage region_stripe_stage = {setup_stripe, teardown_stripe, stripe_rows,
						NR_ROWS(stripe_rows)};
