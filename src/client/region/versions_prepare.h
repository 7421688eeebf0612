/* SPDX-License-Identifier: BSD-3-Clause */
/* Gets new memory for the units of a version that are about to be written (versions_prepare.c). */
#ifndef CLIENT_VERSIONS_PREPARE_H
#define CLIENT_VERSIONS_PREPARE_H

#include <afar/cow.h>

#include "client/namespace/region.h"

/* Gets new memory for what the ranges touch in the version that the handle has begun, and copies into it what they leave
 * out. Errors: those of afar_region_prepare(). */
int versions_prepare(struct afar_region *region, const struct afar_range *ranges, unsigned nr);

#endif
