/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rights on namespaces: operators and the owner may do everything, others what was granted to them.
 * To whoever has none a namespace is not there: nobody learns its name, its owner or its kind. Rooms ask here at every request. Capabilities tell servers what this said when they were made. So
 * a principal that loses a right also loses its sessions that may have keys by it: fencing ends
 * those.
 */
#include <errno.h>
#include <string.h>

#include "manager/connections/callers.h"
#include "manager/connections/rights.h"

static bool is_owner(const struct namespace *ns, const char *principal)
{
	return ns->owner[0] != '\0' && strcmp(ns->owner, principal) == 0;
}

uint32_t rights_of(const struct core *core, const char *principal, const struct namespace *ns)
{
	enum principal_kind kind = core_principal_kind(core, principal);

	if (kind == PRINCIPAL_OPERATOR)
		return RIGHT_ALL | RIGHT_OWN;
	if (kind != PRINCIPAL_CLIENT)
		return 0;
	return is_owner(ns, principal) ? RIGHT_ALL | RIGHT_OWN : namespace_granted(ns, principal);
}

bool rights_see(const struct core *core, const struct session *session, const struct namespace *ns)
{
	return (rights_of(core, session->principal, ns) & RIGHT_READ) != 0;
}

int rights_check(const struct core *core, const struct session *session, const struct namespace *ns,
		 uint32_t rights, const char *asked)
{
	if ((rights_of(core, session->principal, ns) & rights) == rights)
		return 0;
	if (ns->owner[0] == '\0')
		return error_fail(-EACCES,
				  "%s: %s '%s' has no owner, and '%s' is no operator; ask one "
				  "for it",
				  asked, namespace_noun(ns), ns->name, session->principal);
	if ((rights & RIGHT_OWN) != 0)
		return error_fail(-EACCES,
				  "%s: '%s' does not own %s '%s'; ask its owner '%s' for it", asked,
				  session->principal, namespace_noun(ns), ns->name, ns->owner);
	return error_fail(-EACCES,
			  "%s: '%s' may not %s %s '%s'; ask its owner '%s' for the right "
			  "('afar ns grant')",
			  asked, session->principal,
			  (rights & RIGHT_WRITE) != 0 ? "write to" : "read", namespace_noun(ns),
			  ns->name, ns->owner);
}

/* ---- Finding by number */

int core_namespace(const struct core *core, const struct session *session, const char *asked,
		   uint64_t number, uint32_t rights, struct namespace **out)
{
	struct namespace *ns = state_namespace(core->state, number);

	if (!ns || ns->is_deleted || !rights_see(core, session, ns))
		return error_fail(-ENOENT,
				  "%s: there is no namespace with number %llu; it may have been "
				  "deleted: open it by name",
				  asked, (unsigned long long)number);
	*out = ns;
	return rights_check(core, session, ns, rights, asked);
}

int namespace_check_records(const struct namespace *ns, const char *asked)
{
	if (!ns->is_suspect)
		return 0;
	return error_fail(
		-EBADMSG,
		"%s: the manager's records of %s '%s' are an older copy's, and lead to bytes that "
		"may "
		"be others' by now; an operator decides ('afar ns accept-older'), or remove it and "
		"make it anew",
		asked, namespace_noun(ns), ns->name);
}
