/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions as the client knows them: a target for operations, and its place in a namespace. */
#ifndef CLIENT_REGION_H
#define CLIENT_REGION_H

#include "client/namespace/namespace.h"
#include "client/target/target.h"

struct afar_region {
	struct afar_target target; /* its handle is the region's; in use while it is mapped */
	struct afar_namespace *ns;
	uint64_t stripe_bytes;
	uint32_t width;
	bool is_unfinished; /* when it was opened */
	atomic_uint nr_mappings;
	struct versions *versions; /* of a copy-on-write region, else NULL: versions.c */
	char name[AFAR_NAME_MAX + 1];
	struct cds_list_head deferred; /* once it is closed: in the session's list */
};

/* Returns 0, or why the handle cannot be used. */
int region_check(const struct afar_region *region);

/* Makes the region of a volume, or of a file system, which is open exclusively then. Errors as afar_region_create(). */
int region_make_volume(struct afar_namespace *ns, uint64_t bytes, struct afar_region **out);
/* Opens the region of a volume, or of a file system. `mode` is of the protocol (VolumeInfo). Waits for the
 * end of the session `after` (0: none). -EBUSY, with a sentence that says who has it open. */
int region_open_volume(struct afar_namespace *ns, uint32_t mode, uint64_t after,
		       struct afar_region **out);

#endif
