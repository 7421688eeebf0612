/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of suite `apps` that have files of their own. */
#ifndef BENCH_APPS_H
#define BENCH_APPS_H

#include "harness.h"

extern const struct bench_stage bench_graph_stage;

#endif
