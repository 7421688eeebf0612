/* SPDX-License-Identifier: BSD-3-Clause */
/* Suite `clients`: what becomes of bandwidth and latency when there are many clients, or several servers. */
#include "clients.h"

static const struct bench_stage *const stages[] = {
	&clients_writes_stage,
	&clients_staged_stage,
	&clients_reads_stage,
	&clients_bandwidth_stage,
};

const struct bench_suite bench_suite_clients = {
	.name = "clients",
	.summary = "many clients: bandwidth and latency by their number; several servers",
	.stages = stages,
	.nr_stages = NR_ROWS(stages),
};
