/* SPDX-License-Identifier: BSD-3-Clause */
/* Suite `python`: the module for Python, beside C, plain Python on a mount, and torch on a local disk. */
#include "python.h"

static const struct bench_stage *const stages[] = {
	&python_calls_local_stage, &python_calls_tcp_stage,  &python_files_local_stage,
	&python_files_tcp_stage,   &python_torch_dram_stage, &python_torch_flash_stage,
};

static const struct bench_pace paces[] = {
	/* Where a process's buffer lies makes a tenth, so the median is of many processes. */
	{.rows = "read_into 1 MiB", .seconds = 15, .repetitions = 15},
	{.rows = "read_into", .seconds = 8},
	{.rows = "fsspec", .seconds = 20},
	{.rows = "torch", .seconds = 30},
};

const struct bench_suite bench_suite_python = {
	.name = "python",
	.summary = "the module for Python, beside C, a mount, and torch on a local disk",
	.repetitions = 3,
	.paces = paces,
	.nr_paces = NR_ROWS(paces),
	.stages = stages,
	.nr_stages = NR_ROWS(stages),
};
