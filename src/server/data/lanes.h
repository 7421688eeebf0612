/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lanes are the ways to a server's memory. Each is a transport at an address, with its own fabric
 * and progress threads (progress.h). All memory can be reached over all lanes. So a client takes
 * the best way that it has, and several network cards serve one region. DESIGN: "lane".
 *
 * Stores have lanes of their own (store.h). Fencing does not distinguish lanes: closing goes over
 * all of them, and those of stores.
 */
#ifndef SERVER_LANES_H
#define SERVER_LANES_H

#include "server/data/nic.h"
#include "server/data/progress.h"
#include "server/memory/domains.h"
#include "server/server.h"

#define LANES_MAX DOMAIN_FABRICS_MAX
/* Lanes of others, which closings go over, too: those of stores. */
#define LANES_BESIDE_MAX 16U

struct lanes;

/* The manager's address. Lanes that listen on all addresses advertise the address towards it. */
struct lanes_manager {
	const char *host;
	uint16_t port;
};

/*
 * Opens the transports, tests that they enforce their keys, and makes the domains over them. The
 * options must outlive the lanes. Errors, with a sentence: -EINVAL (none, or too many), those of
 * fabric_open() and selfcheck().
 */
int lanes_open(const struct server_lane *options, unsigned nr_lanes,
	       const struct lanes_manager *manager, struct lanes **out);
/* Starts the progress threads of each lane, near its network card. `sysfs`, which must outlive the
 * lanes, tells where that is. The lanes fill in fabric, number, address and processors in `common`.
 * Errors are those of progress_start(). */
int lanes_start(struct lanes *lanes, const char *sysfs, const struct progress_options *common);
/* Has closings go over a store's lane, too. -ENOSPC, with a sentence. */
int lanes_add_beside(struct lanes *lanes, struct progress *progress);
/* Has none go there any more. Those that are left there are done before progress_stop() returns. */
void lanes_drop_beside(struct lanes *lanes, struct progress *progress);
/* Closes all connections, and ends the threads. The callbacks of lanes_close_connections() have run
 * when it returns. */
void lanes_stop(struct lanes *lanes);
/* Call it when nothing is registered any more. */
void lanes_close(struct lanes *lanes);

struct domains *lanes_domains(const struct lanes *lanes);
unsigned lanes_nr(const struct lanes *lanes);
const char *lanes_transport(const struct lanes *lanes, unsigned i);
/* Returns the transport of a lane to clients of this machine that can carry memory of a pager's, too;
 * NULL: there is no such lane. */
const char *lanes_near_transport(const struct lanes *lanes);
/* Finds the first lane over which a pager's memory must be driven: names the transport that does, and
 * the host where the lane listens. False: there is no such lane. */
bool lanes_find_driven(const struct lanes *lanes, char transport[static FABRIC_NAME_MAX],
		       char host[static FABRIC_ADDRESS_MAX]);
/* Returns the address that the lane listens on, with the real port. */
const char *lanes_address(const struct lanes *lanes, unsigned i);
/* True if registering is slow on any lane, because it pins pages: those are the lanes whose local
 * memory needs registering too. */
bool lanes_register_slowly(const struct lanes *lanes);
/* True if the memory must be of a kind that other processes can be given. */
bool lanes_need_shared_memory(const struct lanes *lanes);
uint32_t lanes_nr_connections(const struct lanes *lanes);

enum lane_counted_by {
	LANE_NOT_COUNTED, /* the target is passive */
	LANE_COUNTED_BY_TRANSPORT,
	LANE_COUNTED_BY_PORT, /* of the network card, including everything else that goes over it */
};
/* The state of a lane. */
struct lane_stat {
	uint32_t nr_connections;
	int node;      /* of its network card, or NIC_NODE_UNKNOWN */
	bool is_bound; /* its threads run on that node */
	enum nic_link link;
	enum lane_counted_by counted_by;
	uint64_t bytes_in, bytes_out;
	char congestion[FABRIC_CONGESTIONS_MAX];
};
void lanes_stat(const struct lanes *lanes, unsigned i, struct lane_stat *out);

/* Close connections on all lanes, as in progress.h. `done` runs once, on a thread of the last lane
 * to finish. No lane comes or goes from the first call until the second or third, which the same thread
 * makes. */
struct lanes_closing;
int lanes_closing_new(struct lanes *lanes, struct lanes_closing **out);
void lanes_closing_drop(struct lanes_closing *closing);
void lanes_close_connections(struct lanes_closing *closing, const struct progress_order *order);

#endif
