/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Orphans: extents that a store has and our tables do not. An older copy of the tables may be to
 * blame, and then an orphan is somebody's data. So nothing but an operator's word frees one.
 *
 * A store's orphans are what its last join told, and change with the next: the list is of
 * connections, and not stored. Freeing them is a job (job.h), which has the store's server release
 * them in rounds, each by number and namespace. A server or a manager that ends in between leaves
 * the rest, and the next join tells of it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "manager/connections/live.h"
#include "manager/connections/outgoing.h"
#include "manager/jobs/job.h"
#include "manager/jobs/job_parts.h"
#include "manager/servers/orphans.h"
#include "manager/servers/stores.h"

#define ROUND_MAX  4096U  /* orphans that one call releases */
#define REMOVAL_MS 30000U /* that a call may take for the removing alone */

/* ---- The list */

int orphans_set(struct core *core, struct flash_store *store, struct orphan *orphans, size_t nr)
{
	struct undo *undo = core->undo;
	uint64_t bytes = 0;
	int ret = undo_room(undo, 5);

	if (ret < 0) {
		free(orphans);
		return ret;
	}
	for (size_t i = 0; i < nr; i++)
		bytes += orphans[i].length;
	undo_made(undo, orphans, free);
	undo_gone(undo, store->orphans, free);
	undo_set(undo, store->orphans, orphans);
	undo_set(undo, store->nr_orphans, nr);
	undo_set(undo, store->orphan_bytes, bytes);
	return 0;
}

/* ---- The job */

struct freeing {
	struct job job;
	uint64_t store;
	struct extent_list asked; /* in this round */
	uint64_t nr_freed, freed_bytes;
	char principal[KEY_IDENTITY_MAX + 1]; /* who said so */
};

static struct freeing *freeing_of(const struct job *job)
{
	return caa_container_of(job, struct freeing, job);
}

/* Finds a store that can be changed. */
static int find_store(const struct core *core, uint64_t number, struct flash_store **out)
{
	struct flash_store *store = state_store(core->state, number);

	*out = store;
	if (!store)
		return error_fail(
			-ENOENT,
			"free the orphans of store %016llx: there is none; see 'afar store "
			"ls'",
			(unsigned long long)number);
	if (!store->is_up)
		return error_fail(-AFAR_ESERVER,
				  "free the orphans of store %016llx: it is away; start the server "
				  "that has its device, on %s",
				  (unsigned long long)number, store->path);
	if (!pool_is_writable(&store->pool))
		return error_fail(-EIO,
				  "free the orphans of store %016llx: its device on %s takes no "
				  "changes; restart server '%s'",
				  (unsigned long long)number, store->path,
				  store->pool.server->name);
	return 0;
}

/* Names the first orphans that the tables do not have. They cannot have any, unless a server grants
 * a number again. */
static int list_round(const struct core *core, const struct flash_store *store,
		      struct extent_list *list)
{
	const struct layout_home home = pool_home(&store->pool);
	size_t nr = store->nr_orphans < ROUND_MAX ? (size_t)store->nr_orphans : ROUND_MAX;
	int ret;

	extent_list_close(list);
	ret = extent_list_open(list, &home, nr);
	for (size_t i = 0; i < store->nr_orphans && list->nr < nr && ret == 0; i++) {
		const struct orphan *orphan = &store->orphans[i];

		if (state_extent(core->state, &home, orphan->number))
			continue;
		list->namespaces[list->nr] = orphan->namespace_number;
		list->numbers[list->nr++] = orphan->number;
	}
	return ret;
}

static int ask(struct core *core, struct job *job)
{
	struct freeing *freeing = freeing_of(job);
	struct flash_store *store;
	int ret = find_store(core, freeing->store, &store);

	if (ret == 0)
		ret = list_round(core, store, &freeing->asked);
	if (ret == 0 && freeing->asked.nr == 0)
		ret = error_fail(-ENOENT, "%s: there are none any more", job->title);
	if (ret == 0)
		ret = job_ask(core, job, store->pool.server->number,
			      server_ask_release(&freeing->asked), REMOVAL_MS);
	return ret < 0 ? ret : JOB_ASKED;
}

static bool is_asked(const struct freeing *freeing, const struct orphan *orphan)
{
	for (size_t i = 0; i < freeing->asked.nr; i++)
		if (freeing->asked.numbers[i] == orphan->number &&
		    freeing->asked.namespaces[i] == orphan->namespace_number)
			return true;
	return false;
}

/* Leaves the orphans that are freed out of the list. */
static int drop_freed(struct core *core, struct freeing *freeing, struct flash_store *store)
{
	struct orphan *left = calloc(store->nr_orphans + 1, sizeof(*left));
	size_t nr_left = 0;

	if (!left)
		return error_code(-ENOMEM);
	for (size_t i = 0; i < store->nr_orphans; i++) {
		/* They lie in front, so that this costs a round's square at most. */
		if (i >= 2 * ROUND_MAX || !is_asked(freeing, &store->orphans[i])) {
			left[nr_left++] = store->orphans[i];
		} else {
			freeing->nr_freed++;
			freeing->freed_bytes += store->orphans[i].length;
		}
	}
	return orphans_set(core, store, left, nr_left);
}

static int settle(struct core *core, struct job *job)
{
	struct freeing *freeing = freeing_of(job);
	struct flash_store *store = state_store(core->state, freeing->store);
	int ret = store ? drop_freed(core, freeing, store) : 0;

	if (ret < 0)
		return ret;
	if (store && store->nr_orphans != 0)
		return JOB_ASK;
	log_info("%llu orphans of store %016llx, %llu MiB, are freed by '%s'",
		 (unsigned long long)freeing->nr_freed, (unsigned long long)freeing->store,
		 (unsigned long long)(freeing->freed_bytes >> 20), freeing->principal);
	job->outcome_value = freeing->freed_bytes;
	ret = job_record_outcomes(core, job);
	return ret < 0 ? ret : JOB_DONE;
}

static int part_failed(struct core *core, struct job *job, const struct job_part *part, int status)
{
	char text[SERVER_TEXT_MAX];

	server_describe(core, part->server, text);
	return error_fail(
		-AFAR_ESERVER,
		"%s: %s failed (%s); those that are left are kept, see 'afar store ls', and "
		"try again",
		job->title, text, afar_error_name(status));
}

static void freeing_free(struct job *job)
{
	extent_list_close(&freeing_of(job)->asked);
	free(freeing_of(job));
}

static const struct job_kind freeing_orphans = {
	.ask = ask,
	.settle = settle,
	.part_failed = part_failed,
	.free = freeing_free,
};

/* ---- The request */

int store_free_orphans(struct core *core, struct session *session, struct event *event)
{
	const uint64_t number = event->request->store_free_orphans->store;
	struct freeing *freeing;
	struct flash_store *store;
	int ret = find_store(core, number, &store);

	if (ret < 0)
		return ret;
	event->outcome_kind = OUTCOME_RELEASED;
	event->outcome_value = 0;
	if (store->nr_orphans == 0)
		return 0;
	freeing = calloc(1, sizeof(*freeing));
	if (!freeing)
		return error_code(-ENOMEM);
	freeing->job.kind = &freeing_orphans;
	freeing->job.outcome = OUTCOME_RELEASED;
	snprintf(freeing->job.title, sizeof(freeing->job.title),
		 "free the orphans of store %016llx", (unsigned long long)number);
	snprintf(freeing->principal, sizeof(freeing->principal), "%s", session->principal);
	freeing->store = number;
	job_begin(core, &freeing->job, session, event);
	return CORE_DEFERRED;
}
