/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suite `sharing`: what files do without asking anybody. Here are lists of short pieces of a file, beside one transfer of their bytes.
 * A stage is a cluster over a transport, with a file in its memory or on its flash. A row is a line of a table, and a function that
 * does the work once.
 */
#include "suites/sharing/sharing.h"

#include "base/clock.h"

#define SERVER_BYTES (256 * MIB)
#define FLASH_BYTES  (512 * MIB)
#define FILE_BYTES   (32 * MIB)
#define NR_PIECES    4096U
#define SPAN_NS	     UINT64_C(200000000) /* of one measurement */

struct sharing_stage {
	struct file_scene at; /* its file has FILE_BYTES, all written, as the memory */
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
			.data = stage->at.memory + i * (lists->length + lists->memory_gap),
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

	return lists->is_write ? afar_file_writex(stage->at.file, stage->vectors, NR_PIECES)
			       : afar_file_readx(stage->at.file, stage->vectors, NR_PIECES);
}

static ssize_t move_all(struct sharing_stage *stage, const struct bench_row *row)
{
	const struct lists *lists = row->parameters;
	const size_t length = NR_PIECES * (lists->length + lists->gap);

	return lists->is_write ? afar_file_pwrite(stage->at.file, stage->at.memory, length, 0)
			       : afar_file_pread(stage->at.file, stage->at.memory, length, 0);
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

static int set_up(void **state, const char *transport)
{
	const struct file_setting setting = {.transport = transport,
					     .server_bytes = SERVER_BYTES,
					     .flash_bytes = FLASH_BYTES,
					     .memory_bytes = FILE_BYTES};
	struct sharing_stage *stage;
	int ret = file_scene_make(&setting, sizeof(*stage), (void **)&stage);
	ssize_t nr;

	if (!ret) {
		nr = afar_file_pwrite(stage->at.file, stage->at.memory, FILE_BYTES, 0);
		ret = nr < 0 ? scene_fail("write a file", (int)nr) : 0;
	}
	return file_scene_ready(ret, stage, file_scene_end, state);
}

static int set_up_local(void **state)
{
	return set_up(state, "local");
}

static int set_up_tcp(void **state)
{
	return set_up(state, "tcp");
}

static int set_up_flash(void **state)
{
	return set_up(state, NULL);
}

static const struct bench_row local_rows[] = {LIST_ROWS("local")};
static const struct bench_row tcp_rows[] = {LIST_ROWS("tcp")};
static const struct bench_row flash_rows[] = {LIST_ROWS("flash")};

static const struct bench_stage local_stage = {set_up_local, file_scene_end, local_rows,
					       NR_ROWS(local_rows)};
static const struct bench_stage tcp_stage = {set_up_tcp, file_scene_end, tcp_rows,
					     NR_ROWS(tcp_rows)};
static const struct bench_stage flash_stage = {set_up_flash, file_scene_end, flash_rows,
					       NR_ROWS(flash_rows)};

static const struct bench_stage *const stages[] = {
	&local_stage,
	&tcp_stage,
	&flash_stage,
	&sharing_holes_local_stage,
	&sharing_holes_tcp_stage,
	&sharing_holes_flash_stage,
	&sharing_opens_local_stage,
	&sharing_opens_tcp_stage,
	&sharing_cached_tcp_stage,
	&sharing_cached_flash_stage,
	&sharing_ahead_stage,
	&sharing_ahead_fuse_stage,
	&sharing_postmark_dirsync_stage,
	&sharing_postmark_ganesha_stage,
};

static const struct bench_pace paces[] = {
	{.rows = "4 KiB into holes", .seconds = 3},
	{.rows = "PostMark", .seconds = 10},
	{.rows = ", fuse ", .seconds = 4},
	{.rows = "", .seconds = 1.6},
};

const struct bench_suite bench_suite_sharing = {
	.name = "sharing",
	.summary = "files: short pieces in lists, writes into holes, opening again, reading ahead, "
		   "PostMark",
	.repetitions = 3,
	.paces = paces,
	.nr_paces = NR_ROWS(paces),
	.stages = stages,
	.nr_stages = NR_ROWS(stages),
};
