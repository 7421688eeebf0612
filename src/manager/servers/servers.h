/* SPDX-License-Identifier: BSD-3-Clause */
/* Servers: their reports, and what they must be told (servers.c). */
#ifndef MANAGER_SERVERS_H
#define MANAGER_SERVERS_H

#include "manager/core_private.h"
#include "rpc/capability.h"

/* False: it is malformed. */
bool is_lane_sound(const Afar__Lane *lane);
core_operation server_report;
/* Copies the numbers alone, without what points into the message. */
static inline void lane_report_copy(Afar__LaneReport *out, const Afar__LaneReport *report)
{
	afar__lane_report__init(out);
	out->nr_connections = report->nr_connections;
	out->numa_node = report->numa_node;
	out->is_bound = report->is_bound;
	out->link = report->link;
	out->counted_by = report->counted_by;
	out->bytes_in = report->bytes_in;
	out->bytes_out = report->bytes_out;
}
/* Keeps what the server reports. */
void server_take_report(struct core *core, struct live_server *live,
			const Afar__ServerReport *report);
void server_gone(struct core *core, void *peer);
/* The server's connection is lost, or replaced. */
void server_down(struct core *core, struct live_server *live);
/* Removes an extent that its server does not have any more. Regions that use it are lost; of a file system
 * in memory, the chunks that lie there.
 * -ENOMEM. */
int server_remove_extent(struct core *core, struct extent *extent);
/* The incarnation has ended, and nothing of sessions is left there: no fence waits for it any more.
 * -ENOMEM. */
int server_end_fences(struct core *core, uint64_t server, uint64_t incarnation);
/* Drops the record of a server, if it is down and holds nothing, not in its stores either.
 * -ENOMEM. */
int server_forget(struct core *core, struct server *server);
/* Drops the records of all such servers. */
void servers_forget(struct core *core);
/* Sends what servers must be told: extents to release, sessions to end. */
void servers_drive(struct core *core);
uint64_t servers_next_drive(const struct core *core);
void servers_close(struct core *core);

#endif
