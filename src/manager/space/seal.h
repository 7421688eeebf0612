/* SPDX-License-Identifier: BSD-3-Clause */
/* Sealing: a kind of job (seal.c). */
#ifndef MANAGER_SEAL_H
#define MANAGER_SEAL_H

#include "manager/core_private.h"

core_operation region_seal;
/* It waits for another job that changes the region's layout. */
core_wait seal_wait;

#endif
