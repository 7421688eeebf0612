/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables but for sessions: linking, finding, unlinking. */
#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/error.h"
#include "manager/state_private.h"

/* ---- Trees */

COMPARE_BY(principals_by_number, principal, number)
COMPARE_BY(namespaces_by_number, namespace, number)
COMPARE_BY(servers_by_number, server, number)
COMPARE_BY(regions_by_generation, region, generation)
COMPARE_BY(regions_by_address, region, address)

static int principals_by_name(const void *left, const void *right)
{
	return strcmp(((const struct principal *)left)->name,
		      ((const struct principal *)right)->name);
}

static int namespaces_by_name(const void *left, const void *right)
{
	return strcmp(((const struct namespace *)left)->name,
		      ((const struct namespace *)right)->name);
}

static int regions_by_name(const void *left, const void *right)
{
	return strcmp(((const struct region *)left)->name, ((const struct region *)right)->name);
}

static int extents_by_place(const void *left, const void *right)
{
	const struct extent *a = left, *b = right;
	int found = state_order(a->server->number, b->server->number);

	if (found == 0)
		found = state_order(a->incarnation, b->incarnation);
	return found != 0 ? found : state_order(a->number, b->number);
}

int tree_add(void **root, void *item, compare_items *compare)
{
	void **at = tsearch(item, root, compare);

	if (!at)
		return error_code(-ENOMEM);
	return *at == item ? 0 : error_code(-EEXIST);
}

void *tree_find(void *const *root, const void *key, compare_items *compare)
{
	void **at = tfind(key, root, compare);

	return at ? *at : NULL;
}

void tree_keep(void *item)
{
	(void)item;
}

/* ---- The whole */

struct state *state_open(void)
{
	struct state *state = calloc(1, sizeof(*state));

	if (!state)
		return NULL;
	CDS_INIT_LIST_HEAD(&state->principals);
	CDS_INIT_LIST_HEAD(&state->namespaces);
	CDS_INIT_LIST_HEAD(&state->servers);
	CDS_INIT_LIST_HEAD(&state->removals);
	CDS_INIT_LIST_HEAD(&state->sessions);
	CDS_INIT_LIST_HEAD(&state->ending);
	state->next_namespace = 1;
	state->next_server = 1;
	state->next_generation = 1;
	state->next_principal = 1;
	return state;
}

static void extent_free(struct extent *extent)
{
	space_close(&extent->space);
	free(extent);
}

/* Without unlinking: everything goes. */
static void free_servers(struct state *state)
{
	struct server *server, *next_server;
	struct extent *extent, *next;

	cds_list_for_each_entry_safe (server, next_server, &state->servers, node) {
		cds_list_for_each_entry_safe (extent, next, &server->extents, server_node)
			extent_free(extent);
		server_free(server);
	}
}

static void free_removals(struct state *state)
{
	struct removal *removal, *next;

	cds_list_for_each_entry_safe (removal, next, &state->removals, node)
		free(removal);
}

static void free_namespaces(struct state *state)
{
	struct namespace *ns, *next_ns;
	struct region *region, *next;

	cds_list_for_each_entry_safe (ns, next_ns, &state->namespaces, node) {
		cds_list_for_each_entry_safe (region, next, &ns->regions, node)
			region_free(region);
		cds_list_for_each_entry_safe (region, next, &ns->freed, node)
			region_free(region);
		tdestroy(ns->regions_by_name, tree_keep);
		tdestroy(ns->regions_by_address, tree_keep);
		namespace_free(ns);
	}
}

static void free_principals(struct state *state)
{
	struct principal *principal, *next;

	cds_list_for_each_entry_safe (principal, next, &state->principals, node)
		principal_free(principal);
}

void state_close(struct state *state)
{
	if (!state)
		return;
	tdestroy(state->principals_by_number, tree_keep);
	tdestroy(state->principals_by_name, tree_keep);
	tdestroy(state->namespaces_by_number, tree_keep);
	tdestroy(state->namespaces_by_name, tree_keep);
	tdestroy(state->servers_by_number, tree_keep);
	tdestroy(state->sessions_by_number, tree_keep);
	tdestroy(state->regions_by_generation, tree_keep);
	tdestroy(state->extents_by_place, tree_keep);
	state_free_sessions(&state->sessions);
	state_free_sessions(&state->ending);
	free_namespaces(state);
	free_servers(state);
	free_removals(state);
	free_principals(state);
	free(state);
}

/* ---- Principals */

struct principal *principal_new(uint64_t number, const char *name)
{
	struct principal *principal = calloc(1, sizeof(*principal));

	if (!principal)
		return NULL;
	principal->number = number;
	snprintf(principal->name, sizeof(principal->name), "%s", name);
	return principal;
}

void principal_free(struct principal *principal)
{
	OPENSSL_cleanse(principal, sizeof(*principal));
	free(principal);
}

int state_add_principal(struct state *state, struct principal *principal)
{
	int ret = tree_add(&state->principals_by_number, principal, principals_by_number);

	if (ret < 0)
		return ret;
	ret = tree_add(&state->principals_by_name, principal, principals_by_name);
	if (ret < 0) {
		tdelete(principal, &state->principals_by_number, principals_by_number);
		return ret;
	}
	cds_list_add_tail(&principal->node, &state->principals);
	state->nr_principals++;
	return 0;
}

struct principal *state_principal(const struct state *state, uint64_t number)
{
	struct principal key = {.number = number};

	return tree_find(&state->principals_by_number, &key, principals_by_number);
}

struct principal *state_principal_named(const struct state *state, const char *name)
{
	struct principal key;

	if (strlen(name) > KEY_PRINCIPAL_MAX)
		return NULL;
	strcpy(key.name, name);
	return tree_find(&state->principals_by_name, &key, principals_by_name);
}

void state_remove_principal(struct state *state, struct principal *principal)
{
	tdelete(principal, &state->principals_by_name, principals_by_name);
	tdelete(principal, &state->principals_by_number, principals_by_number);
	cds_list_del(&principal->node);
	state->nr_principals--;
	principal_free(principal);
}

/* ---- Namespaces */

struct namespace *namespace_new(const char *name, const char *owner)
{
	struct namespace *ns = calloc(1, sizeof(*ns));

	if (!ns)
		return NULL;
	ns->name = strdup(name);
	if (!ns->name) {
		free(ns);
		return NULL;
	}
	snprintf(ns->owner, sizeof(ns->owner), "%s", owner);
	CDS_INIT_LIST_HEAD(&ns->regions);
	CDS_INIT_LIST_HEAD(&ns->freed);
	CDS_INIT_LIST_HEAD(&ns->extents);
	return ns;
}

void namespace_free(struct namespace *ns)
{
	free(ns->name);
	free(ns->grants);
	free(ns);
}

static struct grant *find_grant(const struct namespace *ns, const char *principal)
{
	for (size_t i = 0; i < ns->nr_grants; i++)
		if (strcmp(ns->grants[i].principal, principal) == 0)
			return &ns->grants[i];
	return NULL;
}

uint32_t namespace_granted(const struct namespace *ns, const char *principal)
{
	const struct grant *grant = find_grant(ns, principal);

	return grant ? grant->rights : 0;
}

int namespace_set_grant(struct namespace *ns, const char *principal, uint32_t rights)
{
	struct grant *grant = find_grant(ns, principal), *more;

	if (grant && rights == 0) {
		*grant = ns->grants[--ns->nr_grants];
		return 0;
	}
	if (!grant && rights != 0) {
		more = reallocarray(ns->grants, ns->nr_grants + 1, sizeof(*more));
		if (!more)
			return error_code(-ENOMEM);
		ns->grants = more;
		grant = &more[ns->nr_grants++];
		snprintf(grant->principal, sizeof(grant->principal), "%s", principal);
	}
	if (grant)
		grant->rights = rights;
	return 0;
}

int state_add_namespace(struct state *state, struct namespace *ns)
{
	int ret = tree_add(&state->namespaces_by_number, ns, namespaces_by_number);

	if (ret < 0)
		return ret;
	if (!ns->is_deleted) {
		ret = tree_add(&state->namespaces_by_name, ns, namespaces_by_name);
		if (ret < 0) {
			tdelete(ns, &state->namespaces_by_number, namespaces_by_number);
			return ret;
		}
	}
	cds_list_add_tail(&ns->node, &state->namespaces);
	return 0;
}

struct namespace *state_namespace(const struct state *state, uint64_t number)
{
	struct namespace key = {.number = number};

	return tree_find(&state->namespaces_by_number, &key, namespaces_by_number);
}

struct namespace *state_namespace_named(const struct state *state, const char *name)
{
	struct namespace key = {.name = (char *)(uintptr_t)name};

	return tree_find(&state->namespaces_by_name, &key, namespaces_by_name);
}

void state_delete_namespace(struct state *state, struct namespace *ns)
{
	ns->is_deleted = true;
	tdelete(ns, &state->namespaces_by_name, namespaces_by_name);
}

void state_remove_namespace(struct state *state, struct namespace *ns)
{
	assert(cds_list_empty(&ns->regions) && cds_list_empty(&ns->freed) &&
	       cds_list_empty(&ns->extents));
	if (!ns->is_deleted)
		tdelete(ns, &state->namespaces_by_name, namespaces_by_name);
	tdelete(ns, &state->namespaces_by_number, namespaces_by_number);
	cds_list_del(&ns->node);
	namespace_free(ns);
}

/* ---- Servers and extents */

struct server *server_new(void)
{
	struct server *server = calloc(1, sizeof(*server));

	if (server)
		CDS_INIT_LIST_HEAD(&server->extents);
	return server;
}

void server_free(struct server *server)
{
	for (size_t i = 0; i < server->nr_lanes; i++) {
		free(server->lanes[i].transport);
		free(server->lanes[i].address);
	}
	free(server->lanes);
	free(server->name);
	free(server->control_address);
	free(server);
}

int state_add_server(struct state *state, struct server *server)
{
	int ret = tree_add(&state->servers_by_number, server, servers_by_number);

	if (ret == 0)
		cds_list_add_tail(&server->node, &state->servers);
	return ret;
}

struct server *state_server(const struct state *state, uint64_t number)
{
	struct server key = {.number = number};

	return tree_find(&state->servers_by_number, &key, servers_by_number);
}

void state_remove_server(struct state *state, struct server *server)
{
	assert(cds_list_empty(&server->extents));
	tdelete(server, &state->servers_by_number, servers_by_number);
	cds_list_del(&server->node);
	server_free(server);
}

int state_add_removal(struct state *state, uint64_t server, uint64_t incarnation,
		      struct removal **out)
{
	struct removal *removal = calloc(1, sizeof(*removal));

	if (!removal)
		return error_code(-ENOMEM);
	removal->server = server;
	removal->incarnation = incarnation;
	cds_list_add_tail(&removal->node, &state->removals);
	*out = removal;
	return 0;
}

bool state_is_removed(const struct state *state, uint64_t incarnation)
{
	const struct removal *removal;

	cds_list_for_each_entry (removal, &state->removals, node)
		if (removal->incarnation == incarnation)
			return true;
	return false;
}

void state_move_extent(struct extent *extent, enum extent_state to)
{
	static const unsigned allowed[] = {
		[EXTENT_GRANTED] = 1U << EXTENT_DRAINING | 1U << EXTENT_FENCED,
		[EXTENT_DRAINING] = 1U << EXTENT_TOLD | 1U << EXTENT_FENCED,
		[EXTENT_TOLD] = 1U << EXTENT_DRAINING | 1U << EXTENT_FENCED,
		[EXTENT_FENCED] = 0,
	};

	assert((allowed[extent->state] & 1U << to) != 0);
	/* In a namespace, or on its way out. */
	assert((extent->ns != NULL) == (extent->state == EXTENT_GRANTED));
	extent->state = to;
}

bool extent_is_releasing(const struct extent *extent)
{
	return extent->state == EXTENT_DRAINING || extent->state == EXTENT_TOLD;
}

int state_add_extent(struct state *state, struct server *server, uint64_t incarnation,
		     uint64_t number, struct namespace *ns, uint64_t namespace_number,
		     uint64_t length, struct extent **out)
{
	struct extent *extent = calloc(1, sizeof(*extent));
	int ret;

	if (!extent)
		return error_code(-ENOMEM);
	*extent = (struct extent){.server = server,
				  .incarnation = incarnation,
				  .number = number,
				  .namespace_number = namespace_number,
				  .ns = ns,
				  .length = length,
				  .state = ns ? EXTENT_GRANTED : EXTENT_DRAINING};
	ret = space_open(&extent->space, length);
	if (ret == 0)
		ret = tree_add(&state->extents_by_place, extent, extents_by_place);
	if (ret < 0) {
		extent_free(extent);
		return ret;
	}
	cds_list_add_tail(&extent->server_node, &server->extents);
	server->granted_bytes += length;
	if (ns) {
		cds_list_add_tail(&extent->namespace_node, &ns->extents);
		ns->reserved_bytes += length;
	} else {
		server->releasing_bytes += length;
	}
	*out = extent;
	return 0;
}

struct extent *state_extent(const struct state *state, uint64_t server, uint64_t incarnation,
			    uint64_t number)
{
	struct server at = {.number = server};
	struct extent key = {.server = &at, .incarnation = incarnation, .number = number};

	return tree_find(&state->extents_by_place, &key, extents_by_place);
}

uint64_t extent_used(const struct extent *extent)
{
	return extent->length - extent->space.free_bytes;
}

static void leave_namespace(struct extent *extent)
{
	extent->ns->reserved_bytes -= extent->length;
	extent->ns->allocated_bytes -= extent_used(extent);
	cds_list_del(&extent->namespace_node);
	extent->ns = NULL;
}

void state_release_extent(struct extent *extent)
{
	assert(extent_used(extent) == 0);
	state_move_extent(extent, EXTENT_DRAINING);
	leave_namespace(extent);
	extent->server->releasing_bytes += extent->length;
}

static void lose_chunks(struct cds_list_head *regions, const struct extent *extent)
{
	struct region *region;

	cds_list_for_each_entry (region, regions, node) {
		for (size_t i = 0; i < region->nr_chunks; i++) {
			if (region->chunks[i].extent != extent)
				continue;
			region->chunks[i].extent = NULL;
			region->is_lost = true;
		}
	}
}

void state_remove_extent(struct state *state, struct extent *extent)
{
	state_move_extent(extent, EXTENT_FENCED);
	if (extent->ns) {
		if (extent_used(extent) != 0) {
			lose_chunks(&extent->ns->regions, extent);
			lose_chunks(&extent->ns->freed, extent);
		}
		leave_namespace(extent);
	} else {
		extent->server->releasing_bytes -= extent->length;
	}
	extent->server->granted_bytes -= extent->length;
	tdelete(extent, &state->extents_by_place, extents_by_place);
	cds_list_del(&extent->server_node);
	extent_free(extent);
}

/* ---- Regions */

void region_free(struct region *region)
{
	free(region->name);
	free(region->groups);
	free(region->chunks);
	free(region);
}

/* Addresses only go up, but for the first one's, which is taken again: the list stays in their order. */
static void link_in_order(struct namespace *ns, struct region *region)
{
	if (region->address < STATE_SECOND_ADDRESS)
		cds_list_add(&region->node, &ns->regions);
	else
		cds_list_add_tail(&region->node, &ns->regions);
}

static int link_live_region(struct namespace *ns, struct region *region)
{
	int ret = tree_add(&ns->regions_by_address, region, regions_by_address);

	if (ret < 0)
		return ret;
	if (region->name[0] != '\0') {
		ret = tree_add(&ns->regions_by_name, region, regions_by_name);
		if (ret < 0) {
			tdelete(region, &ns->regions_by_address, regions_by_address);
			return ret;
		}
	}
	link_in_order(ns, region);
	ns->nr_regions++;
	return 0;
}

uint64_t chunk_span(const struct region *region, const struct chunk *chunk)
{
	return chunk->length + (region->is_sealed ? checksum_bytes(chunk->length) : 0);
}

int state_add_region(struct state *state, struct region *region)
{
	struct namespace *ns = region->ns;
	int ret = tree_add(&state->regions_by_generation, region, regions_by_generation);

	if (ret < 0)
		return ret;
	if (region->is_freed) {
		cds_list_add_tail(&region->node, &ns->freed);
	} else {
		ret = link_live_region(ns, region);
		if (ret < 0) {
			tdelete(region, &state->regions_by_generation, regions_by_generation);
			return ret;
		}
	}
	for (size_t i = 0; i < region->nr_chunks; i++) {
		if (region->chunks[i].extent)
			ns->allocated_bytes += chunk_span(region, &region->chunks[i]);
		else
			region->is_lost = true;
	}
	return 0;
}

struct region *state_region(const struct state *state, uint64_t generation)
{
	struct region key = {.generation = generation};

	return tree_find(&state->regions_by_generation, &key, regions_by_generation);
}

struct region *namespace_region_named(const struct namespace *ns, const char *name)
{
	struct region key = {.name = (char *)(uintptr_t)name};

	return tree_find(&ns->regions_by_name, &key, regions_by_name);
}

struct region *namespace_region_at(const struct namespace *ns, uint64_t address)
{
	struct region key = {.address = address};

	return tree_find(&ns->regions_by_address, &key, regions_by_address);
}

struct region *namespace_region_above(const struct namespace *ns, uint64_t address)
{
	struct region *region = namespace_region_at(ns, address);

	if (region)
		return region->node.next == &ns->regions
			       ? NULL
			       : cds_list_entry(region->node.next, struct region, node);
	cds_list_for_each_entry (region, &ns->regions, node)
		if (region->address > address)
			return region;
	return NULL;
}

static void unlink_live_region(struct region *region)
{
	struct namespace *ns = region->ns;

	tdelete(region, &ns->regions_by_address, regions_by_address);
	if (region->name[0] != '\0')
		tdelete(region, &ns->regions_by_name, regions_by_name);
	cds_list_del(&region->node);
	ns->nr_regions--;
}

void state_free_region(struct region *region)
{
	assert(!region->is_freed);
	unlink_live_region(region);
	region->is_freed = true;
	cds_list_add_tail(&region->node, &region->ns->freed);
}

/* To the spaces of their extents. */
static int give_chunks(struct region *region)
{
	int ret = 0;

	for (size_t i = 0; i < region->nr_chunks && ret == 0; i++) {
		struct chunk *chunk = &region->chunks[i];
		uint64_t span = chunk_span(region, chunk);

		if (!chunk->extent)
			continue;
		ret = space_give(&chunk->extent->space, chunk->offset, span);
		if (ret == 0)
			region->ns->allocated_bytes -= span;
		chunk->extent = NULL;
	}
	return ret;
}

int state_seal_region(struct region *region, struct group *groups, size_t nr_groups,
		      struct chunk *chunks, size_t nr_chunks)
{
	int ret = give_chunks(region);

	free(region->groups);
	free(region->chunks);
	region->groups = groups;
	region->nr_groups = nr_groups;
	region->chunks = chunks;
	region->nr_chunks = nr_chunks;
	region->is_sealed = true;
	region->layout_number++;
	return ret;
}

int state_remove_region(struct state *state, struct region *region)
{
	int ret;

	assert(cds_list_empty(&region->references));
	ret = give_chunks(region);
	if (ret < 0)
		return ret;
	if (region->is_freed)
		cds_list_del(&region->node);
	else
		unlink_live_region(region);
	tdelete(region, &state->regions_by_generation, regions_by_generation);
	region_free(region);
	return 0;
}

uint32_t region_nr_references(const struct region *region)
{
	struct reference *reference;
	uint32_t nr = 0;

	cds_list_for_each_entry (reference, &region->references, region_node)
		nr += !reference->session->is_ending;
	return nr;
}
