/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suite `preload`: a program that knows nothing of Afar, peer_mover, on a mount under `afar run`. The references are the same program without it,
 * on that mount and on one without the page cache. Another one is the library. Each measurement is a
 * process of its own; on the mount with the cache it begins without pages.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "harness/file_scene.h"
#include "harness/harness.h"
#include "harness/program.h"
#include "peers/fuse_mount.h"

#define KIB	     (UINT64_C(1) << 10)
#define MIB	     (UINT64_C(1) << 20)
#define BYTES	     (128 * MIB)
#define SERVER_BYTES (320 * MIB)
#define SPAN_NS	     UINT64_C(250000000)
#define MEMORY_MAX   MIB
#define NR_ROWS(row) ((unsigned)(sizeof(row) / sizeof((row)[0])))
#define BAR_FUSE     1.0
#define BAR_LIBRARY  0.9

struct kind {
	const char *what; /* peer_mover's */
	uint64_t size;
};

struct preload_stage {
	struct file_scene at; /* with memory for a piece */
	struct fuse_mount cached, direct;
	char mover[PATH_MAX];
	uint64_t
		ino; /* of the file, which is open only while the library is measured: a mount keeps no pages beside a writer */
};

/* Runs it on the file of a mount. MB/s */
static int move(const struct preload_stage *stage, const struct bench_row *row,
		const struct fuse_mount *mount, bool is_past, double *value)
{
	const struct kind *kind = row->parameters;
	char path[sizeof(mount->place) + sizeof(FILE_NAME) + 1], bytes[24], size[24], ms[24];
	char said[64];
	const char *const arguments[] = {PROGRAM_AFAR, "run", "--", stage->mover, kind->what,
					 path,	       bytes, size, ms,		  NULL};
	double ns;
	int ret;

	snprintf(path, sizeof(path), "%s/" FILE_NAME, mount->place);
	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)BYTES);
	snprintf(size, sizeof(size), "%llu", (unsigned long long)kind->size);
	snprintf(ms, sizeof(ms), "%llu", (unsigned long long)bench_span_ns(SPAN_NS) / 1000000);
	ret = program_run(is_past ? arguments : arguments + 3, said, sizeof(said), NULL);
	if (ret)
		return ret;
	ns = strtod(said, NULL);
	if (!(ns > 0))
		return bench_fail(-EIO, "%s: peer_mover has said '%s'", row->name, said);
	*value = (double)kind->size * 1000 / ns;
	return 0;
}

static int run_past(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct preload_stage *stage = state;

	(void)repetition;
	return move(stage, row, &stage->cached, true, value);
}

static int run_cached(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct preload_stage *stage = state;

	(void)repetition;
	return move(stage, row, &stage->cached, false, value);
}

static int run_direct(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct preload_stage *stage = state;

	(void)repetition;
	return move(stage, row, &stage->direct, false, value);
}

/* Goes on until then, and counts the pieces. */
static int move_by_library(const struct preload_stage *stage, const struct kind *kind,
			   struct afar_file *file, uint64_t until, uint64_t *nr)
{
	const uint64_t nr_pieces = BYTES / kind->size;
	const bool is_stream = *kind->what == 's';
	uint64_t at = 0;
	ssize_t moved;

	do {
		const uint64_t offset = (is_stream ? *nr % nr_pieces : at) * kind->size;

		moved = *kind->what == 'w'
				? afar_file_pwrite(file, stage->at.memory, kind->size, offset)
				: afar_file_pread(file, stage->at.memory, kind->size, offset);
		at = (at * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407)) %
		     nr_pieces;
		++*nr;
	} while (moved == (ssize_t)kind->size && clock_ns() < until);
	if (moved != (ssize_t)kind->size)
		return scene_fail("move a piece", moved < 0 ? (int)moved : -EIO);
	return 0;
}

static int run_library(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct kind *kind = row->parameters;
	struct preload_stage *stage = state;
	struct afar_file *file;
	uint64_t begin, nr = 0;
	int ret = afar_file_open(stage->at.fs, NULL, stage->ino,
				 *kind->what == 'w' ? O_RDWR : O_RDONLY, &file);

	(void)repetition;
	if (ret)
		return scene_fail(row->name, ret);
	if (*kind->what != 'w')
		afar_file_advise(file, AFAR_ADVICE_SEQUENTIAL);
	begin = clock_ns();
	ret = move_by_library(stage, kind, file, begin + bench_span_ns(SPAN_NS), &nr);
	*value = (double)(nr * kind->size) * 1000 / (double)(clock_ns() - begin);
	afar_file_close(file);
	if (!ret && bench_is_interrupted())
		ret = -EINTR;
	return ret;
}

/* ---- The stages */

#define ROW(name, over, what, size, reference, bar, run)                              \
	{                                                                             \
		name ", " over " / " reference, "MB/s", BENCH_HIGHER, reference, bar, \
			&(const struct kind){what, size}, run_past, run               \
	}
#define ROWS(name, over, what, size)                                              \
	ROW(name, over, what, size, "fuse cached", BAR_FUSE, run_cached),         \
		ROW(name, over, what, size, "fuse direct", BAR_FUSE, run_direct), \
		ROW(name, over, what, size, "library", BAR_LIBRARY, run_library)
#define ALL_ROWS(over)                                                                          \
	ROWS("read 4 KiB", over, "read", 4 * KIB), ROWS("read 64 KiB", over, "read", 64 * KIB), \
		ROWS("read 1 MiB", over, "read", MIB),                                          \
		ROWS("write 4 KiB", over, "write", 4 * KIB),                                    \
		ROWS("write 64 KiB", over, "write", 64 * KIB),                                  \
		ROWS("write 1 MiB", over, "write", MIB),                                        \
		ROWS("stream 4 KiB", over, "stream", 4 * KIB)

/* Not constant: bench_skip(). */
static struct bench_row local_rows[] = {ALL_ROWS("local")}, tcp_rows[] = {ALL_ROWS("tcp")};

static void teardown(void *state)
{
	struct preload_stage *stage = state;

	if (!stage)
		return;
	fuse_mount_end(&stage->cached);
	fuse_mount_end(&stage->direct);
	file_scene_end(stage);
}

static int fill(const struct preload_stage *stage)
{
	for (uint64_t at = 0; at < BYTES; at += MEMORY_MAX) {
		ssize_t nr = afar_file_pwrite(stage->at.file, stage->at.memory, MEMORY_MAX, at);

		if (nr < 0)
			return scene_fail("fill the file", (int)nr);
	}
	return 0;
}

static int begin(struct preload_stage *stage)
{
	const char *uri = cluster_uri(stage->at.cluster);
	int ret = fill(stage);

	stage->ino = afar_file_ino(stage->at.file);
	afar_file_close(stage->at.file);
	stage->at.file = NULL;
	if (!ret)
		ret = fuse_mount_afar(&stage->cached, uri, FILE_FS, "cached");
	return ret ? ret : fuse_mount_afar(&stage->direct, uri, FILE_FS, "direct");
}

static int setup(const char *transport, struct bench_row *rows, unsigned nr_rows, void **state)
{
	const struct file_setting setting = {
		.transport = transport, .server_bytes = SERVER_BYTES, .memory_bytes = MEMORY_MAX};
	const char *missing = fuse_mount_missing();
	char mover[PATH_MAX];
	int ret;

	*state = NULL;
	if (!missing && peer_find_built("peer_mover", mover))
		missing = "not built: peer_mover";
	if (missing) {
		bench_skip(rows, nr_rows, missing);
		return 0;
	}
	ret = file_scene_make(&setting, sizeof(struct preload_stage), state);
	if (!ret) {
		struct preload_stage *stage = *state;

		snprintf(stage->mover, sizeof(stage->mover), "%s", mover);
		ret = begin(stage);
	}
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

static const struct bench_stage local_stage = {setup_local, teardown, local_rows,
					       NR_ROWS(local_rows)};
static const struct bench_stage tcp_stage = {setup_tcp, teardown, tcp_rows, NR_ROWS(tcp_rows)};
static const struct bench_stage *const stages[] = {&local_stage, &tcp_stage};
static const struct bench_pace paces[] = {{.rows = "", .seconds = 2}};

const struct bench_suite bench_suite_preload = {
	.name = "preload",
	.summary = "programs past a mount: against the mount, and against the library",
	.repetitions = 3,
	.is_warm = true,
	.paces = paces,
	.nr_paces = NR_ROWS(paces),
	.stages = stages,
	.nr_stages = NR_ROWS(stages),
};
