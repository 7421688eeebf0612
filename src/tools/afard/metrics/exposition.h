/* SPDX-License-Identifier: BSD-3-Clause */
/* The metrics of a daemon, by name (exposition.c). docs/metrics.md lists them. */
#ifndef AFARD_EXPOSITION_H
#define AFARD_EXPOSITION_H

#include "manager/counts.h"
#include "openmetrics.h"
#include "rpc/afar.pb-c.h"
#include "server/view.h"

struct exposition {
	const char *version, *role;
	double started_at; /* in seconds since 1970 */
	/* Of a daemon with a manager; else NULL. */
	const struct manager_counts *counts;
	const Afar__ClusterStatus *cluster; /* NULL, too, if the manager has shown none yet */
	double cluster_age;		    /* seconds since it did */
	/* Of a daemon with a server; else NULL. */
	const struct server_view *own;
};

void expose(struct metrics_text *text, const struct exposition *exposition);

#endif
