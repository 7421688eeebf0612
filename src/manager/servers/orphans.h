/* SPDX-License-Identifier: BSD-3-Clause */
/* Orphans: extents that a store has, and that our tables do not have (orphans.c). */
#ifndef MANAGER_ORPHANS_H
#define MANAGER_ORPHANS_H

#include "manager/core_private.h"

/* orphans.c */
core_operation store_free_orphans;

#endif
