/* SPDX-License-Identifier: BSD-3-Clause */
/* The suites of afar-bench: all that there are. */
#include "harness/harness.h"

#include <stddef.h>

const struct bench_suite *const bench_suites[] = {
	&bench_suite_region,
	&bench_suite_local,
	&bench_suite_peers,
	&bench_suite_queue,
	&bench_suite_barrier,
	&bench_suite_clients,
	&bench_suite_control,
	&bench_suite_verbs,
	&bench_suite_rights,
	&bench_suite_registration,
	&bench_suite_flash,
	&bench_suite_flash_tier,
	&bench_suite_cache,
	&bench_suite_volume,
	&bench_suite_file,
	&bench_suite_sharing,
	&bench_suite_parallel,
	&bench_suite_preload,
	&bench_suite_python,
	&bench_suite_apps,
	&bench_suite_metrics,
	&bench_suite_limit,
	NULL,
};
