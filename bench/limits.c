/* SPDX-License-Identifier: BSD-3-Clause */
/* The suites of afar-limits, which scripts/quickstart runs and which is soon built: what this machine can do. */
#include "harness/harness.h"

#include <stddef.h>

const struct bench_suite *const bench_suites[] = {&bench_suite_limit, NULL};
