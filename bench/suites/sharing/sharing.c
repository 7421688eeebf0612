/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suite `sharing`: lists of short pieces of a file, beside one transfer of their bytes. A stage is a cluster over a
 * transport, with a file in its memory or on its flash. All that its rows need is in struct sharing_stage: a row is a line of a
 * table, and a function that does the work once.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <afar/file.h>

#include "base/clock.h"
#include "harness/cluster.h"
#include "harness/harness.h"
#include "harness/scene.h"

#define KIB	     (UINT64_C(1) << 10)
#define MIB	     (UINT64_C(1) << 20)
#define NR_ROWS(row) ((unsigned)(sizeof(row) / sizeof((row)[0])))

#define SERVER_BYTES (256 * MIB)
#define FLASH_BYTES  (512 * MIB)
#define FILE_BYTES   (32 * MIB)
#define NR_PIECES    4096U
#define SPAN_NS	     UINT64_C(200000000) /* of one measurement */

struct sharing_stage {
	struct cluster *cluster;
	struct scene scene; /* its session alone */
	struct afar_fs *fs;
	struct afar_file *file; /* of FILE_BYTES, all written */
	char *memory;		/* as many bytes */
	struct afar_file_vector vectors[NR_PIECES];
};

/* The median of the times of `act`, in µs. */
static int time_median(struct sharing_stage *stage, const struct bench_row *row,
		       ssize_t (*act)(struct sharing_stage *stage, const struct bench_row *row),
		       double *value)
{
	static double samples[4096];
	uint64_t end = clock_ns() + bench_span_ns(SPAN_NS);
	unsigned nr = 0;

	do {
		uint64_t begin = clock_ns();
		ssize_t ret = act(stage, row);

		if (ret < 0)
			return scene_fail(row->name, (int)ret);
		samples[nr++] = (double)(clock_ns() - begin) / 1e3;
	} while (nr < NR_ROWS(samples) && clock_ns() < end && !bench_is_interrupted());
	*value = bench_median(samples, nr);
	return 0;
}

/* ---- Lists */

struct lists {
	bool is_write;
	bool is_shuffled;
	uint64_t length;     /* of a piece */
	uint64_t gap;	     /* between two in the file */
	uint64_t memory_gap; /* and in memory */
};

static void cut(struct sharing_stage *stage, const struct lists *lists)
{
	unsigned random = 1;

	for (unsigned i = 0; i < NR_PIECES; i++)
		stage->vectors[i] = (struct afar_file_vector){
			.offset = i * (lists->length + lists->gap),
			.data = stage->memory + i * (lists->length + lists->memory_gap),
			.length = lists->length,
		};
	for (unsigned i = NR_PIECES - 1; i > 0 && lists->is_shuffled; i--) {
		struct afar_file_vector vector = stage->vectors[i];
		unsigned other;

		random = random * 1103515245 + 12345;
		other = (random >> 8) % (i + 1);
		stage->vectors[i] = stage->vectors[other];
		stage->vectors[other] = vector;
	}
}

static ssize_t move_list(struct sharing_stage *stage, const struct bench_row *row)
{
	const struct lists *lists = row->parameters;

	return lists->is_write ? afar_file_writex(stage->file, stage->vectors, NR_PIECES)
			       : afar_file_readx(stage->file, stage->vectors, NR_PIECES);
}

static ssize_t move_all(struct sharing_stage *stage, const struct bench_row *row)
{
	const struct lists *lists = row->parameters;
	const size_t length = NR_PIECES * (lists->length + lists->gap);

	return lists->is_write ? afar_file_pwrite(stage->file, stage->memory, length, 0)
			       : afar_file_pread(stage->file, stage->memory, length, 0);
}

static int run_list(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)repetition;
	cut(state, row->parameters);
	return time_median(state, row, move_list, value);
}

static int run_all(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)repetition;
	return time_median(state, row, move_all, value);
}

#define LISTS(name, is, bar, ...)                                                               \
	{                                                                                       \
		name, "µs", BENCH_LOWER, is, bar, &(const struct lists){__VA_ARGS__}, run_list, \
			run_all                                                                 \
	}
#define TOUCHING(name, write, shuffled, length, memory_gap)                                 \
	LISTS("lists, " name, "one transfer of the bytes", 3.0, write, shuffled, length, 0, \
	      memory_gap)
#define APART(name, gap)                                                                      \
	LISTS("lists, " name, "one read of these and the bytes between them", BENCH_REPORTED, \
	      false, false, 64, gap, 0)

/* The rows on lists of each stage. */
#define LIST_ROWS(on)                                                                             \
	TOUCHING(on ", write 4096 of 8 B", true, false, 8, 0),                                    \
		TOUCHING(on ", write 4096 of 8 B, from all over memory", true, false, 8, 56),     \
		TOUCHING(on ", write 4096 of 64 B", true, false, 64, 0),                          \
		TOUCHING(on ", write 4096 of 64 B, shuffled", true, true, 64, 64),                \
		TOUCHING(on ", write 4096 of 512 B, from all over memory", true, false, 512, 64), \
		TOUCHING(on ", read 4096 of 8 B", false, false, 8, 0),                            \
		TOUCHING(on ", read 4096 of 8 B, to all over memory", false, false, 8, 56),       \
		TOUCHING(on ", read 4096 of 64 B, shuffled", false, true, 64, 64),                \
		TOUCHING(on ", read 4096 of 512 B, to all over memory", false, false, 512, 64),   \
		APART(on ", read 4096 of 64 B, 448 B apart", 448),                                \
		APART(on ", read 4096 of 64 B, 4032 B apart", 4032)

/* ---- The stages */

static void teardown(void *state)
{
	struct sharing_stage *stage = state;

	if (stage->file)
		afar_file_close(stage->file);
	if (stage->fs)
		afar_fs_close(stage->fs);
	scene_close(&stage->scene);
	cluster_stop(stage->cluster);
	free(stage->memory);
	free(stage);
}

static int make_file(struct sharing_stage *stage, uint32_t tier)
{
	const struct afar_fs_policy policy = {
		.size = sizeof(policy),
		.pool = &(struct afar_policy){.size = sizeof(struct afar_policy), .tier = tier},
	};
	struct afar_session *session = stage->scene.session;
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	int ret = afar_fs_create(session, "files", &policy, NULL);
	ssize_t nr;

	if (!ret)
		ret = afar_fs_open(session, "files", NULL, &stage->fs);
	if (!ret)
		ret = afar_fs_stat(stage->fs, &stat);
	if (!ret)
		ret = afar_file_create(stage->fs, NULL, stat.root, "file", 0644, O_RDWR,
				       &stage->file, NULL);
	if (ret)
		return scene_fail("make a file", ret);
	nr = afar_file_pwrite(stage->file, stage->memory, FILE_BYTES, 0);
	return nr < 0 ? scene_fail("write a file", (int)nr) : 0;
}

static int set_up(struct sharing_stage **out, const char *transport, uint32_t tier)
{
	struct sharing_stage *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	stage->memory = malloc(FILE_BYTES);
	if (!stage->memory)
		ret = bench_fail(-ENOMEM, "no memory for the suite");
	else if (tier == AFAR_TIER_FLASH)
		ret = cluster_start_flash(1, SERVER_BYTES, FLASH_BYTES, &stage->cluster);
	else
		ret = cluster_start_over(transport, 1, SERVER_BYTES, &stage->cluster);
	if (!ret && stage->memory) {
		memset(stage->memory, 0x5A, FILE_BYTES);
		ret = scene_open(&stage->scene, cluster_uri(stage->cluster), 0);
	}
	if (!ret)
		ret = make_file(stage, tier);
	if (ret)
		teardown(stage);
	else
		*out = stage;
	return ret;
}

static int set_up_local(void **state)
{
	return set_up((struct sharing_stage **)state, "local", AFAR_TIER_DRAM);
}

static int set_up_tcp(void **state)
{
	return set_up((struct sharing_stage **)state, "tcp", AFAR_TIER_DRAM);
}

static int set_up_flash(void **state)
{
	return set_up((struct sharing_stage **)state, "tcp", AFAR_TIER_FLASH);
}

static const struct bench_row local_rows[] = {LIST_ROWS("local")};
static const struct bench_row tcp_rows[] = {LIST_ROWS("tcp")};
static const struct bench_row flash_rows[] = {LIST_ROWS("flash")};

static const struct bench_stage local_stage = {set_up_local, teardown, local_rows,
					       NR_ROWS(local_rows)};
static const struct bench_stage tcp_stage = {set_up_tcp, teardown, tcp_rows, NR_ROWS(tcp_rows)};
static const struct bench_stage flash_stage = {set_up_flash, teardown, flash_rows,
					       NR_ROWS(flash_rows)};

static const struct bench_stage *const stages[] = {&local_stage, &tcp_stage, &flash_stage};

static const struct bench_pace paces[] = {
	{.rows = "", .seconds = 1.6},
};

const struct bench_suite bench_suite_sharing = {
	.name = "sharing",
	.summary = "files: short pieces in lists",
	.repetitions = 3,
	.paces = paces,
	.nr_paces = NR_ROWS(paces),
	.stages = stages,
	.nr_stages = NR_ROWS(stages),
};
