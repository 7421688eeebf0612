/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sealing a region, and hearing that others did. Servers close the data connections of a namespace when something
 * of it is sealed, and number that in each ticket for a new one (path.c gets those). From then on no operation
 * begins on the session's targets there that may be concerned, until the manager has said what has become of
 * them: so nothing is written behind the copy, nor read where the old one was.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "client/call.h"
#include "client/region.h"

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

static bool uses(const struct afar_target *target, const struct peer_reach *reach)
{
	for (uint32_t i = 0; i < target->layout->nr_servers; i++) {
		if (target->reaches[i] == reach)
			return true;
	}
	return false;
}

/* Numbers only grow: an old answer may come late. */
void peer_note_seals(struct peer *peer, struct peer_reach *reach, uint64_t seals)
{
	struct afar_target *target;

	pthread_mutex_lock(&peer->session->lock);
	if (seals > reach->seals) {
		reach->seals = seals;
		cds_list_for_each_entry (target, &peer->session->targets, node) {
			if (!target->layout->is_sealed && uses(target, reach))
				target->layout->has_keys = false;
		}
	}
	pthread_mutex_unlock(&peer->session->lock);
}

/* With the session's lock held. */
static bool is_stale(const struct afar_target *target)
{
	for (uint32_t i = 0; i < target->layout->nr_servers && !target->layout->is_sealed; i++) {
		if (target->seals[i] != target->reaches[i]->seals)
			return true;
	}
	return false;
}

void target_set_ready(struct afar_target *target)
{
	pthread_mutex_lock(&target->session->lock);
	if (!is_stale(target)) {
		target->layout->has_keys = true;
		target->had_keys = true;
	}
	pthread_mutex_unlock(&target->session->lock);
}

/* ---- What the manager tells */

static int check_same_servers(const struct layout *layout, const struct layout *other)
{
	if (layout->nr_servers == other->nr_servers &&
	    memcmp(layout->servers, other->servers,
		   layout->nr_servers * sizeof(*layout->servers)) == 0)
		return 0;
	return error_fail(-AFAR_EMALFORMED,
			  "read the layout of a sealed region: it is not on the servers that it "
			  "was on; the manager is faulty");
}

static int take_sealed(struct afar_target *target, const Afar__RegionInfo *info)
{
	struct layout *layout;
	int ret;

	if (target->layout->is_sealed)
		return 0;
	ret = layout_decode(info->layout, target->length, &layout);
	if (ret)
		return ret;
	layout->is_sealed = true;
	ret = check_same_servers(target->layout, layout);
	if (!ret)
		ret = target_take_accesses(target, info->layout->accesses,
					   info->layout->n_accesses);
	if (ret) {
		layout_free(layout);
		return ret;
	}
	/* Under the lock of those who go by what is said of a layout. */
	pthread_mutex_lock(&target->session->lock);
	target->unsealed = target->layout;
	target->unsealed->has_keys = false;
	target->layout = layout;
	target->is_sealed = true;
	pthread_mutex_unlock(&target->session->lock);
	return 0;
}

/* Calls for a RegionInfo of the target. */
static int call_for_info(struct afar_target *target, uint64_t deadline, Afar__Request *request,
			 Afar__Frame **reply)
{
	int ret = session_call_until(target->session, deadline, request, reply);

	if (ret)
		return ret;
	if ((*reply)->reply->result_case == AFAR__REPLY__RESULT_REGION_INFO)
		return 0;
	afar__frame__free_unpacked(*reply, NULL);
	return error_fail(-AFAR_EMALFORMED,
			  "look at a region: the manager answered something else");
}

/* With the target's lock held. */
static int look(struct afar_target *target, uint64_t deadline)
{
	Afar__RegionLook message = AFAR__REGION_LOOK__INIT;
	Afar__Request request = AFAR__REQUEST__INIT;
	Afar__Frame *reply;
	int ret;

	message.namespace_ = target->ns;
	message.address = target->address;
	message.generation = target->generation;
	request.call_case = AFAR__REQUEST__CALL_REGION_LOOK;
	request.region_look = &message;
	ret = call_for_info(target, deadline, &request, &reply);
	if (ret)
		return ret;
	if (reply->reply->region_info->is_sealed)
		ret = take_sealed(target, reply->reply->region_info);
	afar__frame__free_unpacked(reply, NULL);
	return ret;
}

int target_heed_seals(struct afar_target *target, uint64_t deadline)
{
	const uint32_t nr_servers = target->layout->nr_servers;
	uint64_t *seals;
	bool is_needed;
	int ret;

	seals = calloc((size_t)nr_servers + 1, sizeof(*seals));
	if (!seals)
		return error_code(-ENOMEM);
	pthread_mutex_lock(&target->session->lock);
	is_needed = is_stale(target);
	for (uint32_t i = 0; i < nr_servers; i++)
		seals[i] = target->reaches[i]->seals;
	pthread_mutex_unlock(&target->session->lock);
	ret = is_needed ? look(target, deadline) : 0;
	if (is_needed && !ret) {
		pthread_mutex_lock(&target->session->lock);
		memcpy(target->seals, seals, nr_servers * sizeof(*seals));
		pthread_mutex_unlock(&target->session->lock);
	}
	free(seals);
	return ret;
}

int target_look(struct afar_target *target)
{
	int ret;

	pthread_mutex_lock(&target->lock);
	ret = target->layout->is_sealed ? 0 : look(target, session_deadline(target->session));
	pthread_mutex_unlock(&target->lock);
	return ret;
}

/* ---- Sealing */

static int seal(struct afar_target *target)
{
	Afar__RegionSeal message = AFAR__REGION_SEAL__INIT;
	Afar__Request request = AFAR__REQUEST__INIT;
	Afar__Frame *reply;
	int ret;

	message.namespace_ = target->ns;
	message.address = target->address;
	message.generation = target->generation;
	request.call_case = AFAR__REQUEST__CALL_REGION_SEAL;
	request.region_seal = &message;
	ret = call_for_info(target, session_deadline(target->session), &request, &reply);
	if (ret)
		return ret;
	/* Not before: others of this session wait for the manager's word with the lock held. */
	pthread_mutex_lock(&target->lock);
	ret = take_sealed(target, reply->reply->region_info);
	pthread_mutex_unlock(&target->lock);
	afar__frame__free_unpacked(reply, NULL);
	return ret;
}

PUBLIC_CALL(int, afar_region_seal, (struct afar_region *region), (region))
{
	struct afar_target *target;
	int ret = region_check(region);

	if (ret)
		return ret;
	target = &region->target;
	if (target->layout->is_sealed)
		return 0;
	if (!handle_enter(&target->handle))
		return error_fail(-EINVAL, "seal a region: it is being closed");
	target_flush(target);
	ret = seal(target);
	handle_unuse(&target->handle);
	return ret;
}
