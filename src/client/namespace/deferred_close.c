/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deferred closes: the program has closed a region, but a server may still carry out a write of a
 * connection that has ended. The session keeps its reference to it until the servers have closed
 * those connections or have restarted. So its memory does not become another region's before.
 * region_open.c hands it over. This looks at all of them when a region is opened or closed, or a connection
 * is made. So the code that ends a region is here, too.
 */
#include "client/namespace/deferred_close.h"
#include "client/namespace/versions_handle.h"

#include "client/namespace/region.h"

/* Closing waits so long for a server that does not answer, and then asks no more for PAUSE_MS. */
#define ASK_MS	 1000
#define PAUSE_MS 10000

/* ---- Ending */

int region_call_close(struct afar_session *session, uint64_t ns, uint64_t address,
		      uint64_t generation)
{
	Afar__RegionClose close = AFAR__REGION_CLOSE__INIT;

	close.namespace_ = ns;
	close.address = address;
	close.generation = generation;
	return session_call(session, RPC_REQUEST(REGION_CLOSE, region_close, &close), NULL);
}

void region_drop(struct afar_region *region)
{
	target_destroy(&region->target);
	versions_close(region);
	handle_retire(region);
}

void region_leave(struct afar_region *region)
{
	const struct afar_target *target = &region->target;

	/* If the manager is not told, or cannot be, it drops the reference at the session's end. */
	region_call_close(target->session, target->ns, target->address, target->generation);
	region_drop(region);
}

/* ---- Deferring */

/* Limits the wait to that of any call of the session. */
static uint64_t ask_deadline(const struct afar_session *session)
{
	uint64_t deadline = clock_deadline_ms(ASK_MS), longest = session_deadline(session);

	return deadline < longest ? deadline : longest;
}

/* Takes all regions whose close is deferred. Returns whether servers may be asked now. */
static bool take_all(struct afar_session *session, struct cds_list_head *regions)
{
	bool may_ask;

	pthread_mutex_lock(&session->lock);
	cds_list_splice(&session->deferred, regions);
	CDS_INIT_LIST_HEAD(&session->deferred);
	session->nr_lingering = 0;
	may_ask = clock_ns() >= session->deferred_after;
	pthread_mutex_unlock(&session->lock);
	return may_ask;
}

static void give_back(struct afar_session *session, struct afar_region *region)
{
	pthread_mutex_lock(&session->lock);
	cds_list_add(&region->deferred, &session->deferred);
	session->nr_lingering++;
	pthread_mutex_unlock(&session->lock);
}

static void pause_asking(struct afar_session *session)
{
	pthread_mutex_lock(&session->lock);
	session->deferred_after = clock_deadline_ms(PAUSE_MS);
	pthread_mutex_unlock(&session->lock);
}

void regions_settle(struct afar_session *session, bool may_ask)
{
	uint64_t deadline = ask_deadline(session);
	struct afar_region *region, *next;
	CDS_LIST_HEAD(regions);

	if (session->nr_lingering == 0)
		return;
	may_ask = take_all(session, &regions) && may_ask;
	cds_list_for_each_entry_safe (region, next, &regions, deferred) {
		cds_list_del(&region->deferred);
		if (may_ask && target_is_in_doubt(&region->target))
			target_settle_all(&region->target, deadline);
		/* Connecting must not wait for a manager that is away. */
		if (!target_is_in_doubt(&region->target) && session_is_up(session)) {
			region_leave(region);
			continue;
		}
		give_back(session, region);
		if (may_ask)
			pause_asking(session);
	}
}

void region_defer_close(struct afar_region *region)
{
	struct afar_session *session = region->target.session;

	target_settle_all(&region->target, ask_deadline(session));
	if (target_is_in_doubt(&region->target))
		give_back(session, region);
	else
		region_leave(region);
}

void regions_forget(struct afar_session *session)
{
	struct afar_region *region, *next;

	cds_list_for_each_entry_safe (region, next, &session->deferred, deferred)
		region_drop(region);
	CDS_INIT_LIST_HEAD(&session->deferred);
}
