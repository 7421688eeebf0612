/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices that an operator adds to a running server, and takes from it. Both are jobs (job.h) of one
 * question to the server.
 *
 * To add, the server is asked to open the device. Before it answers, it lends the store itself by
 * StoreLend: the join of one store, with the checks and the commit of a join. If it is refused, or
 * the server hears nothing, it closes the device again.
 *
 * To remove, nothing may be reserved in the store. Nothing new is placed there from when the server is
 * asked. When it has answered, the store is away, whatever becomes of the commit that takes its record
 * out: its server has closed it. A record that is left is taken out by the next try.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "manager/cluster/devices.h"
#include "manager/connections/live.h"
#include "manager/jobs/job.h"
#include "manager/jobs/job_parts.h"
#include "manager/regions/regions.h"
#include "manager/servers/servers.h"
#include "manager/servers/store_joins.h"
#include "manager/servers/stores.h"

#define OPEN_MS \
	60000U /* that opening may take: another may still have the device, or it recovers */
#define CLOSE_MS       60000U /* likewise, until all that is under way has ended */
#define PATH_MAX_BYTES 4095U
#define SENTENCE_MAX   1000U
#define NAMED_MAX      3U /* of what is in a store */

/* ---- Lanes */

/* Replaces the lanes to a store by others, or by none. */
static int set_lanes(struct core *core, struct server *server, uint64_t store,
		     const struct lane *more, size_t nr_more)
{
	char principal[KEY_IDENTITY_MAX + 1];
	struct lane lanes[STATE_LANES_MAX];
	struct server_texts texts = {.name = server->name,
				     .principal = principal,
				     .control_address = server->control_address,
				     .lanes = lanes};
	int ret;

	snprintf(principal, sizeof(principal), "%s", server->principal);
	for (size_t i = 0; i < server->nr_lanes; i++)
		if (server->lanes[i].store != store)
			lanes[texts.nr_lanes++] = server->lanes[i];
	if (nr_more > STATE_LANES_MAX - texts.nr_lanes)
		return error_fail(-EINVAL, "join the cluster: more than %u lanes", STATE_LANES_MAX);
	for (size_t i = 0; i < nr_more; i++)
		lanes[texts.nr_lanes++] = more[i];
	ret = state_describe_server(core->state, server, &texts);
	if (ret == 0)
		store_put_server(core->store, server);
	return ret;
}

/* ---- A server lends one store more */

static bool is_lane_of(const Afar__Lane *lane, const Afar__Store *store)
{
	return lane->store == store->store && is_lane_sound(lane);
}

static int check_lend(struct core *core, const struct server *server, const Afar__StoreLend *ask)
{
	const struct flash_store *store;
	unsigned nr_stores = 0;
	int ret;

	if (!ask->store || !ask->lane || !is_lane_of(ask->lane, ask->store) ||
	    (ask->near_lane && !is_lane_of(ask->near_lane, ask->store)) ||
	    (ask->driven_lane && !is_lane_of(ask->driven_lane, ask->store)))
		return error_fail(-EINVAL,
				  "join the cluster: what is said of a store is malformed; use a "
				  "server of this version");
	cds_list_for_each_entry (store, &core->state->stores, node)
		nr_stores += store->is_up && store->pool.server == server;
	if (nr_stores >= FLASH_STORES_MAX)
		return error_fail(-EINVAL, "join the cluster: a server may have %u stores",
				  FLASH_STORES_MAX);
	ret = flash_check_store(core, server, ask->store);
	store = ret == 0 ? state_store(core->state, ask->store->store) : NULL;
	if (store && store->is_up)
		return error_fail(
			-EBUSY,
			"join the cluster: the store on %s is that on %s, which the server "
			"has already",
			ask->store->path, store->path);
	return ret;
}

static struct lane lane_of(const Afar__Lane *lane)
{
	return (struct lane){lane->transport, lane->address, lane->store};
}

int store_lend(struct core *core, struct session *session, struct event *event)
{
	const Afar__StoreLend *ask = event->request->store_lend;
	struct live_server *live = core_live_server_of(core, event->peer);
	Afar__StoreJoined *joined;
	struct lane lanes[3];
	size_t nr_lanes = 0;
	int ret;

	(void)session;
	if (!live)
		return error_fail(-ENOTCONN,
				  "lend a store: no server joined on this connection; join first");
	ret = check_lend(core, live->server, ask);
	if (ret < 0)
		return ret;
	joined = MESSAGE_NEW(afar__store_joined, Afar__StoreJoined);
	if (!joined)
		return error_code(-ENOMEM);
	event->reply->store_joined = joined;
	event->reply->result_case = AFAR__REPLY__RESULT_STORE_JOINED;
	ret = flash_join_store(core, live->server, ask->store, joined);
	lanes[nr_lanes++] = lane_of(ask->lane);
	if (ask->driven_lane)
		lanes[nr_lanes++] = lane_of(ask->driven_lane);
	if (ask->near_lane)
		lanes[nr_lanes++] = lane_of(ask->near_lane);
	return ret == 0 ? set_lanes(core, live->server, ask->store->store, lanes, nr_lanes) : ret;
}

/* ---- Jobs */

struct device_job {
	struct job job;
	uint64_t server;		      /* to add */
	char *path;			      /* NULL: to remove: */
	uint64_t store;			      /* the one that is to go, or has come */
	char principal[KEY_IDENTITY_MAX + 1]; /* who said so */
};

static struct device_job *device_job_of(const struct job *job)
{
	return caa_container_of(job, struct device_job, job);
}

static void device_job_free(struct job *job)
{
	free(device_job_of(job)->path);
	free(device_job_of(job));
}

static int begin(struct core *core, const struct job_kind *kind, const char *title,
		 const struct device_job *like, struct session *session, struct event *event)
{
	struct device_job *job = calloc(1, sizeof(*job));

	if (!job)
		return error_code(-ENOMEM);
	*job = *like;
	job->job.kind = kind;
	snprintf(job->job.title, sizeof(job->job.title), "%s", title);
	snprintf(job->principal, sizeof(job->principal), "%s", session->principal);
	job_begin(core, &job->job, session, event);
	return CORE_DEFERRED;
}

/* A server's own sentence says most. */
static int part_failed_with(const struct core *core, const struct job *job,
			    const struct job_part *part, int status)
{
	char text[SERVER_TEXT_MAX];

	server_describe(core, part->server, text);
	if (part->said && text_is_printable(part->said, SENTENCE_MAX))
		return error_fail(status, "%s at %s: %s", job->title, text, part->said);
	return error_fail(
		-AFAR_ESERVER,
		"%s: %s failed (%s); look what has become of it with 'afar store ls', and "
		"try again",
		job->title, text, afar_error_name(status));
}

/* ---- Adding */

static int fail_down(const struct server *server)
{
	return error_fail(-AFAR_ESERVER, "add a store at server %llu '%s': it is down; start it",
			  (unsigned long long)server->number, server->name);
}

static int ask_open(struct core *core, struct job *job)
{
	const struct device_job *adding = device_job_of(job);
	const struct server *server = state_server(core->state, adding->server);
	Afar__Request *request;
	int ret;

	if (!server)
		return error_fail(-ENOENT, "%s: its server was removed meanwhile", job->title);
	if (!server_is_up(server))
		return fail_down(server);
	request = MESSAGE_NEW(afar__request, Afar__Request);
	if (request)
		request->store_open = MESSAGE_NEW(afar__store_open, Afar__StoreOpen);
	if (!request || !request->store_open) {
		free(request);
		return error_code(-ENOMEM);
	}
	request->call_case = AFAR__REQUEST__CALL_STORE_OPEN;
	request->store_open->path = strdup(adding->path);
	if (!request->store_open->path) {
		afar__request__free_unpacked(request, NULL);
		return error_code(-ENOMEM);
	}
	ret = job_ask(core, job, server->number, request, OPEN_MS);
	return ret < 0 ? ret : JOB_ASKED;
}

static void opened(struct core *core, struct job *job, const struct job_part *part,
		   const Afar__Reply *answer)
{
	(void)core;
	(void)part;
	device_job_of(job)->store = answer->result_case == AFAR__REPLY__RESULT_STORE_OPENED
					    ? answer->store_opened->store
					    : 0;
}

static int settle_open(struct core *core, struct job *job)
{
	const struct device_job *adding = device_job_of(job);
	const struct flash_store *store = state_store(core->state, adding->store);
	int ret;

	if (!store || !store->is_up || store->pool.server->number != adding->server)
		return error_fail(
			-AFAR_ESERVER,
			"%s: the server says that it has it, and has not lent it; restart "
			"it",
			job->title);
	log_info("store %016llx on %s was added by '%s'", (unsigned long long)store->number,
		 store->path, adding->principal);
	job->outcome_value = store->number;
	ret = job_record_outcomes(core, job);
	return ret < 0 ? ret : JOB_DONE;
}

static int opening_failed(struct core *core, struct job *job, const struct job_part *part,
			  int status)
{
	return part_failed_with(core, job, part, status);
}

static const struct job_kind adding_store = {
	.ask = ask_open,
	.settle = settle_open,
	.part_answered = opened,
	.part_failed = opening_failed,
	.free = device_job_free,
};

int store_add(struct core *core, struct session *session, struct event *event)
{
	const Afar__StoreAdd *ask = event->request->store_add;
	const struct server *server = state_server(core->state, ask->server);
	struct device_job job = {.server = ask->server};
	int ret;

	if (!server)
		return error_fail(-ENOENT,
				  "add a store at server %llu: there is none; see 'afar status'",
				  (unsigned long long)ask->server);
	if (!text_is_printable(ask->path, PATH_MAX_BYTES) || ask->path[0] != '/')
		return error_fail(-EINVAL,
				  "add a store at server %llu '%s': the path must begin with '/', "
				  "and have no control characters and at most %u bytes",
				  (unsigned long long)server->number, server->name, PATH_MAX_BYTES);
	if (!server_is_up(server))
		return fail_down(server);
	job.path = strdup(ask->path);
	if (!job.path)
		return error_code(-ENOMEM);
	job.job.outcome = OUTCOME_STORE;
	ret = begin(core, &adding_store, "add a store", &job, session, event);
	if (ret < 0)
		free(job.path);
	return ret;
}

/* ---- What is in a store */

struct contents {
	const struct layout_home *home;
	uint64_t nr_regions;
	char names[512];
};

static void add_name(struct contents *contents, uint64_t nr, const char *text)
{
	size_t length = strlen(contents->names);

	if (nr <= NAMED_MAX)
		snprintf(contents->names + length, sizeof(contents->names) - length, "%s%.160s",
			 length ? ", " : "", text);
}

static bool count_region(void *argument, void *row)
{
	const struct region *region = row;
	struct contents *contents = argument;
	char name[160];

	if (region->is_freed || region->is_lost || !region_is_at(region, contents->home))
		return true;
	if (region->ns->is_volume)
		snprintf(name, sizeof(name), "%s '%.60s'", namespace_noun(region->ns),
			 region->ns->name);
	else if (region->name[0] != '\0')
		snprintf(name, sizeof(name), "region '%.60s:%.60s'", region->ns->name,
			 region->name);
	else
		snprintf(name, sizeof(name), "region '%.60s:@0x%llx'", region->ns->name,
			 (unsigned long long)region->address);
	add_name(contents, ++contents->nr_regions, name);
	return true;
}

/* Names the first namespaces with extents there. Returns how many there are, up to one more. */
static unsigned name_namespaces(const struct pool *pool, struct contents *contents)
{
	const struct namespace *known[NAMED_MAX + 1];
	const struct extent *extent;
	unsigned nr = 0;
	char name[160];

	cds_list_for_each_entry (extent, &pool->extents, pool_node) {
		bool is_known = !extent->ns || nr > NAMED_MAX;

		for (unsigned i = 0; i < nr && !is_known; i++)
			is_known = known[i] == extent->ns;
		if (is_known)
			continue;
		known[nr++] = extent->ns;
		snprintf(name, sizeof(name), "%s '%.60s'", namespace_noun(extent->ns),
			 extent->ns->name);
		add_name(contents, nr, name);
	}
	return nr;
}

static int fail_used(const struct core *core, const struct flash_store *store)
{
	const struct layout_home home = pool_home(&store->pool);
	struct contents contents = {.home = &home};
	unsigned long long number = store->number;
	unsigned nr_namespaces;
	char more[32] = "";

	tree_walk(core->state->regions_by_generation, count_region, &contents);
	if (contents.nr_regions > NAMED_MAX)
		snprintf(more, sizeof(more), ", and %llu more",
			 (unsigned long long)(contents.nr_regions - NAMED_MAX));
	if (contents.nr_regions != 0)
		return error_fail(
			-EBUSY,
			"remove store %016llx: it holds %s%s; copy what is needed, remove them "
			"('afar region rm', 'afar volume rm', 'afar fs rm'), and 'afar ns release'",
			number, contents.names, more);
	nr_namespaces = name_namespaces(&store->pool, &contents);
	if (nr_namespaces != 0)
		return error_fail(
			-EBUSY,
			"remove store %016llx: %llu MiB on it are reserved, for %s%s; 'afar "
			"ns release' them",
			number,
			(unsigned long long)((store->pool.granted_bytes -
					      store->pool.releasing_bytes) >>
					     20),
			contents.names, nr_namespaces > NAMED_MAX ? " and more" : "");
	return error_fail(
		-EBUSY,
		"remove store %016llx: what was on it is being given back, or a reservation "
		"is under way; try again",
		number);
}

static int check_unused(const struct core *core, struct flash_store *store)
{
	return cds_list_empty(&store->pool.extents) && store->pool.pending_bytes == 0
		       ? 0
		       : fail_used(core, store);
}

/* ---- Removing */

/* Takes a store that no server has open, and that has nothing, out of the tables. */
static int take_out(struct core *core, struct flash_store *store, const char *principal)
{
	struct server *server = store->pool.server;
	int ret = server ? set_lanes(core, server, store->number, NULL, 0) : 0;

	if (ret < 0)
		return ret;
	log_info("store %016llx on %s was removed by '%s'", (unsigned long long)store->number,
		 store->path, principal);
	store_delete_flash(core->store, store);
	ret = state_remove_store(core->state, store);
	return ret == 0 && server ? server_forget(core, server) : ret;
}

static int find_store(const struct core *core, uint64_t number, struct flash_store **out)
{
	*out = state_store(core->state, number);
	if (!*out)
		return error_fail(-ENOENT,
				  "remove store %016llx: there is none; see 'afar store ls'",
				  (unsigned long long)number);
	return 0;
}

static int ask_close(struct core *core, struct job *job)
{
	struct device_job *removing = device_job_of(job);
	struct flash_store *store;
	Afar__Request *request;
	int ret = find_store(core, removing->store, &store);

	if (ret == 0)
		ret = check_unused(core, store);
	if (ret < 0)
		return ret;
	if (!store->is_up)
		return error_fail(
			-AFAR_ESERVER,
			"%s: its server has just gone; look with 'afar store ls', and try again",
			job->title);
	request = MESSAGE_NEW(afar__request, Afar__Request);
	if (request)
		request->store_close = MESSAGE_NEW(afar__store_close, Afar__StoreClose);
	if (!request || !request->store_close) {
		free(request);
		return error_code(-ENOMEM);
	}
	request->call_case = AFAR__REQUEST__CALL_STORE_CLOSE;
	request->store_close->store = store->number;
	removing->server = store->pool.server->number;
	ret = job_ask(core, job, removing->server, request, CLOSE_MS);
	if (ret < 0)
		return ret;
	store->is_leaving = true;
	return JOB_ASKED;
}

/* Its server has closed it: that stays so. */
static void closed(struct core *core, struct job *job, const struct job_part *part,
		   const Afar__Reply *answer)
{
	struct flash_store *store = state_store(core->state, device_job_of(job)->store);

	(void)part;
	(void)answer;
	if (store)
		flash_store_down(core, store);
}

static int settle_close(struct core *core, struct job *job)
{
	const struct device_job *removing = device_job_of(job);
	struct flash_store *store = state_store(core->state, removing->store);
	int ret = 0;

	if (store && store->is_up)
		return error_fail(-EBUSY, "%s: a server has opened it again meanwhile", job->title);
	if (store)
		ret = take_out(core, store, removing->principal);
	if (ret == 0)
		ret = job_record_outcomes(core, job);
	return ret < 0 ? ret : JOB_DONE;
}

/* A server that does not know the store has not got it open either. */
static int closing_failed(struct core *core, struct job *job, const struct job_part *part,
			  int status)
{
	struct flash_store *store = state_store(core->state, device_job_of(job)->store);

	if (store)
		store->is_leaving = false;
	if (store && status == -ENOENT) {
		flash_store_down(core, store);
		return 0;
	}
	return part_failed_with(core, job, part, status);
}

static const struct job_kind removing_store = {
	.ask = ask_close,
	.settle = settle_close,
	.part_answered = closed,
	.part_failed = closing_failed,
	.free = device_job_free,
};

int store_remove(struct core *core, struct session *session, struct event *event)
{
	struct device_job job = {.store = event->request->store_remove->store};
	struct flash_store *store;
	char title[64];
	int ret = find_store(core, job.store, &store);

	if (ret == 0)
		ret = check_unused(core, store);
	if (ret < 0)
		return ret;
	if (!store->is_up)
		return take_out(core, store, session->principal);
	job.job.outcome = OUTCOME_NONE;
	snprintf(title, sizeof(title), "remove store %016llx", (unsigned long long)job.store);
	return begin(core, &removing_store, title, &job, session, event);
}
