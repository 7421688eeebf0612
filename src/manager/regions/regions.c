/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions: alloc, open, close, free, list, and the references of sessions to them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <afar/volume.h>

#include "base/text.h"
#include "manager/connections/rights.h"
#include "manager/jobs/job.h"
#include "manager/regions/info.h"
#include "manager/regions/regions.h"
#include "manager/regions/versions.h"
#include "manager/regions/volumes.h"
#include "manager/space/access.h"
#include "manager/space/references.h"
#include "manager/space/region_places.h"
#include "manager/tables/placement.h"

/* ---- Words */

#define WHAT_MAX (64 + AFAR_NAME_MAX)

/* Says in `out` what is asked of a region that has a name or an address. */
static const char *say(char out[WHAT_MAX], const char *asked, const char *name, uint64_t address)
{
	if (name[0] != '\0')
		snprintf(out, WHAT_MAX, "%s region '%s'", asked, name);
	else if (address != 0)
		snprintf(out, WHAT_MAX, "%s the region at 0x%llx", asked,
			 (unsigned long long)address);
	else
		snprintf(out, WHAT_MAX, "%s a region", asked);
	return out;
}

/* ---- Allocating */

/* Chooses where the region goes in the namespace's address space. -EADDRINUSE, -EINVAL with a
 * sentence. */
static int choose_address(const struct namespace *ns, uint64_t bytes, bool is_first, uint64_t *out)
{
	uint64_t end;

	if (is_first && namespace_region_at(ns, AFAR_FIRST_ADDRESS))
		return error_fail(
			-EADDRINUSE,
			"allocate the first region of '%s': there is one; open it at address "
			"0x%llx",
			ns->name, (unsigned long long)AFAR_FIRST_ADDRESS);
	if (bytes <= STATE_SECOND_ADDRESS - AFAR_FIRST_ADDRESS &&
	    (is_first || !ns->has_had_first)) {
		*out = AFAR_FIRST_ADDRESS;
		return 0;
	}
	if (is_first)
		return error_fail(-EINVAL,
				  "allocate the first region of '%s': %llu bytes do not fit below "
				  "address 0x%llx; allocate it without AFAR_ALLOC_FIRST",
				  ns->name, (unsigned long long)bytes,
				  (unsigned long long)STATE_SECOND_ADDRESS);
	if (__builtin_add_overflow(ns->next_address, bytes, &end))
		return error_fail(
			-EINVAL,
			"allocate %llu bytes in '%s': its 64-bit address space is used up to "
			"0x%llx; use another namespace",
			(unsigned long long)bytes, ns->name, (unsigned long long)ns->next_address);
	*out = ns->next_address;
	return 0;
}

static int check_alloc(const struct core *core, const struct session *session,
		       const Afar__RegionAlloc *ask, struct namespace **out, uint64_t *rounded)
{
	struct namespace *ns;
	char what[WHAT_MAX];
	int ret = core_namespace(core, session, say(what, "make", ask->name, 0), ask->namespace_,
				 RIGHT_ALL, &ns);

	if (ret == 0)
		ret = namespace_check_records(ns, what);
	if (ret < 0)
		return ret;
	if (ask->name[0] != '\0' && !text_is_printable(ask->name, AFAR_NAME_MAX))
		return error_fail(
			-EINVAL,
			"allocate a region in '%s': its name is longer than %d bytes or has "
			"control characters; take another",
			ns->name, AFAR_NAME_MAX);
	if (ns->is_volume != (ask->is_volume != 0) || (ns->is_volume && ns->nr_regions != 0))
		return error_fail(
			-EINVAL, "%s in '%s': it is a %s; %s", what, ns->name, namespace_noun(ns),
			ns->is_files	? "copy files into it with 'afar put'"
			: ns->is_volume ? "use it with 'afar export', or take a namespace"
					: "and no volume, which 'afar volume create' makes");
	if (ask->bytes == 0)
		return error_fail(-EINVAL, "allocate a region in '%s': 0 bytes; say how many",
				  ns->name);
	if (ns->is_volume && ask->bytes % AFAR_VOLUME_BLOCK != 0)
		return error_fail(-EINVAL,
				  "make volume '%s' of %llu bytes: a size is a multiple of %u",
				  ns->name, (unsigned long long)ask->bytes, AFAR_VOLUME_BLOCK);
	if (ask->is_temporary && (ns->is_volume || !ask->is_unfinished))
		return error_fail(
			-EINVAL,
			"allocate a region in '%s': only an unfinished one of no volume can be "
			"temporary",
			ns->name);
	if (ask->has_nic_atomics && ns->tier == AFAR_TIER_FLASH)
		return error_fail(
			-EOPNOTSUPP,
			"allocate a region in '%s': '%s' is on flash, where network cards "
			"do no atomics; allocate it without them, or in a namespace of "
			"tier dram",
			ns->name, ns->name);
	if (ask->is_cow && (ns->is_volume || ask->has_nic_atomics || ask->is_unfinished))
		return error_fail(
			ask->is_unfinished ? -EINVAL : -EOPNOTSUPP,
			"allocate a region in '%s': a copy-on-write region %s; allocate it without",
			ns->name,
			ns->is_volume	       ? "cannot be a volume"
			: ask->has_nic_atomics ? "has no atomics"
					       : "is never unfinished, for nobody sees a version "
						 "that is not published");
	if (__builtin_add_overflow(ask->bytes, SPACE_UNIT - 1, rounded))
		return error_fail(-EINVAL,
				  "allocate a region in '%s': %llu bytes are too many for 64 bits",
				  ns->name, (unsigned long long)ask->bytes);
	*rounded = *rounded / SPACE_UNIT * SPACE_UNIT;
	if (ask->name[0] != '\0' && namespace_region_named(ns, ask->name))
		return error_fail(
			-EEXIST,
			"create region '%s' in '%s': it exists; open it, or take another name",
			ask->name, ns->name);
	*out = ns;
	return 0;
}

/* Without a layout. */
static struct region *make_region(struct core *core, struct namespace *ns,
				  const Afar__RegionAlloc *ask, uint64_t address)
{
	struct region *region = calloc(1, sizeof(*region));

	if (!region)
		return NULL;
	CDS_INIT_LIST_HEAD(&region->references);
	region->ns = ns;
	region->generation = core->state->next_generation;
	region->address = address;
	region->length = ask->bytes;
	region->has_nic_atomics = ask->has_nic_atomics;
	region->is_unfinished = ask->is_unfinished;
	region->stripe_bytes = ns->stripe_bytes;
	if (ask->is_cow) {
		region->family = region->generation;
		region->version = 1;
	}
	region->name = strdup(ask->name);
	if (!region->name) {
		region_free(region);
		return NULL;
	}
	return region;
}

/* Groups cover the rounded length; what the user asked for ends inside the last one. */
static void trim_layout(struct layout *layout, uint64_t excess)
{
	layout_set_last(layout, layout->groups[layout->nr_groups - 1].length - excess);
}

/* Takes the chunks of a region that is to be written in place. */
static int fill_region(struct core *core, struct region *region, uint64_t rounded)
{
	struct placement placement;
	int ret = region_place(core, region->ns, rounded, &placement);

	if (ret < 0)
		return ret;
	region->layout = placement.layout;
	placement.layout = NULL;
	placement_close(&placement);
	trim_layout(region->layout, rounded - region->length);
	return 0;
}

/* Uses the generation up, and the address, which only the first region's comes again. */
static int move_on(struct core *core, struct namespace *ns, uint64_t address, uint64_t rounded)
{
	struct undo *undo = core->undo;
	int ret = undo_room(undo, 2);

	if (ret < 0)
		return ret;
	undo_set(undo, core->state->next_generation, core->state->next_generation + 1);
	if (address == AFAR_FIRST_ADDRESS)
		undo_set(undo, ns->has_had_first, true);
	else
		undo_set(undo, ns->next_address, ns->next_address + rounded);
	return 0;
}

int region_alloc(struct core *core, struct session *session, struct event *event)
{
	const Afar__RegionAlloc *ask = event->request->region_alloc;
	struct region *region;
	struct namespace *ns;
	uint64_t rounded, address = 0;
	int ret = check_alloc(core, session, ask, &ns, &rounded);

	if (ret == 0)
		ret = choose_address(ns, rounded, ask->is_first, &address);
	if (ret < 0)
		return ret;
	region = make_region(core, ns, ask, address);
	if (!region)
		return error_code(-ENOMEM);
	region->maker = ask->is_temporary ? session->number : 0;
	ret = ask->is_cow ? versions_first_layout(core, ns, region)
			  : fill_region(core, region, rounded);
	if (ret < 0) {
		region_free(region);
		return ret;
	}
	ret = state_add_region(core->state, region);
	if (ret == 0)
		ret = move_on(core, ns, address, rounded);
	if (ret == 0)
		ret = region_take_reference(core, session, region,
					    ns->is_volume ? VOLUME_EXCLUSIVE : VOLUME_NONE);
	if (ret < 0)
		return ret;
	store_put_cluster(core->store, core->state);
	store_put_namespace(core->store, ns);
	store_put_region(core->store, region);
	event->outcome_kind = OUTCOME_REGION;
	event->outcome_value = region->generation;
	return 0;
}

/* ---- Filling */

int region_finish(struct core *core, struct session *session, struct event *event)
{
	const Afar__RegionFinish *ask = event->request->region_finish;
	struct region *region = NULL;
	int ret = region_find(core, session, "finish", ask->namespace_, ask->address,
			      ask->generation, &region);

	if (ret == 0)
		ret = rights_check(core, session, region->ns, RIGHT_ALL, "finish a region");
	if (ret == 0)
		ret = namespace_check_records(region->ns, "finish a region");
	if (ret < 0)
		return ret;
	if (region->is_freed)
		return error_fail(-AFAR_EFREED, "finish the region at 0x%llx: it was freed before",
				  (unsigned long long)ask->address);
	if (!region->is_unfinished)
		return 0;
	ret = undo_room(core->undo, 1);
	if (ret < 0)
		return ret;
	undo_set(core->undo, region->is_unfinished, false);
	store_put_region(core->store, region);
	return 0;
}

/* ---- Opening */

/* `what` is what say() said. */
static int find_region(const struct namespace *ns, const char *what, const char *name,
		       uint64_t address, struct region **out)
{
	*out = name[0] != '\0' ? namespace_region_named(ns, name)
			       : namespace_region_at(ns, address);
	return *out ? 0
		    : error_fail(-ENOENT,
				 "%s in '%s': there is none; 'afar region ls %s' lists them", what,
				 ns->name, ns->name);
}

/* The newest version of a region that the session has open. */
static int find_newest(const struct core *core, const struct session *session,
		       const Afar__RegionOpen *ask, struct region **out)
{
	struct reference *reference = NULL;
	struct region *region = NULL;
	int ret = region_find(core, session, "refresh", ask->namespace_, ask->address,
			      ask->generation, &region);

	if (ret == 0)
		ret = region_find_reference(session, "refresh", region, &reference);
	if (ret == 0 && region->family == 0)
		return error_fail(
			-EINVAL,
			"refresh the region at 0x%llx: it is not copy-on-write, so it has "
			"no versions",
			(unsigned long long)ask->address);
	return ret == 0 ? versions_find_newest("refresh", region, out) : ret;
}

int region_open(struct core *core, struct session *session, struct event *event)
{
	const Afar__RegionOpen *ask = event->request->region_open;
	struct namespace *ns;
	struct region *region = NULL;
	char what[WHAT_MAX];
	int ret = core_namespace(core, session, say(what, "open", ask->name, ask->address),
				 ask->namespace_, RIGHT_READ, &ns);

	if (ret == 0)
		ret = namespace_check_records(ns, what);
	if (ret == 0 && (ns->is_volume || ask->mode != VOLUME_NONE))
		ret = volume_find_to_open(core, session, ns, ask, &region);
	else if (ret == 0 && ask->generation != 0)
		ret = find_newest(core, session, ask, &region);
	else if (ret == 0)
		ret = find_region(ns, what, ask->name, ask->address, &region);
	if (ret != 0)
		return ret;
	if (region->is_lost && ns->is_files)
		return error_fail(-AFAR_ELOST,
				  "open file system '%s': a part of it is lost, for %s; remove it "
				  "('afar fs rm --force') and make it anew",
				  ns->name,
				  ns->tier == AFAR_TIER_FLASH
					  ? "a store that held it was forgotten"
					  : "a server that held it in memory has ended");
	if (region->is_lost)
		return error_fail(
			-AFAR_ELOST,
			"open the region '%s' at 0x%llx in '%s': a %s; free it and make it anew",
			region->name, (unsigned long long)region->address, ns->name,
			ns->tier == AFAR_TIER_FLASH
				? "store that held part of it was forgotten, or has lost it"
				: "server that held part of it has restarted or was removed");
	ret = region_take_reference(core, session, region, (enum volume_mode)ask->mode);
	if (ret < 0)
		return ret;
	event->outcome_kind = OUTCOME_REGION;
	event->outcome_value = region->generation;
	return 0;
}

/* ---- Closing and freeing */

/* Finds the region by its generation, which a caller gives that has it open, or else by its name or
 * address. */
static int find_to_free(const struct core *core, const struct session *session,
			const Afar__RegionFree *ask, struct region **out)
{
	char what[WHAT_MAX];
	struct namespace *ns;
	int ret;

	say(what, "remove", ask->name, ask->address);
	if (ask->generation != 0) {
		ret = region_find(core, session, "remove", ask->namespace_, ask->address,
				  ask->generation, out);
		return ret < 0 ? ret : rights_check(core, session, (*out)->ns, RIGHT_ALL, what);
	}
	ret = core_namespace(core, session, what, ask->namespace_, RIGHT_ALL, &ns);
	return ret < 0 ? ret : find_region(ns, what, ask->name, ask->address, out);
}

int region_free_operation(struct core *core, struct session *session, struct event *event)
{
	const Afar__RegionFree *ask = event->request->region_free;
	struct region *region;
	int ret = find_to_free(core, session, ask, &region);

	if (ret < 0)
		return ret;
	if (region->ns->is_volume)
		return error_fail(-EINVAL,
				  "remove the region at 0x%llx: it is all of the %s '%s'; 'afar %s "
				  "rm' removes that",
				  (unsigned long long)region->address, namespace_noun(region->ns),
				  region->ns->name, namespace_command(region->ns));
	/* Freeing any version frees the region. */
	if (region->family != 0) {
		ret = versions_find_newest("remove", region, &region);
		if (ret < 0)
			return ret;
	}
	if (region->is_freed)
		return error_fail(-AFAR_EFREED,
				  "remove the region at 0x%llx: it was removed before; close it",
				  (unsigned long long)region->address);
	ret = region_end(core, region);
	return ret < 0 ? ret : region_reclaim(core, region);
}

/* ---- Access anew */

int region_access(struct core *core, struct session *session, struct event *event)
{
	const Afar__RegionAccess *ask = event->request->region_access;
	struct reference *reference = NULL;
	struct region *region = NULL;
	Afar__Accesses *accesses;
	int ret = region_find(core, session, "get access to", ask->namespace_, ask->address,
			      ask->generation, &region);

	if (ret == 0)
		ret = region_find_reference(session, "get access to", region, &reference);
	if (ret < 0)
		return ret;
	accesses = MESSAGE_NEW(afar__accesses, Afar__Accesses);
	if (!accesses)
		return error_code(-ENOMEM);
	event->reply->accesses = accesses;
	event->reply->result_case = AFAR__REPLY__RESULT_ACCESSES;
	ret = access_tell_away(core, region, accesses);
	return ret < 0 ? ret
		       : access_make(core, session, region, &accesses->entries,
				     &accesses->n_entries);
}

/* ---- What has become of one */

int region_look(struct core *core, struct session *session, struct event *event)
{
	const Afar__RegionLook *ask = event->request->region_look;
	struct reference *reference = NULL;
	struct region *region = NULL;
	const struct job *job;
	bool with_layout;
	int ret = region_find(core, session, "look at", ask->namespace_, ask->address,
			      ask->generation, &region);

	if (ret == 0)
		ret = region_find_reference(session, "look at", region, &reference);
	job = ret == 0 ? job_of_region(core, ask->generation) : NULL;
	if (job)
		ret = job_fail_slow(core, job);
	if (ret < 0)
		return ret;
	/* A layout on flash stays as it is when a store moves, but its servers are others. */
	with_layout = region->layout_number > 0 || region->ns->tier == AFAR_TIER_FLASH;
	event->reply->region_info = info_region(core, session, region, with_layout);
	if (!event->reply->region_info)
		return error_code(-ENOMEM);
	event->reply->result_case = AFAR__REPLY__RESULT_REGION_INFO;
	return 0;
}

/* ---- Listing */

int region_list(struct core *core, struct session *session, struct event *event)
{
	const Afar__RegionList *ask = event->request->region_list;
	size_t max = ask->max != 0 && ask->max < CORE_LIST_MAX ? ask->max : CORE_LIST_MAX;
	Afar__RegionInfos *infos;
	struct namespace *ns;
	struct region *region;
	int ret = core_namespace(core, session, "list regions", ask->namespace_, RIGHT_READ, &ns);

	if (ret < 0)
		return ret;
	infos = MESSAGE_NEW(afar__region_infos, Afar__RegionInfos);
	if (!infos)
		return error_code(-ENOMEM);
	event->reply->region_infos = infos;
	event->reply->result_case = AFAR__REPLY__RESULT_REGION_INFOS;
	infos->entries = calloc(max, sizeof(*infos->entries));
	if (!infos->entries)
		return error_code(-ENOMEM);
	for (region = namespace_region_above(ns, ask->after); region && infos->n_entries < max;
	     region = namespace_region_above(ns, region->address)) {
		infos->entries[infos->n_entries] = info_region(core, session, region, false);
		if (!infos->entries[infos->n_entries])
			return error_code(-ENOMEM);
		infos->n_entries++;
	}
	return 0;
}
