/* SPDX-License-Identifier: BSD-3-Clause */
/* Composes what a server tells the manager when it joins: who and where it is, and all that it
 * lends. */
#ifndef SERVER_JOIN_H
#define SERVER_JOIN_H

#include "server/identity.h"
#include "server/membership.h"

/* Makes the message. It is the caller's, for afar__server_join__free_unpacked(). On the membership's
 * thread; blocks while stores finish trims. -ENOMEM, those of store_list(). */
int join_compose(const struct membership_options *options, const struct server_identity *self,
		 Afar__ServerJoin **out);

#endif
