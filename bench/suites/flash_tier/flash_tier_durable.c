/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `flash-tier` on durable writes of clients that have one in flight each. The
 * references are fio on the storage itself, and a server with a thread for each client (sockets.h).
 */
#include <errno.h>
#include <stdlib.h>

#include "flash_tier.h"
#include "peers/sockets.h"

#define NR_CLIENTS_MAX 32U
#define MEMORY_BYTES   (64 * MIB)

struct durable_stage {
	struct tier_cluster cluster;
	struct herd herd;
	struct flash_file file; /* of the others */
	struct sockets *sockets;
};

static int run_ours(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const unsigned *nr_clients = row->parameters;
	const struct herd_order order = {.nr_clients = *nr_clients,
					 .is_write = true,
					 .is_scattered = true,
					 .flags = AFAR_OP_DURABLE,
					 .size = SOCKETS_BLOCK,
					 .span_ns = TIER_SPAN_NS};
	const struct durable_stage *stage = state;
	uint64_t cpu_ns = tier_server_cpu_ns(&stage->cluster);
	struct herd_result result;
	int ret = herd_run(&stage->herd, &order, &result);

	(void)repetition;
	if (ret)
		return ret;
	*value = (double)result.nr * 1e6 / (double)result.elapsed_ns;
	cpu_ns = tier_server_cpu_ns(&stage->cluster) - cpu_ns;
	bench_note("median %.0f µs, 99 %% within %.0f µs; server's CPU for each %.1f µs",
		   result.p50_us, result.p99_us, (double)cpu_ns / (double)result.nr / 1e3);
	return 0;
}

static int run_fio(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const unsigned *nr_clients = row->parameters;
	const struct flash_load load = {.is_write = true,
					.is_durable = true,
					.is_random = true,
					.block = SOCKETS_BLOCK,
					.depth = *nr_clients};
	const struct durable_stage *stage = state;
	struct flash_figures figures = {0};
	int ret = flash_fio_run(stage->file.path, &load, &figures);

	(void)repetition;
	*value = figures.per_second / 1e3;
	return ret;
}

static int run_sockets(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const unsigned *nr_clients = row->parameters;
	const struct sockets_order order = {
		.nr_clients = *nr_clients, .is_write = true, .span_ns = TIER_SPAN_NS};
	const struct durable_stage *stage = state;
	struct sockets_result result;
	int ret = sockets_run(stage->sockets, &order, &result);

	(void)repetition;
	*value = ret ? 0 : (double)result.nr * 1e6 / (double)result.elapsed_ns;
	return ret;
}

static void teardown(void *state)
{
	struct durable_stage *stage = state;

	sockets_close(stage->sockets);
	flash_file_remove(&stage->file);
	herd_stop(&stage->herd);
	tier_cluster_stop(&stage->cluster);
	free(stage);
}

#define FIO	"fio on a raw file: io_uring, O_DIRECT, each write RWF_DSYNC, depth as many"
#define THREADS "a thread for each client: pwrite() with O_DIRECT and O_DSYNC, and send()"
#define NR(nr)	(&(const unsigned){nr})

/* Not constant: without fio those against it are skipped. */
static struct bench_row rows[] = {
	{"durable write 4 KiB, clients: 1 / fio", "k/s", BENCH_HIGHER, FIO, BENCH_REPORTED, NR(1),
	 run_ours, run_fio},
	{"durable write 4 KiB, clients: 32 / fio", "k/s", BENCH_HIGHER, FIO, BENCH_REPORTED, NR(32),
	 run_ours, run_fio},
	{"durable write 4 KiB, clients: 1 / threads", "k/s", BENCH_HIGHER, THREADS, 1, NR(1),
	 run_ours, run_sockets},
	{"durable write 4 KiB, clients: 32 / threads", "k/s", BENCH_HIGHER, THREADS, 1, NR(32),
	 run_ours, run_sockets},
};
#define NR_AGAINST_FIO 2

static int setup(void **state)
{
	const struct herd_region region = {AFAR_TIER_FLASH, TIER_BYTES, true};
	struct durable_stage *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	if (flash_fio_missing())
		bench_skip(rows, NR_AGAINST_FIO, flash_fio_missing());
	ret = tier_cluster_start(&stage->cluster, TIER_FILE_BYTES, false, MEMORY_BYTES);
	if (!ret)
		ret = flash_file_make(&stage->file, TIER_BYTES);
	if (!ret)
		ret = sockets_open(SOCKETS_THREADS, stage->file.path, TIER_BYTES, NR_CLIENTS_MAX,
				   &stage->sockets);
	if (!ret)
		ret = herd_start_on(stage->cluster.cluster, &region, NR_CLIENTS_MAX, &stage->herd);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

const struct bench_stage flash_tier_durable_stage = {setup, teardown, rows, NR_ROWS(rows)};
