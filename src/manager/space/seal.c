/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sealing a region: a job (job.h). It plans where the region's chunks go, each on its own server.
 * It asks servers for sealed memory where they lack it, until the plan succeeds. Then it asks all
 * of them to copy. When all have, the region has its new layout in one commit, and the old chunks
 * are free.
 *
 * Before a server copies it closes the namespace's data connections, and tells those that connect
 * again that there was a sealing. They ask what has become of their regions (RegionLook), and that
 * is answered when this is decided. So nobody who heeds it writes at the old place behind the copy,
 * nor reads there, and no reference has to be waited for.
 *
 * A sealing that ends in the middle leaves the region as it was, and the places that were to be are
 * free. Sealed memory that was got stays with the namespace.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <afar/afar.h>

#include "manager/connections/live.h"
#include "manager/connections/rights.h"
#include "manager/jobs/job.h"
#include "manager/jobs/job_parts.h"
#include "manager/jobs/quota.h"
#include "manager/space/references.h"
#include "manager/space/seal.h"
#include "manager/space/seal_plan.h"
#include "manager/tables/placement.h"

#define ROUNDS_MAX	  4U		       /* of asking for memory: it may come in pieces */
#define COPY_BYTES_PER_MS ((uint64_t)64 << 10) /* that a slow server copies   */

struct seal {
	struct job job;
	bool may_reserve; /* who asked may get the namespace memory */
	bool is_copying;  /* else servers are asked for memory */
	unsigned nr_rounds;
	struct seal_plan plan;
};

static struct seal *seal_of(const struct job *job)
{
	return caa_container_of(job, struct seal, job);
}

/* ---- Asking servers */

static bool fill_moves(Afar__ExtentsSeal *ask, const struct seal_plan *plan, uint64_t server)
{
	ask->moves = calloc(plan->nr_pieces + 1, sizeof(*ask->moves));
	for (size_t i = 0; i < plan->nr_pieces && ask->moves; i++) {
		const struct seal_piece *piece = &plan->pieces[i];
		Afar__SealMove *move;

		if (piece->home.server != server)
			continue;
		move = MESSAGE_NEW(afar__seal_move, Afar__SealMove);
		if (!move)
			return false;
		move->from = piece->from;
		move->from_offset = piece->from_offset;
		move->to = piece->to;
		move->to_offset = piece->to_offset;
		move->length = piece->length;
		ask->moves[ask->n_moves++] = move;
	}
	return ask->moves != NULL;
}

static Afar__Request *make_copy(const struct seal *seal, uint64_t server)
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
	request->extents_seal->namespace_ = seal->job.namespace_number;
	request->extents_seal->generation = seal->job.region;
	if (fill_moves(request->extents_seal, &seal->plan, server))
		return request;
	afar__request__free_unpacked(request, NULL);
	return NULL;
}

/* Returns the bytes that its server is to grant. */
static uint64_t rounded(const struct seal_lack *lack)
{
	return (lack->bytes + PLACEMENT_EXTENT_UNIT - 1) / PLACEMENT_EXTENT_UNIT *
	       PLACEMENT_EXTENT_UNIT;
}

/* They give it to the namespace, which may lack less of it in the next round. */
static int ask_reserve(struct core *core, struct seal *seal, const struct namespace *ns)
{
	uint64_t bytes = 0;
	int ret;

	for (size_t i = 0; i < seal->plan.nr_lacks; i++)
		bytes += rounded(&seal->plan.lacks[i]);
	ret = quota_claim(core, &seal->job, ns, bytes);
	if (ret == 0 && seal->job.is_queued)
		return JOB_ASK;
	seal->is_copying = false;
	seal->nr_rounds++;
	for (size_t i = 0; i < seal->plan.nr_lacks && ret == 0; i++) {
		const struct seal_lack *lack = &seal->plan.lacks[i];
		struct live_server *live = core_live_server(core, lack->server);

		ret = live && live->peer ? job_ask_memory(core, &seal->job, &live->server->dram,
							  rounded(lack), CLASS_DRAM_SEALED)
					 : error_code(-AFAR_ESERVER);
	}
	return ret < 0 ? ret : JOB_ASKED;
}

/* Each server once: at its first piece. */
static int ask_copy(struct core *core, struct seal *seal)
{
	const struct seal_plan *plan = &seal->plan;
	int ret = 0;

	seal->is_copying = true;
	for (size_t i = 0; i < plan->nr_pieces && ret == 0; i++) {
		uint64_t server = plan->pieces[i].home.server, moved = 0;
		bool is_asked = false;

		for (size_t j = 0; j < i && !is_asked; j++)
			is_asked = plan->pieces[j].home.server == server;
		if (is_asked)
			continue;
		for (size_t j = i; j < plan->nr_pieces; j++)
			moved += plan->pieces[j].home.server == server ? plan->pieces[j].length : 0;
		ret = job_ask(core, &seal->job, server, make_copy(seal, server),
			      moved / COPY_BYTES_PER_MS);
	}
	return ret < 0 ? ret : JOB_ASKED;
}

/* ---- Steps */

static uint64_t lacking(const struct seal_plan *plan)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < plan->nr_lacks; i++)
		bytes += plan->lacks[i].bytes;
	return bytes;
}

/* The first of its servers that is down. */
static uint64_t find_down(const struct core *core, const struct region *region)
{
	const struct layout *layout = region->layout;

	for (uint32_t i = 0; i < layout->nr_homes; i++) {
		const struct server *server = state_server(core->state, layout->homes[i].server);

		if (!server || !server_is_up(server))
			return layout->homes[i].server;
	}
	return 0;
}

static int cannot(const struct core *core, const struct seal *seal, const struct region *region,
		  int status)
{
	unsigned long long address = region->address;
	char text[SERVER_TEXT_MAX], why[ERROR_LINE_BYTES];

	if (status == -EDQUOT) {
		snprintf(why, sizeof(why), "%s", error_last_line());
		return error_fail(status, "seal the region at 0x%llx: %s", address, why);
	}
	if (status == -ENOSPC && !seal->may_reserve)
		return error_fail(-AFAR_ERESERVE,
				  "seal the region at 0x%llx: '%s' lacks %llu bytes for the copy, "
				  "and only its owner may get it memory; let the owner seal it",
				  address, region->ns->name,
				  (unsigned long long)lacking(&seal->plan));
	if (status == -ENOSPC || status == -E2BIG)
		return error_fail(-ENOSPC,
				  "seal the region at 0x%llx: the free memory of its servers is in "
				  "too small pieces; release some of '%s', or free regions",
				  address, region->ns->name);
	if (status != -AFAR_ESERVER)
		return status;
	server_describe(core, find_down(core, region), text);
	return error_fail(
		status,
		"seal the region at 0x%llx: %s, which holds part of it, cannot be reached; "
		"bring it back and try again",
		address, text);
}

static int ask(struct core *core, struct job *job)
{
	struct seal *seal = seal_of(job);
	struct region *region;
	int ret = region_of_job(core, job, "seal", &region);

	if (ret < 0)
		return ret;
	/* The tables have what the last round got. */
	job->claim = 0;
	job->is_queued = false;
	seal_plan_close(&seal->plan);
	ret = seal_plan_make(core, region, &seal->plan);
	if (ret == -ENOSPC && seal->may_reserve && seal->nr_rounds < ROUNDS_MAX)
		ret = ask_reserve(core, seal, region->ns);
	else if (ret == 0)
		ret = ask_copy(core, seal);
	return ret < 0 ? cannot(core, seal, region, ret) : ret;
}

/* The memory is the namespace's from now on, whatever becomes of the job. */
static int take_memory(struct core *core, struct job *job)
{
	struct namespace *ns = state_namespace(core->state, job->namespace_number);
	int ret = ns ? quota_check(core, ns, job_granted(job)) : error_code(-AFAR_ESERVER);

	if (ret == 0)
		ret = job_record_memory(core, job, ns);
	return ret < 0 ? ret : JOB_ASK;
}

/* Puts the new layout into the tables. */
static int finish(struct core *core, struct seal *seal)
{
	struct region *region;
	struct layout *layout;
	int ret = region_of_job(core, &seal->job, "seal", &region);

	if (ret == 0)
		ret = seal_plan_layout(core, &seal->plan, region->stripe_bytes, &layout);
	if (ret != 0)
		return ret;
	ret = state_replace_layout(core->state, region, layout);
	if (ret == 0)
		ret = job_record_outcomes(core, &seal->job);
	if (ret < 0)
		return ret;
	store_put_region(core->store, region);
	return JOB_DONE;
}

static int settle(struct core *core, struct job *job)
{
	return seal_of(job)->is_copying ? finish(core, seal_of(job)) : take_memory(core, job);
}

static int part_failed(struct core *core, struct job *job, const struct job_part *part, int status)
{
	char text[SERVER_TEXT_MAX];

	/* The server is gone, and with it what it had granted. The next round finds what that means
	 * for the region. */
	if (part->granted != 0)
		return 0;
	server_describe(core, part->server, text);
	if (status == -ENOSPC || status == -ENOMEM)
		return error_fail(-ENOSPC,
				  "%s: %s has no %llu MiB free for the copy; release memory, or "
				  "free regions",
				  job->title, text, (unsigned long long)(part->bytes >> 20));
	return error_fail(-AFAR_ESERVER, "%s: %s failed (%s); the region is as it was, try again",
			  job->title, text, afar_error_name(status));
}

static int give_back(struct core *core, struct job *job)
{
	return seal_plan_undo(core, &seal_of(job)->plan);
}

static void seal_free(struct job *job)
{
	struct seal *seal = seal_of(job);

	seal_plan_close(&seal->plan);
	free(seal);
}

static const struct job_kind sealing = {
	.ask = ask,
	.settle = settle,
	.part_failed = part_failed,
	.give_back = give_back,
	.free = seal_free,
};

/* ---- The request, and what others ask */

uint64_t seal_wait(struct core *core, struct event *event)
{
	const uint64_t generation = event->request->region_seal->generation;
	const struct job *job = job_of_region(core, generation);

	/* It joins a sealing that is under way. */
	return job && job->kind != &sealing ? event->answer_by : 0;
}

static int begin(struct core *core, const struct session *session, const struct region *region,
		 struct event *event)
{
	struct seal *seal = calloc(1, sizeof(*seal));

	if (!seal)
		return error_code(-ENOMEM);
	seal->job.kind = &sealing;
	seal->job.namespace_number = region->ns->number;
	seal->job.outcome = OUTCOME_REGION;
	seal->job.outcome_value = region->generation;
	snprintf(seal->job.title, sizeof(seal->job.title), "seal a region");
	seal->job.region = region->generation;
	seal->may_reserve = (rights_of(core, session->principal, region->ns) & RIGHT_OWN) != 0;
	job_begin(core, &seal->job, session, event);
	return CORE_DEFERRED;
}

int region_seal(struct core *core, struct session *session, struct event *event)
{
	const Afar__RegionSeal *wanted = event->request->region_seal;
	struct reference *reference = NULL;
	struct region *region = NULL;
	struct job *job;
	int ret = region_find(core, session, "seal", wanted->namespace_, wanted->address,
			      wanted->generation, &region);

	if (ret == 0)
		ret = region_find_reference(session, "seal", region, &reference);
	if (ret == 0)
		ret = rights_check(core, session, region->ns, RIGHT_ALL, "seal a region");
	if (ret < 0)
		return ret;
	if (region->ns->is_volume)
		return error_fail(-EINVAL,
				  "seal the region at 0x%llx: it is the volume '%s', and volumes "
				  "stay writable; open it to read alone",
				  (unsigned long long)region->address, region->ns->name);
	if (region->family != 0)
		return error_fail(-EOPNOTSUPP,
				  "seal the region at 0x%llx: it is copy-on-write, and its "
				  "published versions "
				  "never change; copy it to another region to seal that",
				  (unsigned long long)region->address);
	if (region->ns->tier == AFAR_TIER_FLASH)
		return error_fail(
			-EOPNOTSUPP,
			"seal the region at 0x%llx: '%s' is on flash, and only regions in "
			"memory can be sealed; copy it to a namespace of tier dram",
			(unsigned long long)region->address, region->ns->name);
	if (region->layout->is_sealed) {
		event->outcome_kind = OUTCOME_REGION;
		event->outcome_value = region->generation;
		return 0;
	}
	if (region->is_freed)
		return error_fail(-AFAR_EFREED, "seal the region at 0x%llx: it was freed before",
				  (unsigned long long)region->address);
	job = job_of_region(core, region->generation);
	if (!job)
		return begin(core, session, region, event);
	if (job->kind != &sealing)
		return job_fail_slow(core, job);
	job_wait(job, event);
	return CORE_DEFERRED;
}
