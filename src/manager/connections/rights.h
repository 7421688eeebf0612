/* SPDX-License-Identifier: BSD-3-Clause */
/* Rights of principals on namespaces (rights.c); grants.c changes them. */
#ifndef MANAGER_RIGHTS_H
#define MANAGER_RIGHTS_H

#include "manager/core_private.h"
#include "rpc/capability.h"

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
