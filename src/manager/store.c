/* SPDX-License-Identifier: BSD-3-Clause */
/* Encoding records, collecting changes, committing them. Reading them back is load.c. */
#include <assert.h>
#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "manager/store_private.h"

/* ---- Keys */

struct store_key store_key_make(char kind, const uint64_t *numbers, size_t nr_numbers,
				const char *text)
{
	size_t text_length = text ? strnlen(text, STORE_NAME_MAX) : 0;
	struct store_key key;

	key.length = (uint16_t)(1 + nr_numbers * sizeof(uint64_t) + text_length);
	key.bytes[0] = (uint8_t)kind;
	for (size_t i = 0; i < nr_numbers; i++) {
		uint64_t number = htobe64(numbers[i]);

		memcpy(&key.bytes[1 + i * sizeof(number)], &number, sizeof(number));
	}
	if (text_length != 0)
		memcpy(&key.bytes[1 + nr_numbers * sizeof(uint64_t)], text, text_length);
	return key;
}

static struct store_key extent_key(const struct extent *extent)
{
	return STORE_KEY(STORE_EXTENT, extent_home(extent).server, extent->life, extent->number);
}

static struct store_key reference_key(const struct reference *reference)
{
	return STORE_KEY(STORE_REFERENCE, reference->session->number, reference->generation);
}

/* ---- Collecting */

/* Values have secrets in them. */
struct value {
	size_t length;
	uint8_t bytes[];
};

static void value_free(void *argument)
{
	struct value *value = argument;

	if (value)
		OPENSSL_cleanse(value->bytes, value->length);
	free(value);
}

/* A change of one key; later ones replace its value. */
struct change {
	struct store_key key;
	struct value *value; /* NULL: delete */
};

/* The order of the metastore. */
static int compare_changes(const void *left, const void *right)
{
	const struct store_key *a = &((const struct change *)tree_row(left))->key;
	const struct store_key *b = &((const struct change *)tree_row(right))->key;
	size_t length = a->length < b->length ? a->length : b->length;
	int order = memcmp(a->bytes, b->bytes, length);

	if (order != 0)
		return order;
	return a->length < b->length ? -1 : a->length > b->length;
}

/* Finds a change whose key begins with another one. */
static int compare_beginnings(const void *left, const void *right)
{
	const struct store_key *a = &((const struct change *)tree_row(left))->key;
	const struct store_key *b = &((const struct change *)tree_row(right))->key;

	return memcmp(a->bytes, b->bytes, a->length < b->length ? a->length : b->length);
}

/* Outcomes are looked for by the session that they are of, when a request comes again. */
static bool is_of_table(const struct store_key *key)
{
	return islower(key->bytes[0]) && key->bytes[0] != STORE_OUTCOME;
}

/* Its first value is its own; those that replaced it are freed by the notes that made them, or by
 * forget_changes(). */
static int add_change(struct store *store, struct store_key key, struct value *value)
{
	struct change *change = calloc(1, sizeof(*change));

	if (!change)
		return error_code(-ENOMEM);
	change->key = key;
	change->value = value;
	undo_made(store->undo, change, free);
	undo_set(store->undo, store->nr_changes, store->nr_changes + 1);
	if (is_of_table(&key))
		undo_set(store->undo, store->nr_table_changes, store->nr_table_changes + 1);
	return undo_tree_add(store->undo, &store->changes, change, compare_changes);
}

/* Takes `value` over. */
static void collect(struct store *store, struct store_key key, struct value *value)
{
	struct change wanted = {.key = key}, *change;
	struct undo *undo = store->undo;
	int ret = undo_room(undo, 5);

	store->has_touched = true;
	if (ret < 0) {
		value_free(value);
		undo_fail(undo, ret);
		return;
	}
	undo_made(undo, value, value_free);
	change = tree_find(&store->changes, &wanted, compare_changes);
	if (change) {
		undo_gone(undo, change->value, value_free);
		undo_set(undo, change->value, value);
		return;
	}
	ret = add_change(store, key, value);
	if (ret < 0)
		undo_fail(undo, ret);
}

void store_put_message(struct store *store, struct store_key key, const ProtobufCMessage *message)
{
	size_t length = protobuf_c_message_get_packed_size(message);
	struct value *value = malloc(sizeof(*value) + length);

	if (!value) {
		undo_fail(store->undo, error_code(-ENOMEM));
		return;
	}
	value->length = length;
	protobuf_c_message_pack(message, value->bytes);
	collect(store, key, value);
}

void store_put_bytes(struct store *store, struct store_key key, const void *data, size_t length)
{
	struct value *value = malloc(sizeof(*value) + length);

	if (!value) {
		undo_fail(store->undo, error_code(-ENOMEM));
		return;
	}
	value->length = length;
	memcpy(value->bytes, data, length);
	collect(store, key, value);
}

void store_delete(struct store *store, struct store_key key)
{
	collect(store, key, NULL);
}

/* ---- Reading */

static struct meta_bytes key_bytes(const struct store_key *key)
{
	return (struct meta_bytes){key->bytes, key->length};
}

int store_get(struct store *store, struct store_key key, void **value, size_t *length)
{
	const struct change wanted = {.key = key};
	const struct change *change = tree_find(&store->changes, &wanted, compare_changes);

	if (!change)
		return store->metastore->ops->get(store->metastore, key_bytes(&key), value, length);
	store->has_touched = true;
	if (!change->value)
		return error_code(-ENOENT);
	*value = malloc(change->value->length + 1);
	if (!*value)
		return error_code(-ENOMEM);
	memcpy(*value, change->value->bytes, change->value->length);
	*length = change->value->length;
	return 0;
}

int store_range(struct store *store, struct store_key prefix, struct store_key after, size_t max,
		int (*visit)(void *argument, struct meta_bytes key, struct meta_bytes value),
		void *argument)
{
	const struct change wanted = {.key = prefix};

	if (tree_find(&store->changes, &wanted, compare_beginnings))
		store->has_touched = true;
	return store->metastore->ops->range(store->metastore, key_bytes(&prefix), key_bytes(&after),
					    max, visit, argument);
}

int store_check(struct store *store, struct meta_bytes prefix, struct meta_bytes after, size_t max,
		int (*visit)(void *argument, struct meta_bytes key, bool is_damaged),
		void *argument)
{
	struct metastore *metastore = store->metastore;

	return metastore->ops->check(metastore, prefix, after, max, visit, argument);
}

bool store_has_changes(const struct store *store)
{
	return store->nr_changes != 0;
}

/* ---- Beside a batch */

bool store_can_ask(const struct store *store)
{
	return store->nr_table_changes == 0;
}

void store_begin_beside(struct store *store)
{
	store->is_beside = true;
	store->has_touched = false;
}

bool store_end_beside(struct store *store)
{
	store->is_beside = false;
	return store->has_touched;
}

bool store_has_touched(const struct store *store)
{
	return store->is_beside && store->has_touched;
}

void store_mark(const struct store *store, uint64_t *mark)
{
	if (!store->is_beside)
		*mark = store->batch;
}

void store_look(struct store *store, uint64_t mark)
{
	if (mark == store->batch)
		store->has_touched = true;
}

/* ---- Records */

void store_put_cluster(struct store *store, const struct state *state)
{
	Stored__Cluster record = STORED__CLUSTER__INIT;

	record.format = STORE_FORMAT;
	record.name = (char *)(uintptr_t)state->cluster;
	record.next_namespace = state->next_namespace;
	record.next_server = state->next_server;
	record.next_generation = state->next_generation;
	record.next_principal = state->next_principal;
	record.term = state->term.number;
	record.term_random = state->term.random;
	record.accepted_below = state->accepted_below;
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

void store_put_principal(struct store *store, const struct principal *principal)
{
	Stored__Principal record = STORED__PRINCIPAL__INIT;

	record.number = principal->number;
	record.name = (char *)(uintptr_t)principal->name;
	record.is_server = principal->is_server;
	record.secret.data = (uint8_t *)(uintptr_t)principal->secret;
	record.secret.len = sizeof(principal->secret);
	record.max_bytes = principal->max_bytes;
	record.is_any = principal->is_any;
	record.has_uid = principal->has_uid;
	record.uid = principal->uid;
	record.gids = (uint32_t *)(uintptr_t)principal->gids;
	record.n_gids = principal->nr_gids;
	store_put_message(store, STORE_KEY(STORE_PRINCIPAL, principal->number), &record.base);
}

void store_delete_principal(struct store *store, const struct principal *principal)
{
	store_delete(store, STORE_KEY(STORE_PRINCIPAL, principal->number));
}

void store_put_namespace(struct store *store, const struct namespace *ns)
{
	Stored__Namespace record = STORED__NAMESPACE__INIT;

	record.number = ns->number;
	record.name = ns->name;
	record.tier = ns->tier;
	record.width = ns->width;
	record.stripe_bytes = ns->stripe_bytes;
	record.max_bytes = ns->max_bytes;
	record.is_volume = ns->is_volume;
	record.is_files = ns->is_files;
	record.identity = ns->identity;
	record.next_address = ns->next_address;
	record.has_had_first = ns->has_had_first;
	record.is_deleted = ns->is_deleted;
	record.is_suspect = ns->is_suspect;
	record.owner = (char *)(uintptr_t)ns->owner;
	store_put_message(store, STORE_KEY(STORE_NAMESPACE, ns->number), &record.base);
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

void store_put_region(struct store *store, const struct region *region)
{
	Stored__Region record = STORED__REGION__INIT;

	record.layout = layout_pack(region->layout);
	if (!record.layout) {
		undo_fail(store->undo, error_code(-ENOMEM));
		return;
	}
	record.namespace_ = region->ns->number;
	record.generation = region->generation;
	record.address = region->address;
	record.length = region->length;
	record.name = region->name;
	record.stripe_bytes = region->stripe_bytes;
	record.has_nic_atomics = region->has_nic_atomics;
	record.is_freed = region->is_freed;
	record.layout_number = region->layout_number;
	record.is_unfinished = region->is_unfinished;
	record.maker = region->maker;
	record.family = region->family;
	record.version = region->version;
	record.is_draft = region->is_draft;
	record.has_word = region->has_word;
	record.claim = region->claim;
	store_put_message(store, STORE_KEY(STORE_REGION, region->generation), &record.base);
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

/* ---- The whole */

int store_open(struct metastore *metastore, struct undo *undo, struct store **out)
{
	struct store *store = calloc(1, sizeof(*store));

	if (!store)
		return error_code(-ENOMEM);
	store->metastore = metastore;
	store->undo = undo;
	store->batch = 1;
	*out = store;
	return 0;
}

void store_close(struct store *store)
{
	assert(!store || store->nr_changes == 0);
	free(store);
}

static bool forget_change(void *argument, void *row)
{
	struct change *change = row;

	(void)argument;
	value_free(change->value);
	free(change);
	return true;
}

static void forget_changes(struct store *store)
{
	tree_walk(store->changes, forget_change, NULL);
	tree_close(&store->changes);
	store->nr_changes = 0;
	store->nr_table_changes = 0;
}

struct gathering {
	struct meta_put *puts;
	size_t nr_puts;
	struct meta_bytes *deletes;
	size_t nr_deletes;
};

static bool gather(void *argument, void *row)
{
	const struct change *change = row;
	struct meta_bytes key = {change->key.bytes, change->key.length};
	struct gathering *gathering = argument;

	if (change->value)
		gathering->puts[gathering->nr_puts++] =
			(struct meta_put){key, {change->value->bytes, change->value->length}};
	else
		gathering->deletes[gathering->nr_deletes++] = key;
	return true;
}

/* What the writer's thread reads of the store meanwhile, nobody changes. */
static int write_gathered(struct store *store, const struct gathering *gathering,
			  void (*lend)(void *argument, bool is_lent), void *argument)
{
	struct metastore *metastore = store->metastore;
	bool is_lent = lend && store_can_ask(store);
	int ret;

	if (is_lent)
		lend(argument, true);
	ret = metastore->ops->commit(metastore, NULL, 0, gathering->puts, gathering->nr_puts,
				     gathering->deletes, gathering->nr_deletes);
	if (is_lent)
		lend(argument, false);
	return ret;
}

static int write_changes(struct store *store, void (*lend)(void *argument, bool is_lent),
			 void *argument)
{
	struct gathering gathering = {0};
	int ret;

	if (store->nr_changes == 0)
		return 0;
	gathering.puts = calloc(store->nr_changes, sizeof(*gathering.puts));
	gathering.deletes = calloc(store->nr_changes, sizeof(*gathering.deletes));
	if (gathering.puts && gathering.deletes) {
		tree_walk(store->changes, gather, &gathering);
		ret = write_gathered(store, &gathering, lend, argument);
	} else {
		ret = error_code(-ENOMEM);
	}
	free(gathering.puts);
	free(gathering.deletes);
	return ret;
}

int store_commit(struct store *store, void (*lend)(void *argument, bool is_lent), void *argument)
{
	/* A failure that was not taken back yet fails all of the batch. */
	int ret = undo_end(store->undo, 0, 0);

	if (ret == 0)
		ret = undo_end(store->undo, 0, write_changes(store, lend, argument));
	store->batch++;
	if (ret < 0)
		return ret;
	undo_keep(store->undo);
	forget_changes(store);
	return 0;
}
