/* SPDX-License-Identifier: BSD-3-Clause */
/* Principals and their keys (principals.c), and their rights on namespaces (rights.c, grants.c). */
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

core_operation namespace_grant;
/* Bits of rpc/capability.h, beside which: */
#define RIGHT_OWN 0x4U
uint32_t rights_of(const struct core *core, const char *principal, const struct namespace *ns);
/* False: to the session's principal the namespace is not there. Each answer must be that to a name or a number which
 * nothing has. */
bool rights_see(const struct core *core, const struct session *session, const struct namespace *ns);
/* -EACCES with a sentence, unless the session's principal has all of the rights. */
int rights_check(const struct core *core, const struct session *session, const struct namespace *ns,
		 uint32_t rights, const char *asked);
/* Finds a namespace by its number. -ENOENT also without any right, -EACCES without all of the rights, with a sentence. */
int core_namespace(const struct core *core, const struct session *session, const char *asked,
		   uint64_t number, uint32_t rights, struct namespace **out);
/* -EBADMSG, with a sentence: the records are an older copy's, so what they lead to may be others' bytes, and no operator has
 * accepted that. */
int namespace_check_records(const struct namespace *ns, const char *asked);

#endif
