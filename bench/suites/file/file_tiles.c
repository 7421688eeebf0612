/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `file` on ranges that lie apart: a tile of a large picture, over tcp. Its rows are as many
 * ranges of the file. List I/O moves them in one call; the reference makes a call for each. PVFS over
 * InfiniBand, section 6.8, Figure 14 (tiled display).
 */
#include <errno.h>

#include "base/clock.h"
#include "file.h"

/* 3 × 2 tiles of 1024 × 768 points of three bytes. */
#define TILE_ROWS    768U
#define TILE_WIDTH   (1024 * 3)
#define NR_TILES     6U
#define PICTURE_WIDE (3 * TILE_WIDTH)
#define BYTES	     ((uint64_t)2 * TILE_ROWS * PICTURE_WIDE)
#define SERVER_BYTES (256 * MIB)
#define BAR	     2.0

struct tiles {
	bool is_write;
};

struct tiles_stage {
	struct file_scene at; /* with memory for a tile */
	struct afar_file_vector vectors[TILE_ROWS];
};

static void find_tile(struct tiles_stage *stage, unsigned tile)
{
	uint64_t left = (uint64_t)(tile % 3) * TILE_WIDTH;
	uint64_t top = (uint64_t)(tile / 3) * TILE_ROWS * PICTURE_WIDE;

	for (unsigned i = 0; i < TILE_ROWS; i++)
		stage->vectors[i] = (struct afar_file_vector){
			.offset = top + (uint64_t)i * PICTURE_WIDE + left,
			.data = stage->at.memory + (size_t)i * TILE_WIDTH,
			.length = TILE_WIDTH,
		};
}

static int run_lists(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct tiles *tiles = row->parameters;
	struct tiles_stage *stage = state;
	uint64_t begin = clock_ns();

	(void)repetition;
	for (unsigned tile = 0; tile < NR_TILES; tile++) {
		ssize_t nr;

		find_tile(stage, tile);
		nr = tiles->is_write ? afar_file_writex(stage->at.file, stage->vectors, TILE_ROWS)
				     : afar_file_readx(stage->at.file, stage->vectors, TILE_ROWS);
		if (nr != (ssize_t)TILE_ROWS * TILE_WIDTH)
			return scene_fail(row->name, nr < 0 ? (int)nr : -EIO);
	}
	*value = (double)BYTES / (double)(clock_ns() - begin);
	return 0;
}

static int run_calls(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct tiles *tiles = row->parameters;
	struct tiles_stage *stage = state;
	uint64_t begin = clock_ns();

	(void)repetition;
	for (unsigned i = 0; i < NR_TILES * TILE_ROWS; i++) {
		const struct afar_file_vector *vector = &stage->vectors[i % TILE_ROWS];
		ssize_t nr;

		if (i % TILE_ROWS == 0)
			find_tile(stage, i / TILE_ROWS);
		nr = tiles->is_write ? afar_file_pwrite(stage->at.file, vector->data,
							vector->length, vector->offset)
				     : afar_file_pread(stage->at.file, vector->data, vector->length,
						       vector->offset);
		if (nr != TILE_WIDTH)
			return scene_fail(row->name, nr < 0 ? (int)nr : -EIO);
	}
	*value = (double)BYTES / (double)(clock_ns() - begin);
	return 0;
}

static int setup(void **state)
{
	const struct bench_row fill = {.name = "fill", .parameters = &(const struct tiles){true}};
	const struct file_setting setting = {.transport = "tcp",
					     .server_bytes = SERVER_BYTES,
					     .memory_bytes = TILE_ROWS * TILE_WIDTH};
	struct tiles_stage *stage;
	double ignored;
	int ret = file_scene_make(&setting, sizeof(*stage), (void **)&stage);

	if (!ret)
		ret = run_lists(stage, &fill, 0, &ignored);
	return file_scene_ready(ret, stage, file_scene_end, state);
}

#define CALLS "a call for each row of a tile"
static const struct bench_row rows[] = {
	{"tiles, read by lists, tcp", "GB/s", BENCH_HIGHER, CALLS, BAR,
	 &(const struct tiles){false}, run_lists, run_calls},
	{"tiles, write by lists, tcp", "GB/s", BENCH_HIGHER, CALLS, BAR,
	 &(const struct tiles){true}, run_lists, run_calls},
};

const struct bench_stage file_tiles_stage = {setup, file_scene_end, rows, NR_ROWS(rows)};
