/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the metastore into the tables when the manager starts. Its records are this manager's own,
 * but a store can be damaged or mixed up. A record that does not decode or that contradicts the
 * others is an error, never a crash.
 */
#include <errno.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "manager/tables/store_private.h"
#include "rpc/capability.h"
#include "rpc/protobuf.h"

static int damaged(const char *what, uint64_t number)
{
	return error_fail(
		-EIO,
		"load the metastore: its record of %s %llu contradicts the others; restore "
		"the folder from a backup",
		what, (unsigned long long)number);
}

static int load_cluster(struct state *row, const void *message)
{
	const Stored__Cluster *record = message;

	if (record->format < STORE_FORMAT_OLDEST || record->format > STORE_FORMAT)
		return error_fail(
			-AFAR_EVERSION,
			"load the metastore: it has format %u, this manager knows %u; use "
			"the manager that wrote it",
			record->format, STORE_FORMAT);
	if (strlen(record->name) > STATE_CLUSTER_MAX)
		return damaged("cluster", 0);
	CLUSTER_FIELDS(STORE_TAKE);
	strcpy(row->cluster, record->name);
	if (record->next_principal != 0)
		row->next_principal = record->next_principal;
	row->term = (struct term){record->term, record->term_random};
	row->is_old = record->format < STORE_FORMAT;
	return 0;
}

static int load_past_terms(struct state *state, const void *message)
{
	const Stored__PastTerms *record = message;

	if (record->n_terms > STATE_TERMS_MAX)
		return damaged("cluster", 0);
	for (size_t i = 0; i < record->n_terms; i++)
		state->past_terms[i] =
			(struct term){record->terms[i]->number, record->terms[i]->random};
	state->nr_past_terms = (uint32_t)record->n_terms;
	return 0;
}

static int load_principal(struct state *state, const void *message)
{
	const Stored__Principal *record = message;
	struct principal *row;
	int ret;

	if (record->secret.len != KEY_BYTES || !key_is_principal(record->name) ||
	    record->number == 0 || record->n_gids > STATE_GROUPS_MAX)
		return damaged("principal", record->number);
	row = principal_new(record->number, record->name);
	if (!row)
		return error_code(-ENOMEM);
	PRINCIPAL_FIELDS(STORE_TAKE);
	for (size_t i = 0; i < record->n_gids; i++)
		row->gids[row->nr_gids++] = record->gids[i];
	memcpy(row->secret, record->secret.data, KEY_BYTES);
	ret = state_add_principal(state, row);
	return ret == -EEXIST ? damaged("principal", record->number) : ret;
}

static int load_namespace(struct state *state, const void *message)
{
	const Stored__Namespace *record = message;
	struct namespace *row;
	int ret;

	if (strlen(record->owner) > KEY_IDENTITY_MAX)
		return damaged("namespace", record->number);
	row = namespace_new(record->name, record->owner);
	if (!row)
		return error_code(-ENOMEM);
	NAMESPACE_FIELDS(STORE_TAKE);
	/* Older ones have none of their own; this will not be another's either. */
	if (row->identity == 0)
		row->identity = strtoull(state->cluster + strlen(state->cluster) / 2, NULL, 16) +
				record->number;
	state->is_old = state->is_old || record->identity == 0;
	ret = state_add_namespace(state, row);
	return ret == -EEXIST ? damaged("namespace", record->number) : ret;
}

static int load_grants(struct state *state, const void *message)
{
	const Stored__Grants *record = message;
	struct namespace *ns = state_namespace(state, record->namespace_);
	int ret = 0;

	if (!ns || record->n_grants == 0)
		return damaged("the grants of namespace", record->namespace_);
	for (size_t i = 0; i < record->n_grants && ret == 0; i++) {
		const Stored__Grant *grant = record->grants[i];

		if (strlen(grant->principal) > KEY_IDENTITY_MAX || grant->rights == 0 ||
		    (grant->rights & ~(uint32_t)RIGHT_ALL) != 0 ||
		    namespace_granted(ns, grant->principal) != 0)
			return damaged("the grants of namespace", record->namespace_);
		ret = state_set_grant(state, ns, grant->principal, grant->rights);
	}
	return ret;
}

static int describe_server(struct state *state, struct server *server, const Stored__Server *record)
{
	struct lane lanes[STATE_LANES_MAX];
	struct server_texts texts = {.name = record->name,
				     .principal = record->principal,
				     .control_address = record->control_address,
				     .lanes = lanes,
				     .nr_lanes = record->n_lanes};

	for (size_t i = 0; i < record->n_lanes; i++)
		lanes[i] = (struct lane){record->lanes[i]->transport, record->lanes[i]->address,
					 record->lanes[i]->store};
	return state_describe_server(state, server, &texts);
}

static int load_server(struct state *state, const void *message)
{
	const Stored__Server *record = message;
	struct server *server;
	int ret;

	if (strlen(record->principal) > KEY_IDENTITY_MAX || record->n_lanes > STATE_LANES_MAX)
		return damaged("server", record->number);
	server = server_new();
	if (!server)
		return error_code(-ENOMEM);
	server->number = record->number;
	server->incarnation = record->incarnation;
	server->dram.capacity_bytes = record->capacity_bytes;
	ret = state_add_server(state, server);
	if (ret == 0)
		ret = describe_server(state, server, record);
	return ret == -EEXIST ? damaged("server", record->number) : ret;
}

static int load_removal(struct state *state, const void *message)
{
	const Stored__Removal *record = message;
	struct removal *removal;

	return state_add_removal(state, record->server, record->incarnation, &removal);
}

static int load_store(struct state *state, const void *message)
{
	const Stored__Store *record = message;
	struct server *server = state_server(state, record->server);
	struct flash_store *store;
	int ret;

	if (record->uuid.len != STORE_UUID_BYTES || record->number == 0 ||
	    record->number != flash_store_number(record->uuid.data) ||
	    (!server && record->server != 0))
		return damaged("store", record->number);
	store = flash_store_new(record->number);
	if (!store)
		return error_code(-ENOMEM);
	memcpy(store->uuid, record->uuid.data, STORE_UUID_BYTES);
	store->pool.capacity_bytes = record->capacity_bytes;
	store->pool.server = server;
	store->accepted = (struct store_join){record->opening, record->random};
	store->opening = record->present_opening;
	ret = state_add_store(state, store);
	if (ret == 0)
		ret = state_set_store_path(state, store, record->path);
	return ret == -EEXIST ? damaged("store", record->number) : ret;
}

/* True: extents of this class may be there, and the namespace's regions in them. NULL: they are
 * being released. */
static bool is_class_of(const Stored__Extent *record, const struct namespace *ns)
{
	bool is_flash = record->class_ == CLASS_FLASH;

	return record->class_ < NR_CLASSES && is_flash == record->is_store &&
	       (!ns || is_flash == (namespace_class(ns) == CLASS_FLASH));
}

static int load_extent(struct state *state, const void *message)
{
	const Stored__Extent *record = message;
	const struct layout_home home = {
		.server = record->server, .life = record->life, .is_store = record->is_store};
	struct pool *pool = state_pool(state, &home);
	struct namespace *ns = NULL;
	struct extent like, *extent;
	int ret;

	if (!record->is_releasing)
		ns = state_namespace(state, record->namespace_);
	if (!pool || (record->is_store && record->server != 0) || !is_class_of(record, ns) ||
	    (!ns && !record->is_releasing) || record->length == 0 ||
	    record->length % SPACE_UNIT != 0)
		return damaged("extent", record->number);
	like = (struct extent){.pool = pool,
			       .life = record->life,
			       .number = record->number,
			       .ns = ns,
			       .namespace_number = record->namespace_,
			       .length = record->length,
			       .class = (enum extent_class)record->class_};
	ret = state_add_extent(state, &like, &extent);
	return ret == -EEXIST ? damaged("extent", record->number) : ret;
}

/* Loads the layout of a record of format 1 or 2. */
static int load_old_layout(const Stored__Region *record, struct layout *layout)
{
	int ret = 0;

	layout->is_sealed = record->is_sealed;
	for (size_t i = 0; i < record->n_groups && ret == 0; i++) {
		const Stored__OldGroup *group = record->groups[i];

		if (group->n_chunks == 0)
			return error_code(-EINVAL);
		ret = layout_add_group(layout, group->chunks[0]->length, record->stripe_bytes);
		for (size_t j = 0; j < group->n_chunks && ret == 0; j++) {
			const Stored__OldChunk *chunk = group->chunks[j];
			const struct layout_home home = {.server = chunk->server,
							 .life = chunk->incarnation};

			ret = layout_add_chunk(layout, &home, chunk->extent, chunk->offset);
		}
		if (ret == 0)
			layout_set_last(layout, group->length);
	}
	return ret;
}

static int load_layout(const Stored__Region *record, struct region *region)
{
	const char *why;
	int ret;

	if (record->layout) {
		ret = layout_unpack(record->layout, &region->layout, &why);
	} else {
		region->layout = layout_new();
		ret = region->layout ? load_old_layout(record, region->layout)
				     : error_code(-ENOMEM);
	}
	if (ret == 0 &&
	    region->layout->length != region->length + (record->has_word ? STATE_WORD_BYTES : 0))
		ret = error_code(-EINVAL);
	return ret;
}

/* Takes what the layout has out of the spaces of its extents. Those that have gone are left out:
 * state_add_region() finds the region lost. */
static int take_layout(const struct state *state, const struct region *region)
{
	const struct layout *layout = region->layout;
	const enum extent_class class =
		layout->is_sealed ? CLASS_DRAM_SEALED : namespace_class(region->ns);
	const struct region *relative =
		region->family != 0 ? namespace_family(region->ns, region->family, region->address)
				    : NULL;
	int ret = 0;

	for (uint32_t i = 0; i < layout->nr_copies && ret == 0; i++) {
		const struct layout_copy *copy = &layout->copies[i];
		struct extent *extent = state_extent_of(state, layout, copy);

		/* A region that waits for trims does not wait for what is being released. */
		if (!extent || (region->is_freed && extent_is_releasing(extent)))
			continue;
		if (extent->ns != region->ns || extent->class != class)
			return error_code(-EINVAL);
		if (relative && region_is_shared(relative, region, i))
			continue;
		ret = space_take_at(&extent->space, copy->offset, layout_copy_span(layout, copy));
	}
	return ret;
}

static int load_region(struct state *state, const void *message)
{
	const Stored__Region *record = message;
	struct namespace *ns = state_namespace(state, record->namespace_);
	struct region *row;
	int ret;

	if (!ns || (record->is_draft && !record->is_freed))
		return damaged("region", record->generation);
	row = calloc(1, sizeof(*row));
	if (!row)
		return error_code(-ENOMEM);
	CDS_INIT_LIST_HEAD(&row->references);
	REGION_FIELDS(STORE_TAKE);
	row->ns = ns;
	row->name = strdup(record->name);
	ret = row->name ? load_layout(record, row) : error_code(-ENOMEM);
	if (ret == 0)
		ret = take_layout(state, row);
	if (ret == 0)
		ret = state_add_region(state, row);
	else
		region_free(row);
	return ret == -EEXIST || ret == -EINVAL ? damaged("region", record->generation) : ret;
}

static int load_session(struct state *state, const void *message)
{
	const Stored__Session *record = message;
	struct session *session;
	int ret;

	if (record->secret.len != STATE_SECRET_BYTES ||
	    strlen(record->principal) > KEY_IDENTITY_MAX)
		return damaged("session", record->number);
	session = session_new(record->client, record->principal);
	if (!session)
		return error_code(-ENOMEM);
	session->number = record->number;
	session->is_ending = record->is_ending;
	memcpy(session->secret, record->secret.data, STATE_SECRET_BYTES);
	session->fences = calloc(record->n_fences + 1, sizeof(*session->fences));
	session->namespaces = calloc(record->n_namespaces + 1, sizeof(*session->namespaces));
	ret = session->fences && session->namespaces ? 0 : error_code(-ENOMEM);
	for (size_t i = 0; i < record->n_namespaces && ret == 0; i++)
		session->namespaces[session->nr_namespaces++] = record->namespaces[i];
	for (size_t i = 0; i < record->n_fences && ret == 0; i++)
		session->fences[session->nr_fences++] = (struct fence){
			.server = record->fences[i]->server,
			.incarnation = record->fences[i]->incarnation,
		};
	session->nr_awaited = session->nr_fences;
	if (ret == 0)
		ret = state_add_session(state, session);
	else
		session_free(session);
	return ret == -EEXIST ? damaged("session", record->number) : ret;
}

static int load_reference(struct state *state, const void *message)
{
	const Stored__Reference *record = message;
	struct session *session = state_session(state, record->session);
	struct region *region = state_region(state, record->generation);
	struct reference *reference;
	int ret;

	if (!session || !region || record->count == 0 || record->mode > VOLUME_READ_ONLY)
		return damaged("an open region of session", record->session);
	ret = state_add_reference(state, session, region, record->count, &reference);
	if (ret == 0)
		reference->mode = (enum volume_mode)record->mode;
	return ret == -EEXIST ? damaged("an open region of session", record->session) : ret;
}

static int load_outcome(struct state *state, const void *message)
{
	const Stored__Outcome *record = message;
	struct session *session = state_session(state, record->session);

	if (!session || record->kind > OUTCOME_RESULTS)
		return damaged("a reply of session", record->session);
	return state_add_outcome(state, session, record->request_id,
				 (enum outcome_kind)record->kind, record->value);
}

/* ---- All kinds */

struct loader {
	enum store_kind kind;
	const ProtobufCMessageDescriptor *descriptor;
	int (*load)(struct state *state, const void *message);
};

static const struct loader loaders[] = {
	{STORE_CLUSTER, &stored__cluster__descriptor, load_cluster},
	{STORE_PAST_TERMS, &stored__past_terms__descriptor, load_past_terms},
	{STORE_PRINCIPAL, &stored__principal__descriptor, load_principal},
	{STORE_NAMESPACE, &stored__namespace__descriptor, load_namespace},
	{STORE_GRANTS, &stored__grants__descriptor, load_grants},
	{STORE_SERVER, &stored__server__descriptor, load_server},
	{STORE_REMOVAL, &stored__removal__descriptor, load_removal},
	{STORE_FLASH, &stored__store__descriptor, load_store},
	{STORE_EXTENT, &stored__extent__descriptor, load_extent},
	{STORE_REGION, &stored__region__descriptor, load_region},
	{STORE_SESSION, &stored__session__descriptor, load_session},
	{STORE_REFERENCE, &stored__reference__descriptor, load_reference},
	{STORE_OUTCOME, &stored__outcome__descriptor, load_outcome},
};

struct loading {
	const struct loader *loader;
	struct state *state;
};

static int load_record(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	const struct loading *loading = argument;
	ProtobufCMessage *message = protobuf_c_message_unpack(loading->loader->descriptor, NULL,
							      value.length, value.data);
	int ret;

	if (!message)
		return error_fail(
			-EIO,
			"load the metastore: a record under '%c' (%zu bytes of key, %zu of "
			"value) is damaged; restore the folder from a backup",
			(int)loading->loader->kind, key.length, value.length);
	ret = loading->loader->load(loading->state, message);
	protobuf_c_message_free_unpacked(message, &protobuf_wiping); /* some have secrets */
	if (ret == 0)
		undo_keep(loading->state->undo);
	return ret;
}

static int make_cluster(struct store *store, struct state *state)
{
	uint64_t numbers[2];

	if (RAND_bytes((unsigned char *)numbers, sizeof(numbers)) != 1)
		return error_fail(-EIO, "start a new cluster: no random numbers");
	snprintf(state->cluster, sizeof(state->cluster), "%016llx%016llx",
		 (unsigned long long)numbers[0], (unsigned long long)numbers[1]);
	store_put_cluster(store, state);
	return store_commit(store, NULL, NULL);
}

/* Keeps older managers from opening the store: they would not heed its rights, or find no
 * layouts. */
static int renew_format(struct store *store, struct state *state)
{
	const struct namespace *ns;
	const struct region *region;

	store_put_cluster(store, state);
	cds_list_for_each_entry (ns, &state->namespaces, node) {
		store_put_namespace(store, ns);
		cds_list_for_each_entry (region, &ns->regions, node)
			store_put_region(store, region);
		cds_list_for_each_entry (region, &ns->freed, node)
			store_put_region(store, region);
	}
	state->is_old = false;
	return store_commit(store, NULL, NULL);
}

int store_load(struct store *store, struct state **out)
{
	struct metastore *metastore = store->metastore;
	struct loading loading = {.state = state_open(store->undo)};
	int ret = 0;

	if (!loading.state)
		return error_code(-ENOMEM);
	for (size_t i = 0; i < sizeof(loaders) / sizeof(loaders[0]) && ret == 0; i++) {
		uint8_t prefix = (uint8_t)loaders[i].kind;

		loading.loader = &loaders[i];
		ret = metastore->ops->range(metastore, (struct meta_bytes){&prefix, 1},
					    (struct meta_bytes){0}, SIZE_MAX, load_record,
					    &loading);
	}
	if (ret == 0 && loading.state->cluster[0] == '\0')
		ret = make_cluster(store, loading.state);
	else if (ret == 0 && loading.state->is_old)
		ret = renew_format(store, loading.state);
	if (ret < 0) {
		undo_back(store->undo, 0);
		state_close(loading.state);
		return ret;
	}
	*out = loading.state;
	return 0;
}
