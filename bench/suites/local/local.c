/* SPDX-License-Identifier: BSD-3-Clause */
/* Suite `local`: remote DRAM of the same machine, which costs a copy. Whatever the environment names, the
 * clusters are over the transport local. */
#include "local.h"

static const struct bench_stage *const stages[] = {
	&local_memory_stage,
	&local_calls_stage,
	&local_ucx_stage,
};

const struct bench_suite bench_suite_local = {
	.name = "local",
	.summary = "DRAM of another process of this machine: transfers against memcpy and UCX, "
		   "calls against tcp",
	.stages = stages,
	.nr_stages = NR_ROWS(stages),
};
