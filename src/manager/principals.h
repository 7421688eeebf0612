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
/* Checks whom a client says that it is when it uses files. -EACCES with a sentence. */
int principal_check_who(const struct core *core, const char *name, uint32_t uid, uint32_t gid,
			const uint32_t *groups, size_t nr_groups);
/* Fills in all principals, by name. -ENOMEM with a sentence. */
int principals_list(const struct core *core, Afar__KeyInfos *infos);
/* The reply to an addition, also to one that came again. -ENOENT, -ENOMEM with a sentence. */
int principal_reply(const struct core *core, uint64_t number, Afar__Reply *reply);
/* Fills the keyring at start. -ENOMEM. */
int principals_start(struct core *core);

/* Bits of rpc/capability.h, beside which: */
#define RIGHT_OWN 0x4U

#endif
