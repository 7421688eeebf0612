/* SPDX-License-Identifier: BSD-3-Clause */
/* The cluster and the manager's counts, for programs that the manager is a part of: afard's metrics and status page. */
#ifndef MANAGER_VIEW_H
#define MANAGER_VIEW_H

#include "manager/counts.h"
#include "manager/manager.h"
#include "rpc/afar.pb-c.h"

/*
 * Looks at the cluster as an operator sees it, after asking servers and clients for their counts. Whoever has not answered
 * within 50 ms is shown as it was before. Waits at most `timeout_ms` for the manager itself. Free `*out` with
 * afar__cluster_status__free_unpacked(). -ETIMEDOUT: the manager does not get to it, as its disk may hang; -ENOMEM;
 * without a sentence. From any thread, before manager_stop().
 */
int manager_view(struct manager *manager, unsigned timeout_ms, Afar__ClusterStatus **out);

/* They are there until manager_stop(). */
const struct manager_counts *manager_counts(const struct manager *manager);

#endif
