/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of suite `parallel` that have files of their own. */
#ifndef BENCH_PARALLEL_H
#define BENCH_PARALLEL_H

#include "harness/harness.h"

extern const struct bench_stage parallel_arrays_stage;

#endif
