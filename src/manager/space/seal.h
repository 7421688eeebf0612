/* SPDX-License-Identifier: BSD-3-Clause */
/* Sealing: a kind of job (seal.c). */
#ifndef MANAGER_SEAL_H
#define MANAGER_SEAL_H

#include "manager/core_private.h"

core_operation region_seal;
/* A request that looks at a region waits for its sealing, but not longer than it has time. */
core_wait seal_wait;
/* True: the region may still become a sealed one. */
bool seal_is_running(const struct core *core, uint64_t generation);
/* -ETIMEDOUT, with a sentence that tells which server the sealing waits for. */
int seal_fail_slow(const struct core *core, uint64_t generation);

#endif
