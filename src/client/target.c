/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Targets: what the session needs to reach a target's memory — the manager's accesses to its servers, and
 * with those the keys of its extents and tickets for connections. An access that is missing, has expired
 * or is refused is asked for anew, once for each thing that is wanted. DESIGN: "who may do what".
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "client/queue.h"

/* ---- Accesses */

static int take_access(struct afar_target *target, uint32_t index, const Afar__Access *message)
{
	struct access *access = &target->accesses[index];
	int ret;

	if (message->incarnation != target->peers[index]->incarnation) {
		/* It was asked for after the layout was made: this is the newer word. */
		peer_lose(target->peers[index]);
		return 0;
	}
	if (message->capability.len != sizeof(access->capability))
		return error_fail(
			-AFAR_EMALFORMED,
			"get access to server %s: the manager gave a capability that is none",
			target->peers[index]->name);
	ret = peer_take_pass(target->peers[index], message);
	if (ret)
		return ret;
	memcpy(access->capability, message->capability.data, sizeof(access->capability));
	access->expiry = clock_deadline_ms(message->lifetime_ms);
	return 0;
}

int target_take_accesses(struct afar_target *target, Afar__Access *const *messages, size_t count)
{
	uint32_t index;
	int ret = 0;

	for (size_t i = 0; i < count && !ret; i++) {
		if (layout_find_server(target->layout, messages[i]->server, &index))
			ret = take_access(target, index, messages[i]);
	}
	return ret;
}

/* With the target's lock held. */
static int ask_accesses(struct afar_target *target, uint64_t deadline)
{
	Afar__RegionAccess access = AFAR__REGION_ACCESS__INIT;
	Afar__Request request = AFAR__REQUEST__INIT;
	Afar__Frame *reply;
	int ret;

	access.namespace_ = target->ns;
	access.address = target->address;
	access.generation = target->generation;
	request.call_case = AFAR__REQUEST__CALL_REGION_ACCESS;
	request.region_access = &access;
	ret = session_call_until(target->session, deadline, &request, &reply);
	if (ret)
		return ret;
	if (reply->reply->result_case == AFAR__REPLY__RESULT_ACCESSES)
		ret = target_take_accesses(target, reply->reply->accesses->entries,
					   reply->reply->accesses->n_entries);
	else
		ret = error_fail(-AFAR_EMALFORMED,
				 "get access to a region: the manager answered something else");
	afar__frame__free_unpacked(reply, NULL);
	return ret;
}

/* Whether the manager knows that a part of the region was on a server that has restarted. */
static bool ask_lost(struct afar_target *target, uint64_t deadline)
{
	Afar__RegionList list = AFAR__REGION_LIST__INIT;
	Afar__Request request = AFAR__REQUEST__INIT;
	const Afar__RegionInfo *info;
	Afar__Frame *reply;
	bool is_lost;

	list.namespace_ = target->ns;
	list.after = target->address - 1;
	list.max = 1;
	request.call_case = AFAR__REQUEST__CALL_REGION_LIST;
	request.region_list = &list;
	if (session_call_until(target->session, deadline, &request, &reply) != 0)
		return false;
	info = reply->reply->result_case == AFAR__REPLY__RESULT_REGION_INFOS &&
			       reply->reply->region_infos->n_entries == 1
		       ? reply->reply->region_infos->entries[0]
		       : NULL;
	is_lost = info && info->generation == target->generation && info->is_lost;
	afar__frame__free_unpacked(reply, NULL);
	return is_lost;
}

static int fail_lost(const struct afar_target *target)
{
	return error_fail(-AFAR_ELOST,
			  "reach the region at %#llx: a server of it has restarted, and what its "
			  "memory held is lost",
			  (unsigned long long)target->address);
}

/* ---- What servers give */

/* A ticket, or without a place for one the keys. */
static int ask_server(struct afar_target *target, uint32_t index, uint64_t deadline,
		      struct peer_ticket *ticket)
{
	const struct peer_want want = {
		.reach = target->reaches[index],
		.access = &target->accesses[index],
		.layout = target->layout,
		.index = index,
	};

	if (target->is_lost)
		return fail_lost(target);
	if (ticket)
		return peer_ticket(target->peers[index], target->reaches[index], deadline, ticket);
	return peer_grant(target->peers[index], &want, deadline);
}

static int fail_strange(const struct peer *peer)
{
	return error_fail(-AFAR_ESERVER,
			  "reach server %s: it and the manager do not know each other now; check "
			  "that it is up and has joined the cluster",
			  peer->name);
}

/*
 * A server that refuses may have restarted, and one that cannot be reached may have moved with that: the
 * manager knows. Then nothing is to be had of it any more. With the target's lock held.
 */
static int ask_again(struct afar_target *target, uint32_t index, uint64_t deadline, int status,
		     struct peer_ticket *ticket)
{
	struct peer *peer = target->peers[index];
	bool is_refused = status == -AFAR_EAUTH || status == -EACCES;
	char why[ERROR_LINE_BYTES];
	int ret;

	/* Whoever cannot reach the server need not wait for the manager to come back to say so. */
	if (!is_refused && (status != -AFAR_ESERVER || !session_is_up(target->session)))
		return status;
	snprintf(why, sizeof(why), "%s", error_last_line());
	target->accesses[index].expiry = 0;
	ret = ask_accesses(target, deadline);
	if (peer->is_lost || ret == -AFAR_ELOST ||
	    (!ret && !target->accesses[index].expiry && ask_lost(target, deadline))) {
		target->is_lost = true;
		return fail_lost(target);
	}
	/* The server is what is wrong, also when no time was left to ask about it. */
	if (!is_refused && (!ret || ret == -ETIMEDOUT || ret == -AFAR_EMANAGER))
		return error_fail(status, "%s", why);
	if (ret || !is_refused)
		return ret;
	if (!target->accesses[index].expiry)
		return fail_strange(peer);
	if (status == -EACCES)
		peer_disconnect(peer);
	ret = ask_server(target, index, deadline, ticket);
	return ret == -AFAR_EAUTH ? fail_strange(peer) : ret;
}

/* With the target's lock held. */
static int fill_in_keys(struct afar_target *target, uint64_t deadline)
{
	struct layout *layout = target->layout;
	int ret = layout_make_keys(layout, PEER_LANES_MAX);

	for (uint32_t i = 0; i < layout->nr_servers && !layout->is_keyed && !ret; i++) {
		ret = ask_server(target, i, deadline, NULL);
		if (ret)
			ret = ask_again(target, i, deadline, ret, NULL);
	}
	if (!ret)
		layout->is_keyed = true;
	return ret;
}

int target_get_keys(struct afar_target *target, uint64_t deadline)
{
	int ret = 0;

	pthread_mutex_lock(&target->lock);
	while (!ret && !target->layout->has_keys) {
		ret = target_heed_seals(target, deadline);
		if (!ret)
			ret = fill_in_keys(target, deadline);
		if (!ret)
			target_set_ready(target);
	}
	pthread_mutex_unlock(&target->lock);
	return ret;
}

int target_get_ticket(struct afar_target *target, uint32_t index, uint64_t deadline,
		      struct peer_ticket *out)
{
	int ret = ask_server(target, index, deadline, out);

	if (!ret)
		return 0;
	pthread_mutex_lock(&target->lock);
	ret = ask_again(target, index, deadline, ret, out);
	pthread_mutex_unlock(&target->lock);
	return ret;
}

int target_settle(struct afar_target *target, uint32_t index, uint64_t deadline)
{
	struct peer_reach *reach = target->reaches[index];
	struct peer *peer = target->peers[index];
	struct peer_ticket ticket = {.attaches = 0};
	uint64_t connection;
	int ret = 0;

	while (!ret && (connection = peer_find_loose(peer, reach)) != 0) {
		ticket.connection = connection;
		ret = target_get_ticket(target, index, deadline, &ticket);
		if (!ret)
			peer_forget_loose(peer, reach, connection);
	}
	return ret;
}

static bool is_loose_at(const struct afar_target *target, uint32_t index)
{
	return target->reaches[index]->nr_loose > 0 && !target->peers[index]->is_lost;
}

bool target_is_loose(const struct afar_target *target)
{
	if (!target->has_loose_writes)
		return false;
	for (uint32_t i = 0; i < target->layout->nr_servers; i++) {
		if (is_loose_at(target, i))
			return true;
	}
	return false;
}

void target_settle_all(struct afar_target *target, uint64_t deadline)
{
	for (uint32_t i = 0; i < target->layout->nr_servers; i++) {
		if (is_loose_at(target, i))
			target_settle(target, i, deadline);
	}
}

int target_check_atomics(const struct afar_target *target)
{
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

/* Over one of the lanes that the session may take. */
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
	for (uint32_t i = 0; i < target->layout->nr_servers && !target->is_without_atomics; i++)
		target->is_without_atomics =
			!has_atomics(&target->session->fabrics, target->peers[i]);
}

int target_fail_read_only(const struct afar_target *target)
{
	if (target->is_sealed)
		return error_fail(-EROFS,
				  "write to the region at %#llx: it is sealed, for good; write to "
				  "another",
				  (unsigned long long)target->address);
	return error_fail(-EACCES,
			  "write to the region at %#llx: principal \"%s\" may only read it; its "
			  "namespace's owner can grant the right to write",
			  (unsigned long long)target->address, target->session->principal);
}
