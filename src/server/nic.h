/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the kernel's sysfs tells of the network card behind a lane: where it is in the machine, whether its link
 * is up, how much it has moved. Used by lanes.c. `sysfs` is where that is mounted, or a folder that looks like
 * it.
 */
#ifndef SERVER_NIC_H
#define SERVER_NIC_H

#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#define NIC_NODE_UNKNOWN (-1)

struct nic {
	char interface[IF_NAMESIZE]; /* empty: no one card, the lane listens on all addresses or on none */
	char device[64];	     /* its RDMA device; empty: it has none */
};

enum nic_link {
	NIC_LINK_UNKNOWN,
	NIC_LINK_UP,
	NIC_LINK_DOWN,
};

/* The card at HOST:PORT. What cannot be found stays empty. */
void nic_find(const char *sysfs, const char *address, struct nic *out);
/* The NUMA node that it is at, or NIC_NODE_UNKNOWN; also where the machine has no more than one. */
int nic_node(const char *sysfs, const struct nic *nic);
enum nic_link nic_link(const char *sysfs, const struct nic *nic);
/* What its RDMA device's first port has moved, ours or not. False: it does not tell. */
bool nic_count(const char *sysfs, const struct nic *nic, uint64_t *bytes_in, uint64_t *bytes_out);

/* The processors of a node that this process may use. False: there are none. */
bool nic_processors(const char *sysfs, int node, cpu_set_t *out);

#endif
