/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables as messages (info.c), as far as a session's principal may know them. NULL: no
 * memory. */
#ifndef MANAGER_INFO_H
#define MANAGER_INFO_H

#include "manager/core_private.h"

core_operation cluster_status;
Afar__NamespaceInfo *info_namespace(const struct core *core, const struct session *session,
				    const struct namespace *ns);
Afar__RegionInfo *info_region(const struct core *core, const struct session *session,
			      const struct region *region, bool with_layout);
Afar__ClusterStatus *info_cluster(const struct core *core, const struct session *session);

#endif
