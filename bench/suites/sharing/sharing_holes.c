/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows on writes of 4 KiB that need room. They go into the holes of a sparse file, or to the end of one that
 * grows. A file gets room for many of them at once, so the manager is asked for few. The reference is the same over what is
 * there.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "suites/sharing/sharing.h"

#define UNIT	     (4 * KIB)
#define NR_UNITS     4096U
#define BYTES	     (NR_UNITS * UNIT)
#define SERVER_BYTES (512 * MIB)
#define FLASH_BYTES  (512 * MIB)
#define BAR	     3.0

struct holes {
	unsigned step;	   /* of this many units, one is written */
	unsigned per_call; /* ranges of one call */
	bool is_scattered; /* in any order, else from the end to the beginning */
	bool is_extending; /* from the beginning to the end of an empty file */
	bool is_appending; /* likewise, wherever the file ends */
};

struct holes_stage {
	struct file_scene
		at; /* with the file that the reference writes to, and memory for each unit of a call */
	unsigned nr_made;
	uint64_t units[NR_UNITS];
	struct afar_file_vector vectors[NR_UNITS];
};

/* Lists the units in the order in which they are written. */
static unsigned order(struct holes_stage *stage, const struct holes *holes)
{
	unsigned nr = (unsigned)(bench_bytes(BYTES, MIB) / UNIT) / holes->step, random = 1;

	for (unsigned i = 0; i < nr; i++)
		stage->units[i] = (uint64_t)(holes->is_extending ? i : nr - 1 - i) * holes->step;
	for (unsigned i = nr - 1; i > 0 && holes->is_scattered; i--) {
		unsigned other = (unsigned)rand_r(&random) % (i + 1);
		uint64_t unit = stage->units[i];

		stage->units[i] = stage->units[other];
		stage->units[other] = unit;
	}
	return nr;
}

/* Writes them all. `value`: microseconds for each. */
static int write_all(struct holes_stage *stage, const struct bench_row *row, struct afar_file *file,
		     double *value)
{
	const struct holes *holes = row->parameters;
	unsigned nr = order(stage, holes);
	uint64_t begin = clock_ns();

	for (unsigned i = 0; i < nr; i += holes->per_call) {
		ssize_t written;

		for (unsigned j = 0; j < holes->per_call; j++)
			stage->vectors[j] = (struct afar_file_vector){
				.offset = stage->units[i + j] * UNIT,
				.data = stage->at.memory + j * UNIT,
				.length = UNIT,
			};
		written = holes->is_appending && file != stage->at.file
				  ? afar_file_append(file, stage->at.memory, UNIT, 0, NULL)
				  : afar_file_writex(file, stage->vectors, holes->per_call);
		if (written != (ssize_t)(holes->per_call * UNIT))
			return scene_fail(row->name, written < 0 ? (int)written : -EIO);
	}
	*value = (double)(clock_ns() - begin) / 1e3 / nr;
	return 0;
}

static int run_holes(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct holes *holes = row->parameters;
	struct holes_stage *stage = state;
	struct afar_file *file = NULL;
	char name[24];
	int ret;

	(void)repetition;
	snprintf(name, sizeof(name), "holes-%u", stage->nr_made++);
	ret = file_make(stage->at.fs, name, &file);
	if (!ret && !holes->is_extending)
		ret = afar_file_truncate(file, BYTES);
	if (!ret)
		ret = write_all(stage, row, file, value);
	/* Its room is for the next one. */
	if (!ret)
		ret = afar_file_truncate(file, 0);
	if (file)
		afar_file_close(file);
	return ret;
}

static int run_whole(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct holes_stage *stage = state;

	(void)repetition;
	return write_all(stage, row, stage->at.file, value);
}

static int setup_over(const char *transport, void **state)
{
	const struct bench_row fill = {.name = "fill",
				       .parameters = &(const struct holes){1, 1, false, false}};
	const struct file_setting setting = {.transport = transport,
					     .server_bytes = SERVER_BYTES,
					     .flash_bytes = transport ? 0 : FLASH_BYTES,
					     .memory_bytes = BYTES};
	struct holes_stage *stage;
	double ignored;
	int ret = file_scene_make(&setting, sizeof(*stage), (void **)&stage);

	if (!ret)
		ret = write_all(stage, &fill, stage->at.file, &ignored);
	return file_scene_ready(ret, stage, file_scene_end, state);
}

static int setup_local(void **state)
{
	return setup_over("local", state);
}

static int setup_tcp(void **state)
{
	return setup_over("tcp", state);
}

static int setup_flash(void **state)
{
	return setup_over(NULL, state);
}

#define HOLES(over, name, bar, ...)                                              \
	{                                                                        \
		name ", " over, "us", BENCH_LOWER, "over what is there", bar,    \
			&(const struct holes){__VA_ARGS__}, run_holes, run_whole \
	}
#define END_ROWS(over, bar)                                       \
	HOLES(over, "4 KiB that extend", bar, 1, 1, false, true), \
		HOLES(over, "4 KiB that are appended", bar, 1, 1, false, true, true)
#define HOLES_ROWS(over, bar)                                                                    \
	HOLES(over, "4 KiB into holes, descending", bar, 1, 1, false, false),                    \
		HOLES(over, "4 KiB into holes, scattered", bar, 1, 1, true, false),              \
		HOLES(over, "4 KiB into holes, each 16th", BENCH_REPORTED, 16, 1, false, false), \
		HOLES(over, "4 KiB into holes, lists of 256", bar, 1, 256, true, false),         \
		END_ROWS(over, bar)
static const struct bench_row rows_local[] = {HOLES_ROWS("local", BENCH_REPORTED)};
static const struct bench_row rows_tcp[] = {HOLES_ROWS("tcp", BAR)};
static const struct bench_row rows_flash[] = {END_ROWS("flash", BAR)};

const struct bench_stage sharing_holes_local_stage = {setup_local, file_scene_end, rows_local,
						      NR_ROWS(rows_local)};
const struct bench_stage sharing_holes_tcp_stage = {setup_tcp, file_scene_end, rows_tcp,
						    NR_ROWS(rows_tcp)};
const struct bench_stage sharing_holes_flash_stage = {setup_flash, file_scene_end, rows_flash,
						      NR_ROWS(rows_flash)};
