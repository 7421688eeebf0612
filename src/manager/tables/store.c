/* SPDX-License-Identifier: BSD-3-Clause */
/* Collecting changes of records, and committing them. store_records.c makes the records. */
#include <assert.h>
#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "manager/tables/store_private.h"

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

/* Nobody changes what the writer's thread reads of the store meanwhile. */
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
