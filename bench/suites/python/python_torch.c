/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `python` on torch: afar.torch.save() and load(), beside torch.save() with fsync and torch.load() on the local ext4. Both replace
 * what is there at once, and both load what the page cache has not. Each measurement is a process of its own.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/file_scene.h"
#include "peers/folder.h"
#include "peers/python.h"
#include "python.h"

#define BYTES	     (1024 * MIB)
#define SERVER_BYTES (3072 * MIB) /* two checkpoints, and what grows ahead */
#define SPARE_BYTES  (64 * MIB)	  /* of a server whose files are on flash */
#define BAR_SAVE     1.0
#define BAR_LOAD     2.0
#define CHECKPOINT   "afar://" FILE_FS "/run/last"

struct torch_stage {
	struct file_scene at;
	struct folder folder;
	char path[96]; /* torch.save()'s */
	char bytes[24];
};

/* GB/s */
static int run_at(const struct torch_stage *stage, const struct bench_row *row, const char *place,
		  double *value)
{
	const char *what = row->parameters;
	double ns = 0;
	int ret =
		python_run(cluster_uri(stage->at.cluster), what,
			   (const char *[]){place, *what == 'l' ? NULL : stage->bytes, NULL}, &ns);

	*value = strtod(stage->bytes, NULL) / ns;
	return ret;
}

static int run_afar(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)repetition;
	return run_at(state, row, CHECKPOINT, value);
}

static int run_ext4(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct torch_stage *stage = state;

	(void)repetition;
	return run_at(stage, row, stage->path, value);
}

#define ROWS(tier, bar_load)                                                               \
	{"torch, save 1 GiB, " tier,                                                       \
	 "GB/s",                                                                           \
	 BENCH_HIGHER,                                                                     \
	 "torch.save() and fsync on ext4",                                                 \
	 BAR_SAVE,                                                                         \
	 "save",                                                                           \
	 run_afar,                                                                         \
	 run_ext4},                                                                        \
		{"torch, load 1 GiB, " tier,                                               \
		 "GB/s",                                                                   \
		 BENCH_HIGHER,                                                             \
		 "torch.load() from ext4",                                                 \
		 bar_load,                                                                 \
		 "load",                                                                   \
		 run_afar,                                                                 \
		 run_ext4},                                                                \
	{                                                                                  \
		"torch, load 1 GiB into a model, " tier, "GB/s", BENCH_HIGHER,             \
			"torch.load() from ext4, and copying", bar_load, "into", run_afar, \
			run_ext4                                                           \
	}

/* Flash and ext4 are on one disk, which bounds both loads. */
static struct bench_row dram_rows[] = {ROWS("memory", BAR_LOAD)},
			flash_rows[] = {ROWS("flash", BENCH_REPORTED)};

static void teardown(void *state)
{
	struct torch_stage *stage = state;

	if (!stage)
		return;
	folder_remove(&stage->folder);
	file_scene_end(stage);
}

/* Saves one of each, so there is something to load and to replace. */
static int begin(struct torch_stage *stage)
{
	const struct bench_row row = {.parameters = "save"};
	double ignored;
	int ret = folder_make_on_ext4(&stage->folder);

	if (ret)
		return ret;
	snprintf(stage->path, sizeof(stage->path), "%s/last", stage->folder.path);
	snprintf(stage->bytes, sizeof(stage->bytes), "%llu",
		 (unsigned long long)bench_bytes(BYTES, 16 * MIB));
	ret = run_afar(stage, &row, 0, &ignored);
	return ret ? ret : run_ext4(stage, &row, 0, &ignored);
}

static int setup(const struct file_setting *setting, struct bench_row *rows, unsigned nr_rows,
		 void **state)
{
	const char *missing = folder_ext4_missing();
	int ret;

	*state = NULL;
	if (!missing)
		missing = python_missing("torch", "not installed: apt install python3-torch");
	if (missing) {
		bench_skip(rows, nr_rows, missing);
		return 0;
	}
	ret = file_scene_make(setting, sizeof(struct torch_stage), state);
	if (!ret)
		ret = begin(*state);
	return file_scene_ready(ret, *state, teardown, state);
}

static int setup_dram(void **state)
{
	const struct file_setting setting = {
		.transport = "local", .server_bytes = SERVER_BYTES, .memory_bytes = MIB};

	return setup(&setting, dram_rows, NR_ROWS(dram_rows), state);
}

static int setup_flash(void **state)
{
	const struct file_setting setting = {
		.server_bytes = SPARE_BYTES, .flash_bytes = 2 * SERVER_BYTES, .memory_bytes = MIB};

	return setup(&setting, flash_rows, NR_ROWS(flash_rows), state);
}

const struct bench_stage python_torch_dram_stage = {setup_dram, teardown, dram_rows,
						    NR_ROWS(dram_rows)};
const struct bench_stage python_torch_flash_stage = {setup_flash, teardown, flash_rows,
						     NR_ROWS(flash_rows)};
