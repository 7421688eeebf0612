/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `python` on files: fsspec, beside plain Python on a mount. Each measurement is a process of its own. Each
 * on a mount makes a new one, so the kernel has no pages of what is read.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "harness/file_scene.h"
#include "peers/fuse_mount.h"
#include "peers/python.h"
#include "python.h"

#define BYTES	     (1024 * MIB)
#define NR_FILES     10000U
#define NR_FILES_FEW 100U
#define SERVER_BYTES (1536 * MIB)
#define BAR	     1.0

struct files_stage {
	struct file_scene at;
	uint64_t bytes;
	char nr_files[24];
};

static int run_at(const struct files_stage *stage, const struct bench_row *row, const char *place,
		  double *value)
{
	const char *what = row->parameters;
	const bool is_large = !strcmp(what, "large");
	double ns = 0;
	int ret = python_run(cluster_uri(stage->at.cluster), what,
			     (const char *[]){place, is_large ? NULL : stage->nr_files, NULL}, &ns);

	if (!ret)
		*value = is_large ? (double)stage->bytes / ns
				  : strtod(stage->nr_files, NULL) * 1e6 / ns;
	return ret;
}

static int run_fsspec(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)repetition;
	return run_at(state, row, "afar://" FILE_FS, value);
}

static int run_mount(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct files_stage *stage = state;
	struct fuse_mount mount = {0};
	int ret = fuse_mount_afar(&mount, cluster_uri(stage->at.cluster), FILE_FS, "cached");

	(void)repetition;
	if (!ret)
		ret = run_at(stage, row, mount.place, value);
	fuse_mount_end(&mount);
	return ret;
}

#define ROWS(over)                                                                     \
	{"fsspec, 1 GiB, " over,                                                       \
	 "GB/s",                                                                       \
	 BENCH_HIGHER,                                                                 \
	 "plain Python on a mount",                                                    \
	 BAR,                                                                          \
	 "large",                                                                      \
	 run_fsspec,                                                                   \
	 run_mount},                                                                   \
	{                                                                              \
		"fsspec, 10 000 files, " over, "files/ms", BENCH_HIGHER,               \
			"plain Python on a mount", BAR, "small", run_fsspec, run_mount \
	}

static struct bench_row local_rows[] = {ROWS("local")}, tcp_rows[] = {ROWS("tcp")};

static void teardown(void *state)
{
	if (state)
		file_scene_end(state);
}

static int fill(struct files_stage *stage)
{
	char bytes[24];
	double ignored;

	stage->bytes = bench_bytes(BYTES, MIB);
	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)stage->bytes);
	snprintf(stage->nr_files, sizeof(stage->nr_files), "%u",
		 stage->bytes == BYTES ? NR_FILES : NR_FILES_FEW);
	return python_run(cluster_uri(stage->at.cluster), "make",
			  (const char *[]){FILE_FS, bytes, stage->nr_files}, &ignored);
}

static int setup(const char *transport, struct bench_row *rows, unsigned nr_rows, void **state)
{
	const struct file_setting setting = {
		.transport = transport, .server_bytes = SERVER_BYTES, .memory_bytes = MIB};
	const char *missing = fuse_mount_missing();
	int ret;

	*state = NULL;
	if (!missing)
		missing = python_missing("fsspec", "not installed: apt install python3-fsspec");
	if (missing) {
		bench_skip(rows, nr_rows, missing);
		return 0;
	}
	ret = file_scene_make(&setting, sizeof(struct files_stage), state);
	if (!ret)
		ret = fill(*state);
	return file_scene_ready(ret, *state, teardown, state);
}

static int setup_local(void **state)
{
	return setup("local", local_rows, NR_ROWS(local_rows), state);
}

static int setup_tcp(void **state)
{
	return setup("tcp", tcp_rows, NR_ROWS(tcp_rows), state);
}

const struct bench_stage python_files_local_stage = {setup_local, teardown, local_rows,
						     NR_ROWS(local_rows)};
const struct bench_stage python_files_tcp_stage = {setup_tcp, teardown, tcp_rows,
						   NR_ROWS(tcp_rows)};
