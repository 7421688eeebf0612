/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of suite `flash` whose parameters are a load: done to a target of ours, and by fio to a raw file. */
#include <stdio.h>

#include "flash.h"

#define MORE_SIZE 128

/* Returns operations or bytes, whatever the row is in. */
static double value_of(const struct flash_load *load, const struct flash_figures *figures)
{
	return load->is_random ? figures->per_second / 1e3
			       : figures->per_second * (double)load->block / 1e9;
}

static void note(const struct flash_stage *stage)
{
	char more[MORE_SIZE] = "";

	if (stage->describe)
		stage->describe(stage, more, sizeof(more));
	bench_note("CPU of one operation: ours %.1f µs, fio's %.1f µs%s", stage->cpu_ns[0] / 1e3,
		   stage->cpu_ns[1] / 1e3, more);
}

int flash_rows_run_ours(void *state, const struct bench_row *row, unsigned repetition,
			double *value)
{
	struct flash_stage *stage = state;
	struct flash_figures figures = {0};
	int ret = flash_load_run(stage->target, stage->opened, row->parameters, &figures);

	(void)repetition;
	*value = value_of(row->parameters, &figures);
	stage->cpu_ns[0] = figures.cpu_ns;
	note(stage);
	return ret;
}

int flash_rows_run_fio(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct flash_stage *stage = state;
	const struct flash_load *load = row->parameters;
	struct flash_figures figures = {0};
	int ret = flash_fio_run(load->is_write || !stage->reads ? stage->fios.path : stage->reads,
				load, &figures);

	(void)repetition;
	*value = value_of(row->parameters, &figures);
	stage->cpu_ns[1] = figures.cpu_ns;
	note(stage);
	return ret;
}
