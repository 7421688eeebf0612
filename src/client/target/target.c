/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Targets: opens and closes them, and gets what their bindings need. First come the manager's
 * accesses to their servers, and with those the keys of extents and tickets for connections. If an
 * access is missing, has expired or is refused, this asks for a new one, once for each key or
 * ticket. DESIGN: "who may do what".
 */
#include "client/target/target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "client/target/same_host.h"
#include "fabric/atomics.h"

/* ---- Opening and closing */

static void begin(struct afar_target *target, const struct target_kind *kind)
{
	CDS_INIT_LIST_HEAD(&target->node);
	pthread_mutex_init(&target->lock, NULL);
	target->kind = kind;
	target->carrier = target;
}

static void describe(struct afar_target *target, const struct target_description *from)
{
	target->session = from->session;
	target->ns = from->ns;
	target->ns_name = from->ns_name;
	target->address = from->address;
	target->generation = from->generation;
	target->family = from->family;
	target->length = from->layout.length;
	target->rights = from->rights;
	target->has_nic_atomics = from->has_nic_atomics;
}

int target_init(struct afar_target *target, const struct target_kind *kind,
		const struct target_description *from)
{
	struct binding *binding = NULL;
	int ret;

	if (!(from->rights & RIGHT_READ))
		return error_fail(-AFAR_EMALFORMED,
				  "open a %s: the manager gives it without rights", kind->noun);
	begin(target, kind);
	describe(target, from);
	ret = binding_new(target, &from->layout, &binding);
	if (ret) {
		pthread_mutex_destroy(&target->lock);
		return ret;
	}
	target->binding = binding;
	target->is_sealed = binding->layout->is_sealed;
	target->is_flash = layout_has_stores(binding->layout);
	if (target->has_nic_atomics)
		target_look_for_atomics(target);
	target_list(target);
	return 0;
}

int target_init_beside(struct afar_target *target, const struct target_kind *kind,
		       struct afar_target *of, struct layout *layout)
{
	const struct target_description description = {
		.session = of->session,
		.ns = of->ns,
		.ns_name = of->ns_name,
		.address = of->address,
		.generation = of->generation,
		.rights = of->rights,
		.has_nic_atomics = of->has_nic_atomics,
		.layout = {.length = layout->length},
	};
	struct binding *binding = NULL;
	int ret;

	begin(target, kind);
	describe(target, &description);
	target->is_fixed = true;
	pthread_mutex_lock(&of->lock);
	ret = binding_like(of->binding, target, layout, &binding);
	pthread_mutex_unlock(&of->lock);
	if (ret) {
		pthread_mutex_destroy(&target->lock);
		return ret;
	}
	target->binding = binding;
	target->is_sealed = layout->is_sealed;
	target->is_flash = of->is_flash;
	return 0;
}

void target_destroy(struct afar_target *target)
{
	target_unlist(target);
	same_host_close(target);
	binding_unref(target->binding);
	pthread_mutex_destroy(&target->lock);
}

/* ---- The binding */

struct binding *target_binding(struct afar_target *target)
{
	struct binding *binding;

	epoch_enter();
	binding = target->binding;
	binding_ref(binding);
	epoch_exit();
	return binding;
}

bool target_is_ready(struct afar_target *target)
{
	bool is_ready;

	epoch_enter();
	is_ready = target->binding->is_ready;
	epoch_exit();
	return is_ready;
}

void target_bind(struct afar_target *target, struct binding *binding)
{
	struct binding *old = target->binding;

	binding_remember(binding, old);
	binding->serial = old->serial + 1;
	/* The session's lock also guards against threads that note changes. */
	pthread_mutex_lock(&target->session->lock);
	old->is_ready = false;
	target->binding = binding;
	target->length = binding->length;
	target->is_sealed = binding->layout->is_sealed;
	pthread_mutex_unlock(&target->session->lock);
	same_host_close(target); /* the windows are on the old binding's memory */
	epoch_wait();
	binding_settle_owed(binding, old);
	binding_unref(old);
}

void target_describe(const struct target_kind *kind, const char *ns_name, uint64_t address,
		     char out[TARGET_TEXT_MAX])
{
	if (kind->is_named)
		snprintf(out, TARGET_TEXT_MAX, "%s '%s'", kind->noun, ns_name);
	else if (kind->is_numbered)
		snprintf(out, TARGET_TEXT_MAX, "%s %llu of '%s'", kind->noun,
			 (unsigned long long)address, ns_name);
	else
		snprintf(out, TARGET_TEXT_MAX, "the %s at %#llx of '%s'", kind->noun,
			 (unsigned long long)address, ns_name);
}

/* ---- Accesses */

/* Gets new accesses from the manager. The caller holds the target's lock. */
static int ask_accesses(struct binding *binding, uint64_t deadline)
{
	const struct afar_target *target = binding->target;
	Afar__RegionAccess access = AFAR__REGION_ACCESS__INIT;
	Afar__Frame *reply;
	int ret;

	access.namespace_ = target->ns;
	access.address = target->address;
	access.generation = target->generation;
	ret = session_call_until(target->session, deadline,
				 RPC_REQUEST(REGION_ACCESS, region_access, &access), &reply);
	if (ret)
		return ret;
	if (reply->reply->result_case == AFAR__REPLY__RESULT_ACCESSES) {
		const Afar__Accesses *accesses = reply->reply->accesses;

		ret = binding_take_accesses(binding, accesses->entries, accesses->n_entries);
		binding_take_away(binding, accesses->away, accesses->n_away);
	} else {
		ret = error_fail(-AFAR_EMALFORMED,
				 "get access to a region: the manager answered something else");
	}
	rpc_frame_free(reply);
	return ret;
}

/* Asks the manager whether a part of the region was on a server that has restarted. */
static bool ask_lost(struct afar_target *target, uint64_t deadline)
{
	Afar__RegionList list = AFAR__REGION_LIST__INIT;
	const Afar__RegionInfo *info;
	Afar__Frame *reply;
	bool is_lost;

	list.namespace_ = target->ns;
	list.after = target->address - 1;
	list.max = 1;
	if (session_call_until(target->session, deadline,
			       RPC_REQUEST(REGION_LIST, region_list, &list), &reply) != 0)
		return false;
	info = reply->reply->result_case == AFAR__REPLY__RESULT_REGION_INFOS &&
			       reply->reply->region_infos->n_entries == 1
		       ? reply->reply->region_infos->entries[0]
		       : NULL;
	is_lost = info && target_is_of(target, info) && info->is_lost;
	rpc_frame_free(reply);
	return is_lost;
}

static int fail_lost(const struct afar_target *target)
{
	char text[TARGET_TEXT_MAX];

	target_describe(target->kind, target->ns_name, target->address, text);
	return error_fail(-AFAR_ELOST,
			  "reach %s: a server of it has restarted, and what its memory held is "
			  "lost; %s it and make it anew",
			  text, target->kind->is_named ? "delete" : "free");
}

/* ---- What servers give */

/* Asks a server for a ticket, or, if `ticket` is NULL, for the keys. */
static int ask_server(struct binding *binding, uint32_t index, const struct access *access,
		      uint64_t deadline, struct peer_ticket *ticket)
{
	struct binding_server *server = &binding->servers[index];
	const struct peer_want want = {
		.reach = server->reach,
		.access = access,
		.layout = binding->layout,
		.home = index,
		.keys = binding->keys,
	};

	if (binding->target->is_lost)
		return fail_lost(binding->target);
	if (ticket)
		return peer_ticket(server->peer, server->reach, deadline, ticket);
	return peer_grant(server->peer, &want, deadline);
}

static unsigned long long seconds_since(uint64_t then)
{
	return (clock_ns() - then) / 1000000000U;
}

/* Says of a server that the manager gives no access to it. */
static int fail_strange(const struct binding *binding, uint32_t index)
{
	const struct peer *peer = binding->servers[index].peer;
	uint64_t since = binding->servers[index].away_since;

	if (since)
		return error_fail(-AFAR_ESERVER,
				  "reach server %s: it is down, for %llu s; start it again, see "
				  "'afar status'",
				  peer->name, seconds_since(since));
	return error_fail(-AFAR_ESERVER,
			  "reach server %s: it and the manager do not know each other now; check "
			  "that it is up and has joined the cluster",
			  peer->name);
}

/* Says of a store that no connected server has it. */
static int fail_away(const struct binding *binding, uint32_t index)
{
	const struct binding_server *server = &binding->servers[index];
	char since[32] = "";

	if (server->away_since)
		snprintf(since, sizeof(since), ", for %llu s", seconds_since(server->away_since));
	return error_fail(
		-AFAR_ESERVER,
		"reach store %016llx: it is away%s; start server %s again, which had it%s%s, or "
		"open its device at another ('afard --flash'); see 'afar store ls'",
		(unsigned long long)server->peer->store, since, server->peer->name,
		*server->peer->device ? " on " : "", server->peer->device);
}

/* Returns whether the target may go on without what was in the server's memory. */
static bool goes_on(const struct afar_target *target, const struct peer *peer)
{
	return target->kind->outlives_servers && !peer->store;
}

/* The manager was asked for accesses, with this result. Finds out whether the target is lost with the
 * server. */
static bool find_lost(struct binding *binding, uint32_t index, uint64_t deadline, int asked)
{
	struct afar_target *target = binding->target;
	const struct peer *peer = binding->servers[index].peer;
	bool is_unknown = !asked && !binding->servers[index].access.expiry;

	if (goes_on(target, peer))
		return (peer->is_lost || is_unknown) && ask_lost(target, deadline);
	return peer->is_lost || asked == -AFAR_ELOST || (is_unknown && ask_lost(target, deadline));
}

/* Likewise finds out whether the target goes on without the server or store, which is gone. Or it has nothing there any more. It
 * has another binding then. */
static bool find_moved(struct binding *binding, uint32_t index, uint64_t deadline, int asked)
{
	struct afar_target *target = binding->target;
	const struct binding_server *server = &binding->servers[index];
	bool is_gone = (goes_on(target, server->peer) && server->peer->is_lost) ||
		       (!asked && !server->access.expiry);

	return is_gone && target_refresh(target, deadline) == 0 && target->binding != binding;
}

/* The server has failed with `status`. Finds out whether the target has given up extents, or got others, since the binding was
 * made. Then the server does not have those that it was asked for, or the capability is for others. Else its sentence stays. */
static bool find_changed(struct binding *binding, uint32_t index, uint64_t deadline, int status)
{
	struct afar_target *target = binding->target;
	bool is_not_there = status == -AFAR_ELOST && (target->kind->outlives_servers ||
						      !binding->servers[index].peer->is_lost);
	char why[ERROR_LINE_BYTES];

	if (status != -EACCES && !is_not_there)
		return false;
	snprintf(why, sizeof(why), "%s", error_last_line());
	if (target_refresh(target, deadline) == 0 && target->binding != binding)
		return true;
	error_fail(status, "%s", why);
	return false;
}

/*
 * Gets a new access and asks the server once more, after it failed with `status`. A server that
 * refuses may have restarted; one that cannot be reached may have restarted elsewhere. The manager
 * knows: if so, the target is lost, or it has another binding and this answers -ESTALE. The caller holds
 * the target's lock, and a reference to the binding.
 */
static int ask_again(struct binding *binding, uint32_t index, uint64_t deadline, int status,
		     struct peer_ticket *ticket)
{
	struct afar_target *target = binding->target;
	struct access *access = &binding->servers[index].access;
	struct peer *peer = binding->servers[index].peer;
	bool is_refused = status == -AFAR_EAUTH || status == -EACCES;
	char why[ERROR_LINE_BYTES];
	int ret;

	if (find_changed(binding, index, deadline, status))
		return error_code(-ESTALE);
	if (peer->store && peer->is_lost)
		return peer_fail_lost(peer);
	if (status == -AFAR_ELOST && goes_on(target, peer))
		status = -AFAR_ESERVER;
	/* The server cannot be reached. Do not wait for a manager that is away, too. */
	if (!is_refused && (status != -AFAR_ESERVER || !session_is_up(target->session)))
		return status;
	snprintf(why, sizeof(why), "%s", error_last_line());
	access->expiry = 0;
	ret = ask_accesses(binding, deadline);
	if (peer->store && peer->is_lost)
		return peer_fail_lost(peer);
	if (find_moved(binding, index, deadline, ret))
		return error_code(-ESTALE);
	if (find_lost(binding, index, deadline, ret)) {
		target->is_lost = true;
		return fail_lost(target);
	}
	/* The manager knows of no server that has the store. */
	if (peer->store && !ret && !access->expiry)
		return fail_away(binding, index);
	/* Blames the server, also if there was no time left to ask the manager. */
	if (!is_refused && (!ret || ret == -ETIMEDOUT || ret == -AFAR_EMANAGER))
		return error_fail(status, "%s", why);
	if (ret || !is_refused)
		return ret;
	if (!access->expiry)
		return fail_strange(binding, index);
	if (status == -EACCES)
		peer_disconnect(peer);
	ret = ask_server(binding, index, access, deadline, ticket);
	/* The new capability is for what the target has there now. */
	if (find_changed(binding, index, deadline, ret))
		return error_code(-ESTALE);
	return ret == -AFAR_EAUTH ? fail_strange(binding, index) : ret;
}

/* Makes the place for the keys. The caller holds the target's lock. */
static int place_keys(struct binding *binding)
{
	const size_t nr_keys = (size_t)binding->layout->nr_copies * PEER_LANES_MAX;

	if (!binding->keys)
		binding->keys = calloc(nr_keys + 1, sizeof(*binding->keys));
	return binding->keys ? 0 : error_code(-ENOMEM);
}

/* Gets the keys that are missing. The caller holds the target's lock. */
static int fill_in_keys(struct binding *binding, uint64_t deadline)
{
	int ret = place_keys(binding);

	for (uint32_t i = 0; i < binding->layout->nr_homes && !ret; i++) {
		if (binding->servers[i].is_keyed)
			continue;
		ret = ask_server(binding, i, &binding->servers[i].access, deadline, NULL);
		if (ret)
			ret = ask_again(binding, i, deadline, ret, NULL);
		if (!ret)
			binding->servers[i].is_keyed = true;
	}
	return ret;
}

/* Fails if a store is not where it was when the binding was made, as far as is known. */
static int check_stores(const struct binding *binding)
{
	for (uint32_t i = 0; i < binding->layout->nr_homes; i++) {
		const struct binding_server *server = &binding->servers[i];
		const struct peer *peer = server->peer;

		if (peer->store && (server->away_since || peer->is_lost || peer->nr_lanes == 0))
			return fail_away(binding, i);
	}
	return 0;
}

/* Makes a new binding. -AFAR_ESERVER: a store is still not there, without which the target does not go
 * on. The caller holds the lock. */
static int rebind(struct afar_target *target, uint64_t deadline)
{
	int ret = target_look_anew(target, deadline);

	return ret || target->kind->outlives_servers ? ret : check_stores(target->binding);
}

/* Gets the keys of the present binding. `*has_moved`: there is another one since. */
static int get_present_keys(struct afar_target *target, uint64_t deadline, bool *has_moved)
{
	struct binding *binding = target_binding(target);
	int ret = fill_in_keys(binding, deadline);

	*has_moved = target->binding != binding;
	binding_unref(binding);
	return ret == -ESTALE && *has_moved ? 0 : ret;
}

int target_get_keys(struct afar_target *target, uint64_t deadline)
{
	bool has_moved = false;
	int ret = 0;

	pthread_mutex_lock(&target->lock);
	while (!ret && !target->binding->is_ready) {
		ret = target_heed_changes(target, deadline);
		if (!ret)
			ret = get_present_keys(target, deadline, &has_moved);
		if (!ret && !has_moved)
			target_set_ready(target);
		if (ret == -ESTALE && target->is_flash)
			ret = rebind(target, deadline);
	}
	pthread_mutex_unlock(&target->lock);
	return ret;
}

int target_prepare(struct afar_target *target, uint64_t deadline, struct binding **out)
{
	int ret;

	pthread_mutex_lock(&target->lock);
	ret = target->is_lost ? fail_lost(target) : target_heed_changes(target, deadline);
	if (!ret)
		ret = place_keys(target->binding);
	if (!ret) {
		target_set_ready(target);
		*out = target_binding(target);
	}
	pthread_mutex_unlock(&target->lock);
	return ret;
}

int binding_get_keys(struct binding *binding, uint32_t index, uint64_t deadline)
{
	struct afar_target *target = binding->target;
	struct binding_server *server = &binding->servers[index];
	struct access access;
	int ret;

	if (server->is_keyed)
		return 0;
	pthread_mutex_lock(&target->lock);
	access = server->access;
	pthread_mutex_unlock(&target->lock);
	ret = ask_server(binding, index, &access, deadline, NULL);
	if (ret) {
		pthread_mutex_lock(&target->lock);
		ret = ask_again(binding, index, deadline, ret, NULL);
		pthread_mutex_unlock(&target->lock);
	}
	if (!ret)
		server->is_keyed = true;
	return ret;
}

int target_rebind(struct afar_target *target, const struct binding *old, uint64_t deadline)
{
	int ret = 0;

	pthread_mutex_lock(&target->lock);
	if (target->binding == old)
		ret = rebind(target, deadline);
	pthread_mutex_unlock(&target->lock);
	return ret;
}

int binding_get_ticket(struct binding *binding, uint32_t index, uint64_t deadline,
		       struct peer_ticket *out)
{
	int ret = ask_server(binding, index, NULL, deadline, out);

	if (!ret)
		return 0;
	pthread_mutex_lock(&binding->target->lock);
	ret = ask_again(binding, index, deadline, ret, out);
	pthread_mutex_unlock(&binding->target->lock);
	return ret;
}

int binding_settle(struct binding *binding, uint32_t index, uint64_t deadline)
{
	const struct binding_server *server = &binding->servers[index];
	struct peer_ticket ticket = {.attaches = 0};
	uint64_t connection;
	int ret = 0;

	while (!ret && (connection = peer_find_doubt(server->peer, server->reach)) != 0) {
		ticket.connection = connection;
		ret = binding_get_ticket(binding, index, deadline, &ticket);
		if (!ret)
			peer_forget_doubt(server->peer, server->reach, connection);
	}
	return ret;
}

static bool is_in_doubt_at(const struct binding *binding, uint32_t index)
{
	return binding->servers[index].reach->nr_in_doubt > 0 &&
	       !binding->servers[index].peer->is_lost;
}

bool target_is_in_doubt(struct afar_target *target)
{
	struct binding *binding;
	bool is_in_doubt = false;

	if (!target->has_writes_in_doubt)
		return false;
	binding = target_binding(target);
	for (uint32_t i = 0; i < binding->layout->nr_homes && !is_in_doubt; i++)
		is_in_doubt = is_in_doubt_at(binding, i);
	binding_unref(binding);
	return is_in_doubt;
}

void target_settle_all(struct afar_target *target, uint64_t deadline)
{
	struct binding *binding = target_binding(target);

	for (uint32_t i = 0; i < binding->layout->nr_homes; i++) {
		if (is_in_doubt_at(binding, i))
			binding_settle(binding, i, deadline);
	}
	binding_unref(binding);
}

/* ---- Atomics */

int target_check_atomics(const struct afar_target *target)
{
	if (target->is_flash)
		return target_fail_flash(target, "do an atomic on");
	if (!target->is_without_atomics)
		return 0;
	return error_fail(-EOPNOTSUPP,
			  "do an atomic on the region at %#llx: its servers' network cards do its "
			  "atomics, and no transport of ours to them has any, as verbs has; use a "
			  "region without AFAR_ALLOC_NIC_ATOMICS",
			  (unsigned long long)target->address);
}

int target_fail_unfit(const struct afar_target *target)
{
	return error_fail(-EOPNOTSUPP,
			  "do an atomic on the region at %#llx: its servers' network cards do its "
			  "atomics, and no lane that leads to them, as those over verbs do, can be "
			  "connected to; see 'afar status'",
			  (unsigned long long)target->address);
}

bool lane_has_atomics(struct fabrics *fabrics, const struct peer_lane *lane)
{
	unsigned number;

	return fabrics_get(fabrics, lane->transport, lane->address, &number) == 0 &&
	       fabric_has_atomics(fabrics_at(fabrics, number));
}

/* True if one of the lanes that the session may take has atomics. */
static bool has_atomics(struct fabrics *fabrics, const struct peer *peer)
{
	for (unsigned i = 0; i < peer->nr_lanes; i++) {
		if (lane_has_atomics(fabrics, &peer->lanes[i]))
			return true;
	}
	return false;
}

void target_look_for_atomics(struct afar_target *target)
{
	struct binding *binding = target_binding(target);

	for (uint32_t i = 0; i < binding->layout->nr_homes && !target->is_without_atomics; i++)
		target->is_without_atomics =
			!has_atomics(&target->session->fabrics, binding->servers[i].peer);
	binding_unref(binding);
}

int target_fail_flash(const struct afar_target *target, const char *asked)
{
	return error_fail(-EOPNOTSUPP,
			  "%s the region at %#llx: it is on flash, where that is not possible; use "
			  "a namespace in memory ('afar ns create', without --tier)",
			  asked, (unsigned long long)target->address);
}

int target_fail_read_only(const struct afar_target *target)
{
	if (target->is_sealed)
		return error_fail(-EROFS,
				  "write to the region at %#llx: it is sealed, for good; write to "
				  "another",
				  (unsigned long long)target->address);
	if (target->is_published)
		return error_fail(
			-EROFS,
			"write to the region at %#llx: it is copy-on-write; begin a version "
			"first (afar_region_begin())",
			(unsigned long long)target->address);
	if (target->family && (target->rights & RIGHT_WRITE))
		return error_fail(
			-EROFS,
			"write to the region at %#llx: a part of the range was not prepared; "
			"give it to afar_region_begin() or afar_region_prepare() first",
			(unsigned long long)target->address);
	return error_fail(-EACCES,
			  "write to the region at %#llx: principal \"%s\" may only read it; its "
			  "namespace's owner can grant the right to write",
			  (unsigned long long)target->address, target->session->principal);
}
