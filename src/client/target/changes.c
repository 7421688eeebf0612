/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes of a target's layout: it was sealed, moved, or made longer or shorter, by any client. When a change
 * concerns a server, that closes the namespace's data connections. It puts the change's number into
 * each ticket for a new connection (connect.c gets those). Then no operation begins on the session's
 * targets there that the change may concern, until the manager has told their layouts. So nothing is
 * written behind a copy, or read from the old place.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "client/target/target.h"

/* ---- What servers tell */

void target_list(struct afar_target *target)
{
	pthread_mutex_lock(&target->session->lock);
	cds_list_add(&target->node, &target->session->targets);
	pthread_mutex_unlock(&target->session->lock);
}

void target_unlist(struct afar_target *target)
{
	pthread_mutex_lock(&target->session->lock);
	cds_list_del_init(&target->node);
	pthread_mutex_unlock(&target->session->lock);
}

/* Numbers only grow, but an older answer may arrive late. */
void peer_note_changes(struct peer *peer, struct peer_reach *reach, uint64_t changes)
{
	struct afar_target *target;

	pthread_mutex_lock(&peer->session->lock);
	if (changes > reach->changes) {
		reach->changes = changes;
		cds_list_for_each_entry (target, &peer->session->targets, node) {
			if (binding_uses(target->binding, reach))
				target->binding->is_ready = false;
		}
	}
	pthread_mutex_unlock(&peer->session->lock);
}

/* Returns whether a server has told of a change that the binding may not include. The caller holds
 * the session's lock. */
static bool is_stale(const struct binding *binding)
{
	for (uint32_t i = 0; i < binding->layout->nr_homes; i++) {
		if (binding->servers[i].changes != binding->servers[i].reach->changes)
			return true;
	}
	return false;
}

void target_set_ready(struct afar_target *target)
{
	struct binding *binding = target->binding;

	pthread_mutex_lock(&target->session->lock);
	if (!is_stale(binding)) {
		binding->is_ready = true;
		target->had_keys = true;
	}
	pthread_mutex_unlock(&target->session->lock);
}

/* ---- What the manager tells */

static int take_layout(struct afar_target *target, const Afar__RegionInfo *info)
{
	const struct layout_description layout = layout_describe(info);
	struct binding *binding;
	int ret;

	if (info->length < target->length && !target->kind->may_shrink)
		return error_fail(-AFAR_EMALFORMED,
				  "read the layout of a %s: it has become shorter; the manager is "
				  "faulty",
				  target->kind->noun);
	ret = binding_new(target, &layout, &binding);
	if (!ret)
		target_bind(target, binding);
	return ret;
}

bool target_is_older(struct afar_target *target, const Afar__RegionInfo *info)
{
	bool is_older;

	epoch_enter();
	is_older = info->layout_number > target->binding->number;
	epoch_exit();
	return is_older;
}

/* Takes a layout that is newer than the binding's. The caller holds the target's lock. */
static int take_newer(struct afar_target *target, const Afar__RegionInfo *info)
{
	return target_is_older(target, info) ? take_layout(target, info) : 0;
}

int target_call(struct afar_target *target, uint64_t deadline, Afar__Request *request,
		Afar__Frame **reply)
{
	int ret = session_call_until(target->session, deadline, request, reply);

	if (ret)
		return ret;
	if ((*reply)->reply->result_case == AFAR__REPLY__RESULT_REGION_INFO)
		return 0;
	rpc_frame_free(*reply);
	return error_fail(-AFAR_EMALFORMED, "look at a %s: the manager answered something else",
			  target->kind->noun);
}

int target_change(struct afar_target *target, Afar__Request *request)
{
	Afar__Frame *reply;
	int ret = target_call(target, session_deadline(target->session), request, &reply);

	if (ret)
		return ret;
	/* Taken only now, because other threads hold the lock while they wait for the manager. */
	pthread_mutex_lock(&target->lock);
	ret = take_newer(target, reply->reply->region_info);
	pthread_mutex_unlock(&target->lock);
	rpc_frame_free(reply);
	return ret;
}

/* Asks the manager for the layout, and has `take` take it. The caller holds the target's lock. */
static int look(struct afar_target *target, uint64_t deadline,
		int (*take)(struct afar_target *target, const Afar__RegionInfo *info))
{
	Afar__RegionLook message = AFAR__REGION_LOOK__INIT;
	Afar__Frame *reply;
	int ret;

	message.namespace_ = target->ns;
	message.address = target->address;
	message.generation = target->generation;
	ret = target_call(target, deadline, RPC_REQUEST(REGION_LOOK, region_look, &message),
			  &reply);
	if (ret)
		return ret;
	ret = take(target, reply->reply->region_info);
	rpc_frame_free(reply);
	return ret;
}

int target_look_anew(struct afar_target *target, uint64_t deadline)
{
	if (target->is_fixed)
		return error_code(-ESTALE);
	return look(target, deadline, take_layout);
}

/* Notes in `heard` the last change that each reach of the binding has heard of. The caller holds
 * the session's lock. */
static void note_heard(const struct binding *binding, uint64_t *heard)
{
	for (uint32_t i = 0; i < binding->layout->nr_homes; i++)
		heard[i] = binding->servers[i].reach->changes;
}

/* Marks the changes in `heard` as included, because `old`'s reaches heard of them before the
 * manager was asked. */
static void take_heard(struct binding *binding, const struct binding *old, const uint64_t *heard)
{
	for (uint32_t i = 0; i < binding->layout->nr_homes; i++) {
		for (uint32_t j = 0; j < old->layout->nr_homes; j++) {
			if (old->servers[j].reach == binding->servers[i].reach)
				binding->servers[i].changes = heard[j];
		}
	}
}

int target_heed_changes(struct afar_target *target, uint64_t deadline)
{
	struct binding *old = target_binding(target);
	uint64_t *heard = calloc((size_t)old->layout->nr_homes + 1, sizeof(*heard));
	bool is_needed;
	int ret = heard ? 0 : error_code(-ENOMEM);

	if (ret)
		goto out_unref;
	pthread_mutex_lock(&target->session->lock);
	is_needed = is_stale(old);
	note_heard(old, heard);
	pthread_mutex_unlock(&target->session->lock);
	if (is_needed)
		ret = target->is_fixed ? error_code(-ESTALE) : look(target, deadline, take_newer);
	if (is_needed && !ret) {
		pthread_mutex_lock(&target->session->lock);
		take_heard(target->binding, old, heard);
		pthread_mutex_unlock(&target->session->lock);
	}
	free(heard);
out_unref:
	binding_unref(old);
	return ret;
}

int target_refresh(struct afar_target *target, uint64_t deadline)
{
	return target->is_fixed ? error_code(-ESTALE) : look(target, deadline, take_newer);
}

int target_look(struct afar_target *target)
{
	int ret;

	pthread_mutex_lock(&target->lock);
	ret = target_refresh(target, session_deadline(target->session));
	pthread_mutex_unlock(&target->lock);
	return ret;
}
