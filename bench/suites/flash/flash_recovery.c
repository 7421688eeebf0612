/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `flash` on opening a translation layer after a crash. The crash is made once. A
 * layer in a sparse file is filled, closed, written over by puts of 1 MiB, each 256 records of the
 * journal, and abandoned. Recovery writes over nothing that counts, so only the anchors tell a
 * recovered layer from the crashed one. The anchors are kept, and put back before each measurement.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "flash.h"
#include "flash/device/blocking.h"
#include "flash/device/uring.h"
#include "flash/format.h"

#define NR_ANCHORS  2U
#define LIMIT_MS    5000.0
#define LINE_SIZE   96
#define NR_START    2U /* crashes of flash_start_stage */
#define SMALL_BYTES (1 * GIB)
#define LARGE_BYTES (64 * GIB)

struct crash_plan {
	uint64_t device_bytes;
	uint64_t used_bytes; /* of the layer                                                   */
	unsigned times;	     /* that they are written after the layer was closed               */
	uint32_t journal;    /* blocks: half of them, so that no checkpoint begins, hold it all */
};

struct crash {
	struct flash_file file;
	alignas(FTL_BLOCK) char anchors[NR_ANCHORS * FTL_BLOCK];
};

static int keep_anchors(struct crash *crash)
{
	struct flash_device *device;
	int ret = flash_device_open_path(crash->file.path, 0, &device);

	if (ret)
		return bench_fail(ret, "%s", error_last_line());
	ret = blocking_read(device, FORMAT_ANCHOR_AT, crash->anchors, NR_ANCHORS);
	flash_device_close(device);
	return ret ? bench_fail(ret, "the anchors cannot be read") : 0;
}

static int write_journal(const struct crash *crash, const struct crash_plan *plan)
{
	void *layer;
	int ret = flash_layer_open(crash->file.path, plan->used_bytes, &layer);

	if (ret)
		return ret;
	ret = flash_load_fill(&flash_target_layer, layer, 1);
	flash_target_layer.close(layer);
	if (!ret)
		ret = flash_layer_open(crash->file.path, plan->used_bytes, &layer);
	if (ret)
		return ret;
	ret = flash_load_fill(&flash_target_layer, layer, plan->times);
	flash_layer_abandon(layer);
	return ret;
}

static int crash_make(struct crash *crash, const struct crash_plan *plan)
{
	int ret = flash_file_make_sparse(&crash->file, plan->device_bytes);

	if (!ret)
		ret = flash_layer_create(crash->file.path, plan->journal);
	if (!ret)
		ret = write_journal(crash, plan);
	if (!ret)
		ret = keep_anchors(crash);
	if (!ret && bench_is_interrupted())
		ret = -EINTR;
	return ret;
}

/* ---- Measuring */

/* Bytes that this process had read from storage. */
static uint64_t bytes_read(void)
{
	FILE *file = fopen("/proc/self/io", "re");
	char line[LINE_SIZE];
	uint64_t bytes = 0;

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file) && sscanf(line, "read_bytes: %" SCNu64, &bytes) != 1)
		;
	fclose(file);
	return bytes;
}

static void note(const struct ftl_stat *stat, uint64_t bytes)
{
	bench_note("%.2f million records in %llu blocks, %llu verified and %llu of them dropped; "
		   "%u map "
		   "pages; %.0f MiB read",
		   (double)stat->replayed_records / 1e6, (unsigned long long)stat->replayed_blocks,
		   (unsigned long long)stat->verified_records,
		   (unsigned long long)stat->dropped_records, stat->map_slots_used,
		   (double)bytes / (double)MIB);
}

static int recover(struct flash_device *device, double *ms)
{
	uint64_t began, bytes = bytes_read();
	struct ftl_stat stat;
	struct ftl *ftl;
	int ret;

	began = clock_ns();
	ret = ftl_open(device, 0, &ftl);
	if (ret)
		return bench_fail(ret, "%s", error_last_line());
	*ms = (double)(clock_ns() - began) / 1e6;
	ftl_stat(ftl, &stat);
	ftl_abandon(ftl);
	note(&stat, bytes_read() - bytes);
	return 0;
}

static int crash_recover(const struct crash *crash, double *ms)
{
	struct flash_device *device;
	int ret = flash_device_open_path(crash->file.path, 0, &device);

	if (ret)
		return bench_fail(ret, "%s", error_last_line());
	ret = blocking_write(device, FORMAT_ANCHOR_AT, crash->anchors, NR_ANCHORS, 0);
	if (!ret)
		ret = blocking_flush(device);
	ret = ret ? bench_fail(ret, "the anchors cannot be put back") : recover(device, ms);
	flash_device_close(device);
	return ret;
}

/* ---- 10 million records */

static int run_recovery(void *stage, const struct bench_row *row, unsigned repetition,
			double *value)
{
	(void)row, (void)repetition;
	return crash_recover(stage, value);
}

static int run_limit(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)stage, (void)row, (void)repetition;
	*value = LIMIT_MS;
	return 0;
}

static const struct bench_row recovery_rows[] = {
	{"open after a crash, 10 million records", "ms", BENCH_LOWER, "the bar of 5 s", 1.0, NULL,
	 run_recovery, run_limit},
};

static void teardown_recovery(void *stage)
{
	struct crash *crash = stage;

	flash_file_remove(&crash->file);
	free(crash);
}

static int setup_recovery(void **stage)
{
	static const struct crash_plan plan = {
		.device_bytes = 8 * GIB, .used_bytes = 4 * GIB, .times = 10, .journal = 96 << 10};
	struct crash *crash = aligned_alloc(FTL_BLOCK, sizeof(*crash));
	int ret;

	if (!crash)
		return bench_fail(-ENOMEM, "no memory for the suite");
	crash->file.folder[0] = '\0';
	ret = crash_make(crash, &plan);
	if (ret)
		teardown_recovery(crash);
	else
		*stage = crash;
	return ret;
}

const struct bench_stage flash_recovery_stage = {setup_recovery, teardown_recovery, recovery_rows,
						 NR_ROWS(recovery_rows)};

/* ---- The same journal on devices of two sizes */

static int run_large(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct crash *crashes = stage;

	(void)row, (void)repetition;
	return crash_recover(&crashes[1], value);
}

static int run_small(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct crash *crashes = stage;

	(void)row, (void)repetition;
	return crash_recover(&crashes[0], value);
}

static const struct bench_row start_rows[] = {
	{"open after a crash, 1 million records, 64 GiB", "ms", BENCH_LOWER,
	 "the same in a device of 1 GiB", BENCH_REPORTED, NULL, run_large, run_small},
};

static void teardown_start(void *stage)
{
	struct crash *crashes = stage;

	for (unsigned i = 0; i < NR_START; i++)
		flash_file_remove(&crashes[i].file);
	free(crashes);
}

static int setup_start(void **stage)
{
	static const struct crash_plan plans[NR_START] = {
		{.device_bytes = SMALL_BYTES,
		 .used_bytes = SMALL_BYTES / 2,
		 .times = 8,
		 .journal = 12 << 10},
		{.device_bytes = LARGE_BYTES,
		 .used_bytes = SMALL_BYTES / 2,
		 .times = 8,
		 .journal = 12 << 10},
	};
	struct crash *crashes = aligned_alloc(FTL_BLOCK, NR_START * sizeof(*crashes));
	int ret = 0;

	if (!crashes)
		return bench_fail(-ENOMEM, "no memory for the suite");
	for (unsigned i = 0; i < NR_START; i++)
		crashes[i].file.folder[0] = '\0';
	for (unsigned i = 0; i < NR_START && !ret; i++)
		ret = crash_make(&crashes[i], &plans[i]);
	if (ret)
		teardown_start(crashes);
	else
		*stage = crashes;
	return ret;
}

const struct bench_stage flash_start_stage = {setup_start, teardown_start, start_rows,
					      NR_ROWS(start_rows)};
