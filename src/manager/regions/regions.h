/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions: alloc, open, close, free, list (regions.c). */
#ifndef MANAGER_REGIONS_H
#define MANAGER_REGIONS_H

#include "manager/core_private.h"

core_operation region_alloc, region_open, region_free_operation, region_list, region_access,
	region_look, region_finish;

#endif
