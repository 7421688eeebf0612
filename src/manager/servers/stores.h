/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stores, as servers bring them to the manager. They join (store_joins.c), stay when their servers go, and are told of
 * (stores.c). Servers call here when they join and when they go (servers.c, joins.c).
 */
#ifndef MANAGER_STORES_H
#define MANAGER_STORES_H

#include "manager/core_private.h"

#define FLASH_STORES_MAX STATE_LANES_MAX /* of a server: each has a lane of its own */

/* Replaces what is known of a store's orphans. Takes `orphans` over. -ENOMEM. */
int orphans_set(struct core *core, struct flash_store *store, struct orphan *orphans, size_t nr);

/* Its server has it no more. Never taken back. */
void flash_store_down(struct core *core, struct flash_store *store);
/* The server's connection is lost. */
void flash_down(struct core *core, const struct server *server);

/* True: a store with extents is the server's, or was last. */
bool flash_is_on(const struct core *core, const struct server *server);
/* The server's record goes: stores name it no more. -ENOMEM. */
int flash_leave(struct core *core, const struct server *server);

/* For how long no connected server has had it, or since the manager began; 0: one has it. */
uint64_t flash_down_ms(const struct core *core, const struct flash_store *store);

/* Keeps what the server reports of its stores. */
void flash_take_reports(struct core *core, const struct server *server,
			const Afar__ServerReport *report);
/* Tells the paths of devices to operators alone. False: no memory. */
bool flash_add_status(const struct core *core, const struct session *caller,
		      Afar__ClusterStatus *status);

#endif
