/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An intruder that has a foot in the door: a session, a namespace and a region of its own, a pass and the keys.
 * All of them in one town, which the test opens.
 */
#ifndef TESTS_FOOTHOLD_H
#define TESTS_FOOTHOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "intruder.h"
#include "lib/fabric/data_client.h"
#include "town.h"

extern struct town town;

struct foothold {
	struct intruder intruder;
	char name[32]; /* of its namespace */
	struct place place;
	struct remote remote; /* what opens it */
	struct rpc_connection *control;
	struct data_client data;
};

void gain_foothold(struct foothold *foothold, const char *name, uint64_t bytes);
/* The region may be gone, and the session, too. */
void lose_foothold(struct foothold *foothold);
/* Deletes it when no session has a region of it open: servers have closed what those had by then. */
void foothold_delete_namespace(const char *name);

void get_keys(struct foothold *foothold, const struct place *place, struct remote *remote);
int ask_ticket(struct foothold *foothold, const struct place *place, uint32_t rights,
	       struct rpc_ticket *out);
void get_ticket(struct foothold *foothold, struct rpc_ticket *out);
/* For a region that it has got the keys of with these rights. */
void connect_to(struct foothold *foothold, const struct place *place, uint32_t rights);
/* For its own. */
void connect_data(struct foothold *foothold);

#endif
