/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suite `parallel`: a matrix in tiles, and blocks dealt in turn, by four ranks of Open MPI in one file. Afar's components of Open MPI are measured beside the
 * same program in a mount of the same file system. Bytes that are read were written by another session, so no page of them is kept at the mount.
 * parallel_arrays.c has the blocks of arrays.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/file_scene.h"
#include "harness/harness.h"
#include "harness/program.h"
#include "peers/fuse_mount.h"
#include "peers/peer.h"
#include "peers/ranks.h"
#include "suites/parallel/parallel.h"

#define MIB	     (UINT64_C(1) << 20)
#define NR_ROWS(row) ((unsigned)(sizeof(row) / sizeof((row)[0])))

#define PROGRAM	     "peer_mpi_tiles"
#define COMPONENTS   "../src/frontends/mpiio"
#define NR_RANKS     4U
#define SERVER_BYTES (512 * MIB)
#define TILES_BYTES  (UINT64_C(4) * 768 * 1024 * 24)
#define DEALT_BYTES  (4 * 4 * MIB)
#define WRITE_TURNS  "3"

struct parallel_stage {
	struct file_scene at;
	struct fuse_mount mount;
};

struct parallel {
	const char *how, *what;
	const char *piece; /* NULL: tiles */
};

/* ---- Running the ranks */

/* Returns the bytes in a nanosecond of the median turn: GB/s. */
static int take_turns(const char *said, const struct bench_row *row, double *value)
{
	const struct parallel *parallel = row->parameters;
	double turns[16];
	unsigned nr = 0;
	char *end;

	for (double ns; nr < NR_ROWS(turns) && (ns = strtod(said, &end)) > 0; said = end)
		turns[nr++] = ns;
	if (nr == 0)
		return bench_fail(-EPROTO, "%s: " PROGRAM " has not told a time", row->name);
	*value = (double)(parallel->piece ? DEALT_BYTES : TILES_BYTES) / bench_median(turns, nr);
	return 0;
}

static int run_ranks(struct parallel_stage *stage, const struct bench_row *row, const char *what,
		     bool is_mounted, double *value)
{
	const struct parallel *parallel = row->parameters;
	char program[PATH_MAX], components[PATH_MAX + 64], cluster[512], file[128], said[512];
	struct mpi_command command;
	const char *words[64] = {"env"};
	unsigned nr = 1;
	int ret = peer_find_built(PROGRAM, program);

	if (ret)
		return bench_fail(ret, PROGRAM ": %s", mpi_open_mpi_memory.missing);
	snprintf(components, sizeof(components),
		 "OMPI_MCA_mca_base_component_path=%.*s/" COMPONENTS ":SYSTEM_DEFAULT",
		 (int)(strrchr(program, '/') - program), program);
	snprintf(cluster, sizeof(cluster), "AFAR_CLUSTER=%s", cluster_uri(stage->at.cluster));
	/* All rows on tiles share a file, and all on blocks. */
	snprintf(file, sizeof(file), "%s/%s", is_mounted ? stage->mount.place : "afar:/" FILE_FS,
		 parallel->piece ? "dealt" : "tiles");
	for (unsigned i = 0; mpi_open_mpi_memory.environment[i]; i++)
		words[nr++] = mpi_open_mpi_memory.environment[i];
	words[nr++] = components;
	words[nr++] = cluster;
	words[nr++] = "OMPI_MCA_io=ompio";
	if (is_mounted)
		words[nr++] = "OMPI_MCA_fs=^afar";
	mpi_command_begin(&command, &mpi_open_mpi_memory, NR_RANKS);
	for (unsigned i = 0; i < command.nr; i++)
		words[nr++] = command.words[i];
	words[nr++] = program;
	words[nr++] = file;
	words[nr++] = parallel->how;
	words[nr++] = what;
	words[nr++] = strcmp(what, "write") == 0 ? WRITE_TURNS : "1";
	words[nr++] = parallel->piece;
	words[nr] = NULL;
	ret = program_run(words, said, sizeof(said), NULL);
	return ret ? ret : take_turns(said, row, value);
}

static int run(struct parallel_stage *stage, const struct bench_row *row, bool is_mounted,
	       double *value)
{
	const struct parallel *parallel = row->parameters;
	int ret = 0;

	/* So the mount's kernel has none of the bytes. */
	if (strcmp(parallel->what, "read") == 0)
		ret = run_ranks(stage, row, "write", false, value);
	return ret ? ret : run_ranks(stage, row, parallel->what, is_mounted, value);
}

static int run_components(void *stage, const struct bench_row *row, unsigned repetition,
			  double *value)
{
	(void)repetition;
	return run(stage, row, false, value);
}

static int run_mounted(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)repetition;
	return run(stage, row, true, value);
}

/* ---- The stages */

#define ROW(name, bar, ...)                                                                \
	{                                                                                  \
		name, "GB/s", BENCH_HIGHER, "through a mount", bar,                        \
			&(const struct parallel){__VA_ARGS__}, run_components, run_mounted \
	}
#define ROWS(on)                                                                       \
	ROW(on ", tiles by a view, write", 4, "view", "write", NULL),                  \
		ROW(on ", tiles by a view, read", 4, "view", "read", NULL),            \
		ROW(on ", tiles by single calls, write", 2.2, "calls", "write", NULL), \
		ROW(on ", tiles by single calls, read", 2.7, "calls", "read", NULL),   \
		ROW(on ", tiles together, write", 4, "all", "write", NULL),            \
		ROW(on ", tiles together, read", 4, "all", "read", NULL),              \
		ROW(on ", 256 B together, write", 1, "all", "write", "256"),           \
		ROW(on ", 256 B together, read", 1, "all", "read", "256"),             \
		ROW(on ", 4 KiB together, write", 1, "all", "write", "4096"),          \
		ROW(on ", 4 KiB together, read", 1, "all", "read", "4096"),            \
		ROW(on ", 64 KiB together, write", 1, "all", "write", "65536"),        \
		ROW(on ", 64 KiB together, read", 1, "all", "read", "65536"),          \
		ROW(on ", 1 MiB together, write", 1, "all", "write", "1048576"),       \
		ROW(on ", 1 MiB together, read", 1, "all", "read", "1048576")

static struct bench_row tcp_rows[] = {ROWS("tcp")};

static void teardown(void *state)
{
	struct parallel_stage *stage = state;

	if (!stage)
		return;
	fuse_mount_end(&stage->mount);
	file_scene_end(stage);
}

static const char *missing(void)
{
	char path[PATH_MAX];

	if (!peer_is_installed(mpi_open_mpi_memory.launcher) || peer_find_built(PROGRAM, path) ||
	    peer_find_built(COMPONENTS "/mca_fs_afar.so", path))
		return "Open MPI 4.1 is not here: apt install openmpi-bin libopenmpi-dev, and "
		       "build Afar again";
	return fuse_mount_missing();
}

static int setup(void **state)
{
	const struct file_setting setting = {
		.transport = "tcp", .server_bytes = SERVER_BYTES, .memory_bytes = MIB};
	struct parallel_stage *stage;
	int ret;

	*state = NULL;
	if (missing()) {
		bench_skip(tcp_rows, NR_ROWS(tcp_rows), missing());
		return 0;
	}
	ret = file_scene_make(&setting, sizeof(*stage), (void **)&stage);
	if (!ret)
		ret = fuse_mount_afar(&stage->mount, cluster_uri(stage->at.cluster), FILE_FS,
				      "cached");
	return file_scene_ready(ret, stage, teardown, state);
}

static const struct bench_stage stage_tcp = {setup, teardown, tcp_rows, NR_ROWS(tcp_rows)};
static const struct bench_stage *const stages[] = {&stage_tcp, &parallel_arrays_stage};

static const struct bench_pace paces[] = {{.rows = "array", .seconds = 2},
					  {.rows = "", .seconds = 20}};

const struct bench_suite bench_suite_parallel = {
	.name = "parallel",
	.summary = "MPI programs: tiles of a matrix, and blocks in turn, beside the same through a "
		   "mount; blocks of arrays",
	.repetitions = 3,
	.paces = paces,
	.nr_paces = NR_ROWS(paces),
	.stages = stages,
	.nr_stages = NR_ROWS(stages),
};
