/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `flash-tier` on what a server's processor does for a read of 4 KiB that is on flash.
 * They differ in how many clients read at the same time. The references are servers that are not
 * Afar's (sockets.h): A. Trivedi's thesis, figure 5.2. Each block is read once, so none comes from a
 * cache. None of the servers spins, because the time of one that does is not the time of its work.
 */
#include <errno.h>
#include <stdlib.h>

#include "flash_tier.h"
#include "peers/sockets.h"

#define NR_CLIENTS_MAX 128U
#define NR_WAYS	       3U
#define MEMORY_BYTES   (64 * MIB)
#define THREADS_BAR    0.71 /* 1 / 1.4 */

/* A row's parameters. */
struct cpu {
	unsigned nr_clients;
	enum sockets_way way; /* of the reference */
};

struct cpu_stage {
	struct tier_cluster cluster;
	struct herd herd;
	struct flash_file file; /* of the others */
	struct sockets *sockets[NR_WAYS];
	double per_second[2]; /* of the last measurement: ours, theirs */
};

static void note(struct cpu_stage *stage, unsigned side, uint64_t nr, uint64_t elapsed_ns)
{
	stage->per_second[side] = (double)nr * 1e9 / (double)elapsed_ns;
	bench_note("ours did %.1f k/s, the other server %.1f", stage->per_second[0] / 1e3,
		   stage->per_second[1] / 1e3);
}

static int run_ours(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct cpu *cpu = row->parameters;
	const struct herd_order order = {.nr_clients = cpu->nr_clients,
					 .is_scattered = true,
					 .size = SOCKETS_BLOCK,
					 .span_ns = TIER_SPAN_NS};
	struct cpu_stage *stage = state;
	uint64_t cpu_ns = tier_server_cpu_ns(&stage->cluster);
	struct herd_result result;
	int ret = herd_run(&stage->herd, &order, &result);

	(void)repetition;
	if (ret)
		return ret;
	*value = (double)(tier_server_cpu_ns(&stage->cluster) - cpu_ns) / (double)result.nr / 1e3;
	note(stage, 0, result.nr, result.elapsed_ns);
	return 0;
}

static int run_sockets(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct cpu *cpu = row->parameters;
	const struct sockets_order order = {.nr_clients = cpu->nr_clients, .span_ns = TIER_SPAN_NS};
	struct cpu_stage *stage = state;
	struct sockets_result result;
	int ret = sockets_run(stage->sockets[cpu->way], &order, &result);

	(void)repetition;
	if (ret)
		return ret;
	*value = (double)result.server_cpu_ns / (double)result.nr / 1e3;
	note(stage, 1, result.nr, result.elapsed_ns);
	return 0;
}

static void teardown(void *state)
{
	struct cpu_stage *stage = state;

	for (unsigned i = 0; i < NR_WAYS; i++)
		sockets_close(stage->sockets[i]);
	flash_file_remove(&stage->file);
	herd_stop(&stage->herd);
	tier_cluster_stop(&stage->cluster);
	free(stage);
}

static int setup(void **state)
{
	const struct herd_region region = {AFAR_TIER_FLASH, TIER_BYTES, true};
	struct cpu_stage *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	stage->cluster.is_sleepy = true;
	ret = tier_cluster_start(&stage->cluster, TIER_FILE_BYTES, false, MEMORY_BYTES);
	if (!ret)
		ret = flash_file_make(&stage->file, TIER_BYTES);
	for (unsigned i = 0; i < NR_WAYS && !ret; i++)
		ret = sockets_open((enum sockets_way)i, stage->file.path, TIER_BYTES,
				   NR_CLIENTS_MAX, &stage->sockets[i]);
	if (!ret)
		ret = herd_start_on(stage->cluster.cluster, &region, NR_CLIENTS_MAX, &stage->herd);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

#define CPU(nr, text, way, reference, bar)                                                  \
	{                                                                                   \
		"server CPU, read 4 KiB cold, clients: " #nr " / " text, "µs", BENCH_LOWER, \
			reference, bar, &(const struct cpu){nr, way}, run_ours, run_sockets \
	}
#define BY_CLIENTS(...) \
	CPU(1, __VA_ARGS__), CPU(8, __VA_ARGS__), CPU(32, __VA_ARGS__), CPU(128, __VA_ARGS__)
#define THREADS	 "a thread for each client: pread() with O_DIRECT, and send()"
#define RING	 "one thread and an io_uring: linked read, send and receive, O_DIRECT"
#define SENDFILE "a thread for each client: sendfile(), nothing of the file in memory"

static const struct bench_row rows[] = {
	BY_CLIENTS("threads", SOCKETS_THREADS, THREADS, THREADS_BAR),
	BY_CLIENTS("io_uring", SOCKETS_RING, RING, 1),
	BY_CLIENTS("sendfile", SOCKETS_SENDFILE, SENDFILE, 1),
};

const struct bench_stage flash_tier_cpu_stage = {setup, teardown, rows, NR_ROWS(rows)};
