/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `region` about getting memory ready. They compare reserving with populating the same
 * memory in a plain process, and the whole way to a mapping, cold, with a warm one. Cold means servers
 * and sessions that have just begun; each cold measurement starts its own. Suite `control` has more of
 * it.
 */
#include <errno.h>
#include <stdlib.h>

#include <afar/afar.h>

#include "base/clock.h"
#include "harness/process.h"
#include "region.h"
#include "suites/registration/preparation.h"

#define BYTES_WANTED   (UINT64_C(4) << 30)
#define MACHINE_WANTED (UINT64_C(15) << 30) /* "16 GiB" machines show somewhat less */

struct reserve_stage {
	struct preparation preparation;
	bool is_warm; /* the server's pool and the session's cache hold all that is wanted */
};

static void note_size(const struct reserve_stage *state)
{
	if (state->preparation.bytes < BYTES_WANTED)
		bench_note("with %llu MiB instead of 4 GiB: the machine has less than 16 GiB",
			   (unsigned long long)state->preparation.bytes >> 20);
}

/* A quarter of a small machine: server, client and reference are populated side by side. */
static uint64_t choose_bytes(void)
{
	uint64_t bytes = BYTES_WANTED;

	if (machine_memory_bytes() >= MACHINE_WANTED)
		return BYTES_WANTED;
	while (bytes > machine_memory_bytes() / 4)
		bytes /= 2;
	return bytes;
}

static int start_cold(struct reserve_stage *state)
{
	state->is_warm = false;
	return preparation_start(&state->preparation);
}

static int setup(void **stage)
{
	struct reserve_stage *state = calloc(1, sizeof(*state));

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	state->preparation.bytes = choose_bytes();
	state->preparation.nr_clients = 1;
	*stage = state;
	return 0;
}

static void teardown(void *stage)
{
	preparation_stop(&((struct reserve_stage *)stage)->preparation);
	free(stage);
}

/* ---- Reserving */

static int run_populate(void *stage, const struct bench_row *row, unsigned repetition,
			double *value)
{
	(void)row;
	(void)repetition;
	return preparation_populate(((struct reserve_stage *)stage)->preparation.bytes, 1, value);
}

static int run_reserve(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct reserve_stage *state = stage;
	uint64_t begin;
	int ret = start_cold(state);

	(void)row;
	(void)repetition;
	if (ret)
		return ret;
	begin = clock_ns();
	ret = afar_namespace_reserve(state->preparation.scenes[0].ns, state->preparation.bytes);
	*value = (double)(clock_ns() - begin) / 1e6;
	note_size(state);
	return ret ? scene_fail("reserve", ret) : 0;
}

static const struct bench_row reserve_rows[] = {
	{"cold reserve of 4 GiB", "ms", BENCH_LOWER,
	 "mmap and populate of the same kind of memory with as many threads, in a fresh process",
	 1.2, NULL, run_reserve, run_populate},
};

const struct bench_stage region_reserve_stage = {setup, teardown, reserve_rows,
						 NR_ROWS(reserve_rows)};

/* ---- Cold against warm */

static int reserve_alloc_map(struct reserve_stage *state, double *elapsed_ms)
{
	double steps_ms[NR_STEPS];
	int ret = preparation_run(&state->preparation, steps_ms);

	*elapsed_ms = steps_ms[STEP_RESERVE] + steps_ms[STEP_ALLOC] + steps_ms[STEP_MAP];
	return ret;
}

static int undo(struct reserve_stage *state)
{
	int ret = preparation_undo(&state->preparation);

	state->is_warm = !ret;
	return ret;
}

static int run_cold(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct reserve_stage *state = stage;
	int ret = start_cold(state);

	(void)row;
	(void)repetition;
	if (!ret)
		ret = reserve_alloc_map(state, value);
	note_size(state);
	return ret ? ret : undo(state);
}

static int run_warm(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct reserve_stage *state = stage;
	double cold_ms;
	int ret = 0;

	if (!state->is_warm)
		ret = run_cold(state, row, repetition, &cold_ms);
	if (!ret)
		ret = reserve_alloc_map(state, value);
	return ret ? ret : undo(state);
}

static const struct bench_row warm_rows[] = {
	{"cold reserve + alloc + map of 4 GiB", "ms", BENCH_HIGHER,
	 "the same from a warm pool: the server's scrubbed, the session's cached memory", 300, NULL,
	 run_cold, run_warm},
};

const struct bench_stage region_warm_stage = {setup, teardown, warm_rows, NR_ROWS(warm_rows)};
