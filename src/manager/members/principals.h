/* SPDX-License-Identifier: BSD-3-Clause */
/* Principals and their keys (principals.c). */
#ifndef MANAGER_PRINCIPALS_H
#define MANAGER_PRINCIPALS_H

#include "manager/core_private.h"
#include "rpc/capability.h"

core_operation key_add, key_list, key_revoke;
/* An addition waits while the batch revokes a key of this name: another one is not for this
 * batch. */
core_wait key_wait;
/* Fills in all principals, by name. -ENOMEM with a sentence. */
int principals_list(const struct core *core, Afar__KeyInfos *infos);
/* The reply to an addition, also to one that came again. -ENOENT, -ENOMEM with a sentence. */
int principal_reply(const struct core *core, uint64_t number, Afar__Reply *reply);
/* Fills the keyring at start. -ENOMEM. */
int principals_start(struct core *core);

#endif
