/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of suite `apps` about graphs. */
#ifndef BENCH_APPS_GRAPH_H
#define BENCH_APPS_GRAPH_H

#include "harness/harness.h"

extern const struct bench_stage apps_graph_stage;

#endif
