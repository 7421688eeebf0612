/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages on files that are opened again. */
#ifndef BENCH_SHARING_OPENS_H
#define BENCH_SHARING_OPENS_H

#include "harness/harness.h"

extern const struct bench_stage sharing_opens_local_stage;
extern const struct bench_stage sharing_opens_tcp_stage;

#endif
