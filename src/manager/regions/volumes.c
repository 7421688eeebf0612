/* SPDX-License-Identifier: BSD-3-Clause */
/* Volumes: who may open one beside whom, taking over, sizes. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <afar/volume.h>

#include "manager/connections/live.h"
#include "manager/connections/rights.h"
#include "manager/members/principals.h"
#include "manager/members/sessions.h"
#include "manager/regions/regions.h"
#include "manager/regions/volumes.h"
#include "manager/space/region_places.h"

/* ---- Who has it open */

static const struct reference *first_reference(const struct region *region)
{
	const struct reference *reference;

	cds_list_for_each_entry (reference, &region->references, region_node)
		return reference;
	return NULL;
}

/* True: with the one open in this mode, nobody else can open it in the other. */
static bool excludes(enum volume_mode held, enum volume_mode wanted)
{
	if (held == VOLUME_READ_ONLY || wanted == VOLUME_READ_ONLY)
		return false;
	return held == VOLUME_EXCLUSIVE || wanted == VOLUME_EXCLUSIVE;
}

/* Finds a reference that is in the way of opening the region as is asked. Its mode excludes that,
 * or it is of the session whose place is taken. Prefers one of a session that lives to one of a
 * session that is being ended. NULL: there is none. */
static const struct reference *find_obstacle(const struct region *region,
					     const Afar__RegionOpen *ask)
{
	const struct reference *reference, *found = NULL;

	cds_list_for_each_entry (reference, &region->references, region_node) {
		bool is_replaced = ask->after != 0 && reference->session->number == ask->after;

		if ((is_replaced || excludes(reference->mode, (enum volume_mode)ask->mode)) &&
		    (!found || found->session->is_ending))
			found = reference;
	}
	return found;
}

/* Names the session in `out`. */
static void name_session(const struct session *session, char out[HOLDER_TEXT_MAX])
{
	snprintf(out, HOLDER_TEXT_MAX, "session %" PRIx64 " of '%s' (%.200s)", session->number,
		 session->principal, session->client);
}

/* Returns the first server that has not said yet that it has closed the session's connections; NULL: none. */
static const struct server *awaited_server(const struct core *core, const struct session *session)
{
	for (size_t i = 0; i < session->nr_fences; i++)
		if (!session->fences[i].is_over)
			return state_server(core->state, session->fences[i].server);
	return NULL;
}

/*
 * Adds to `out` what becomes of a session that nobody can close any more, and, if `with_advice`, what to do. False: it
 * is none.
 */
static bool add_ending(const struct core *core, const struct session *session, bool with_advice,
		       char out[HOLDER_TEXT_MAX])
{
	const struct live_session *live = session->live;
	const struct server *server = awaited_server(core, session);
	const size_t length = strlen(out), left = HOLDER_TEXT_MAX - length;
	const char *then = with_advice ? ": try again then" : "";

	if (session->is_ending && server && !server_is_up(server))
		snprintf(out + length, left,
			 "; it has ended, and server '%.64s', which is down for %" PRIu64
			 " s, has not closed its connections%s",
			 server->name, server_down_ms(core, server) / 1000U,
			 with_advice ? ": start that again, or see 'afar server rm'" : "");
	else if (session->is_ending && server)
		snprintf(out + length, left,
			 "; it has ended, and server '%.64s' closes its connections within "
			 "seconds%s",
			 server->name, then);
	else if (session->is_ending)
		snprintf(out + length, left, "; it has just ended%s",
			 with_advice ? ": try again" : "");
	else if (live && !live->peer && live->lease_deadline > core_now(core))
		snprintf(out + length, left,
			 "; its connection is lost, and it ends in %" PRIu64 " s%s",
			 (live->lease_deadline - core_now(core)) / 1000000000U + 1, then);
	else
		return false;
	return true;
}

void reference_describe(const struct core *core, const struct reference *reference,
			const char *advice, char out[HOLDER_TEXT_MAX])
{
	static const char *const modes[] = {" has it open", " has it open exclusively",
					    " has it open to write", " has it open to read"};
	size_t length;

	name_session(reference->session, out);
	length = strlen(out);
	snprintf(out + length, HOLDER_TEXT_MAX - length, "%s", modes[reference->mode]);
	length = strlen(out);
	if (!add_ending(core, reference->session, true, out))
		snprintf(out + length, HOLDER_TEXT_MAX - length, "; %s", advice);
}

/* ---- Opening */

uint32_t volume_rights(uint32_t mode)
{
	return mode == VOLUME_NONE || mode == VOLUME_READ_ONLY ? RIGHT_READ : RIGHT_ALL;
}

static int check_mode(const struct namespace *ns, uint32_t mode)
{
	if (!ns->is_volume)
		return error_fail(-EINVAL,
				  "open volume '%s': it is a namespace, and no volume; see "
				  "'afar volume ls'",
				  ns->name);
	if (mode == VOLUME_NONE)
		return error_fail(-EINVAL,
				  "open a region of '%s': it is a %s; open it as one (see 'afar "
				  "help %s')",
				  ns->name, namespace_noun(ns), namespace_command(ns));
	if (mode > VOLUME_READ_ONLY)
		return error_fail(-EINVAL, "open volume '%s': mode %u is unknown to this manager",
				  ns->name, mode);
	return 0;
}

int volume_find_to_open(const struct core *core, const struct session *session,
			const struct namespace *ns, const Afar__RegionOpen *ask,
			struct region **out)
{
	const uint32_t mode = ask->mode;
	const struct reference *obstacle, *own;
	struct region *region = volume_region(ns);
	char holder[HOLDER_TEXT_MAX];
	int ret = check_mode(ns, mode);

	if (ret == 0)
		ret = rights_check(core, session, ns, volume_rights(mode),
				   "open a volume to write");
	if (ret < 0)
		return ret;
	if (!region || region->is_unfinished)
		return error_fail(
			-ENOENT,
			"open volume '%s': whoever makes it has not finished, or has died; "
			"delete it and create it anew",
			ns->name);
	obstacle = find_obstacle(region, ask);
	if (obstacle) {
		reference_describe(core, obstacle, "close it there, or take it over", holder);
		return error_fail(-EBUSY, "open volume '%s': %s", ns->name, holder);
	}
	own = session_reference(session, region->generation);
	if (own && own->mode != (enum volume_mode)mode)
		return error_fail(
			-EBUSY,
			"open volume '%s': this session has it open in another mode; close "
			"that first",
			ns->name);
	*out = region;
	return 0;
}

uint64_t volume_wait(struct core *core, struct event *event)
{
	const Afar__RegionOpen *ask = event->request->region_open;
	const struct namespace *ns = state_namespace(core->state, ask->namespace_);
	const struct region *region = ns && ns->is_volume ? volume_region(ns) : NULL;
	const struct reference *obstacle;

	if (!region || ask->mode == VOLUME_NONE || ask->mode > VOLUME_READ_ONLY)
		return 0;
	obstacle = find_obstacle(region, ask);
	return obstacle && obstacle->session->is_ending ? event->answer_by : 0;
}

/* True: the reference is of a session that was asked to be ended. Readers do not exclude readers, and
 * everybody's session can be in the way; but only a principal's own is named by its number. */
static bool is_taken_over(const struct reference *reference, const struct session *by,
			  const Afar__VolumeTakeOver *ask)
{
	const struct session *holder = reference->session;

	if (holder == by || holder->is_ending)
		return false;
	return ask->session != 0 ? holder->number == ask->session &&
					   strcmp(holder->principal, by->principal) == 0
				 : excludes(reference->mode, (enum volume_mode)ask->mode);
}

int volume_take_over(struct core *core, struct session *session, struct event *event)
{
	const Afar__VolumeTakeOver *ask = event->request->volume_take_over;
	struct reference *reference, *next;
	struct region *region;
	struct namespace *ns;
	const uint32_t rights = ask->mode == VOLUME_READ_ONLY ? RIGHT_READ : RIGHT_ALL;
	int ret = core_namespace(core, session, "take a volume over", ask->namespace_, rights, &ns);

	if (ret == 0)
		ret = check_mode(ns, ask->mode);
	if (ret < 0)
		return ret;
	region = volume_region(ns);
	if (!region)
		return 0;
	/* The end of a session drops its references, and no other's. */
	cds_list_for_each_entry_safe (reference, next, &region->references, region_node) {
		if (!is_taken_over(reference, session, ask))
			continue;
		ret = session_end_by_force(core, reference->session,
					   "a volume of its was taken over");
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* ---- Ending */

int volume_check_delete(const struct core *core, const struct namespace *ns,
			const Afar__NamespaceDelete *ask)
{
	const struct region *region = volume_region(ns);
	char holder[HOLDER_TEXT_MAX];

	if (!ns->is_volume)
		return error_fail(-ENOENT,
				  "remove volume '%s': it is a namespace, and no volume; see 'afar "
				  "volume ls'",
				  ns->name);
	if (ns->is_files != (ask->is_volume && ask->is_files))
		return error_fail(-EINVAL, "remove %s '%s': it is a %s; see 'afar %s rm'",
				  kind_noun(ask->is_volume, ask->is_files), ns->name,
				  namespace_noun(ns), namespace_command(ns));
	if (!ask->is_volume)
		return error_fail(-EINVAL,
				  "remove namespace '%s': it is a volume; see 'afar volume rm'",
				  ns->name);
	if (!region || !first_reference(region))
		return 0;
	reference_describe(core, first_reference(region), "close it there first", holder);
	return error_fail(-EBUSY, "remove %s '%s': %s", namespace_noun(ns), ns->name, holder);
}

/* ---- Sizes */

/* Only its holder may make it smaller: it has zeroed what goes, so nothing needs trims. */
static int check_shrink(const struct core *core, const struct session *session,
			const struct region *region, uint64_t bytes)
{
	const struct reference *reference;
	char holder[HOLDER_TEXT_MAX];

	cds_list_for_each_entry (reference, &region->references, region_node) {
		if (reference->session == session && reference->mode == VOLUME_EXCLUSIVE)
			continue;
		reference_describe(core, reference, "close it there first", holder);
		return error_fail(-EBUSY, "resize volume '%s' to %llu bytes, which are fewer: %s",
				  region->ns->name, (unsigned long long)bytes, holder);
	}
	if (!first_reference(region))
		return error_fail(-EINVAL,
				  "resize volume '%s' to %llu bytes, which are fewer: open it "
				  "exclusively first",
				  region->ns->name, (unsigned long long)bytes);
	return 0;
}

static int find_to_resize(const struct core *core, const struct session *session,
			  const Afar__VolumeResize *ask, struct region **out)
{
	struct namespace *ns;
	int ret = core_namespace(core, session, "resize a volume", ask->namespace_, RIGHT_ALL, &ns);

	if (ret == 0)
		ret = namespace_check_records(ns, "resize a volume");
	/* Those who write files make their pool larger. */
	if (ret == 0 && !ns->is_files)
		ret = rights_check(core, session, ns, RIGHT_OWN, "resize a volume");
	if (ret < 0)
		return ret;
	*out = volume_region(ns);
	if (!ns->is_volume || !*out || (*out)->is_unfinished)
		return error_fail(-ENOENT, "resize volume '%s': there is none that is finished",
				  ns->name);
	if ((*out)->is_lost)
		return error_fail(-AFAR_ELOST,
				  "resize volume '%s': a part of it is lost; delete it and create "
				  "it anew",
				  ns->name);
	if (ask->bytes == 0 || ask->bytes % AFAR_VOLUME_BLOCK != 0)
		return error_fail(
			-EINVAL,
			"resize volume '%s' to %llu bytes: a size is a multiple of %u, and "
			"not 0",
			ns->name, (unsigned long long)ask->bytes, AFAR_VOLUME_BLOCK);
	return 0;
}

int volume_resize(struct core *core, struct session *session, struct event *event)
{
	const Afar__VolumeResize *ask = event->request->volume_resize;
	struct layout *layout;
	struct region *region;
	int ret = find_to_resize(core, session, ask, &region);

	if (ret < 0 || ask->bytes == region->length)
		return ret;
	if (ask->bytes < region->length && region->ns->is_files)
		return error_fail(-EINVAL,
				  "make the pool of '%s' smaller: files may be anywhere in it",
				  region->ns->name);
	if (ask->bytes < region->length) {
		ret = check_shrink(core, session, region, ask->bytes);
		if (ret < 0)
			return ret;
		layout = layout_new();
		ret = layout ? layout_append(layout, region->layout, ask->bytes)
			     : error_code(-ENOMEM);
	} else {
		layout = layout_duplicate(region->layout);
		ret = layout ? region_extend(core, region->ns, layout, ask->bytes - region->length)
			     : error_code(-ENOMEM);
	}
	if (ret < 0) {
		layout_free(layout);
		return ret;
	}
	ret = state_resize_region(core->state, region, layout, false);
	if (ret == 0)
		store_put_region(core->store, region);
	return ret;
}

/* ---- Telling */

Afar__VolumeInfo *volume_info(const struct core *core, const struct namespace *ns)
{
	Afar__VolumeInfo *info = MESSAGE_NEW(afar__volume_info, Afar__VolumeInfo);
	const struct region *region = volume_region(ns);
	const struct reference *reference, *holder = NULL;
	char text[HOLDER_TEXT_MAX] = "";

	if (!info)
		return NULL;
	info->is_unfinished = !region || region->is_unfinished;
	if (region) {
		info->bytes = region->length;
		info->width = layout_width(region->layout);
		info->is_lost = region->is_lost;
		cds_list_for_each_entry (reference, &region->references, region_node) {
			if (reference->mode == VOLUME_READ_ONLY) {
				info->nr_readers++;
				continue;
			}
			info->nr_writers++;
			info->is_exclusive |= reference->mode == VOLUME_EXCLUSIVE;
			holder = reference;
		}
	}
	if (holder) {
		name_session(holder->session, text);
		add_ending(core, holder->session, false, text);
	}
	info->holder = strdup(text);
	if (info->holder)
		return info;
	afar__volume_info__free_unpacked(info, NULL);
	return NULL;
}
