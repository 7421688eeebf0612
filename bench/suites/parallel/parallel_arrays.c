/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrays: blocks of 256 × 256 numbers out of 4096 × 4096, in random order. By rows, a block is 256 pieces, which go together beside a call for each; and
 * an array stored in blocks beside one by rows.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <afar/array.h>

#include "base/clock.h"
#include "harness/cluster.h"
#include "harness/scene.h"
#include "suites/parallel/parallel.h"

#define NR_ROWS(row) ((unsigned)(sizeof(row) / sizeof((row)[0])))
#define MIB	     (UINT64_C(1) << 20)

#define SIDE	    UINT64_C(4096)
#define BLOCK	    UINT64_C(256)
#define RECORD	    sizeof(double)
#define BLOCK_BYTES (BLOCK * BLOCK * RECORD)
#define NR_BLOCKS   32U /* in one measurement */

struct arrays_stage {
	struct cluster *cluster;
	struct scene scene;
	struct afar_region *blocked_region;
	struct afar_array *rows, *blocked;
	unsigned seed;
	double data[BLOCK * BLOCK];
};

/* ---- One block */

static int move_planned(struct arrays_stage *stage, struct afar_array *array, const uint64_t *index,
			bool is_read)
{
	struct afar_slab slab = {.size = sizeof(slab)};
	ssize_t ret = afar_array_block(array, index, &slab);

	if (ret == 0)
		ret = is_read ? afar_array_read(array, &slab, stage->data)
			      : afar_array_write(array, &slab, stage->data);
	return ret == (ssize_t)BLOCK_BYTES ? 0 : scene_fail("move a block", (int)ret);
}

static int move_called(struct arrays_stage *stage, const uint64_t *index, bool is_read)
{
	struct afar_region *region = stage->scene.region;

	for (uint64_t i = 0; i < BLOCK; i++) {
		const uint64_t record = (index[0] * BLOCK + i) * SIDE + index[1] * BLOCK;
		const uint64_t offset = AFAR_ARRAY_HEADER_BYTES + record * RECORD;
		double *data = stage->data + i * BLOCK;
		ssize_t ret = is_read ? afar_region_pread(region, data, BLOCK * RECORD, offset)
				      : afar_region_pwrite(region, data, BLOCK * RECORD, offset);

		if (ret != (ssize_t)(BLOCK * RECORD))
			return scene_fail("move a row of a block", (int)ret);
	}
	return 0;
}

/* ---- Rows */

struct blocks {
	bool is_read;
	bool is_blocked; /* our array */
};

/* `array`: NULL: by calls. */
static int run(struct arrays_stage *stage, struct afar_array *array, bool is_read, double *value)
{
	const uint64_t begin = clock_ns();

	for (unsigned i = 0; i < NR_BLOCKS; i++) {
		const uint64_t side = SIDE / BLOCK;
		const uint64_t index[2] = {(unsigned)rand_r(&stage->seed) % side,
					   (unsigned)rand_r(&stage->seed) % side};
		int ret = array ? move_planned(stage, array, index, is_read)
				: move_called(stage, index, is_read);

		if (ret)
			return ret;
	}
	*value = (double)(NR_BLOCKS * BLOCK_BYTES) / (double)(clock_ns() - begin);
	return 0;
}

static int run_ours(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct blocks *blocks = row->parameters;
	struct arrays_stage *stage = state;

	(void)repetition;
	return run(stage, blocks->is_blocked ? stage->blocked : stage->rows, blocks->is_read,
		   value);
}

static int run_calls(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct blocks *blocks = row->parameters;

	(void)repetition;
	return run(state, NULL, blocks->is_read, value);
}

static int run_by_rows(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct blocks *blocks = row->parameters;
	struct arrays_stage *stage = state;

	(void)repetition;
	return run(stage, stage->rows, blocks->is_read, value);
}

/* ---- The stage */

static void teardown(void *state)
{
	struct arrays_stage *stage = state;

	if (stage->rows)
		afar_array_close(stage->rows);
	if (stage->blocked)
		afar_array_close(stage->blocked);
	if (stage->blocked_region)
		afar_region_close(stage->blocked_region);
	scene_close(&stage->scene);
	cluster_stop(stage->cluster);
	free(stage);
}

static int fill(struct afar_array *array)
{
	static double row[SIDE];
	struct afar_slab slab = {.size = sizeof(slab), .count = {1, SIDE}};

	for (; slab.start[0] < SIDE; slab.start[0]++) {
		ssize_t ret = afar_array_write(array, &slab, row);

		if (ret < 0)
			return (int)ret;
	}
	return 0;
}

static int make_arrays(struct arrays_stage *stage, struct afar_array_shape *shape, uint64_t bytes)
{
	int ret = afar_array_create(stage->scene.region, shape, &stage->rows);

	shape->flags = AFAR_ARRAY_BLOCKED;
	if (ret == 0)
		ret = afar_namespace_reserve(stage->scene.ns, bytes);
	if (ret == 0)
		ret = afar_region_alloc(stage->scene.ns, bytes, 0, &stage->blocked_region);
	if (ret == 0)
		ret = afar_array_create(stage->blocked_region, shape, &stage->blocked);
	if (ret == 0)
		ret = fill(stage->rows);
	if (ret == 0)
		ret = fill(stage->blocked);
	return ret ? scene_fail("make arrays", ret) : 0;
}

static int prepare(struct arrays_stage *stage)
{
	struct afar_array_shape shape = {.size = sizeof(shape),
					 .nr_dimensions = 2,
					 .record_bytes = RECORD,
					 .extent = {SIDE, SIDE},
					 .block = {BLOCK, BLOCK}};
	uint64_t bytes;
	int ret = cluster_start_over("tcp", 2, 512 * MIB, &stage->cluster);

	if (!ret)
		ret = afar_array_bytes(&shape, &bytes);
	if (!ret)
		ret = scene_open(&stage->scene, cluster_uri(stage->cluster), 0);
	if (!ret)
		ret = scene_create_region(&stage->scene, SCENE_NAMESPACE, 0, bytes);
	return ret ? ret : make_arrays(stage, &shape, bytes);
}

static int setup(void **state)
{
	struct arrays_stage *stage = calloc(1, sizeof(*stage));
	int ret = stage ? prepare(stage) : bench_fail(-ENOMEM, "no memory for the suite");

	if (ret && stage)
		teardown(stage);
	*state = ret ? NULL : stage;
	return ret;
}

#define CALLS	"a call for each row of it"
#define BY_ROWS "the array in rows"

static const struct blocks read_rows = {true, false}, write_rows = {false, false},
			   read_blocked = {true, true}, write_blocked = {false, true};

static const struct bench_row rows[] = {
	{"tcp, a block of an array in rows, read", "GB/s", BENCH_HIGHER, CALLS, 5, &read_rows,
	 run_ours, run_calls},
	{"tcp, a block of an array in rows, write", "GB/s", BENCH_HIGHER, CALLS, 5, &write_rows,
	 run_ours, run_calls},
	{"tcp, a block of an array in blocks, read", "GB/s", BENCH_HIGHER, BY_ROWS, BENCH_REPORTED,
	 &read_blocked, run_ours, run_by_rows},
	{"tcp, a block of an array in blocks, write", "GB/s", BENCH_HIGHER, BY_ROWS, BENCH_REPORTED,
	 &write_blocked, run_ours, run_by_rows},
};

const struct bench_stage parallel_arrays_stage = {setup, teardown, rows, NR_ROWS(rows)};
