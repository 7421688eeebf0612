/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reserving: a job (job.h) that gets memory for a namespace, or space on flash, as its tier says. It
 * plans shares on servers or stores, asks for
 * all of them at once, and when everything is granted records the extents in one commit. A server
 * that fails is left out, and what is missing then is planned anew. If that is not possible, what
 * was granted is given back.
 *
 * Memory that nobody hears of would be lost to all. Extents that are granted while the client is
 * away wait until its session is back, or has ended, and are given back then. So is what a client
 * does not want any more.
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
#include "manager/space/reserve.h"
#include "manager/tables/placement.h"

struct reservation {
	struct job job;
	bool is_flash;
	uint32_t width;
	uint64_t bytes; /* a multiple of the extent unit */
	int failure;	/* of a server, to tell when it cannot be done without it: */
	uint64_t failed_server;
};

static struct reservation *reservation_of(const struct job *job)
{
	return caa_container_of(job, struct reservation, job);
}

/* ---- Planning */

struct plan {
	struct placement_server *shares; /* of: */
	struct pool **pools;
	size_t nr_pools;
	size_t nr_up;
	uint64_t free_bytes;
};

static uint64_t pool_free_bytes(const struct pool *pool)
{
	const uint64_t orphan_bytes = pool->store ? pool->store->orphan_bytes : 0;
	uint64_t used;

	if (__builtin_add_overflow(pool->granted_bytes, pool->pending_bytes, &used) ||
	    __builtin_add_overflow(used, orphan_bytes, &used) || used >= pool->capacity_bytes)
		return 0;
	return (pool->capacity_bytes - used) / PLACEMENT_EXTENT_UNIT * PLACEMENT_EXTENT_UNIT;
}

/*
 * Counts the memory that a pool will get back. Its server is releasing some. Deleted namespaces
 * still have some, because the sessions that had their regions open are not fenced yet. Goes
 * through its extents.
 */
static uint64_t pool_returning_bytes(const struct pool *pool)
{
	const struct extent *extent;
	uint64_t bytes = pool->releasing_bytes;

	cds_list_for_each_entry (extent, &pool->extents, pool_node)
		if (extent->ns && extent->ns->is_deleted)
			bytes += extent->length;
	return bytes;
}

static uint64_t returning_bytes(const struct plan *plan)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < plan->nr_pools; i++)
		bytes += pool_returning_bytes(plan->pools[i]);
	return bytes;
}

static void plan_close(struct plan *plan)
{
	free(plan->shares);
	free(plan->pools);
}

static void add_pool(const struct job *job, struct pool *pool, struct plan *plan)
{
	uint64_t free_bytes = pool_free_bytes(pool);

	if (!pool_is_writable(pool))
		return;
	plan->nr_up++;
	if (job_has_failed_on(job, pool))
		return;
	plan->pools[plan->nr_pools] = pool;
	plan->shares[plan->nr_pools++].free_bytes = free_bytes;
	if (__builtin_add_overflow(plan->free_bytes, free_bytes, &plan->free_bytes))
		plan->free_bytes = UINT64_MAX;
}

/* The pools that may be asked. */
static int plan_open(const struct core *core, const struct job *job, bool is_flash,
		     struct plan *plan)
{
	struct live_server *live;
	struct flash_store *store;
	size_t max = 1;

	cds_list_for_each_entry (live, &core->live_servers, node)
		max++;
	cds_list_for_each_entry (store, &core->state->stores, node)
		max++;
	plan->shares = calloc(max, sizeof(*plan->shares));
	plan->pools = calloc(max, sizeof(struct pool *));
	if (!plan->shares || !plan->pools) {
		plan_close(plan);
		return error_code(-ENOMEM);
	}
	if (is_flash)
		cds_list_for_each_entry (store, &core->state->stores, node)
			add_pool(job, &store->pool, plan);
	else
		cds_list_for_each_entry (live, &core->live_servers, node)
			add_pool(job, &live->server->dram, plan);
	return 0;
}

static int no_store(const struct core *core, const char *title)
{
	if (cds_list_empty(&core->state->stores))
		return error_fail(
			-AFAR_ENOSERVER,
			"%s: the cluster has no store; start a server with 'afard --flash "
			"PATH'",
			title);
	return error_fail(-AFAR_ENOSERVER,
			  "%s: all stores are away, or read only; start their servers again; see "
			  "'afar store ls'",
			  title);
}

static int cannot(const struct core *core, const struct reservation *wanted,
		  const struct plan *plan, uint64_t missing)
{
	const char *title = wanted->job.title;
	char text[SERVER_TEXT_MAX];

	server_describe(core, wanted->failed_server, text);
	if (plan->nr_up == 0 && wanted->is_flash)
		return no_store(core, title);
	if (plan->nr_up == 0)
		return error_fail(-AFAR_ENOSERVER,
				  "%s: no server is connected to the manager; start one with "
				  "'afard --role server'",
				  title);
	if (wanted->failure != 0 && wanted->failure != -ENOSPC && wanted->failure != -ENOMEM)
		return error_fail(-AFAR_ESERVER,
				  "%s: %s failed (%s) and the others have %llu of the missing %llu "
				  "MiB free; try again",
				  title, text, afar_error_name(wanted->failure),
				  (unsigned long long)(plan->free_bytes >> 20),
				  (unsigned long long)(missing >> 20));
	return error_fail(-ENOSPC,
			  "%s: the %s have %llu of the missing %llu MiB free; ask for less, "
			  "release memory, or add a %s",
			  title, wanted->is_flash ? "stores" : "servers",
			  (unsigned long long)(plan->free_bytes >> 20),
			  (unsigned long long)(missing >> 20),
			  wanted->is_flash ? "store" : "server");
}

static int ask_shares(struct core *core, struct job *job, const struct plan *plan)
{
	const enum extent_class class = reservation_of(job)->is_flash ? CLASS_FLASH : CLASS_DRAM;
	int ret = 0;

	for (size_t i = 0; i < plan->nr_pools && ret == 0; i++)
		if (plan->shares[i].share != 0)
			ret = job_ask_memory(core, job, plan->pools[i], plan->shares[i].share,
					     class);
	return ret < 0 ? ret : JOB_ASKED;
}

/* Those who write files make room for them; else the owner does. */
static int find_to_reserve(const struct core *core, const struct session *session, uint64_t number,
			   struct namespace **out)
{
	int ret = core_namespace(core, session, "reserve", number, RIGHT_ALL, out);

	return ret == 0 && !(*out)->is_files
		       ? rights_check(core, session, *out, RIGHT_OWN, "reserve")
		       : ret;
}

/* Sessions lose their rights and namespaces are deleted while servers populate memory. */
static int check_wanted(const struct core *core, const struct job *job, struct namespace **out)
{
	return find_to_reserve(core, state_session(core->state, job->session),
			       job->namespace_number, out);
}

/* Asks servers for what is missing, or waits for memory that they will get back. */
static int ask(struct core *core, struct job *job)
{
	const struct reservation *wanted = reservation_of(job);
	uint64_t missing = wanted->bytes - job_granted(job);
	struct plan plan = {0};
	uint64_t returning;
	struct namespace *ns;
	int ret = check_wanted(core, job, &ns);

	if (ret == 0)
		ret = quota_claim(core, job, ns, wanted->bytes);
	if (ret == 0 && job->is_queued)
		return JOB_ASK;
	if (ret == 0)
		ret = plan_open(core, job, wanted->is_flash, &plan);
	if (ret < 0)
		return ret;
	ret = placement_spread(plan.shares, plan.nr_pools, missing, wanted->width, core->turn++);
	if (ret == 0) {
		ret = ask_shares(core, job, &plan);
	} else if (ret == -ENOSPC) {
		returning = returning_bytes(&plan);
		ret = returning != 0 && returning >= missing - plan.free_bytes
			      ? JOB_ASK
			      : cannot(core, wanted, &plan, missing);
	}
	plan_close(&plan);
	return ret;
}

/* ---- When servers have answered */

static int part_failed(struct core *core, struct job *job, const struct job_part *part, int status)
{
	struct reservation *wanted = reservation_of(job);

	(void)core;
	wanted->failure = status;
	wanted->failed_server = part->server;
	return 0;
}

/* A client that lost its connection may have ended: only its session's end will tell. */
static bool is_heard(const struct core *core, const struct job *job)
{
	const struct session *session = state_session(core->state, job->session);

	return session->live && session->live->peer;
}

static int settle(struct core *core, struct job *job)
{
	uint64_t granted = job_granted(job), sum;
	struct namespace *ns;
	int ret = check_wanted(core, job, &ns);

	if (ret < 0)
		return ret;
	if (granted < reservation_of(job)->bytes)
		return JOB_ASK;
	if (!is_heard(core, job))
		return JOB_SETTLE;
	/* A limit may be lower than it was. */
	ret = quota_check(core, ns, granted);
	if (ret < 0)
		return ret;
	if (__builtin_add_overflow(ns->reserved_bytes, granted, &sum))
		return error_fail(-EINVAL,
				  "reserve: the namespace would be larger than 2^64 bytes");
	ret = job_record_memory(core, job, ns);
	if (ret == 0)
		ret = job_record_outcomes(core, job);
	return ret < 0 ? ret : JOB_DONE;
}

/* The servers that will get memory back, and the first of them. */
static unsigned awaits(const struct core *core, const struct job *job, uint64_t *first)
{
	const bool is_flash = reservation_of(job)->is_flash;
	const struct live_server *live;
	const struct flash_store *store;
	unsigned nr = 0;

	if (job->state != JOB_ASK || job->is_queued)
		return 0;
	cds_list_for_each_entry (live, &core->live_servers, node)
		if (!is_flash && pool_returning_bytes(&live->server->dram) != 0 && nr++ == 0)
			*first = live->number;
	cds_list_for_each_entry (store, &core->state->stores, node)
		if (is_flash && store->is_up && pool_returning_bytes(&store->pool) != 0 &&
		    nr++ == 0)
			*first = store->pool.server->number;
	return nr;
}

static void reservation_free(struct job *job)
{
	free(reservation_of(job));
}

static const struct job_kind reserving = {
	.ends_with_session = true,
	.ask = ask,
	.settle = settle,
	.part_failed = part_failed,
	.awaits = awaits,
	.free = reservation_free,
};

/* ---- The requests */

static int round_up(const struct namespace *ns, uint64_t bytes, uint64_t *rounded)
{
	uint64_t sum;

	if (bytes == 0)
		return error_fail(-EINVAL, "reserve for '%s': 0 bytes; say how much", ns->name);
	if (__builtin_add_overflow(bytes, PLACEMENT_EXTENT_UNIT - 1, rounded))
		return error_fail(-EINVAL, "reserve for '%s': %llu bytes are too many for 64 bits",
				  ns->name, (unsigned long long)bytes);
	*rounded = *rounded / PLACEMENT_EXTENT_UNIT * PLACEMENT_EXTENT_UNIT;
	if (__builtin_add_overflow(*rounded, ns->reserved_bytes, &sum))
		return error_fail(
			-EINVAL,
			"reserve for '%s': %llu bytes beside the %llu that it has are too "
			"many for 64 bits",
			ns->name, (unsigned long long)bytes,
			(unsigned long long)ns->reserved_bytes);
	return 0;
}

int namespace_reserve(struct core *core, struct session *session, struct event *event)
{
	const Afar__NamespaceReserve *request = event->request->namespace_reserve;
	struct reservation *wanted;
	struct namespace *ns;
	uint64_t bytes = 0;
	int ret = find_to_reserve(core, session, request->namespace_, &ns);

	if (ret == 0)
		ret = round_up(ns, request->bytes, &bytes);
	if (ret == 0)
		ret = quota_check(core, ns, bytes);
	if (ret < 0)
		return ret;
	wanted = calloc(1, sizeof(*wanted));
	if (!wanted)
		return error_code(-ENOMEM);
	wanted->job.kind = &reserving;
	wanted->job.namespace_number = ns->number;
	wanted->job.outcome = OUTCOME_NAMESPACE;
	wanted->job.outcome_value = ns->number;
	snprintf(wanted->job.title, sizeof(wanted->job.title), "reserve %llu MiB",
		 (unsigned long long)(bytes >> 20));
	wanted->is_flash = ns->tier == AFAR_TIER_FLASH;
	wanted->width = ns->width;
	wanted->bytes = bytes;
	job_begin(core, &wanted->job, session, event);
	return CORE_DEFERRED;
}

static int fail_cancelled(void)
{
	return error_fail(-ECANCELED, "reserve: it was cancelled; nothing is kept of it");
}

/* Requests that wait for servers to come back after a start have no job yet. */
static void cancel_waiting(struct core *core, const struct session *session, uint64_t ns)
{
	struct event *event, *next;

	cds_list_for_each_entry_safe (event, next, &core->waiting, node) {
		if (event->session != session->number ||
		    event->request->call_case != AFAR__REQUEST__CALL_NAMESPACE_RESERVE ||
		    event->request->namespace_reserve->namespace_ != ns)
			continue;
		cds_list_del(&event->node);
		event_fail(event, fail_cancelled());
		cds_list_add_tail(&event->node, &core->answering);
	}
}

/* The client hears at once; what servers have still to grant is given back when they have. */
int reserve_cancel(struct core *core, struct session *session, struct event *event)
{
	uint64_t ns = event->request->reserve_cancel->namespace_;
	struct job *job;

	cancel_waiting(core, session, ns);
	cds_list_for_each_entry (job, &core->jobs, node)
		if (job->kind == &reserving && job->session == session->number &&
		    job->namespace_number == ns)
			job_fail(job, fail_cancelled());
	return 0;
}
