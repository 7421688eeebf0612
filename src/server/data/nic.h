/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asks sysfs about a lane's network card: where it is in the machine, whether its link is up, and
 * how much it has moved. Used by lanes.c. `sysfs` is where the kernel's is mounted, or a folder
 * that looks like it.
 */
#ifndef SERVER_NIC_H
#define SERVER_NIC_H

#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#define NIC_NODE_UNKNOWN (-1)

struct nic {
	/* Empty: the lane listens on all addresses, or on none, so it has no card of its own. */
	char interface[IF_NAMESIZE];
	char device[64]; /* its RDMA device; empty: it has none */
};

enum nic_link {
	NIC_LINK_UNKNOWN,
	NIC_LINK_UP,
	NIC_LINK_DOWN,
};

/* Finds the card at HOST:PORT. Fields that cannot be found stay empty. */
void nic_find(const char *sysfs, const char *address, struct nic *out);
/* Returns the card's NUMA node. NIC_NODE_UNKNOWN: it is unknown, or the machine has only one. */
int nic_node(const char *sysfs, const struct nic *nic);
enum nic_link nic_link(const char *sysfs, const struct nic *nic);
/* Reads how many bytes the first port of its RDMA device has moved, ours or not. False: it does not
 * tell. */
bool nic_count(const char *sysfs, const struct nic *nic, uint64_t *bytes_in, uint64_t *bytes_out);

/* Finds the processors of a node that this process may use. False: there are none. */
bool nic_processors(const char *sysfs, int node, cpu_set_t *out);

#endif
