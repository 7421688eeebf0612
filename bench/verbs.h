/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether rows over RDMA verbs can be measured here. */
#ifndef BENCH_VERBS_H
#define BENCH_VERBS_H

/* Why not, and what to do: to be shown to people. NULL: they can, at the address $AFAR_TEST_HOST. */
const char *verbs_obstacle(void);

#endif
