/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables as records of the metastore. Puts and deletes are collected until store_commit() does
 * them all at once. The last one for a key counts. Owned by the core, used on the writer thread
 * alone.
 *
 * Keys are a letter and big-endian numbers, so that records of one kind lie together and in order.
 */
#ifndef MANAGER_STORE_H
#define MANAGER_STORE_H

#include <protobuf-c/protobuf-c.h>

#include "manager/metastore/metastore.h"
#include "manager/tables/state.h"

struct store;

/* ---- Keys, for rooms that read their own records */

#define STORE_NAME_MAX 255U /* bytes of a text at the end of a key */

struct store_key {
	uint16_t length;
	uint8_t bytes[1 + 3 * sizeof(uint64_t) + STORE_NAME_MAX];
};

/* A key of its kind's letter, at most three numbers, and a text, which may be NULL. */
struct store_key store_key_make(char kind, const uint64_t *numbers, size_t nr_numbers,
				const char *text);
#define STORE_KEY(kind, ...)                                    \
	store_key_make((kind), (const uint64_t[]){__VA_ARGS__}, \
		       sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), NULL)
#define STORE_KEY_NAMED(kind, text, ...)                        \
	store_key_make((kind), (const uint64_t[]){__VA_ARGS__}, \
		       sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), (text))

/* The metastore and `undo` stay the caller's. -ENOMEM. */
int store_open(struct metastore *metastore, struct undo *undo, struct store **out);
/* Nothing may be collected. */
void store_close(struct store *store);

/* Collecting is noted, like every change, and taken back with what runs (undo.h). It returns
 * nothing: when memory is short, what runs fails at its end (undo_fail()). */
void store_put_cluster(struct store *store, const struct state *row);
void store_put_past_terms(struct store *store, const struct state *state);
void store_put_principal(struct store *store, const struct principal *row);
void store_delete_principal(struct store *store, const struct principal *principal);
void store_put_namespace(struct store *store, const struct namespace *row);
/* Deletes its grants, too. */
void store_delete_namespace(struct store *store, const struct namespace *ns);
void store_put_grants(struct store *store, const struct namespace *ns);
void store_put_server(struct store *store, const struct server *server);
void store_delete_server(struct store *store, const struct server *server);
void store_put_removal(struct store *store, const struct removal *removal);
void store_put_flash(struct store *store, const struct flash_store *flash);
void store_delete_flash(struct store *store, const struct flash_store *flash);
void store_put_extent(struct store *store, const struct extent *extent);
void store_delete_extent(struct store *store, const struct extent *extent);
void store_put_region(struct store *store, const struct region *row);
void store_delete_region(struct store *store, const struct region *region);
void store_put_session(struct store *store, const struct session *session);
void store_delete_session(struct store *store, const struct session *session);
void store_put_reference(struct store *store, const struct reference *reference);
void store_delete_reference(struct store *store, const struct reference *reference);
/* `result`: OUTCOME_RESULTS, the message that answers it; else NULL. */
void store_put_outcome(struct store *store, const struct session *session, uint64_t request_id,
		       enum outcome_kind kind, uint64_t value, const ProtobufCMessage *result);
void store_delete_outcome(struct store *store, const struct session *session, uint64_t request_id);
/* Copies the result that was put with an outcome; the caller frees it. -EIO, -ENOMEM. */
int store_get_result(struct store *store, const struct session *session, uint64_t request_id,
		     void **out, size_t *length);

/* ---- Records of rooms that keep no tables: read when they are needed */

/* Collect, as above. */
void store_put_message(struct store *store, struct store_key key, const ProtobufCMessage *message);
void store_put_bytes(struct store *store, struct store_key key, const void *data, size_t length);
void store_delete(struct store *store, struct store_key key);
/* Copies a record, as the batch that runs sees it, into a buffer that the caller frees. -ENOENT, or as
 * a metastore's get. */
int store_get(struct store *store, struct store_key key, void **value, size_t *length);
/* Visits records as a metastore's range does: as of the last commit, without what the batch that runs
 * has changed. */
int store_range(struct store *store, struct store_key prefix, struct store_key after, size_t max,
		int (*visit)(void *argument, struct meta_bytes key, struct meta_bytes value),
		void *argument);
/* Visits keys as a metastore's check does, also as of the last commit. */
int store_check(struct store *store, struct meta_bytes prefix, struct meta_bytes after, size_t max,
		int (*visit)(void *argument, struct meta_bytes key, bool is_damaged),
		void *argument);

/* True: something was collected that is not committed. */
bool store_has_changes(const struct store *store);

/* ---- Beside a batch
 *
 * A request may be answered while changes are not committed, if it reads none of them. It would
 * read the same before the batch, and behind it, and also when the batch fails. So code that reads
 * something that the batch has changed says so. Here store_get() and store_range() do that, for
 * values, for names that are missing, and for ranges. Files that keep rows of such records in
 * memory, or rows that are in memory alone, use marks. They mark rows that they change, and look at
 * the marks of rows that they read. Tables (state.h) have no marks: while one of them is changed,
 * nobody is answered. Keys of tables begin with a small letter, and those of other records with a
 * capital. */

/* True: requests can be asked beside the batch that runs. */
bool store_can_ask(const struct store *store);
/* A request beside the batch begins, and ends. Returns whether it has read what the batch has changed, or has
 * collected a change: then it is to be taken back. */
void store_begin_beside(struct store *store);
bool store_end_beside(struct store *store);
/* True: the request beside the batch will be taken back. Always false in the batch itself. */
bool store_has_touched(const struct store *store);
/* A row is changed. Its mark is 0 at first, and is never taken back. */
void store_mark(const struct store *store, uint64_t *mark);
/* A row with this mark is read. */
void store_look(struct store *store, uint64_t mark);

/* Commits what was collected, if anything. When that is durable it returns 0, and the batch's
 * changes are for good (undo_keep()). If it fails, all that the batch changed is taken back. `lend`, unless it
 * is NULL, is called before and after the metastore is waited for, if questions can be asked
 * meanwhile. Between the two another thread may read. Errors as a metastore's commit; -ENOMEM. */
int store_commit(struct store *store, void (*lend)(void *argument, bool is_lent), void *argument);

/* Reads all tables; makes the cluster's record if the store is new. Called once, when the core
 * starts. -EIO (the store contradicts itself), -AFAR_EVERSION (a newer manager wrote it), with a
 * sentence; or as a metastore's range. */
int store_load(struct store *store, struct state **out);

#endif
