/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps the claim to write a version while it is used (versions_use.c). */
#ifndef CLIENT_VERSIONS_USE_H
#define CLIENT_VERSIONS_USE_H

#include <afar/cow.h>

#include "client/namespace/region.h"

/* From now on the manager is told when the version that the handle has begun was written: versions_use.c. */
void versions_keep(struct afar_region *region);

#endif
