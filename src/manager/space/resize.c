/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Resizing a region. Growing is one commit: chunks are added behind its end, where nobody is yet.
 *
 * Shrinking is a job (job.h). It asks all servers of the region to close the namespace's data connections, as a sealing does
 * (seal.c), without anything to copy. They tell those that connect again that there was a change. Those ask what has become
 * of their regions (RegionLook), and that is answered when this is decided. So nobody who heeds it reaches what is cut off once the
 * servers have answered. A server that restarts meanwhile is asked again, because it has forgotten that. Then one commit gives
 * the region its new layout, and the rest is free. On flash a freed region without a name takes the rest over, and waits for
 * trims like any other.
 *
 * A job that ends in the middle leaves the region as it was, and nothing to undo.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <afar/afar.h>

#include "manager/connections/live.h"
#include "manager/connections/rights.h"
#include "manager/jobs/job.h"
#include "manager/jobs/job_parts.h"
#include "manager/space/references.h"
#include "manager/space/region_places.h"
#include "manager/space/resize.h"
#include "manager/space/trims.h"

struct resize {
	struct job job;
	uint64_t bytes; /* that stay */
};

static struct resize *resize_of(const struct job *job)
{
	return caa_container_of(job, struct resize, job);
}

/* ---- Shrinking: asking servers */

static Afar__Request *make_request(const struct job *job)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);

	if (!request)
		return NULL;
	request->extents_seal = MESSAGE_NEW(afar__extents_seal, Afar__ExtentsSeal);
	if (!request->extents_seal) {
		free(request);
		return NULL;
	}
	request->call_case = AFAR__REQUEST__CALL_EXTENTS_SEAL;
	request->extents_seal->namespace_ = job->namespace_number;
	request->extents_seal->generation = job->region;
	return request;
}

static int unreachable(const struct core *core, const struct region *region,
		       const struct layout_home *home)
{
	const struct server *server = state_home_server(core->state, home);
	char text[SERVER_TEXT_MAX];

	if (server && !server_is_up(server))
		server_describe(core, server->number, text);
	else
		snprintf(text, sizeof(text), "store %016llx", (unsigned long long)home->life);
	return error_fail(-AFAR_ESERVER,
			  "resize the region at 0x%llx: %s, which holds part of it, cannot be "
			  "reached; bring it back and try again",
			  (unsigned long long)region->address, text);
}

/* Returns the number of the server at a home; 0: no server has that store. */
static uint64_t server_at(const struct core *core, const struct layout_home *home)
{
	const struct server *server = state_home_server(core->state, home);

	return server ? server->number : 0;
}

/* Nobody is asked if somebody cannot be: the servers would close connections for nothing. */
static int check_homes(const struct core *core, const struct region *region)
{
	const struct layout *layout = region->layout;

	for (uint32_t i = 0; i < layout->nr_homes; i++) {
		const struct pool *pool = state_pool(core->state, &layout->homes[i]);

		if (!pool || !pool->server || !pool_is_up(pool))
			return unreachable(core, region, &layout->homes[i]);
	}
	return 0;
}

/* Each server once: at its first home. */
static int ask(struct core *core, struct job *job)
{
	const struct layout *layout;
	struct region *region;
	int ret = region_of_job(core, job, "resize", &region);

	if (ret == 0)
		ret = check_homes(core, region);
	if (ret < 0)
		return ret;
	layout = region->layout;
	for (uint32_t i = 0; i < layout->nr_homes && ret == 0; i++) {
		const uint64_t server = server_at(core, &layout->homes[i]);
		bool is_asked = false;

		for (uint32_t j = 0; j < i && !is_asked; j++)
			is_asked = server_at(core, &layout->homes[j]) == server;
		if (!is_asked)
			ret = job_ask(core, job, server, make_request(job), 0);
	}
	return ret < 0 ? ret : JOB_ASKED;
}

static int part_failed(struct core *core, struct job *job, const struct job_part *part, int status)
{
	char text[SERVER_TEXT_MAX];

	server_describe(core, part->server, text);
	return error_fail(-AFAR_ESERVER, "%s: %s failed (%s); the region is as it was, try again",
			  job->title, text, afar_error_name(status));
}

/* ---- Shrinking: the new layout */

/* Adds a freed region that has the rest, until that is trimmed. Takes its layout over. */
static int leave_rest(struct core *core, struct region *region, struct layout *rest)
{
	struct region *left = calloc(1, sizeof(*left));
	int ret = left ? undo_room(core->undo, 1) : error_code(-ENOMEM);

	if (ret == 0) {
		CDS_INIT_LIST_HEAD(&left->references);
		left->ns = region->ns;
		left->generation = core->state->next_generation;
		left->address = region->address;
		left->length = rest->length;
		left->stripe_bytes = region->stripe_bytes;
		left->is_freed = true;
		left->name = strdup("");
	}
	if (ret < 0 || !left->name) {
		free(left);
		layout_free(rest);
		return error_code(-ENOMEM);
	}
	left->layout = rest;
	undo_set(core->undo, core->state->next_generation, left->generation + 1);
	store_put_cluster(core->store, core->state);
	ret = state_add_region(core->state, left);
	if (ret < 0)
		return ret;
	store_put_region(core->store, left);
	return state_begin_trims(core->state, left);
}

static int shorten(struct core *core, struct region *region, uint64_t bytes)
{
	bool needs_trims = region->ns->tier == AFAR_TIER_FLASH;
	struct layout *kept, *rest;
	int ret = layout_cut(region->layout, bytes, &kept, &rest);

	if (ret < 0)
		return ret;
	ret = state_resize_region(core->state, region, kept, needs_trims);
	if (ret < 0 || !needs_trims || rest->nr_groups == 0) {
		layout_free(rest);
		return ret;
	}
	return leave_rest(core, region, rest);
}

/* A server that has restarted since it answered knows of no change, nor does one that has a store since. */
static bool have_all_answered(const struct core *core, const struct job *job,
			      const struct layout *layout)
{
	for (uint32_t i = 0; i < layout->nr_homes; i++) {
		const struct server *server = state_home_server(core->state, &layout->homes[i]);

		if (!server || !job_was_answered(job, server))
			return false;
	}
	return true;
}

static int settle(struct core *core, struct job *job)
{
	struct region *region;
	int ret = region_of_job(core, job, "resize", &region);

	if (ret == 0 && !have_all_answered(core, job, region->layout))
		return JOB_ASK;
	if (ret == 0)
		ret = shorten(core, region, resize_of(job)->bytes);
	if (ret == 0)
		ret = job_record_outcomes(core, job);
	if (ret < 0)
		return ret;
	store_put_region(core->store, region);
	return JOB_DONE;
}

static void resize_free(struct job *job)
{
	free(resize_of(job));
}

static const struct job_kind resizing = {
	.may_tell_late = true,
	.ask = ask,
	.settle = settle,
	.part_failed = part_failed,
	.free = resize_free,
};

static int begin(struct core *core, const struct session *session, const struct region *region,
		 struct event *event)
{
	struct resize *resize = calloc(1, sizeof(*resize));

	if (!resize)
		return error_code(-ENOMEM);
	resize->job.kind = &resizing;
	resize->job.namespace_number = region->ns->number;
	resize->job.region = region->generation;
	resize->job.outcome = OUTCOME_REGION;
	resize->job.outcome_value = region->generation;
	snprintf(resize->job.title, sizeof(resize->job.title), "resize a region");
	resize->bytes = event->request->region_resize->bytes;
	job_begin(core, &resize->job, session, event);
	return CORE_DEFERRED;
}

/* ---- Growing */

static int lengthen(struct core *core, struct region *region, uint64_t bytes)
{
	struct layout *layout = layout_duplicate(region->layout);
	int ret = layout ? region_extend(core, region->ns, layout, bytes - region->length)
			 : error_code(-ENOMEM);

	if (ret < 0) {
		layout_free(layout);
		return ret;
	}
	ret = state_resize_region(core->state, region, layout, false);
	if (ret == 0)
		store_put_region(core->store, region);
	return ret;
}

/* ---- The request */

static int check_region(const struct region *region)
{
	unsigned long long address = region->address;

	if (region->ns->is_volume)
		return error_fail(-EINVAL,
				  "resize the region at 0x%llx: it is all of the %s '%s'; %s",
				  address, namespace_noun(region->ns), region->ns->name,
				  region->ns->is_files ? "that grows as files are written"
						       : "'afar volume resize' resizes that");
	if (region->family != 0)
		return error_fail(-EOPNOTSUPP,
				  "resize the region at 0x%llx: it is copy-on-write, and its "
				  "published versions never change; make another one",
				  address);
	if (region->is_freed)
		return error_fail(-AFAR_EFREED,
				  "resize the region at 0x%llx: it was freed before; close it",
				  address);
	if (region->layout->is_sealed)
		return error_fail(-EROFS,
				  "resize the region at 0x%llx: it is sealed, for good; copy it to "
				  "another",
				  address);
	if (region->is_lost)
		return error_fail(-AFAR_ELOST,
				  "resize the region at 0x%llx: a part of it is lost; free it and "
				  "make it anew",
				  address);
	return 0;
}

/* Its last address must be one, too. */
static int check_bytes(const struct region *region, uint64_t bytes)
{
	uint64_t end;

	if (bytes == 0)
		return error_fail(-EINVAL,
				  "resize the region at 0x%llx: 0 bytes; say how many, or free it",
				  (unsigned long long)region->address);
	if (__builtin_add_overflow(region->address, bytes, &end))
		return error_fail(-EINVAL,
				  "resize the region at 0x%llx to %llu bytes: it would end past "
				  "2^64; take fewer",
				  (unsigned long long)region->address, (unsigned long long)bytes);
	return 0;
}

/* Bytes of its namespace that a region takes to become so long: more than its chunks can hold. */
static uint64_t bytes_lacking(const struct region *region, uint64_t bytes)
{
	const uint64_t spare = region->layout->nr_groups > 0 ? layout_spare(region->layout) : 0;

	return bytes - region->length > spare ? bytes - region->length - spare : 0;
}

uint64_t resize_wait(struct core *core, struct event *event)
{
	const Afar__RegionResize *ask = event->request->region_resize;
	const struct region *region = state_region(core->state, ask->generation);
	uint64_t until = job_of_region_wait(core, event, ask->generation);

	if (until != 0 || !region || ask->bytes <= region->length)
		return until;
	return trims_wait_for(core, region->ns, bytes_lacking(region, ask->bytes),
			      event->answer_by);
}

int region_resize(struct core *core, struct session *session, struct event *event)
{
	const Afar__RegionResize *wanted = event->request->region_resize;
	struct reference *reference = NULL;
	struct region *region = NULL;
	const struct job *job;
	int ret = region_find(core, session, "resize", wanted->namespace_, wanted->address,
			      wanted->generation, &region);

	if (ret == 0)
		ret = region_find_reference(session, "resize", region, &reference);
	if (ret == 0)
		ret = rights_check(core, session, region->ns, RIGHT_ALL, "resize a region");
	if (ret == 0)
		ret = check_region(region);
	if (ret == 0)
		ret = check_bytes(region, wanted->bytes);
	if (ret < 0)
		return ret;
	job = job_of_region(core, region->generation);
	if (job)
		return job_fail_slow(core, job);
	if (wanted->bytes < region->length)
		return begin(core, session, region, event);
	if (wanted->bytes > region->length)
		ret = lengthen(core, region, wanted->bytes);
	event->outcome_kind = OUTCOME_REGION;
	event->outcome_value = region->generation;
	return ret;
}
