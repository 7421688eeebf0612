/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespaces: create, open, delete, list, and giving reserved memory back. */
#include <errno.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <afar/afar.h>

#include "base/log.h"
#include "base/text.h"
#include "manager/connections/callers.h"
#include "manager/connections/rights.h"
#include "manager/files/files.h"
#include "manager/members/principals.h"
#include "manager/regions/info.h"
#include "manager/regions/namespaces.h"
#include "manager/regions/regions.h"
#include "manager/regions/volumes.h"
#include "manager/space/references.h"
#include "manager/space/trims.h"

#define STRIPE_MIN     ((uint64_t)4096)
#define STRIPE_MAX     ((uint64_t)1 << 30)
#define STRIPE_DEFAULT ((uint64_t)1 << 20)

static bool is_namespace_name(const char *name)
{
	size_t length = strlen(name);

	if (length == 0 || length > AFAR_NAME_MAX || name[0] == '.' || name[0] == '-')
		return false;
	return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
	       length;
}

/* A name, and what the caller takes it for. */
struct named {
	const char *name;
	bool is_volume, is_files;
};

static int check_name(const char *asked, const char *kind, const char *name)
{
	if (is_namespace_name(name))
		return 0;
	return error_fail(
		-EINVAL,
		"%s %s '%s': that is no name for one; use 1 to %d of A-Z a-z 0-9 . _ -, not "
		"beginning with . or -",
		asked, kind, name, AFAR_NAME_MAX);
}

/* One that the caller may not see is missing to it. */
static int fail_missing(const struct core *core, const struct session *session, const char *what,
			const char *command)
{
	if (is_operator(core, session))
		return error_fail(-ENOENT, "%s: there is none; see 'afar %s ls', or create it",
				  what, command);
	return error_fail(
		-ENOENT,
		"%s: there is none on which '%s' has a right; see 'afar %s ls', create it, "
		"or ask its owner ('afar ns grant')",
		what, session->principal, command);
}

/* Finds what the caller takes for a volume or a file system, whatever it is. */
static int find_named(const struct core *core, const struct session *session, const char *asked,
		      const struct named *named, uint32_t rights, struct namespace **out)
{
	const char *kind = kind_noun(named->is_volume, named->is_files);
	char what[64 + AFAR_NAME_MAX];
	int ret = check_name(asked, kind, named->name);

	if (ret < 0)
		return ret;
	snprintf(what, sizeof(what), "%s %s '%s'", asked, kind, named->name);
	*out = state_namespace_named(core->state, named->name);
	if (!*out || !rights_see(core, session, *out))
		return fail_missing(core, session, what,
				    kind_command(named->is_volume, named->is_files));
	return rights_check(core, session, *out, rights, what);
}

static int check_policy(const Afar__Policy *policy)
{
	if (policy->tier != AFAR_TIER_DRAM && policy->tier != AFAR_TIER_FLASH)
		return error_fail(
			-EOPNOTSUPP,
			"create a namespace: tier %u is unknown to this manager; use tier 0 "
			"(dram) or 1 (flash)",
			policy->tier);
	if (policy->width > LAYOUT_WIDTH_MAX)
		return error_fail(-EINVAL, "create a namespace: a width of %u servers; use 0 to %u",
				  policy->width, LAYOUT_WIDTH_MAX);
	if (policy->stripe_bytes != 0 &&
	    (policy->stripe_bytes < STRIPE_MIN || policy->stripe_bytes > STRIPE_MAX ||
	     (policy->stripe_bytes & (policy->stripe_bytes - 1)) != 0))
		return error_fail(
			-EINVAL,
			"create a namespace: a stripe unit of %llu bytes; use a power of two "
			"from 4 KiB to 1 GiB",
			(unsigned long long)policy->stripe_bytes);
	return 0;
}

int namespace_create(struct core *core, struct session *session, struct event *event)
{
	const Afar__NamespaceCreate *ask = event->request->namespace_create;
	const Afar__Policy defaults = AFAR__POLICY__INIT;
	const Afar__Policy *policy = ask->policy ? ask->policy : &defaults;
	struct namespace *ns;
	int ret = check_name("create", kind_noun(ask->is_volume, ask->is_files), ask->name);

	if (ret == 0)
		ret = check_policy(policy);
	if (ret < 0)
		return ret;
	ns = state_namespace_named(core->state, ask->name);
	if (ns && !rights_see(core, session, ns))
		return error_fail(-EEXIST, "create %s '%s': the name is taken; take another",
				  kind_noun(ask->is_volume, ask->is_files), ask->name);
	if (ns)
		return error_fail(
			-EEXIST,
			"create %s '%s': it exists, as a %s; open it, or take another name",
			kind_noun(ask->is_volume, ask->is_files), ask->name, namespace_noun(ns));
	ns = namespace_new(ask->name, session->principal);
	if (!ns)
		return error_code(-ENOMEM);
	if (RAND_bytes((unsigned char *)&ns->identity, sizeof(ns->identity)) != 1) {
		namespace_free(ns);
		return error_fail(-EIO, "create a namespace: no random numbers");
	}
	ns->number = core->state->next_namespace;
	ns->tier = policy->tier;
	ns->width = policy->width != 0 ? policy->width : LAYOUT_WIDTH_MAX;
	ns->stripe_bytes = policy->stripe_bytes != 0 ? policy->stripe_bytes : STRIPE_DEFAULT;
	ns->max_bytes = policy->max_bytes;
	ns->is_volume = ask->is_volume;
	ns->is_files = ask->is_volume && ask->is_files;
	ns->next_address = STATE_SECOND_ADDRESS;
	ret = state_add_namespace(core->state, ns);
	if (ret == 0)
		ret = undo_room(core->undo, 1);
	if (ret < 0)
		return ret;
	undo_set(core->undo, core->state->next_namespace, ns->number + 1);
	store_put_cluster(core->store, core->state);
	store_put_namespace(core->store, ns);
	if (ns->is_files)
		ret = files_create(core, ns, ask);
	event->outcome_kind = OUTCOME_NAMESPACE;
	event->outcome_value = ns->number;
	return ret;
}

int namespace_open(struct core *core, struct session *session, struct event *event)
{
	const Afar__NamespaceOpen *ask = event->request->namespace_open;
	const struct named named = {ask->name, ask->is_volume, ask->is_files};
	struct namespace *ns;
	int ret = find_named(core, session, "open", &named, RIGHT_READ, &ns);

	if (ret < 0)
		return ret;
	event->reply->namespace_info = info_namespace(core, session, ns);
	if (!event->reply->namespace_info)
		return error_code(-ENOMEM);
	event->reply->result_case = AFAR__REPLY__RESULT_NAMESPACE_INFO;
	return 0;
}

/* ---- Deleting */

/* Returns a reference to a region of it, of a session that goes on; NULL: there is none. */
static const struct reference *find_open(const struct namespace *ns)
{
	const struct cds_list_head *const lists[] = {&ns->regions, &ns->freed};
	struct reference *reference;
	struct region *region;

	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		cds_list_for_each_entry (region, lists[i], node)
			cds_list_for_each_entry (reference, &region->references, region_node)
				if (!reference->session->is_ending)
					return reference;
	return NULL;
}

static int fail_open(const struct core *core, const struct namespace *ns,
		     const struct reference *reference)
{
	char holder[HOLDER_TEXT_MAX];

	reference_describe(core, reference, "close it there first", holder);
	return error_fail(-EBUSY,
			  "remove namespace '%s', of which the region '%s' at 0x%llx is open: %s",
			  ns->name, reference->region->name,
			  (unsigned long long)reference->region->address, holder);
}

/* No number that somebody keeps of before, as a file handle or a volume's mark, finds something else that got the same number since. */
static int set_identity(struct core *core, struct namespace *ns)
{
	uint64_t identity;

	if (RAND_bytes((unsigned char *)&identity, sizeof(identity)) != 1)
		return error_fail(-EIO, "set the identity of '%s': no random numbers", ns->name);
	undo_set(core->undo, ns->identity, identity);
	return 0;
}

/* A volume or a file system grows into what is free of its extents, which reads as zeros: others'
 * bytes may be there now. Newly reserved space is zeros. */
static int release_unused(struct core *core, struct namespace *ns)
{
	struct extent *extent, *next;
	int ret = 0;

	cds_list_for_each_entry_safe (extent, next, &ns->extents, namespace_node) {
		if (ret < 0 || extent_used(extent) != extent->trimming_bytes)
			continue;
		ret = state_leave_trims(core->state, extent);
		if (ret == 0)
			ret = namespace_release_extent(core, extent);
	}
	return ret == 0 ? trims_settle(core) : ret;
}

int namespace_accept(struct core *core, struct session *session, struct event *event)
{
	const char *name = event->request->namespace_accept->name;
	struct namespace *ns = state_namespace_named(core->state, name);
	int ret = undo_room(core->undo, 2);

	if (!ns)
		return error_fail(-ENOENT,
				  "accept the older records of '%.255s': there is no namespace, "
				  "volume or file system of this name",
				  name);
	if (!ns->is_suspect)
		return error_fail(-EALREADY,
				  "accept the older records of '%s': they wait for nobody's word",
				  ns->name);
	if (ret == 0)
		ret = set_identity(core, ns);
	if (ret < 0)
		return ret;
	log_warn("'%s' accepts that the records of %s '%s' are an older copy's", session->principal,
		 namespace_noun(ns), ns->name);
	undo_set(core->undo, ns->is_suspect, false);
	store_put_namespace(core->store, ns);
	trims_resume(core);
	ret = ns->is_files ? files_scrub_free(core, ns) : 0;
	return ret == 0 && ns->is_volume ? release_unused(core, ns) : ret;
}

/* Regions that an ending session still pins stay until it is fenced. Those that wait for trims wait
 * no longer: whole extents are released. */
static int free_regions(struct core *core, struct namespace *ns)
{
	struct region *region, *next;
	int ret = 0;

	cds_list_for_each_entry_safe (region, next, &ns->freed, node)
		if (region->trims && ret == 0)
			ret = region_remove(core, region);
	if (ret < 0)
		return ret;
	cds_list_for_each_entry_safe (region, next, &ns->regions, node) {
		if (!cds_list_empty(&region->references)) {
			ret = region_end(core, region);
		} else {
			store_delete_region(core->store, region);
			ret = state_remove_region(core->state, region);
		}
		if (ret < 0)
			break;
	}
	return ret;
}

int namespace_delete(struct core *core, struct session *session, struct event *event)
{
	const Afar__NamespaceDelete *ask = event->request->namespace_delete;
	const struct named named = {ask->name, ask->is_volume, ask->is_files};
	const struct reference *reference;
	struct namespace *ns;
	int ret = find_named(core, session, "remove", &named, RIGHT_OWN, &ns);

	if (ret < 0)
		return ret;
	if (ns->is_volume || ask->is_volume) {
		ret = volume_check_delete(core, ns, ask);
		if (ret < 0)
			return ret;
	}
	if (ns->nr_regions != 0 && !ask->with_regions)
		return error_fail(
			-ENOTEMPTY,
			"remove namespace '%s': it has %llu region%s; remove what it has first, or "
			"ask for its removal, too",
			ns->name, (unsigned long long)ns->nr_regions, text_plural(ns->nr_regions));
	reference = find_open(ns);
	if (reference)
		return fail_open(core, ns, reference);
	ret = free_regions(core, ns);
	if (ret == 0 && ns->is_files)
		ret = files_delete(core, ns);
	if (ret == 0)
		ret = state_delete_namespace(core->state, ns);
	if (ret < 0)
		return ret;
	store_put_namespace(core->store, ns);
	return namespace_finish(core, ns);
}

/* ---- Listing */

struct listing {
	const struct core *core;
	const struct session *session;
	const char *after;
	const struct namespace **found;
	size_t nr_found;
	size_t max;
};

static bool list_one(void *argument, void *row)
{
	const struct namespace *ns = row;
	struct listing *listing = argument;

	if (strcmp(ns->name, listing->after) > 0 && rights_see(listing->core, listing->session, ns))
		listing->found[listing->nr_found++] = ns;
	return listing->nr_found < listing->max;
}

int namespace_list(struct core *core, struct session *session, struct event *event)
{
	const Afar__NamespaceList *ask = event->request->namespace_list;
	const struct namespace *found[CORE_LIST_MAX];
	struct listing listing = {.core = core,
				  .session = session,
				  .after = ask->after,
				  .found = found,
				  .max = CORE_LIST_MAX};
	Afar__NamespaceInfos *infos;

	if (ask->max != 0 && ask->max < CORE_LIST_MAX)
		listing.max = ask->max;
	tree_walk(core->state->namespaces_by_name, list_one, &listing);

	infos = MESSAGE_NEW(afar__namespace_infos, Afar__NamespaceInfos);
	if (!infos)
		return error_code(-ENOMEM);
	event->reply->namespace_infos = infos;
	event->reply->result_case = AFAR__REPLY__RESULT_NAMESPACE_INFOS;
	infos->entries = calloc(listing.nr_found + 1, sizeof(*infos->entries));
	for (size_t i = 0; i < listing.nr_found && infos->entries; i++) {
		infos->entries[i] = info_namespace(core, session, found[i]);
		if (!infos->entries[i])
			break;
		infos->n_entries++;
	}
	return infos->n_entries == listing.nr_found ? 0 : error_code(-ENOMEM);
}

/* ---- Giving reserved memory back */

static int largest_first(const void *left, const void *right)
{
	const struct extent *a = *(struct extent *const *)left, *b = *(struct extent *const *)right;

	return a->length > b->length ? -1 : a->length < b->length;
}

/* Returns how much less than `bytes` is released when extents are taken in this order. */
static uint64_t missing(struct extent *const *extents, size_t nr, uint64_t bytes)
{
	for (size_t i = 0; i < nr; i++)
		bytes -= extents[i]->length <= bytes ? extents[i]->length : 0;
	return bytes;
}

int namespace_give_back(struct core *core, struct namespace *ns, uint64_t bytes, uint64_t *given)
{
	struct extent *extent, **unused = NULL;
	uint64_t left = bytes;
	size_t nr = 0, max = 0;
	int ret = files_shrink(core, ns, bytes);

	if (ret < 0)
		return ret;
	cds_list_for_each_entry (extent, &ns->extents, namespace_node)
		max++;
	unused = calloc(max + 1, sizeof(struct extent *));
	if (!unused)
		return error_code(-ENOMEM);
	cds_list_for_each_entry_reverse(extent, &ns->extents, namespace_node)
	{
		if (extent_used(extent) == extent->trimming_bytes)
			unused[nr++] = extent;
	}
	/* The last that were reserved, if they make the sum: whoever reserved it gives it back so. */
	if (missing(unused, nr, left) != 0)
		qsort(unused, nr, sizeof(struct extent *), largest_first);
	for (size_t i = 0; i < nr && ret == 0; i++) {
		if (unused[i]->length > left)
			continue;
		left -= unused[i]->length;
		ret = state_leave_trims(core->state, unused[i]);
		if (ret == 0)
			ret = namespace_release_extent(core, unused[i]);
	}
	free(unused);
	if (ret == 0 && left != bytes)
		ret = trims_settle(core);
	*given = bytes - left;
	return ret;
}

int namespace_release(struct core *core, struct session *session, struct event *event)
{
	const Afar__NamespaceRelease *ask = event->request->namespace_release;
	struct namespace *ns;
	int ret = core_namespace(core, session, "release memory", ask->namespace_, RIGHT_OWN, &ns);

	if (ret == 0)
		ret = namespace_check_records(ns, "release memory");
	if (ret < 0)
		return ret;
	if (ask->bytes == 0)
		return error_fail(-EINVAL, "release memory of '%s': 0 bytes; say how much",
				  ns->name);
	event->outcome_kind = OUTCOME_RELEASED;
	return namespace_give_back(core, ns, ask->bytes, &event->outcome_value);
}
