/* SPDX-License-Identifier: BSD-3-Clause */
/* Suite `clients`: its stages. */
#ifndef BENCH_CLIENTS_H
#define BENCH_CLIENTS_H

#include "harness/harness.h"

#define NR_ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))

extern const struct bench_stage clients_writes_stage;	 /* clients_writes.c    */
extern const struct bench_stage clients_staged_stage;	 /* clients_staged.c    */
extern const struct bench_stage clients_reads_stage;	 /* clients_reads.c     */
extern const struct bench_stage clients_bandwidth_stage; /* clients_bandwidth.c */

#endif
