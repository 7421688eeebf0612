/* SPDX-License-Identifier: BSD-3-Clause */
/* Granting rights on namespaces, and taking them away; see rights.c. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "manager/connections/callers.h"
#include "manager/connections/rights.h"
#include "manager/members/grants.h"
#include "manager/members/principals.h"
#include "manager/members/sessions.h"

#define GRANTS_MAX ((size_t)256) /* of one namespace */

static int check_grant(const struct core *core, const Afar__NamespaceGrant *ask,
		       const struct namespace *ns)
{
	enum principal_kind kind = core_principal_kind(core, ask->principal);
	bool has_grant = namespace_granted(ns, ask->principal) != 0;

	if (ask->rights != 0 && ask->rights != RIGHT_READ && ask->rights != RIGHT_ALL)
		return error_fail(
			-EINVAL,
			"grant rights on '%s': %u are none that there are; use 1 (read), 3 "
			"(read and write) or 0 (none)",
			ns->name, ask->rights);
	/* Rights can be taken from a principal that has no key any more. */
	if (ask->rights == 0 && has_grant)
		return 0;
	if (kind == PRINCIPAL_UNKNOWN)
		return error_fail(
			-ENOENT,
			"grant rights on '%s': nobody here is called '%s'; an operator can "
			"add a key ('afar key add')",
			ns->name, ask->principal);
	if (kind == PRINCIPAL_SERVER)
		return error_fail(
			-EINVAL, "grant rights on '%s': '%s' is a server, which uses no namespaces",
			ns->name, ask->principal);
	if ((rights_of(core, ask->principal, ns) & RIGHT_OWN) != 0)
		return error_fail(-EINVAL,
				  "grant rights on '%s': '%s' %s, and may do everything anyway",
				  ns->name, ask->principal,
				  kind == PRINCIPAL_OPERATOR ? "is an operator" : "owns it");
	if (ask->rights != 0 && !has_grant && ns->nr_grants >= GRANTS_MAX)
		return error_fail(-ENOSPC,
				  "grant rights on '%s': %zu principals have some already; take "
				  "others' away, or let several use one key",
				  ns->name, ns->nr_grants);
	return 0;
}

/* Ends the principal's sessions that may have keys to the namespace's memory, by rights that are no
 * more. */
static int end_users(struct core *core, const char *principal, const struct namespace *ns)
{
	struct session *session, *next;
	int ret = 0;

	cds_list_for_each_entry_safe (session, next, &core->state->sessions, node)
		if (ret == 0 && strcmp(session->principal, principal) == 0 &&
		    session_has_used(session, ns->number))
			ret = session_end_by_force(core, session, "its rights were taken away");
	return ret;
}

int namespace_grant(struct core *core, struct session *session, struct event *event)
{
	const Afar__NamespaceGrant *ask = event->request->namespace_grant;
	struct namespace *ns;
	uint32_t before;
	int ret = core_namespace(core, session, "grant rights", ask->namespace_, RIGHT_OWN, &ns);

	if (ret == 0)
		ret = check_grant(core, ask, ns);
	if (ret < 0)
		return ret;
	before = namespace_granted(ns, ask->principal);
	ret = state_set_grant(core->state, ns, ask->principal, ask->rights);
	if (ret == 0 && (before & ~ask->rights) != 0)
		ret = end_users(core, ask->principal, ns);
	if (ret < 0)
		return ret;
	store_put_grants(core->store, ns);
	log_info("'%s' now has rights %u on namespace '%s'", ask->principal, ask->rights, ns->name);
	return 0;
}
