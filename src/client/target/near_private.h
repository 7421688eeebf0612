/* SPDX-License-Identifier: BSD-3-Clause */
/* The windows of a target: near.c uses them, queue/near_look.c takes them. */
#ifndef CLIENT_NEAR_PRIVATE_H
#define CLIENT_NEAR_PRIVATE_H

#include "client/target/near.h"
#include "fabric/mapped.h"

struct near_server {
	struct fabric_gate *gate; /* NULL: it is not near */
	const atomic_uint *nr_loose;
};

struct near {
	struct binding *binding;     /* a reference */
	const struct layout *layout; /* the binding's */
	struct afar_session *session;
	bool may_write;
	struct near_counts counts;   /* by the layout's homes; open where there is a gate */
	struct near_server *servers; /* by the layout's homes */
	uint8_t *chunks[];	     /* first bytes of the layout's copies; NULL: not near */
};

/* Replaces the target's windows, with its lock held. Waits for threads that hold the old ones. */
void near_replace(struct afar_target *target, struct near *by);

#endif
