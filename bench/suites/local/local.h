/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of suite `local`, in the order they run. */
#ifndef BENCH_LOCAL_H
#define BENCH_LOCAL_H

#include "harness/harness.h"

extern const struct bench_stage local_memory_stage; /* local_memory.c */
extern const struct bench_stage local_calls_stage;  /* local_calls.c  */
extern const struct bench_stage local_ucx_stage;    /* local_ucx.c    */

#define NR_ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))

#endif
