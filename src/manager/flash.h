/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stores, as servers bring them to the manager: how they join (store_joins.c), what becomes of them when their servers go, and
 * what is told of them (flash.c). Servers call here when they join and when they go (servers.c, joins.c).
 */
#ifndef MANAGER_FLASH_H
#define MANAGER_FLASH_H

#include "manager/servers.h"

#define FLASH_STORES_MAX STATE_LANES_MAX /* of a server: each has a lane of its own */

/* removals.c */
core_operation store_regions, store_forget;
/* orphans.c */
core_operation store_free_orphans;
/* devices.c */
core_operation store_add, store_remove, store_lend;
/* Replaces what is known of a store's orphans. Takes `orphans` over. -ENOMEM. */
int orphans_set(struct core *core, struct flash_store *store, struct orphan *orphans, size_t nr);

/* Checks the stores of a join. Changes nothing. `server` is who joins; NULL: it is new. -EINVAL;
 * -EBUSY: another server that is connected has one of them open, and is asked whether it lives.
 * Each with a sentence. */
int flash_check_join(struct core *core, const struct server *server, const Afar__ServerJoin *ask);
/* Makes the stores of a join the server's, which is connected, and says what it shall release of
 * them. Extents that a store does not have any more are lost. -ENOMEM. */
int flash_join(struct core *core, struct server *server, const Afar__ServerJoin *ask,
	       Afar__ServerJoined *joined);
/* The same for one store of a server that is connected. */
int flash_check_store(struct core *core, const struct server *server, const Afar__Store *told);
int flash_join_store(struct core *core, struct server *server, const Afar__Store *told,
		     Afar__StoreJoined *joined);
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
