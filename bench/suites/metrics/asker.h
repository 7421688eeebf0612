/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks daemons for their metrics each second, as Prometheus does, for suite `metrics`. */
#ifndef BENCH_METRICS_ASKER_H
#define BENCH_METRICS_ASKER_H

#include <stddef.h>

#define ASKER_DAEMONS_MAX 2U
#define ASKER_PERIOD_NS	  1000000000L

struct asker;

/* Starts a thread that asks each of the daemons, which show their metrics at these addresses, HOST:PORT, now and each second. */
int asker_start(const char addresses[][64], unsigned nr, struct asker **out);
/* Ends it. Returns how often all have answered, or a negative code after bench_fail(). NULL is allowed: 0. */
int asker_stop(struct asker *asker);

#endif
