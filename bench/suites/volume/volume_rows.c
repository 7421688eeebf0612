/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of suite `volume` that are a load: fio does it through our NBD server and through another,
 * and this process by the library's calls. */
#include "base/clock.h"
#include "harness/process.h"
#include "volume.h"

/* Returns operations or bytes, whatever the row is in. */
static double value_of(const struct flash_load *load, const struct flash_figures *figures)
{
	return load->is_random ? figures->per_second / 1e3
			       : figures->per_second * (double)load->block / 1e9;
}

/* Returns the load that a row asks for. */
static struct flash_load load_of(const struct bench_row *row)
{
	const struct volume_row *parameters = row->parameters;
	struct flash_load load = parameters->load;

	load.span_ns = bench_span_ns(VOLUME_SPAN_NS);
	return load;
}

/* Blocks that were written at random lie so in a log: later, what is read in order is not. Has the
 * disk written in order, if the row asks for that. */
static bool must_fill(const struct bench_row *row, bool *is_scattered)
{
	const struct volume_row *parameters = row->parameters;
	const struct flash_load *load = &parameters->load;
	bool must = parameters->is_ordered && *is_scattered;

	*is_scattered = (*is_scattered && !must) || (load->is_write && load->is_random);
	return must;
}

static int fill_lent(const struct volume_stage *stage)
{
	const struct flash_load load = {.is_write = true, .block = MIB, .depth = 8};
	struct flash_figures figures;

	return flash_fio_run_nbd(stage->ours.socket, &load, &figures);
}

static void note(const struct volume_stage *stage, const struct bench_row *row)
{
	const struct volume_row *parameters = row->parameters;

	bench_note("CPU of one operation: our NBD server %.0f µs and afard %.0f, the other server "
		   "%.0f%s%s",
		   stage->cpu_us[0], stage->cpu_us[1], stage->cpu_us[2],
		   parameters->guarantee ? "; " : "",
		   parameters->guarantee ? parameters->guarantee : "");
}

static double cpu_us(uint64_t cpu_ns, const struct flash_load *load,
		     const struct flash_figures *figures)
{
	return (double)cpu_ns / (figures->per_second * (double)load->span_ns / 1e9) / 1e3;
}

int volume_run_lent(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct volume_row *parameters = row->parameters;
	const struct flash_load load = load_of(row);
	struct volume_stage *stage = state;
	struct flash_figures figures = {0};
	uint64_t server_ns, afard_ns;
	int ret = volume_server_run(&stage->ours, parameters->ours, &stage->place);

	(void)repetition;
	if (!ret && must_fill(row, &stage->is_lent_scattered))
		ret = fill_lent(stage);
	if (ret)
		return ret;
	server_ns = volume_server_cpu_ns(&stage->ours);
	afard_ns = process_cpu_ns(stage->afard);
	ret = flash_fio_run_nbd(stage->ours.socket, &load, &figures);
	if (ret)
		return ret;
	*value = value_of(&load, &figures);
	stage->cpu_us[0] = cpu_us(volume_server_cpu_ns(&stage->ours) - server_ns, &load, &figures);
	stage->cpu_us[1] = cpu_us(process_cpu_ns(stage->afard) - afard_ns, &load, &figures);
	if (row->run_ours == volume_run_lent)
		note(stage, row);
	return 0;
}

int volume_run_theirs(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct volume_row *parameters = row->parameters;
	const struct flash_load load = load_of(row);
	struct volume_stage *stage = state;
	struct flash_figures figures = {0};
	uint64_t server_ns;
	int ret = volume_server_run(&stage->theirs, parameters->theirs, &stage->place);

	(void)repetition;
	if (ret)
		return ret;
	server_ns = volume_server_cpu_ns(&stage->theirs);
	ret = flash_fio_run_nbd(stage->theirs.socket, &load, &figures);
	if (ret)
		return ret;
	*value = value_of(&load, &figures);
	stage->cpu_us[2] =
		cpu_us(volume_server_cpu_ns(&stage->theirs) - server_ns, &load, &figures);
	note(stage, row);
	return 0;
}

int volume_run_native(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct flash_load load = load_of(row);
	struct volume_stage *stage = state;
	struct flash_figures figures = {0};
	uint64_t begin, end;
	int ret = 0;

	(void)repetition;
	if (must_fill(row, &stage->is_own_scattered))
		ret = flash_load_fill(&flash_target_queue, stage->queue, 1);
	begin = clock_ns();
	if (!ret)
		ret = load.depth == 1
			      ? flash_load_run(&flash_target_calls, &stage->own, &load, &figures)
			      : flash_load_run(&flash_target_queue, stage->queue, &load, &figures);
	if (ret)
		return ret;
	end = clock_ns();
	ret = load.is_write ? afar_volume_sync(stage->own.volume) : 0;
	/* The sync counts, as fio's flush at the end does. */
	figures.per_second *= (double)(end - begin) / (double)(clock_ns() - begin);
	*value = value_of(&load, &figures);
	return ret ? scene_fail("sync", ret) : 0;
}

/* ---- The stage */

int volume_stage_open(struct volume_stage *stage, const struct cluster *cluster, uint32_t tier,
		      uint64_t bytes)
{
	int ret = scene_open(&stage->scene, cluster_uri(cluster), 0);

	stage->afard = cluster_server(cluster, 0);
	stage->place.cluster = cluster_uri(cluster);
	stage->place.volume = "lent";
	stage->place.is_flash = tier == AFAR_TIER_FLASH;
	stage->place.bytes = bytes;
	if (!ret)
		ret = volume_make(stage->scene.session, "lent", tier, bytes);
	if (!ret)
		ret = volume_make(stage->scene.session, "own", tier, bytes);
	if (!ret)
		ret = volume_open(stage->scene.session, "own", 0, &stage->own.volume);
	if (ret)
		return ret;
	stage->own.bytes = bytes;
	return flash_queue_open(stage->scene.session, afar_volume_target(stage->own.volume), bytes,
				&stage->queue);
}

void volume_stage_close(struct volume_stage *stage)
{
	volume_server_end(&stage->ours);
	volume_server_end(&stage->theirs);
	flash_queue_close(stage->queue);
	volume_close(stage->own.volume);
	scene_close(&stage->scene);
}
