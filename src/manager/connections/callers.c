/* SPDX-License-Identifier: BSD-3-Clause */
/* Callers, and what each may ask for; see callers.h. requests.c asks here, of each request. */
#include "manager/connections/callers.h"
#include "manager/connections/live.h"

#include <errno.h>
#include <stdio.h>

#define ASKED_MAX 160

/* Names a server in `out`, if there is one of this number. */
static const char *server_name(const struct core *core, uint64_t number)
{
	const struct server *server = state_server(core->state, number);

	return server ? server->name : "?";
}

/* Says what is asked for, of that which only operators may. */
static void describe(const struct core *core, const Afar__Request *request, char out[ASKED_MAX])
{
	switch (request->call_case) {
	case AFAR__REQUEST__CALL_KEY_ADD:
		snprintf(out, ASKED_MAX, "add key '%.64s'", request->key_add->name);
		break;
	case AFAR__REQUEST__CALL_KEY_LIST:
		snprintf(out, ASKED_MAX, "list keys");
		break;
	case AFAR__REQUEST__CALL_KEY_REVOKE:
		snprintf(out, ASKED_MAX, "revoke key '%.64s'", request->key_revoke->name);
		break;
	case AFAR__REQUEST__CALL_KEY_LIMIT:
		snprintf(out, ASKED_MAX, "limit key '%.64s'", request->key_limit->name);
		break;
	case AFAR__REQUEST__CALL_RECORDS_CHECK:
		snprintf(out, ASKED_MAX, "check the manager's records");
		break;
	case AFAR__REQUEST__CALL_RECORDS_ACCEPT:
		snprintf(out, ASKED_MAX, "accept the manager's older records");
		break;
	case AFAR__REQUEST__CALL_SERVER_REGIONS:
		snprintf(out, ASKED_MAX, "list what is on server '%.64s'",
			 server_name(core, request->server_regions->server));
		break;
	case AFAR__REQUEST__CALL_NAMESPACE_ACCEPT:
		snprintf(out, ASKED_MAX, "accept the older records of '%.64s'",
			 request->namespace_accept->name);
		break;
	case AFAR__REQUEST__CALL_LOSS_LIST:
	case AFAR__REQUEST__CALL_LOSS_COUNT:
		snprintf(out, ASKED_MAX, "tell what is lost with a server or a store");
		break;
	case AFAR__REQUEST__CALL_SERVER_REMOVE:
		snprintf(out, ASKED_MAX, "remove server '%.64s'",
			 server_name(core, request->server_remove->server));
		break;
	case AFAR__REQUEST__CALL_STORE_ADD:
		snprintf(out, ASKED_MAX, "add a store at server '%.64s'",
			 server_name(core, request->store_add->server));
		break;
	case AFAR__REQUEST__CALL_STORE_REGIONS:
		snprintf(out, ASKED_MAX, "list what is on store %016llx",
			 (unsigned long long)request->store_regions->store);
		break;
	case AFAR__REQUEST__CALL_STORE_REMOVE:
		snprintf(out, ASKED_MAX, "remove store %016llx",
			 (unsigned long long)request->store_remove->store);
		break;
	case AFAR__REQUEST__CALL_STORE_FORGET:
		snprintf(out, ASKED_MAX, "forget store %016llx",
			 (unsigned long long)request->store_forget->store);
		break;
	case AFAR__REQUEST__CALL_STORE_FREE_ORPHANS:
		snprintf(out, ASKED_MAX, "free the orphans of store %016llx",
			 (unsigned long long)request->store_free_orphans->store);
		break;
	default:
		snprintf(out, ASKED_MAX, "call the manager");
		break;
	}
}

int caller_check(const struct core *core, enum audience audience, const struct event *event)
{
	const char *principal = core->environment.principal(core->environment.context, event->peer);
	enum principal_kind kind =
		principal ? core_principal_kind(core, principal) : PRINCIPAL_UNKNOWN;
	char asked[ASKED_MAX];

	if (kind == PRINCIPAL_UNKNOWN)
		return error_fail(-AFAR_EAUTH,
				  "call the manager: the key that this connection was made with "
				  "has been revoked; ask an operator for another");
	if (audience == FOR_SERVER && kind != PRINCIPAL_SERVER)
		return error_fail(-EACCES,
				  "join the cluster: '%s' has the key of a client; servers join "
				  "with a join key (the manager's server.key, or 'afar key add "
				  "--server')",
				  principal);
	if ((audience == FOR_CLIENT || audience == FOR_OPERATOR) && kind == PRINCIPAL_SERVER)
		return error_fail(-EACCES,
				  "call the manager: '%s' has a server's join key, which is good "
				  "for joining alone; use a client's key",
				  principal);
	if (audience == FOR_OPERATOR && kind != PRINCIPAL_OPERATOR) {
		describe(core, event->request, asked);
		return error_fail(-EACCES,
				  "%s: only operators may, and '%s' is no operator; use a key of "
				  "the manager's key file",
				  asked, principal);
	}
	return 0;
}

enum principal_kind core_principal_kind(const struct core *core, const char *name)
{
	enum principal_kind kind = keyring_file_kind(core->keyring, name);
	const struct principal *principal;

	if (kind != PRINCIPAL_UNKNOWN)
		return kind;
	principal = state_principal_named(core->state, name);
	if (!principal)
		return PRINCIPAL_UNKNOWN;
	return principal->is_server ? PRINCIPAL_SERVER : PRINCIPAL_CLIENT;
}

bool is_operator(const struct core *core, const struct session *caller)
{
	return core_principal_kind(core, caller->principal) == PRINCIPAL_OPERATOR;
}

int core_session(struct core *core, const struct event *event, struct session **out)
{
	struct session *session = state_session(core->state, event->session);

	if (!session || session->is_ending || !session->live || session->live->peer != event->peer)
		return error_fail(-AFAR_ESESSION,
				  "call the manager: session %llx has ended or belongs to another "
				  "connection; open a new one",
				  (unsigned long long)event->session);
	*out = session;
	return 0;
}

/* ---- Whom it may say that it is */

static bool has_group(const struct principal *principal, uint32_t gid)
{
	for (uint32_t i = 0; i < principal->nr_gids; i++)
		if (principal->gids[i] == gid)
			return true;
	return false;
}

static int fail_group(const char *name, uint32_t gid)
{
	return error_fail(-EACCES,
			  "use files as a member of group %u: the key of '%s' is not for that; an "
			  "operator can add one with 'afar key add --gid'",
			  gid, name);
}

int principal_check_who(const struct core *core, const char *name, uint32_t uid, uint32_t gid,
			const uint32_t *groups, size_t nr_groups)
{
	const struct principal *principal = state_principal_named(core->state, name);

	if (core_principal_kind(core, name) == PRINCIPAL_OPERATOR ||
	    (principal && principal->is_any))
		return 0;
	if (!principal || !principal->has_uid || principal->uid != uid)
		return error_fail(
			-EACCES,
			"use files as uid %u: the key of '%s' is not for that; an "
			"operator can add one with 'afar key add --uid', or --any-uid for "
			"a mount",
			uid, name);
	if (!has_group(principal, gid))
		return fail_group(name, gid);
	for (size_t i = 0; i < nr_groups; i++)
		if (!has_group(principal, groups[i]))
			return fail_group(name, groups[i]);
	return 0;
}
