/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes the bytes of regions out of what their namespace has free (region_places.c). */
#ifndef MANAGER_REGION_PLACES_H
#define MANAGER_REGION_PLACES_H

#include "manager/core_private.h"

struct placement;
/* Takes `bytes`, a multiple of SPACE_UNIT, out of what the namespace has free. Its changes are
 * taken back with the operation. -AFAR_ERESERVE, -ETIMEDOUT, with a sentence; -ENOMEM. */
int region_place(struct core *core, struct namespace *ns, uint64_t bytes, struct placement *out);
/* Adds `bytes` behind what the layout of a region there covers: first what its last chunks still hold, then new ones. Its
 * changes are taken back with the operation. Errors likewise. */
int region_extend(struct core *core, struct namespace *ns, struct layout *layout, uint64_t bytes);
/* Takes one run of so many bytes likewise. -ENOSPC without a sentence: no run is so long; -ENOMEM. */
int region_place_unit(struct core *core, struct namespace *ns, uint64_t bytes,
		      struct placement *out);

#endif
