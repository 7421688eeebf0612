/* SPDX-License-Identifier: BSD-3-Clause */
/* How stores join with their servers, and how an operator gives one up (store_joins.c). */
#ifndef MANAGER_STORE_JOINS_H
#define MANAGER_STORE_JOINS_H

#include "manager/core_private.h"

/* Checks the stores of a join. Changes nothing. `server` is who joins; NULL: it is new. -EINVAL;
 * -EBUSY: another server that is connected has one of them open, and is asked whether it lives.
 * Each with a sentence. */
int flash_check_join(struct core *core, const struct server *server, const Afar__ServerJoin *ask);
/* Makes the stores of a join the server's, which is connected, and says what it shall release of
 * them. Extents that a store does not have any more are lost. -ENOMEM. */
int flash_join(struct core *core, struct server *server, const Afar__ServerJoin *ask,
	       Afar__ServerJoined *joined);
/* Do both for one store of a server that is connected. */
int flash_check_store(struct core *core, const struct server *server, const Afar__Store *told);
int flash_join_store(struct core *core, struct server *server, const Afar__Store *told,
		     Afar__StoreJoined *joined);

#endif
