/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables: linking, finding, unlinking. */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "manager/state.h"

/* ---- Trees */

static int order(uint64_t left, uint64_t right)
{
	return left < right ? -1 : left > right;
}

#define COMPARE_BY(name, type, field)                              \
	static int name(const void *left, const void *right)       \
	{                                                          \
		return order(((const struct type *)left)->field,   \
			     ((const struct type *)right)->field); \
	}

COMPARE_BY(namespaces_by_number, namespace, number)
COMPARE_BY(servers_by_number, server, number)
COMPARE_BY(sessions_by_number, session, number)
COMPARE_BY(regions_by_generation, region, generation)
COMPARE_BY(regions_by_address, region, address)
COMPARE_BY(references_by_generation, reference, generation)

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
	int found = order(a->server->number, b->server->number);

	if (found == 0)
		found = order(a->incarnation, b->incarnation);
	return found != 0 ? found : order(a->number, b->number);
}

typedef int compare_items(const void *left, const void *right);

static int tree_add(void **root, void *item, compare_items *compare)
{
	void **at = tsearch(item, root, compare);

	if (at == NULL)
		return error_code(-ENOMEM);
	return *at == item ? 0 : error_code(-EEXIST);
}

static void *tree_find(void *const *root, const void *key, compare_items *compare)
{
	void **at = tfind(key, root, compare);

	return at != NULL ? *at : NULL;
}

static void keep(void *item)
{
	(void)item;
}

/* ---- The whole */

struct state *state_open(void)
{
	struct state *state = calloc(1, sizeof(*state));

	if (state == NULL)
		return NULL;
	CDS_INIT_LIST_HEAD(&state->namespaces);
	CDS_INIT_LIST_HEAD(&state->servers);
	CDS_INIT_LIST_HEAD(&state->sessions);
	CDS_INIT_LIST_HEAD(&state->ending);
	state->next_namespace = 1;
	state->next_server = 1;
	state->next_generation = 1;
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

static void free_namespaces(struct state *state)
{
	struct namespace *ns, *next_ns;
	struct region *region, *next;

	cds_list_for_each_entry_safe (ns, next_ns, &state->namespaces, node) {
		cds_list_for_each_entry_safe (region, next, &ns->regions, node)
			region_free(region);
		cds_list_for_each_entry_safe (region, next, &ns->freed, node)
			region_free(region);
		tdestroy(ns->regions_by_name, keep);
		tdestroy(ns->regions_by_address, keep);
		namespace_free(ns);
	}
}

static void free_sessions(struct cds_list_head *sessions)
{
	struct session *session, *next_session;
	struct reference *reference, *next_reference;
	struct outcome *outcome, *next;

	cds_list_for_each_entry_safe (session, next_session, sessions, node) {
		cds_list_for_each_entry_safe (reference, next_reference, &session->references,
					      session_node)
			free(reference);
		cds_list_for_each_entry_safe (outcome, next, &session->outcomes, node)
			free(outcome);
		tdestroy(session->references_by_generation, keep);
		session_free(session);
	}
}

void state_close(struct state *state)
{
	if (state == NULL)
		return;
	tdestroy(state->namespaces_by_number, keep);
	tdestroy(state->namespaces_by_name, keep);
	tdestroy(state->servers_by_number, keep);
	tdestroy(state->sessions_by_number, keep);
	tdestroy(state->regions_by_generation, keep);
	tdestroy(state->extents_by_place, keep);
	free_sessions(&state->sessions);
	free_sessions(&state->ending);
	free_namespaces(state);
	free_servers(state);
	free(state);
}

/* ---- Namespaces */

struct namespace *namespace_new(const char *name)
{
	struct namespace *ns = calloc(1, sizeof(*ns));

	if (ns == NULL)
		return NULL;
	ns->name = strdup(name);
	if (ns->name == NULL) {
		free(ns);
		return NULL;
	}
	CDS_INIT_LIST_HEAD(&ns->regions);
	CDS_INIT_LIST_HEAD(&ns->freed);
	CDS_INIT_LIST_HEAD(&ns->extents);
	return ns;
}

void namespace_free(struct namespace *ns)
{
	free(ns->name);
	free(ns);
}

int state_add_namespace(struct state *state, struct namespace *ns)
{
	int rc = tree_add(&state->namespaces_by_number, ns, namespaces_by_number);

	if (rc < 0)
		return rc;
	if (!ns->is_deleted) {
		rc = tree_add(&state->namespaces_by_name, ns, namespaces_by_name);
		if (rc < 0) {
			tdelete(ns, &state->namespaces_by_number, namespaces_by_number);
			return rc;
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

	if (server != NULL)
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
	int rc = tree_add(&state->servers_by_number, server, servers_by_number);

	if (rc == 0)
		cds_list_add_tail(&server->node, &state->servers);
	return rc;
}

struct server *state_server(const struct state *state, uint64_t number)
{
	struct server key = {.number = number};

	return tree_find(&state->servers_by_number, &key, servers_by_number);
}

void state_remove_server(struct state *state, struct server *server)
{
	tdelete(server, &state->servers_by_number, servers_by_number);
	cds_list_del(&server->node);
	server_free(server);
}

int state_add_extent(struct state *state, struct server *server, uint64_t incarnation,
		     uint64_t number, struct namespace *ns, uint64_t namespace_number,
		     uint64_t length, struct extent **out)
{
	struct extent *extent = calloc(1, sizeof(*extent));
	int rc;

	if (extent == NULL)
		return error_code(-ENOMEM);
	*extent = (struct extent){.server = server,
				  .incarnation = incarnation,
				  .number = number,
				  .namespace_number = namespace_number,
				  .ns = ns,
				  .length = length,
				  .is_releasing = ns == NULL};
	rc = space_open(&extent->space, length);
	if (rc == 0)
		rc = tree_add(&state->extents_by_place, extent, extents_by_place);
	if (rc < 0) {
		extent_free(extent);
		return rc;
	}
	cds_list_add_tail(&extent->server_node, &server->extents);
	server->granted_bytes += length;
	if (ns != NULL) {
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
	leave_namespace(extent);
	extent->is_releasing = true;
	extent->is_release_sent = false;
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
	if (extent->ns != NULL) {
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
	int rc = tree_add(&ns->regions_by_address, region, regions_by_address);

	if (rc < 0)
		return rc;
	if (region->name[0] != '\0') {
		rc = tree_add(&ns->regions_by_name, region, regions_by_name);
		if (rc < 0) {
			tdelete(region, &ns->regions_by_address, regions_by_address);
			return rc;
		}
	}
	link_in_order(ns, region);
	ns->nr_regions++;
	return 0;
}

int state_add_region(struct state *state, struct region *region)
{
	struct namespace *ns = region->ns;
	int rc = tree_add(&state->regions_by_generation, region, regions_by_generation);

	if (rc < 0)
		return rc;
	if (region->is_freed) {
		cds_list_add_tail(&region->node, &ns->freed);
	} else {
		rc = link_live_region(ns, region);
		if (rc < 0) {
			tdelete(region, &state->regions_by_generation, regions_by_generation);
			return rc;
		}
	}
	for (size_t i = 0; i < region->nr_chunks; i++) {
		if (region->chunks[i].extent != NULL)
			ns->allocated_bytes += region->chunks[i].length;
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

	if (region != NULL)
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
	unlink_live_region(region);
	region->is_freed = true;
	cds_list_add_tail(&region->node, &region->ns->freed);
}

int state_remove_region(struct state *state, struct region *region)
{
	int rc = 0;

	for (size_t i = 0; i < region->nr_chunks && rc == 0; i++) {
		struct chunk *chunk = &region->chunks[i];

		if (chunk->extent == NULL)
			continue;
		rc = space_give(&chunk->extent->space, chunk->offset, chunk->length);
		if (rc == 0)
			region->ns->allocated_bytes -= chunk->length;
		chunk->extent = NULL;
	}
	if (rc < 0)
		return rc;
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

/* ---- Sessions */

struct session *session_new(const char *client)
{
	struct session *session = calloc(1, sizeof(*session));

	if (session == NULL)
		return NULL;
	session->client = strdup(client);
	if (session->client == NULL) {
		free(session);
		return NULL;
	}
	CDS_INIT_LIST_HEAD(&session->references);
	CDS_INIT_LIST_HEAD(&session->outcomes);
	return session;
}

void session_free(struct session *session)
{
	explicit_bzero(session->secret, sizeof(session->secret));
	free(session->client);
	free(session->fences);
	free(session);
}

int state_add_session(struct state *state, struct session *session)
{
	int rc = tree_add(&state->sessions_by_number, session, sessions_by_number);

	if (rc == 0)
		cds_list_add_tail(&session->node,
				  session->is_ending ? &state->ending : &state->sessions);
	return rc;
}

struct session *state_session(const struct state *state, uint64_t number)
{
	struct session key = {.number = number};

	return tree_find(&state->sessions_by_number, &key, sessions_by_number);
}

void state_end_session(struct state *state, struct session *session)
{
	session->is_ending = true;
	cds_list_move(&session->node, &state->ending);
}

void state_remove_session(struct state *state, struct session *session)
{
	struct outcome *outcome, *next;

	cds_list_for_each_entry_safe (outcome, next, &session->outcomes, node)
		session_remove_outcome(session, outcome);
	tdelete(session, &state->sessions_by_number, sessions_by_number);
	cds_list_del(&session->node);
	session_free(session);
}

int state_add_reference(struct session *session, struct region *region, uint64_t count,
			struct reference **out)
{
	struct reference *reference = calloc(1, sizeof(*reference));
	int rc;

	if (reference == NULL)
		return error_code(-ENOMEM);
	reference->region = region;
	reference->session = session;
	reference->generation = region->generation;
	reference->count = count;
	rc = tree_add(&session->references_by_generation, reference, references_by_generation);
	if (rc < 0) {
		free(reference);
		return rc;
	}
	cds_list_add_tail(&reference->region_node, &region->references);
	cds_list_add_tail(&reference->session_node, &session->references);
	session->nr_references++;
	*out = reference;
	return 0;
}

struct reference *session_reference(const struct session *session, uint64_t generation)
{
	struct reference key = {.generation = generation};

	return tree_find(&session->references_by_generation, &key, references_by_generation);
}

void state_remove_reference(struct reference *reference)
{
	tdelete(reference, &reference->session->references_by_generation, references_by_generation);
	cds_list_del(&reference->region_node);
	cds_list_del(&reference->session_node);
	reference->session->nr_references--;
	free(reference);
}

int session_add_outcome(struct session *session, uint64_t request_id, enum outcome_kind kind,
			uint64_t value)
{
	struct outcome *outcome = calloc(1, sizeof(*outcome));

	if (outcome == NULL)
		return error_code(-ENOMEM);
	outcome->request_id = request_id;
	outcome->kind = kind;
	outcome->value = value;
	cds_list_add_tail(&outcome->node, &session->outcomes);
	session->nr_outcomes++;
	return 0;
}

const struct outcome *session_outcome(const struct session *session, uint64_t request_id)
{
	struct outcome *outcome;

	cds_list_for_each_entry (outcome, &session->outcomes, node)
		if (outcome->request_id == request_id)
			return outcome;
	return NULL;
}

void session_remove_outcome(struct session *session, struct outcome *outcome)
{
	cds_list_del(&outcome->node);
	session->nr_outcomes--;
	free(outcome);
}
