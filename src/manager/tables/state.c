/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables as a whole, and those of principals, namespaces and servers: linking, finding,
 * unlinking. */
#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "manager/tables/state_private.h"

/* ---- Trees */

COMPARE_BY(principals_by_number, principal, number)
COMPARE_BY(namespaces_by_number, namespace, number)
COMPARE_BY(servers_by_number, server, number)

static int principals_by_name(const void *left, const void *right)
{
	return strcmp(((const struct principal *)tree_row(left))->name,
		      ((const struct principal *)tree_row(right))->name);
}

static int namespaces_by_name(const void *left, const void *right)
{
	return strcmp(((const struct namespace *)tree_row(left))->name,
		      ((const struct namespace *)tree_row(right))->name);
}

/* ---- The whole */

struct state *state_open(struct undo *undo)
{
	struct state *state = calloc(1, sizeof(*state));

	if (!state)
		return NULL;
	state->undo = undo;
	CDS_INIT_LIST_HEAD(&state->principals);
	CDS_INIT_LIST_HEAD(&state->namespaces);
	CDS_INIT_LIST_HEAD(&state->servers);
	CDS_INIT_LIST_HEAD(&state->stores);
	CDS_INIT_LIST_HEAD(&state->trimming);
	CDS_INIT_LIST_HEAD(&state->removals);
	CDS_INIT_LIST_HEAD(&state->sessions);
	CDS_INIT_LIST_HEAD(&state->ending);
	state->next_namespace = 1;
	state->next_server = 1;
	state->next_generation = 1;
	state->next_principal = 1;
	return state;
}

static void server_free(struct server *server)
{
	free(server->texts);
	free(server);
}

/* For undo_made() and undo_gone(). */
static void destroy_principal(void *row)
{
	principal_free(row);
}

static void destroy_namespace(void *row)
{
	namespace_free(row);
}

static void destroy_server(void *row)
{
	server_free(row);
}

/* Without unlinking: everything goes. */
static void free_servers(struct state *state)
{
	struct server *server, *next;

	cds_list_for_each_entry_safe (server, next, &state->servers, node) {
		pool_free_extents(&server->dram);
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
		tree_close(&ns->regions_by_name);
		tree_close(&ns->regions_by_address);
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
	tree_close(&state->principals_by_number);
	tree_close(&state->principals_by_name);
	tree_close(&state->namespaces_by_number);
	tree_close(&state->namespaces_by_name);
	tree_close(&state->servers_by_number);
	tree_close(&state->stores_by_number);
	tree_close(&state->sessions_by_number);
	tree_close(&state->regions_by_generation);
	tree_close(&state->extents_by_place);
	state_free_sessions(&state->sessions);
	state_free_sessions(&state->ending);
	free_namespaces(state);
	free_servers(state);
	state_free_stores(state);
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

/* Counts the bytes that the name owned before it had this key. */
static uint64_t owned_bytes(const struct state *state, const char *owner)
{
	const struct namespace *ns;
	uint64_t bytes = 0;

	cds_list_for_each_entry (ns, &state->namespaces, node)
		if (strcmp(ns->owner, owner) == 0)
			bytes += ns->reserved_bytes;
	return bytes;
}

int state_add_principal(struct state *state, struct principal *principal)
{
	struct undo *undo = state->undo;
	int ret = undo_room(undo, 5);

	if (ret < 0) {
		principal_free(principal);
		return ret;
	}
	undo_made(undo, principal, destroy_principal);
	principal->reserved_bytes = owned_bytes(state, principal->name);
	ret = undo_tree_add(undo, &state->principals_by_number, principal, principals_by_number);
	if (ret == 0)
		ret = undo_tree_add(undo, &state->principals_by_name, principal,
				    principals_by_name);
	if (ret < 0)
		return ret;
	undo_link(undo, &principal->node, &state->principals);
	undo_set(undo, state->nr_principals, state->nr_principals + 1);
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

int state_remove_principal(struct state *state, struct principal *principal)
{
	struct undo *undo = state->undo;
	int ret = undo_room(undo, 5);

	if (ret < 0)
		return ret;
	undo_tree_remove(undo, &state->principals_by_name, principal, principals_by_name);
	undo_tree_remove(undo, &state->principals_by_number, principal, principals_by_number);
	undo_unlink(undo, &principal->node);
	undo_set(undo, state->nr_principals, state->nr_principals - 1);
	undo_gone(undo, principal, destroy_principal);
	return 0;
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

static const struct grant *find_grant(const struct namespace *ns, const char *principal)
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

/* The grants are made anew: those from before stay for whoever takes this back. */
int state_set_grant(struct state *state, struct namespace *ns, const char *principal,
		    uint32_t rights)
{
	struct undo *undo = state->undo;
	struct grant *grants;
	size_t nr = 0;
	int ret = undo_room(undo, 4);

	if (ret < 0)
		return ret;
	grants = calloc(ns->nr_grants + 1, sizeof(*grants));
	if (!grants)
		return error_code(-ENOMEM);
	for (size_t i = 0; i < ns->nr_grants; i++)
		if (strcmp(ns->grants[i].principal, principal) != 0)
			grants[nr++] = ns->grants[i];
	if (rights != 0) {
		snprintf(grants[nr].principal, sizeof(grants[nr].principal), "%s", principal);
		grants[nr++].rights = rights;
	}
	undo_made(undo, grants, free);
	undo_gone(undo, ns->grants, free);
	undo_set(undo, ns->grants, grants);
	undo_set(undo, ns->nr_grants, nr);
	return 0;
}

int state_add_namespace(struct state *state, struct namespace *ns)
{
	struct undo *undo = state->undo;
	int ret = undo_room(undo, 4);

	if (ret < 0) {
		namespace_free(ns);
		return ret;
	}
	undo_made(undo, ns, destroy_namespace);
	ret = undo_tree_add(undo, &state->namespaces_by_number, ns, namespaces_by_number);
	if (ret == 0 && !ns->is_deleted)
		ret = undo_tree_add(undo, &state->namespaces_by_name, ns, namespaces_by_name);
	if (ret < 0)
		return ret;
	undo_link(undo, &ns->node, &state->namespaces);
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

int state_delete_namespace(struct state *state, struct namespace *ns)
{
	int ret = undo_room(state->undo, 2);

	if (ret < 0)
		return ret;
	undo_set(state->undo, ns->is_deleted, true);
	undo_tree_remove(state->undo, &state->namespaces_by_name, ns, namespaces_by_name);
	return 0;
}

int state_remove_namespace(struct state *state, struct namespace *ns)
{
	struct undo *undo = state->undo;
	int ret = undo_room(undo, 3);

	assert(ns->is_deleted && cds_list_empty(&ns->regions) && cds_list_empty(&ns->freed) &&
	       cds_list_empty(&ns->extents));
	if (ret < 0)
		return ret;
	undo_tree_remove(undo, &state->namespaces_by_number, ns, namespaces_by_number);
	undo_unlink(undo, &ns->node);
	undo_gone(undo, ns, destroy_namespace);
	return 0;
}

/* ---- Servers */

struct server *server_new(void)
{
	struct server *server = calloc(1, sizeof(*server));

	if (!server)
		return NULL;
	server->dram.server = server;
	CDS_INIT_LIST_HEAD(&server->dram.extents);
	return server;
}

int state_add_server(struct state *state, struct server *server)
{
	struct undo *undo = state->undo;
	int ret = undo_room(undo, 3);

	if (ret < 0) {
		server_free(server);
		return ret;
	}
	undo_made(undo, server, destroy_server);
	ret = undo_tree_add(undo, &state->servers_by_number, server, servers_by_number);
	if (ret < 0)
		return ret;
	undo_link(undo, &server->node, &state->servers);
	return 0;
}

static size_t texts_length(const struct server_texts *texts)
{
	size_t length = texts->nr_lanes * sizeof(struct lane) + strlen(texts->name) + 1 +
			strlen(texts->control_address) + 1;

	for (size_t i = 0; i < texts->nr_lanes; i++)
		length +=
			strlen(texts->lanes[i].transport) + 1 + strlen(texts->lanes[i].address) + 1;
	return length;
}

/* Copies a text to `*at`, and moves that behind it. */
static const char *copy_text(char **at, const char *text)
{
	char *copy = *at;

	*at = stpcpy(copy, text) + 1;
	return copy;
}

int state_describe_server(struct state *state, struct server *server,
			  const struct server_texts *texts)
{
	struct lane *lanes = malloc(texts_length(texts));
	char *at = (char *)(lanes + texts->nr_lanes);
	struct undo *undo = state->undo;
	int ret;

	if (!lanes)
		return error_code(-ENOMEM);
	ret = undo_room(undo, 7 + UNDO_NOTES_OF(sizeof(server->principal)));
	if (ret < 0) {
		free(lanes);
		return ret;
	}
	undo_made(undo, lanes, free);
	undo_gone(undo, server->texts, free);
	undo_set(undo, server->texts, lanes);
	undo_set(undo, server->lanes, lanes);
	undo_set(undo, server->nr_lanes, texts->nr_lanes);
	undo_set(undo, server->name, copy_text(&at, texts->name));
	undo_set(undo, server->control_address, copy_text(&at, texts->control_address));
	undo_save(undo, server->principal, sizeof(server->principal));
	snprintf(server->principal, sizeof(server->principal), "%s", texts->principal);
	for (size_t i = 0; i < texts->nr_lanes; i++) {
		lanes[i].transport = copy_text(&at, texts->lanes[i].transport);
		lanes[i].address = copy_text(&at, texts->lanes[i].address);
		lanes[i].store = texts->lanes[i].store;
	}
	return 0;
}

struct server *state_server(const struct state *state, uint64_t number)
{
	struct server key = {.number = number};

	return tree_find(&state->servers_by_number, &key, servers_by_number);
}

int state_remove_server(struct state *state, struct server *server)
{
	struct undo *undo = state->undo;
	int ret = undo_room(undo, 3);

	assert(cds_list_empty(&server->dram.extents));
	if (ret < 0)
		return ret;
	undo_tree_remove(undo, &state->servers_by_number, server, servers_by_number);
	undo_unlink(undo, &server->node);
	undo_gone(undo, server, destroy_server);
	return 0;
}

int state_add_removal(struct state *state, uint64_t server, uint64_t incarnation,
		      struct removal **out)
{
	struct removal *removal;
	int ret = undo_room(state->undo, 2);

	if (ret < 0)
		return ret;
	removal = calloc(1, sizeof(*removal));
	if (!removal)
		return error_code(-ENOMEM);
	removal->server = server;
	removal->incarnation = incarnation;
	undo_made(state->undo, removal, free);
	undo_link(state->undo, &removal->node, &state->removals);
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
