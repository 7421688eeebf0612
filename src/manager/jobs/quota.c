/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of what may be reserved; see quota.h. The tables count what is reserved, of a namespace and
 * of a principal (state_memory.c). Jobs whose servers have not answered yet are in no table: each has
 * a claim, which those behind it heed.
 */
#include "manager/jobs/quota.h"
#include "manager/connections/callers.h"
#include "manager/connections/rights.h"
#include "manager/jobs/job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define AMOUNT_TEXT_MAX 32

/* Returns what a limit leaves; `max` 0 is no limit. */
static uint64_t left(uint64_t max, uint64_t used)
{
	if (max == 0)
		return UINT64_MAX;
	return used < max ? max - used : 0;
}

/* The principal whose limit counts for the namespace; NULL: it has none. */
static const struct principal *limited_owner(const struct core *core, const struct namespace *ns)
{
	const struct principal *owner = state_principal_named(core->state, ns->owner);

	/* A name that is in a key file too has the file's key. */
	if (!owner || owner->max_bytes == 0 ||
	    keyring_file_kind(core->keyring, owner->name) != PRINCIPAL_UNKNOWN)
		return NULL;
	return owner;
}

static uint64_t owner_left(const struct core *core, const struct namespace *ns)
{
	const struct principal *owner = limited_owner(core, ns);

	return owner ? left(owner->max_bytes, owner->reserved_bytes) : UINT64_MAX;
}

/* Says how much that is, in MiB if it is so many. */
static const char *amount(uint64_t bytes, char out[AMOUNT_TEXT_MAX])
{
	bool is_round = bytes % ((uint64_t)1 << 20) == 0;

	snprintf(out, AMOUNT_TEXT_MAX, "%llu %s",
		 (unsigned long long)(is_round ? bytes >> 20 : bytes), is_round ? "MiB" : "bytes");
	return out;
}

int quota_check(const struct core *core, const struct namespace *ns, uint64_t bytes)
{
	const struct principal *owner = limited_owner(core, ns);
	char asked[AMOUNT_TEXT_MAX], max[AMOUNT_TEXT_MAX], has[AMOUNT_TEXT_MAX];

	amount(bytes, asked);
	if (bytes > left(ns->max_bytes, ns->reserved_bytes))
		return error_fail(-EDQUOT,
				  "reserve %s for '%s': its limit is %s, and it has %s; release "
				  "some ('afar ns release'), or see 'afar %s set --max'",
				  asked, ns->name, amount(ns->max_bytes, max),
				  amount(ns->reserved_bytes, has), ns->is_files ? "fs" : "ns");
	if (owner && bytes > left(owner->max_bytes, owner->reserved_bytes))
		return error_fail(-EDQUOT,
				  "reserve %s for '%s': the limit of its owner '%s' is %s, and all "
				  "that '%s' owns has %s; release or remove some, or ask an "
				  "operator for more ('afar key set --max')",
				  asked, ns->name, owner->name, amount(owner->max_bytes, max),
				  owner->name, amount(owner->reserved_bytes, has));
	return 0;
}

uint64_t quota_room(const struct core *core, const struct namespace *ns)
{
	const uint64_t of_namespace = left(ns->max_bytes, ns->reserved_bytes);
	const uint64_t of_owner = owner_left(core, ns);

	return of_namespace < of_owner ? of_namespace : of_owner;
}

/* ---- Jobs */

static uint64_t claimed(const struct core *core, const struct claims *claims)
{
	return claims->pass == core->claims_pass ? claims->bytes : 0;
}

/* Not beyond 2^64. */
static uint64_t sum(uint64_t a, uint64_t b)
{
	return a < UINT64_MAX - b ? a + b : UINT64_MAX;
}

static void add_claim(const struct core *core, struct claims *claims, uint64_t bytes)
{
	claims->bytes = sum(claimed(core, claims), bytes);
	claims->pass = core->claims_pass;
}

void quota_begin(struct core *core)
{
	core->claims_pass++;
}

/*
 * Jobs keep the order in which they began, and wait only for those before them. So the first always
 * goes on, and nobody waits in a circle. One that was cancelled has its claim until its servers have
 * answered: else somebody who cancels again and again could have servers populate any amount.
 */
void quota_count(struct core *core, const struct job *job)
{
	struct namespace *ns =
		job->claim != 0 ? state_namespace(core->state, job->namespace_number) : NULL;
	struct principal *owner = ns ? state_principal_named(core->state, ns->owner) : NULL;

	if (ns)
		add_claim(core, &ns->claims, job->claim);
	if (owner)
		add_claim(core, &owner->claims, job->claim);
}

int quota_claim(const struct core *core, struct job *job, const struct namespace *ns,
		uint64_t bytes)
{
	const struct principal *owner = limited_owner(core, ns);
	int ret = quota_check(core, ns, bytes);

	job->claim = bytes;
	job->is_queued =
		sum(claimed(core, &ns->claims), bytes) > left(ns->max_bytes, ns->reserved_bytes);
	if (owner && sum(claimed(core, &owner->claims), bytes) >
			     left(owner->max_bytes, owner->reserved_bytes))
		job->is_queued = true;
	return ret;
}

/* ---- Setting and telling */

void quota_tell_owner(const struct core *core, const struct namespace *ns,
		      Afar__NamespaceInfo *info)
{
	const struct principal *owner = limited_owner(core, ns);

	if (!owner)
		return;
	info->owner_max_bytes = owner->max_bytes;
	info->owner_reserved_bytes = owner->reserved_bytes;
}

int namespace_limit(struct core *core, struct session *session, struct event *event)
{
	const Afar__NamespaceLimit *ask = event->request->namespace_limit;
	struct namespace *ns;
	int ret =
		core_namespace(core, session, "limit a namespace", ask->namespace_, RIGHT_OWN, &ns);

	if (ret == 0)
		ret = undo_room(core->undo, 1);
	if (ret < 0)
		return ret;
	undo_set(core->undo, ns->max_bytes, ask->max_bytes);
	store_put_namespace(core->store, ns);
	log_info("%s '%s' may have %llu bytes now (0: no limit)", namespace_noun(ns), ns->name,
		 (unsigned long long)ns->max_bytes);
	return 0;
}

static int check_limited(const struct core *core, const char *name)
{
	switch (core_principal_kind(core, name)) {
	case PRINCIPAL_CLIENT:
		return 0;
	case PRINCIPAL_OPERATOR:
		return error_fail(-EINVAL,
				  "limit key '%s': it is an operator's, which has no limit; limit "
				  "its namespaces ('afar ns set --max')",
				  name);
	case PRINCIPAL_SERVER:
		return error_fail(-EINVAL,
				  "limit key '%s': it is a server's, which owns no namespaces",
				  name);
	case PRINCIPAL_UNKNOWN:
		break;
	}
	return error_fail(-ENOENT, "limit key '%s': there is none; see 'afar key ls'", name);
}

int key_limit(struct core *core, struct session *session, struct event *event)
{
	const Afar__KeyLimit *ask = event->request->key_limit;
	struct principal *principal;
	int ret = check_limited(core, ask->name);

	(void)session;
	if (ret == 0)
		ret = undo_room(core->undo, 1);
	if (ret < 0)
		return ret;
	principal = state_principal_named(core->state, ask->name);
	undo_set(core->undo, principal->max_bytes, ask->max_bytes);
	store_put_principal(core->store, principal);
	log_info("all that '%s' owns may have %llu bytes now (0: no limit)", principal->name,
		 (unsigned long long)principal->max_bytes);
	return 0;
}
