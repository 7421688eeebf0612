/* SPDX-License-Identifier: BSD-3-Clause */
/* The windows of a target: same_host.c uses them, queue/same_host_map.c takes them. */
#ifndef CLIENT_NEAR_PRIVATE_H
#define CLIENT_NEAR_PRIVATE_H

#include "client/target/same_host.h"
#include "fabric/mapped.h"

struct same_host_server {
	struct fabric_gate *gate; /* NULL: it is not on this host */
	const atomic_uint *nr_in_doubt;
};

/* Where pages of a copy on flash may be found. */
struct same_host_shown {
	struct fabric_pages *pages; /* NULL: nowhere */
	uint64_t key, remote;
};

struct same_host {
	struct binding *binding;     /* a reference */
	const struct layout *layout; /* the binding's */
	struct afar_session *session;
	bool may_write;
	struct same_host_counts counts;	  /* by the layout's homes; open where there is a gate */
	struct same_host_server *servers; /* by the layout's homes */
	struct same_host_shown *shown;	  /* by its copies; NULL: none is on flash */
	uint8_t *chunks[]; /* first bytes of the layout's copies; NULL: not on this host */
};

/* Replaces the target's windows, with its lock held. Waits for threads that use the old ones. */
void same_host_replace(struct afar_target *target, struct same_host *by);

#endif
