/* SPDX-License-Identifier: BSD-3-Clause */
/* Servers' parts of jobs: asks servers, checks their answers, and keeps what they grant. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <afar/afar.h>

#include "base/log.h"
#include "manager/connections/live.h"
#include "manager/connections/outgoing.h"
#include "manager/jobs/job.h"
#include "manager/jobs/job_parts.h"
#include "manager/jobs/job_private.h"
#include "manager/tables/placement.h"

static outgoing_answered answered;

#define PART_EXTENTS_MAX ((size_t)1 << 16)

static void part_free(struct job_part *part)
{
	cds_list_del(&part->node);
	free(part->extents);
	free(part->said);
	free(part);
}

void parts_free(struct job *job)
{
	struct job_part *part, *next;

	cds_list_for_each_entry_safe (part, next, &job->parts, node)
		part_free(part);
}

unsigned parts_asked(const struct job *job, uint64_t *first)
{
	const struct job_part *part;
	unsigned nr = 0;

	cds_list_for_each_entry (part, &job->parts, node)
		if (part->state == PART_ASKED && nr++ == 0)
			*first = part->server;
	return nr;
}

uint64_t job_granted(const struct job *job)
{
	const struct job_part *part;
	uint64_t sum = 0;

	cds_list_for_each_entry (part, &job->parts, node)
		if (part->state == PART_ANSWERED)
			sum += part->granted;
	return sum;
}

uint64_t job_asked(const struct job *job)
{
	const struct job_part *part;
	uint64_t sum = 0;

	cds_list_for_each_entry (part, &job->parts, node)
		sum += part->bytes;
	return sum;
}

static uint64_t store_number(const struct pool *pool)
{
	return pool->store ? pool->store->number : 0;
}

bool job_has_failed_on(const struct job *job, const struct pool *pool)
{
	const struct job_part *part;

	cds_list_for_each_entry (part, &job->parts, node)
		if (part->state == PART_FAILED && part->server == pool->server->number &&
		    part->store == store_number(pool))
			return true;
	return false;
}

bool job_was_answered(const struct job *job, const struct server *server)
{
	const struct job_part *part;

	cds_list_for_each_entry (part, &job->parts, node)
		if (part->state == PART_ANSWERED && part->server == server->number &&
		    part->incarnation == server->incarnation)
			return true;
	return false;
}

/* The home of the extents that it is granted. */
static struct layout_home home_of(const struct job_part *part)
{
	if (part->store != 0)
		return (struct layout_home){.life = part->store, .is_store = true};
	return (struct layout_home){.server = part->server, .life = part->incarnation};
}

static void take_off(uint64_t *sum, uint64_t amount)
{
	*sum -= amount < *sum ? amount : *sum;
}

/* Takes off what counts at its server. */
static void drop_pending(struct core *core, struct job_part *part)
{
	struct live_server *live = core_live_server(core, part->server);
	const struct layout_home home = home_of(part);
	struct pool *pool = state_pool(core->state, &home);

	if (pool)
		take_off(&pool->pending_bytes, part->pending);
	if (live && live->incarnation == part->incarnation) {
		take_off(&live->pending_bytes, part->pending);
		take_off(&live->copying_ms, part->copying_ms);
	}
	part->pending = 0;
	part->copying_ms = 0;
}

static void add_pending(struct core *core, struct job_part *part, struct live_server *live)
{
	const struct layout_home home = home_of(part);
	struct pool *pool = state_pool(core->state, &home);

	live->pending_bytes += part->pending;
	if (pool)
		pool->pending_bytes += part->pending;
}

/* Gives what was granted back to its server. */
static void undo_part(struct core *core, struct job_part *part)
{
	struct live_server *live = core_live_server(core, part->server);
	const struct layout_home home = home_of(part);
	struct extent_list list;

	drop_pending(core, part);
	part->state = PART_FAILED;
	if (part->nr_extents == 0 || !live || !live->peer || live->incarnation != part->incarnation)
		return;
	if (extent_list_open(&list, &home, part->nr_extents) < 0) {
		/* Its rejoining brings the same about. */
		core->environment.close_peer(core->environment.context, live->peer);
		return;
	}
	for (size_t i = 0; i < part->nr_extents; i++) {
		list.namespaces[list.nr] = part->job->namespace_number;
		list.numbers[list.nr++] = part->extents[i].number;
	}
	server_undo(core, live, &list);
}

void parts_undo(struct core *core, struct job *job)
{
	struct job_part *part;

	cds_list_for_each_entry (part, &job->parts, node)
		if (part->state == PART_ANSWERED)
			undo_part(core, part);
}

/* A server that was told to do something where the job took memory must not do it when that is
 * another's. It does not begin what it was told on another connection, and ends what it has begun
 * before it joins again. */
void parts_stop(struct core *core, const struct job *job)
{
	const struct job_part *part;

	if (job->kind->may_tell_late)
		return;
	cds_list_for_each_entry (part, &job->parts, node) {
		struct live_server *live = core_live_server(core, part->server);

		if (part->state == PART_ASKED && part->bytes == 0 && live && live->peer &&
		    live->incarnation == part->incarnation)
			core->environment.close_peer(core->environment.context, live->peer);
	}
}

/* ---- Asking */

/* Takes `request` over. */
static int add_part(struct core *core, struct job *job, struct live_server *live,
		    Afar__Request *request, const struct job_part *wanted)
{
	struct job_part *part = calloc(1, sizeof(*part));
	struct outgoing *outgoing = outgoing_new(answered, live);

	if (outgoing)
		outgoing->may_fail = true;
	if (!part || !outgoing || !request) {
		free(part);
		outgoing_free(outgoing);
		if (request)
			afar__request__free_unpacked(request, NULL);
		return error_code(-ENOMEM);
	}
	*part = *wanted;
	part->job = job;
	part->server = live->number;
	part->incarnation = live->incarnation;
	cds_list_add_tail(&part->node, &job->parts);
	add_pending(core, part, live);
	live->copying_ms += part->copying_ms;
	outgoing->part = part;
	server_call(core, live, server_timeout_ms(live), request, outgoing);
	return 0;
}

int job_ask_memory(struct core *core, struct job *job, struct pool *pool, uint64_t bytes,
		   enum extent_class class)
{
	const struct job_part part = {
		.store = store_number(pool), .bytes = bytes, .pending = bytes, .class = class};

	return add_part(core, job, pool->server->live,
			server_ask_extents(job->namespace_number, bytes, class, part.store), &part);
}

int job_ask(struct core *core, struct job *job, uint64_t server, Afar__Request *request,
	    uint64_t copying_ms)
{
	const struct job_part part = {.copying_ms = copying_ms};
	struct live_server *live = core_live_server(core, server);

	if (live && live->peer)
		return add_part(core, job, live, request, &part);
	if (request)
		afar__request__free_unpacked(request, NULL);
	return error_code(-AFAR_ESERVER);
}

/* ---- Servers' answers */

/* True: the answer names an extent twice, or one that some job was granted. */
static bool is_granted_already(const struct core *core, const struct job_part *part,
			       uint64_t number)
{
	const struct job *job;
	const struct job_part *other;

	cds_list_for_each_entry (job, &core->jobs, node) {
		cds_list_for_each_entry (other, &job->parts, node) {
			if (other->server != part->server || other->store != part->store)
				continue;
			for (size_t i = 0; i < other->nr_extents; i++)
				if (other->extents[i].number == number)
					return true;
		}
	}
	return false;
}

static bool is_good(const struct core *core, const struct job_part *part,
		    const Afar__Extent *extent)
{
	const struct layout_home home = home_of(part);

	return extent->namespace_ == part->job->namespace_number && extent->class_ == part->class &&
	       extent->length != 0 && extent->length % PLACEMENT_EXTENT_UNIT == 0 &&
	       !state_extent(core->state, &home, extent->extent) &&
	       !is_granted_already(core, part, extent->extent);
}

/* Checks what a server says it granted, and keeps it in the part. */
static int take_extents(const struct core *core, struct job_part *part,
			const Afar__Extents *extents)
{
	uint64_t sum = 0;

	if (extents->n_extents == 0 || extents->n_extents > PART_EXTENTS_MAX)
		return error_code(-AFAR_EMALFORMED);
	part->extents = calloc(extents->n_extents, sizeof(*part->extents));
	if (!part->extents)
		return error_code(-ENOMEM);
	for (size_t i = 0; i < extents->n_extents; i++) {
		const Afar__Extent *extent = extents->extents[i];

		if (!is_good(core, part, extent) ||
		    __builtin_add_overflow(sum, extent->length, &sum))
			return error_code(-AFAR_EMALFORMED);
		part->extents[part->nr_extents].number = extent->extent;
		part->extents[part->nr_extents++].length = extent->length;
	}
	if (sum < part->bytes)
		return error_code(-AFAR_EMALFORMED);
	part->granted = sum;
	return 0;
}

static int check_answer(const struct core *core, struct job_part *part, const Afar__Reply *answer,
			int status)
{
	if (!answer)
		return status;
	if (answer->status < 0)
		return answer->status;
	if (part->bytes == 0)
		return 0;
	if (answer->result_case != AFAR__REPLY__RESULT_EXTENTS)
		return error_code(-AFAR_EMALFORMED);
	return take_extents(core, part, answer->extents);
}

/* Whatever it granted is not ours: its server releases it, or has lost it. */
static void fail_part(struct core *core, struct job_part *part, int status)
{
	struct job *job = part->job;
	int ret;

	drop_pending(core, part);
	part->state = PART_FAILED;
	part->nr_extents = 0;
	if (job_is_over(job))
		return;
	ret = job->kind->part_failed(core, job, part, status);
	if (ret < 0)
		job_fail(job, ret);
}

static int answered(struct core *core, struct outgoing *outgoing, struct event *event, bool is_done)
{
	struct job_part *part = outgoing->part;
	const Afar__Reply *answer = event->answer;
	struct live_server *live = core_live_server(core, part->server);
	struct job *job = part->job;
	/* From an earlier connection, it has been reconciled: what it granted was given back. */
	bool is_current = live && live->peer == event->peer;
	uint64_t first;
	int ret = is_current ? check_answer(core, part, answer, event->status)
			     : error_code(-AFAR_ESERVER);

	(void)is_done;
	if (ret < 0) {
		log_warn("%s: server %llu failed: %s", job->title, (unsigned long long)part->server,
			 afar_strerror(ret));
		if (is_current && answer && answer->status < 0 && !part->said)
			part->said = strdup(answer->message);
		/* It may have done something that nobody will know: rejoining settles that. */
		if (is_current && (!answer || answer->status == 0))
			core->environment.close_peer(core->environment.context, live->peer);
		fail_part(core, part, ret);
	} else {
		drop_pending(core, part);
		part->state = PART_ANSWERED;
		part->pending = part->granted;
		add_pending(core, part, live);
		if (job->kind->part_answered)
			job->kind->part_answered(core, job, part, answer);
	}
	if (job->state == JOB_ENDED && part->state == PART_ANSWERED)
		undo_part(core, part);
	if (job->state == JOB_ASKED && parts_asked(job, &first) == 0)
		job->state = JOB_SETTLE;
	return 0;
}

void jobs_server_down(struct core *core, const struct live_server *live)
{
	struct job *job;
	struct job_part *part;

	cds_list_for_each_entry (job, &core->jobs, node)
		cds_list_for_each_entry (part, &job->parts, node)
			if (part->server == live->number && part->state == PART_ANSWERED &&
			    part->nr_extents != 0)
				fail_part(core, part, error_code(-AFAR_ESERVER));
}

/* ---- Into the tables */

/* Finds what the part's extents were granted out of, if that server still has it. */
static struct pool *find_pool(const struct core *core, const struct job_part *part)
{
	const struct layout_home home = home_of(part);
	struct pool *pool = state_pool(core->state, &home);

	return pool && pool->server && pool->server->number == part->server &&
			       pool->server->incarnation == part->incarnation
		       ? pool
		       : NULL;
}

static int record_part(struct core *core, const struct job_part *part, struct namespace *ns)
{
	const struct layout_home home = home_of(part);
	struct pool *pool = find_pool(core, part);
	struct extent *extent;
	int ret;

	if (!pool)
		return error_code(-AFAR_ESERVER);
	for (size_t i = 0; i < part->nr_extents; i++) {
		const struct extent like = {.pool = pool,
					    .life = home.life,
					    .number = part->extents[i].number,
					    .ns = ns,
					    .namespace_number = ns->number,
					    .length = part->extents[i].length,
					    .class = part->class};

		ret = state_add_extent(core->state, &like, &extent);
		if (ret < 0)
			return ret;
		store_put_extent(core->store, extent);
	}
	return 0;
}

int job_record_memory(struct core *core, struct job *job, struct namespace *ns)
{
	struct job_part *part;
	int ret;

	cds_list_for_each_entry (part, &job->parts, node) {
		if (part->state != PART_ANSWERED)
			continue;
		ret = record_part(core, part, ns);
		if (ret < 0)
			return ret;
		/* From now on it is counted in the tables, also for others of the same batch. */
		drop_pending(core, part);
	}
	return 0;
}
