/* SPDX-License-Identifier: BSD-3-Clause */
/* Composes what a server tells the manager when it joins: who and where it is, and all that it
 * lends. Has the stores do what the answer says. */
#ifndef SERVER_JOIN_H
#define SERVER_JOIN_H

#include "server/control/identity.h"
#include "server/control/membership.h"

/* Makes the message. It is the caller's, for afar__server_join__free_unpacked(). On the membership's
 * thread; blocks while stores finish trims. -ENOMEM, those of store_list(). */
int join_compose(const struct membership_options *options, const struct server_identity *self,
		 struct store_term term, Afar__ServerJoin **out);
/* Makes it for one store more; for afar__store_lend__free_unpacked(). */
int join_compose_store(const struct membership_options *options, struct store *store,
		       Afar__StoreLend **out);

/* The manager has accepted the stores of the join. Notes that on their devices, and releases what it
 * does not know of what nobody was ever granted a key of. On the membership's thread. */
void join_take_stores(const struct membership_options *options, const Afar__ServerJoin *join,
		      const Afar__ServerJoined *joined);
/* Does so for a store that was lent later. -AFAR_EMALFORMED, with a sentence: it was not
 * accepted. */
int join_take_store(const struct membership_options *options, struct store *store,
		    const Afar__StoreLend *lend, const char *cluster, const Afar__Frame *frame);

#endif
