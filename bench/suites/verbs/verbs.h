/* SPDX-License-Identifier: BSD-3-Clause */
/* Tells whether rows over RDMA verbs can be measured here. */
#ifndef BENCH_VERBS_H
#define BENCH_VERBS_H

#include "harness/harness.h"

/* Returns why not, and what to do, for people to read. NULL: they can, at the address
 * $AFAR_TEST_HOST. */
const char *verbs_obstacle(void);

extern const struct bench_stage verbs_flash_stage; /* verbs_flash.c */

#endif
