/* SPDX-License-Identifier: BSD-3-Clause */
/* The stage of suite `apps` about copy-on-write regions. */
#ifndef BENCH_APPS_COW_H
#define BENCH_APPS_COW_H

#include "harness/harness.h"

extern const struct bench_stage apps_cow_stage;

#endif
