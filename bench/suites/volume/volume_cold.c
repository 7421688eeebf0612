/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `volume` on blocks of a disk that are in no memory, as many clients read them. Our
 * server sends a block when the device has read it. The references are servers that are not Afar's
 * (sockets.h). One has a thread for each request in flight, and one is driven by events as ours. No
 * server spins.
 */
#include <errno.h>
#include <stdlib.h>

#include "peers/sockets.h"
#include "volume.h"

#define NR_CLIENTS_MAX 128U
#define MEMORY_BYTES   (64 * MIB)

struct cold {
	unsigned nr_clients;
	enum sockets_way way; /* of the reference */
};

struct cold_stage {
	struct tier_cluster cluster;
	struct herd herd;
	struct flash_file file; /* of the others */
	struct sockets *threads, *ring;
	double cpu_us[2]; /* of one read of the last measurement: ours, theirs */
};

static void note(struct cold_stage *stage, unsigned side, uint64_t cpu_ns, uint64_t nr)
{
	stage->cpu_us[side] = (double)cpu_ns / (double)nr / 1e3;
	bench_note("server's CPU of one read: ours %.1f µs, the other's %.1f", stage->cpu_us[0],
		   stage->cpu_us[1]);
}

static int run_ours(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct cold *cold = row->parameters;
	const struct herd_order order = {.nr_clients = cold->nr_clients,
					 .is_scattered = true,
					 .size = SOCKETS_BLOCK,
					 .span_ns = bench_span_ns(TIER_SPAN_NS)};
	struct cold_stage *stage = state;
	uint64_t cpu_ns = tier_server_cpu_ns(&stage->cluster);
	struct herd_result result;
	int ret = herd_run(&stage->herd, &order, &result);

	(void)repetition;
	if (ret)
		return ret;
	*value = (double)result.nr * 1e6 / (double)result.elapsed_ns;
	note(stage, 0, tier_server_cpu_ns(&stage->cluster) - cpu_ns, result.nr);
	return 0;
}

static int run_sockets(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct cold *cold = row->parameters;
	const struct sockets_order order = {.nr_clients = cold->nr_clients,
					    .span_ns = bench_span_ns(TIER_SPAN_NS)};
	struct cold_stage *stage = state;
	struct sockets_result result;
	int ret = sockets_run(cold->way == SOCKETS_RING ? stage->ring : stage->threads, &order,
			      &result);

	(void)repetition;
	if (ret)
		return ret;
	*value = (double)result.nr * 1e6 / (double)result.elapsed_ns;
	note(stage, 1, result.server_cpu_ns, result.nr);
	return 0;
}

static void teardown(void *state)
{
	struct cold_stage *stage = state;

	sockets_close(stage->threads);
	sockets_close(stage->ring);
	flash_file_remove(&stage->file);
	herd_stop(&stage->herd);
	tier_cluster_stop(&stage->cluster);
	free(stage);
}

static int setup(void **state)
{
	const struct herd_region volume = {.tier = AFAR_TIER_FLASH,
					   .bytes = VOLUME_FLASH_BYTES,
					   .is_written = true,
					   .is_volume = true};
	struct cold_stage *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	stage->cluster.is_sleepy = true;
	ret = tier_cluster_start(&stage->cluster, VOLUME_FILE_BYTES, false, MEMORY_BYTES);
	if (!ret)
		ret = flash_file_make(&stage->file, VOLUME_FLASH_BYTES);
	if (!ret)
		ret = sockets_open(SOCKETS_THREADS, stage->file.path, VOLUME_FLASH_BYTES,
				   NR_CLIENTS_MAX, &stage->threads);
	if (!ret)
		ret = sockets_open(SOCKETS_RING, stage->file.path, VOLUME_FLASH_BYTES,
				   NR_CLIENTS_MAX, &stage->ring);
	if (!ret)
		ret = herd_start_on(stage->cluster.cluster, &volume, NR_CLIENTS_MAX, &stage->herd);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

#define THREADS "a thread for each request: pread() with O_DIRECT, and send()"
#define RING	"driven by events: one thread and an io_uring, O_DIRECT"
#define COLD(nr, text, way, reference)                                                           \
	{                                                                                        \
		"cold reads of 4 KiB, clients: " #nr " / " text, "k/s", BENCH_HIGHER, reference, \
			BENCH_REPORTED, &(const struct cold){nr, way}, run_ours, run_sockets     \
	}
#define BY_CLIENTS(...) \
	COLD(1, __VA_ARGS__), COLD(8, __VA_ARGS__), COLD(32, __VA_ARGS__), COLD(128, __VA_ARGS__)

static const struct bench_row rows[] = {
	BY_CLIENTS("threads", SOCKETS_THREADS, THREADS),
	BY_CLIENTS("io_uring", SOCKETS_RING, RING),
};

const struct bench_stage volume_cold_stage = {setup, teardown, rows, NR_ROWS(rows)};
