/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps the claim to write versions of copy-on-write regions, while they are used. The manager gives the claim of a writer that
 * does not use it to others. Reads and writes are one-sided, so it does not see them. Each notes that its target is used, which
 * is one bit. The control thread tells the manager of versions that were used since it looked last, several times while a claim
 * lasts. A program that does nothing tells nothing, and loses the claim.
 */
#include <errno.h>

#include "client/namespace/region.h"
#include "client/namespace/versions_handle.h"
#include "client/region/versions_use.h"

#define LOOKS	  6U /* while a claim lasts */
#define DELAY_MIN 10U
#define AT_ONCE	  64U

/* Views on a version have its family, too. */
static bool is_draft(const struct afar_target *target)
{
	return target->family && !target->is_fixed && !target->is_published;
}

/* Takes the next version that was used. The caller holds the session's lock. */
static bool take(struct afar_target *target, Afar__RegionUse *out)
{
	bool is_taken;

	/* The thread with the lock may be about to take the handle to another version: next
	 * time. */
	if (!is_draft(target) || !target->is_used || pthread_mutex_trylock(&target->lock) != 0)
		return false;
	is_taken = !target->is_published && atomic_exchange(&target->is_used, false);
	out->namespace_ = target->ns;
	out->address = target->address;
	out->generation = target->generation;
	pthread_mutex_unlock(&target->lock);
	return is_taken;
}

/* Takes up to AT_ONCE of them. Returns how many; `*has_drafts` says whether there are versions that are being written. */
static unsigned take_some(struct afar_session *session, Afar__RegionUse *out, bool *has_drafts)
{
	struct afar_target *target;
	unsigned nr = 0;

	*has_drafts = false;
	cds_list_for_each_entry (target, &session->targets, node) {
		*has_drafts |= is_draft(target);
		afar__region_use__init(&out[nr]);
		if (take(target, &out[nr]) && ++nr == AT_ONCE)
			break;
	}
	return nr;
}

static uint32_t delay_of(uint32_t claim_ms)
{
	return claim_ms / LOOKS > DELAY_MIN ? claim_ms / LOOKS : DELAY_MIN;
}

static void tell(struct afar_session *session, Afar__RegionUse *used, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {

		session_tell(session, RPC_REQUEST(REGION_USE, region_use, &used[i]));
	}
}

/* On the control thread. */
static void look(void *argument)
{
	struct afar_session *session = argument;
	Afar__RegionUse used[AT_ONCE];
	bool has_drafts = true;
	uint32_t claim_ms;
	unsigned nr = 0;

	do {
		pthread_mutex_lock(&session->lock);
		/* Uses that are not told now are told later. A manager that comes back begins all claims
		 * anew. */
		if (session->state == SESSION_UP)
			nr = take_some(session, used, &has_drafts);
		if (!has_drafts || session->state == SESSION_ENDED)
			session->claim_ms = 0;
		claim_ms = session->claim_ms;
		pthread_mutex_unlock(&session->lock);
		tell(session, used, nr);
	} while (nr == AT_ONCE);
	if (claim_ms)
		rpc_loop_timer(session->loop, delay_of(claim_ms), look, session);
}

void versions_keep(struct afar_region *region)
{
	struct afar_session *session = region->target.session;
	const uint32_t claim_ms = region->versions->claim_ms;
	bool is_first;

	if (!claim_ms) /* the manager is older */
		return;
	pthread_mutex_lock(&session->lock);
	is_first = !session->claim_ms;
	session->claim_ms = claim_ms;
	pthread_mutex_unlock(&session->lock);
	if (is_first)
		rpc_loop_timer(session->loop, delay_of(claim_ms), look, session);
}
