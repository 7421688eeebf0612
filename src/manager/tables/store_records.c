/* SPDX-License-Identifier: BSD-3-Clause */
/* Encoding records of the tables' rows. Reading them back is load.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "manager/tables/store_private.h"

static struct store_key extent_key(const struct extent *extent)
{
	return STORE_KEY(STORE_EXTENT, extent_home(extent).server, extent->life, extent->number);
}

static struct store_key reference_key(const struct reference *reference)
{
	return STORE_KEY(STORE_REFERENCE, reference->session->number, reference->generation);
}

void store_put_cluster(struct store *store, const struct state *row)
{
	Stored__Cluster record = STORED__CLUSTER__INIT;

	CLUSTER_FIELDS(STORE_PUT);
	record.format = STORE_FORMAT;
	record.name = (char *)(uintptr_t)row->cluster;
	record.next_principal = row->next_principal;
	record.term = row->term.number;
	record.term_random = row->term.random;
	store_put_message(store, store_key_make(STORE_CLUSTER, NULL, 0, NULL), &record.base);
}

void store_put_past_terms(struct store *store, const struct state *state)
{
	Stored__PastTerms record = STORED__PAST_TERMS__INIT;
	Stored__Term terms[STATE_TERMS_MAX], *pointers[STATE_TERMS_MAX];

	for (uint32_t i = 0; i < state->nr_past_terms; i++) {
		stored__term__init(&terms[i]);
		terms[i].number = state->past_terms[i].number;
		terms[i].random = state->past_terms[i].random;
		pointers[i] = &terms[i];
	}
	record.terms = pointers;
	record.n_terms = state->nr_past_terms;
	store_put_message(store, store_key_make(STORE_PAST_TERMS, NULL, 0, NULL), &record.base);
}

void store_put_principal(struct store *store, const struct principal *row)
{
	Stored__Principal record = STORED__PRINCIPAL__INIT;

	PRINCIPAL_FIELDS(STORE_PUT);
	record.name = (char *)(uintptr_t)row->name;
	record.secret.data = (uint8_t *)(uintptr_t)row->secret;
	record.secret.len = sizeof(row->secret);
	record.gids = (uint32_t *)(uintptr_t)row->gids;
	record.n_gids = row->nr_gids;
	store_put_message(store, STORE_KEY(STORE_PRINCIPAL, row->number), &record.base);
}

void store_delete_principal(struct store *store, const struct principal *principal)
{
	store_delete(store, STORE_KEY(STORE_PRINCIPAL, principal->number));
}

void store_put_namespace(struct store *store, const struct namespace *row)
{
	Stored__Namespace record = STORED__NAMESPACE__INIT;

	NAMESPACE_FIELDS(STORE_PUT);
	record.name = row->name;
	record.owner = (char *)(uintptr_t)row->owner;
	store_put_message(store, STORE_KEY(STORE_NAMESPACE, row->number), &record.base);
}

void store_delete_namespace(struct store *store, const struct namespace *ns)
{
	store_delete(store, STORE_KEY(STORE_NAMESPACE, ns->number));
	if (ns->nr_grants != 0)
		store_delete(store, STORE_KEY(STORE_GRANTS, ns->number));
}

void store_put_grants(struct store *store, const struct namespace *ns)
{
	Stored__Grants record = STORED__GRANTS__INIT;
	Stored__Grant *grants = calloc(ns->nr_grants + 1, sizeof(*grants));
	Stored__Grant **pointers = calloc(ns->nr_grants + 1, sizeof(*pointers));

	if (!grants || !pointers) {
		undo_fail(store->undo, error_code(-ENOMEM));
		goto out_free;
	}
	for (size_t i = 0; i < ns->nr_grants; i++) {
		stored__grant__init(&grants[i]);
		grants[i].principal = ns->grants[i].principal;
		grants[i].rights = ns->grants[i].rights;
		pointers[i] = &grants[i];
	}
	record.namespace_ = ns->number;
	record.grants = pointers;
	record.n_grants = ns->nr_grants;
	if (ns->nr_grants != 0)
		store_put_message(store, STORE_KEY(STORE_GRANTS, ns->number), &record.base);
	else
		store_delete(store, STORE_KEY(STORE_GRANTS, ns->number));
out_free:
	free(grants);
	free(pointers);
}

void store_put_server(struct store *store, const struct server *server)
{
	Stored__Server record = STORED__SERVER__INIT;
	Stored__Lane *lanes = calloc(server->nr_lanes + 1, sizeof(*lanes));
	Stored__Lane **pointers = calloc(server->nr_lanes + 1, sizeof(*pointers));

	if (!lanes || !pointers) {
		undo_fail(store->undo, error_code(-ENOMEM));
		goto out_free;
	}
	for (size_t i = 0; i < server->nr_lanes; i++) {
		stored__lane__init(&lanes[i]);
		lanes[i].transport = (char *)(uintptr_t)server->lanes[i].transport;
		lanes[i].address = (char *)(uintptr_t)server->lanes[i].address;
		lanes[i].store = server->lanes[i].store;
		pointers[i] = &lanes[i];
	}
	record.number = server->number;
	record.name = (char *)(uintptr_t)server->name;
	record.principal = (char *)(uintptr_t)server->principal;
	record.incarnation = server->incarnation;
	record.control_address = (char *)(uintptr_t)server->control_address;
	record.lanes = pointers;
	record.n_lanes = server->nr_lanes;
	record.capacity_bytes = server->dram.capacity_bytes;
	store_put_message(store, STORE_KEY(STORE_SERVER, server->number), &record.base);
out_free:
	free(lanes);
	free(pointers);
}

void store_delete_server(struct store *store, const struct server *server)
{
	store_delete(store, STORE_KEY(STORE_SERVER, server->number));
}

void store_put_removal(struct store *store, const struct removal *removal)
{
	Stored__Removal record = STORED__REMOVAL__INIT;

	record.server = removal->server;
	record.incarnation = removal->incarnation;
	store_put_message(store, STORE_KEY(STORE_REMOVAL, removal->server, removal->incarnation),
			  &record.base);
}

void store_put_flash(struct store *store, const struct flash_store *flash)
{
	Stored__Store record = STORED__STORE__INIT;

	record.number = flash->number;
	record.uuid.data = (uint8_t *)(uintptr_t)flash->uuid;
	record.uuid.len = sizeof(flash->uuid);
	record.path = flash->path;
	record.capacity_bytes = flash->pool.capacity_bytes;
	record.server = flash->pool.server ? flash->pool.server->number : 0;
	record.opening = flash->accepted.opening;
	record.random = flash->accepted.random;
	record.present_opening = flash->opening;
	store_put_message(store, STORE_KEY(STORE_FLASH, flash->number), &record.base);
}

void store_delete_flash(struct store *store, const struct flash_store *flash)
{
	store_delete(store, STORE_KEY(STORE_FLASH, flash->number));
}

void store_put_extent(struct store *store, const struct extent *extent)
{
	Stored__Extent record = STORED__EXTENT__INIT;

	record.server = extent_home(extent).server;
	record.life = extent->life;
	record.is_store = extent->pool->store != NULL;
	record.number = extent->number;
	record.namespace_ = extent->namespace_number;
	record.length = extent->length;
	record.is_releasing = extent_is_releasing(extent);
	record.class_ = extent->class;
	store_put_message(store, extent_key(extent), &record.base);
}

void store_delete_extent(struct store *store, const struct extent *extent)
{
	store_delete(store, extent_key(extent));
}

void store_put_region(struct store *store, const struct region *row)
{
	Stored__Region record = STORED__REGION__INIT;

	record.layout = layout_pack(row->layout);
	if (!record.layout) {
		undo_fail(store->undo, error_code(-ENOMEM));
		return;
	}
	REGION_FIELDS(STORE_PUT);
	record.namespace_ = row->ns->number;
	record.name = row->name;
	store_put_message(store, STORE_KEY(STORE_REGION, row->generation), &record.base);
	layout__layout__free_unpacked(record.layout, NULL);
}

void store_delete_region(struct store *store, const struct region *region)
{
	store_delete(store, STORE_KEY(STORE_REGION, region->generation));
}

void store_put_session(struct store *store, const struct session *session)
{
	Stored__Session record = STORED__SESSION__INIT;
	Stored__Fence *fences = calloc(session->nr_fences + 1, sizeof(*fences));
	Stored__Fence **pointers = calloc(session->nr_fences + 1, sizeof(*pointers));

	if (!fences || !pointers) {
		undo_fail(store->undo, error_code(-ENOMEM));
		goto out_free;
	}
	for (size_t i = 0; i < session->nr_fences; i++) {
		Stored__Fence *fence = &fences[record.n_fences];

		if (session->fences[i].is_over)
			continue;
		stored__fence__init(fence);
		fence->server = session->fences[i].server;
		fence->incarnation = session->fences[i].incarnation;
		pointers[record.n_fences++] = fence;
	}
	record.number = session->number;
	record.secret.data = (uint8_t *)(uintptr_t)session->secret;
	record.secret.len = sizeof(session->secret);
	record.client = session->client;
	record.is_ending = session->is_ending;
	record.fences = pointers;
	record.principal = (char *)(uintptr_t)session->principal;
	record.namespaces = session->namespaces;
	record.n_namespaces = session->nr_namespaces;
	store_put_message(store, STORE_KEY(STORE_SESSION, session->number), &record.base);
out_free:
	free(fences);
	free(pointers);
}

void store_delete_session(struct store *store, const struct session *session)
{
	store_delete(store, STORE_KEY(STORE_SESSION, session->number));
}

void store_put_reference(struct store *store, const struct reference *reference)
{
	Stored__Reference record = STORED__REFERENCE__INIT;

	record.session = reference->session->number;
	record.generation = reference->generation;
	record.count = reference->count;
	record.mode = reference->mode;
	store_put_message(store, reference_key(reference), &record.base);
}

void store_delete_reference(struct store *store, const struct reference *reference)
{
	store_delete(store, reference_key(reference));
}

void store_put_outcome(struct store *store, const struct session *session, uint64_t request_id,
		       enum outcome_kind kind, uint64_t value, const ProtobufCMessage *result)
{
	Stored__Outcome record = STORED__OUTCOME__INIT;
	size_t length = result ? protobuf_c_message_get_packed_size(result) : 0;
	uint8_t *packed = malloc(length + 1);

	if (!packed) {
		undo_fail(store->undo, error_code(-ENOMEM));
		return;
	}
	if (result)
		protobuf_c_message_pack(result, packed);
	record.result.data = packed;
	record.result.len = length;

	record.session = session->number;
	record.request_id = request_id;
	record.kind = (uint32_t)kind;
	record.value = value;
	store_put_message(store, STORE_KEY(STORE_OUTCOME, session->number, request_id),
			  &record.base);
	free(packed);
}

int store_get_result(struct store *store, const struct session *session, uint64_t request_id,
		     void **out, size_t *length)
{
	Stored__Outcome *record;
	size_t stored;
	void *value;
	int ret = store_get(store, STORE_KEY(STORE_OUTCOME, session->number, request_id), &value,
			    &stored);

	if (ret < 0)
		return ret == -ENOENT ? error_code(-EIO) : ret;
	record = stored__outcome__unpack(NULL, stored, value);
	free(value);
	if (!record)
		return error_code(-ENOMEM);
	*out = malloc(record->result.len + 1);
	if (*out) {
		memcpy(*out, record->result.data, record->result.len);
		*length = record->result.len;
	}
	stored__outcome__free_unpacked(record, NULL);
	return *out ? 0 : error_code(-ENOMEM);
}

void store_delete_outcome(struct store *store, const struct session *session, uint64_t request_id)
{
	store_delete(store, STORE_KEY(STORE_OUTCOME, session->number, request_id));
}
