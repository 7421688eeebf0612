/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Versions of copy-on-write regions: the calls that begin the next version, get new chunks for units of it, and
 * publish it. Each is one commit. A version is a region (state_versions.c), and the draft of the next one is a
 * region that its writer alone has open. So the claim of the writer is its reference to the draft. It ends with that: by a
 * close, or with the session. The draft's chunks go when servers have fenced the session, as those of any region.
 *
 * A writer that has not used its claim for a while loses it to the next session that begins a
 * version. The new writer gets a draft of its own, with a higher generation. Only that tells that
 * the older draft was taken: it is not published any more. The older draft keeps its chunks as long
 * as its writer has it open, because he may write there at any time.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <afar/afar.h>

#include "base/log.h"
#include "manager/connections/rights.h"
#include "manager/regions/versions.h"
#include "manager/space/references.h"
#include "manager/space/region_places.h"
#include "manager/space/trims.h"
#include "manager/tables/placement.h"

/* Beyond so many, units are larger than the namespace's stripe unit: each is in every layout. */
#define UNITS_MAX 16384U

/* ---- The first version: holes, and the word */

/* Adds the chunk for the newest version's number, which all versions share. */
static int add_word(struct core *core, struct namespace *ns, struct layout *layout)
{
	struct placement placement;
	int ret = region_place(core, ns, STATE_WORD_BYTES, &placement);

	if (ret < 0)
		return ret;
	ret = layout_append_group(layout, placement.layout, 0);
	placement_close(&placement);
	return ret;
}

int versions_first_layout(struct core *core, struct namespace *ns, struct region *region)
{
	uint64_t unit = ns->stripe_bytes, left = region->length;
	int ret = 0;

	while (left / unit >= UNITS_MAX)
		unit *= 2;
	region->stripe_bytes = unit;
	region->layout = layout_new();
	if (!region->layout)
		return error_code(-ENOMEM);
	for (; left > 0 && ret == 0; left -= left < unit ? left : unit)
		ret = layout_add_hole(region->layout, left < unit ? left : unit);
	region->has_word = ns->tier == AFAR_TIER_DRAM;
	if (ret == 0 && region->has_word)
		ret = add_word(core, ns, region->layout);
	return ret;
}

/* ---- Finding */

/* Finds the version that the session has open, and checks that it may change the region. */
static int find_version(const struct core *core, const struct session *session, const char *asked,
			const Afar__RegionBegin *ask, struct region **out)
{
	struct reference *reference = NULL;
	int ret = region_find(core, session, asked, ask->namespace_, ask->address, ask->generation,
			      out);

	if (ret == 0)
		ret = region_find_reference(session, asked, *out, &reference);
	if (ret == 0)
		ret = rights_check(core, session, (*out)->ns, RIGHT_ALL, "change a region");
	if (ret == 0 && (*out)->family == 0)
		return error_fail(-EINVAL,
				  "%s the region at 0x%llx: it is not copy-on-write; make one with "
				  "AFAR_ALLOC_COW ('afar region put --cow')",
				  asked, (unsigned long long)ask->address);
	return ret;
}

static int fail_freed(const char *asked, const struct region *region)
{
	return error_fail(-AFAR_EFREED, "%s the region at 0x%llx: it was freed; close it", asked,
			  (unsigned long long)region->address);
}

static int fail_lost(const char *asked, const struct region *region)
{
	return error_fail(-AFAR_ELOST,
			  "%s the region at 0x%llx: a part of it is lost, with its server or its "
			  "store; free it and make it anew",
			  asked, (unsigned long long)region->address);
}

int versions_find_newest(const char *asked, const struct region *region, struct region **out)
{
	*out = region_newest(region);
	return *out ? 0 : fail_freed(asked, region);
}

/* ---- Beginning */

/* When the draft was begun or used, or the manager started. */
static uint64_t since(const struct core *core, uint64_t at)
{
	return at > core->started_at ? at : core->started_at;
}

static unsigned long long seconds_since(const struct core *core, uint64_t at)
{
	return (core_now(core) - since(core, at)) / 1000000000U;
}

/* When another session may take the claim. */
static uint64_t claim_end(const struct core *core, const struct region *draft)
{
	return since(core, draft->used_at) + core->claim_ns;
}

static int fail_busy(const struct core *core, const struct region *region,
		     const struct reference *writer, const struct session *session)
{
	const struct session *by = writer->session;
	const struct region *draft = writer->region;

	if (by == session)
		return error_fail(-EBUSY,
				  "begin a version of the region at 0x%llx: this session has begun "
				  "one already; publish or abandon that",
				  (unsigned long long)region->address);
	return error_fail(
		-EBUSY,
		"begin a version of the region at 0x%llx: session %llx of '%s' (%.200s) has begun "
		"one %s%llu s ago, and used it %llu s ago; try again when it has published or "
		"abandoned that, or has not used it for %llu s",
		(unsigned long long)region->address, (unsigned long long)by->number, by->principal,
		by->client, draft->begun_at == 0 ? "at least " : "",
		seconds_since(core, draft->begun_at), seconds_since(core, draft->used_at),
		(unsigned long long)(core->claim_ns / 1000000000U));
}

static void log_taken(const struct core *core, const struct reference *writer,
		      const struct session *session)
{
	log_info("session %llx of '%s' writes the region at 0x%llx from now on: session %llx of "
		 "'%s' (%.200s) has not used its version for %llu s",
		 (unsigned long long)session->number, session->principal,
		 (unsigned long long)writer->region->address,
		 (unsigned long long)writer->session->number, writer->session->principal,
		 writer->session->client, seconds_since(core, writer->region->used_at));
}

/* Rejects a draft that another session has begun again meanwhile. */
static int check_taken(const struct core *core, const char *asked, const struct region *draft)
{
	const struct region *by = region_taken(draft);
	const struct reference *writer;
	char who[256] = "another session";

	if (!by)
		return 0;
	writer = region_writer(draft);
	if (writer && writer->region == by)
		snprintf(who, sizeof(who), "session %llx of '%s' (%.160s)",
			 (unsigned long long)writer->session->number, writer->session->principal,
			 writer->session->client);
	return error_fail(-ESTALE,
			  "%s the region at 0x%llx: %s has taken the claim to write, because this "
			  "version was not used for %llu s; abandon it, and begin another one",
			  asked, (unsigned long long)draft->address, who,
			  (unsigned long long)(core->claim_ns / 1000000000U));
}

static struct region *make_draft(struct core *core, const struct region *newest, uint64_t claim)
{
	struct region *draft = calloc(1, sizeof(*draft));

	if (!draft)
		return NULL;
	CDS_INIT_LIST_HEAD(&draft->references);
	draft->ns = newest->ns;
	draft->generation = core->state->next_generation;
	draft->address = newest->address;
	draft->length = newest->length;
	draft->stripe_bytes = newest->stripe_bytes;
	draft->family = newest->family;
	draft->version = newest->version + 1;
	draft->has_word = newest->has_word;
	draft->is_freed = true;
	draft->is_draft = true;
	draft->claim = claim;
	draft->name = strdup(newest->name);
	draft->layout = layout_duplicate(newest->layout);
	if (draft->name && draft->layout)
		return draft;
	region_free(draft);
	return NULL;
}

int region_begin(struct core *core, struct session *session, struct event *event)
{
	const Afar__RegionBegin *ask = event->request->region_begin;
	struct region *region = NULL, *newest = NULL, *draft;
	const struct reference *writer;
	int ret = find_version(core, session, "begin a version of", ask, &region);

	if (ret == 0)
		ret = versions_find_newest("begin a version of", region, &newest);
	if (ret != 0)
		return ret;
	event->outcome_kind = OUTCOME_REGION;
	writer = region_writer(newest);
	if (writer && writer->session == session && ask->claim != 0 &&
	    writer->region->claim == ask->claim) {
		event->outcome_value = writer->generation;
		return 0;
	}
	if (writer &&
	    (writer->session == session || claim_end(core, writer->region) > core_now(core)))
		return fail_busy(core, newest, writer, session);
	if (newest->is_lost)
		return fail_lost("begin a version of", newest);
	draft = make_draft(core, newest, ask->claim);
	if (!draft)
		return error_code(-ENOMEM);
	draft->begun_at = draft->used_at = core_now(core);
	ret = state_add_region(core->state, draft);
	if (ret == 0)
		ret = undo_room(core->undo, 1);
	if (ret < 0)
		return ret;
	undo_set(core->undo, core->state->next_generation, core->state->next_generation + 1);
	ret = region_take_reference(core, session, draft, VOLUME_NONE);
	if (ret < 0)
		return ret;
	store_put_cluster(core->store, core->state);
	store_put_region(core->store, draft);
	if (writer)
		log_taken(core, writer, session);
	event->outcome_value = draft->generation;
	return 0;
}

uint64_t versions_wait_to_begin(struct core *core, struct event *event)
{
	const Afar__RegionBegin *ask = event->request->region_begin;
	const struct session *session = state_session(core->state, event->session);
	const struct reference *open = session ? session_reference(session, ask->generation) : NULL;
	const struct reference *writer;
	uint64_t end;

	if (ask->wait_ms == 0 || !open || open->region->family == 0)
		return 0;
	writer = region_writer(open->region);
	if (!writer || writer->session == session)
		return 0;
	if (event->begins_by == 0)
		event->begins_by = core_now(core) + (uint64_t)ask->wait_ms * 1000000U;
	end = claim_end(core, writer->region);
	end = event->begins_by < end ? event->begins_by : end;
	return event->answer_by < end ? event->answer_by : end;
}

/* ---- New chunks */

static uint32_t nr_units(const struct region *region)
{
	return region->layout->nr_groups - region->has_word;
}

/* True: no other version has what the unit has. */
static bool is_own(const struct region *draft, uint32_t unit)
{
	const struct layout_group *group = &draft->layout->groups[unit];

	return group->nr_chunks != 0 &&
	       !region_is_shared(draft, draft,
				 draft->layout->chunks[group->first_chunk].first_copy);
}

/* Marks the units that are to have new chunks. Returns how many. */
static int64_t mark_units(const struct region *draft, const Afar__RegionPrepare *ask, bool *marks)
{
	int64_t nr = 0;

	for (size_t i = 0; i < ask->n_units; i++) {
		const uint32_t unit = ask->units[i];

		if (unit >= nr_units(draft))
			return error_fail(
				-EINVAL, "prepare unit %u of the region at 0x%llx: it has %u", unit,
				(unsigned long long)draft->address, nr_units(draft));
		if (marks[unit] || is_own(draft, unit))
			continue;
		marks[unit] = true;
		nr++;
	}
	return nr;
}

static int fail_full(const struct region *draft, int64_t nr_wanted, int64_t nr_placed)
{
	const struct namespace *ns = draft->ns;

	return error_fail(
		-ENOSPC,
		"prepare %lld units of %llu bytes of the region at 0x%llx: '%s' has no free runs "
		"for "
		"%lld of them; reserve %llu bytes more, or have those who read older versions "
		"refresh",
		(long long)nr_wanted, (unsigned long long)draft->stripe_bytes,
		(unsigned long long)draft->address, ns->name, (long long)(nr_wanted - nr_placed),
		(unsigned long long)((uint64_t)(nr_wanted - nr_placed) * draft->stripe_bytes));
}

/* Adds a group with a new chunk in place of one of the old layout. -ENOSPC, without a sentence. */
static int add_new(struct core *core, struct namespace *ns, const struct layout_group *old,
		   struct layout *layout, uint64_t *added_bytes)
{
	const uint64_t bytes = (old->length + SPACE_UNIT - 1) / SPACE_UNIT * SPACE_UNIT;
	struct placement placement;
	int ret = region_place_unit(core, ns, bytes, &placement);

	if (ret < 0)
		return ret;
	ret = layout_append_group(layout, placement.layout, 0);
	placement_close(&placement);
	if (ret == 0)
		layout_set_last(layout, old->length);
	*added_bytes += bytes;
	return ret;
}

/* Makes the layout in which the marked units have new chunks. */
static int place_units(struct core *core, const struct region *draft, const bool *marks,
		       int64_t nr_marked, struct layout *layout, uint64_t *added_bytes)
{
	const struct layout *old = draft->layout;
	int64_t nr_placed = 0;
	int ret = 0;

	for (uint32_t i = 0; i < old->nr_groups && ret == 0; i++) {
		if (i < nr_units(draft) && marks[i])
			ret = add_new(core, draft->ns, &old->groups[i], layout, added_bytes);
		else
			ret = layout_append_group(layout, old, i);
		nr_placed += ret == 0 && i < nr_units(draft) && marks[i];
	}
	return ret == -ENOSPC ? fail_full(draft, nr_marked, nr_placed) : ret;
}

static int prepare_units(struct core *core, struct region *draft, const bool *marks,
			 int64_t nr_marked)
{
	struct layout *layout = layout_new();
	uint64_t added_bytes = 0;
	int ret = layout ? 0 : error_code(-ENOMEM);

	if (ret == 0)
		ret = place_units(core, draft, marks, nr_marked, layout, &added_bytes);
	if (ret < 0) {
		layout_free(layout);
		return ret;
	}
	ret = state_change_version(core->state, draft, layout, added_bytes);
	if (ret == 0)
		store_put_region(core->store, draft);
	return ret;
}

/* RegionPrepare and RegionPublish name their version with the same fields as RegionBegin. */
static int find_draft(const struct core *core, const struct session *session, const char *asked,
		      uint64_t ns, uint64_t address, uint64_t generation, struct region **out)
{
	Afar__RegionBegin named = AFAR__REGION_BEGIN__INIT;

	named.namespace_ = ns;
	named.address = address;
	named.generation = generation;
	return find_version(core, session, asked, &named, out);
}

int region_prepare(struct core *core, struct session *session, struct event *event)
{
	const Afar__RegionPrepare *ask = event->request->region_prepare;
	struct region *draft = NULL, *newest = NULL;
	int64_t nr_marked;
	bool *marks;
	int ret = find_draft(core, session, "prepare units of", ask->namespace_, ask->address,
			     ask->generation, &draft);

	if (ret == 0)
		ret = versions_find_newest("prepare units of", draft, &newest);
	if (ret != 0)
		return ret;
	if (!draft->is_draft)
		return error_fail(
			-EINVAL,
			"prepare units of the region at 0x%llx: no version is begun; begin "
			"one first",
			(unsigned long long)ask->address);
	ret = check_taken(core, "prepare units of", draft);
	if (ret < 0)
		return ret;
	if (draft->is_lost)
		return fail_lost("prepare units of", draft);
	draft->used_at = core_now(core);
	marks = calloc((size_t)nr_units(draft) + 1, sizeof(*marks));
	if (!marks)
		return error_code(-ENOMEM);
	nr_marked = mark_units(draft, ask, marks);
	ret = nr_marked > 0 ? prepare_units(core, draft, marks, nr_marked) : (int)nr_marked;
	free(marks);
	if (ret < 0)
		return ret;
	event->outcome_kind = OUTCOME_REGION;
	event->outcome_value = draft->generation;
	return 0;
}

uint64_t versions_wait(struct core *core, struct event *event)
{
	const Afar__RegionPrepare *ask = event->request->region_prepare;
	const struct region *draft = state_region(core->state, ask->generation);

	return draft && !region_is_gone(draft)
		       ? trims_wait_for(core, draft->ns, ask->n_units * draft->stripe_bytes,
					event->answer_by)
		       : 0;
}

int region_use(struct core *core, struct session *session, struct event *event)
{
	const Afar__RegionUse *ask = event->request->region_use;
	struct region *draft = NULL;
	int ret = find_draft(core, session, "write a version of", ask->namespace_, ask->address,
			     ask->generation, &draft);

	if (ret == 0 && draft->is_draft)
		ret = check_taken(core, "write a version of", draft);
	if (ret == 0)
		draft->used_at = core_now(core);
	return ret;
}

/* ---- Publishing */

int region_publish(struct core *core, struct session *session, struct event *event)
{
	const Afar__RegionPublish *ask = event->request->region_publish;
	struct region *draft = NULL, *newest = NULL;
	int ret = find_draft(core, session, "publish a version of", ask->namespace_, ask->address,
			     ask->generation, &draft);

	/* It is asked again after an unknown outcome. */
	if (ret == 0 && !draft->is_draft)
		return 0;
	if (ret == 0)
		ret = versions_find_newest("publish a version of", draft, &newest);
	if (ret == 0)
		ret = check_taken(core, "publish a version of", draft);
	if (ret != 0)
		return ret;
	if (draft->is_lost)
		return fail_lost("publish a version of", draft);
	ret = state_publish(core->state, draft, newest);
	if (ret < 0)
		return ret;
	store_put_region(core->store, draft);
	store_put_region(core->store, newest);
	return region_reclaim(core, newest);
}

/* ---- Telling */

char *versions_writer(const struct core *core, const struct region *newest)
{
	const struct reference *writer = newest->family != 0 ? region_writer(newest) : NULL;
	char text[512] = "";

	if (writer)
		snprintf(text, sizeof(text),
			 "session %llx of '%s' (%.200s), begun %s%llu s ago, used %llu s ago",
			 (unsigned long long)writer->session->number, writer->session->principal,
			 writer->session->client, writer->region->begun_at == 0 ? "at least " : "",
			 seconds_since(core, writer->region->begun_at),
			 seconds_since(core, writer->region->used_at));
	return strdup(text);
}

void versions_count(const struct region *newest, uint32_t *nr_older, uint32_t *nr_references)
{
	const struct region *at = newest;

	*nr_older = *nr_references = 0;
	if (newest->family == 0)
		return;
	do {
		if (at != newest && !at->is_draft) {
			(*nr_older)++;
			*nr_references += region_nr_references(at);
		}
		at = cds_list_entry(at->family_node.next, struct region, family_node);
	} while (at != newest);
}

void versions_freeze(const struct region *region, Layout__Layout *message)
{
	for (uint32_t i = 0; region->family != 0 && i < nr_units(region); i++)
		message->groups[i]->is_frozen = !region->is_draft || !is_own(region, i);
}
