/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of suite `region`, in the order they run. */
#ifndef BENCH_REGION_H
#define BENCH_REGION_H

#include "harness/harness.h"

extern const struct bench_stage region_connect_stage;  /* region_clients.c  */
extern const struct bench_stage region_idle_stage;     /* region_clients.c  */
extern const struct bench_stage region_memory_stage;   /* region_clients.c  */
extern const struct bench_stage region_transfer_stage; /* region_transfer.c */
extern const struct bench_stage region_stripe_stage;   /* region_transfer.c */
extern const struct bench_stage region_cache_stage;    /* region_cache.c    */
extern const struct bench_stage region_reserve_stage;  /* region_reserve.c  */
extern const struct bench_stage region_warm_stage;     /* region_reserve.c  */

#define NR_ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))

#endif
