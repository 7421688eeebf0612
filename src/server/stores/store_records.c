/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records that a store writes about itself, in the layer behind those of the ranges. They hold the
 * identity, with the count of openings; the joins; the manager's term; and, only after a clean end,
 * which opening that was. The last is removed, durably, before anything can be written in the next
 * opening, and is written after everything else.
 */
#include <errno.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "server/stores/store_private.h"

#define RECORD_IDENTITY (SPACE_NR_RANGES + 0U)
#define RECORD_JOINS	(SPACE_NR_RANGES + 1U)
#define RECORD_CLEAN	(SPACE_NR_RANGES + 2U)
#define RECORD_TERM	(SPACE_NR_RANGES + 3U) /* struct store_term */

#define IDENTITY_MAGIC	 0x74737261U /* "arst" */
#define IDENTITY_VERSION 1U

struct record_identity {
	uint32_t magic;
	uint32_t version;
	char cluster[STORE_CLUSTER_BYTES]; /* zeros: of none yet */
	uint64_t opening;
};

struct record_joins {
	struct store_join accepted, present;
	uint64_t whole_since;
	uint64_t reserved;
};

struct record_clean {
	uint64_t opening;
};
_Static_assert(sizeof(struct record_identity) <= FTL_RECORD_BYTES, "a record");
_Static_assert(sizeof(struct record_joins) <= FTL_RECORD_BYTES, "a record");

/* ---- Writing records */

static void trim_done(struct ftl_trim *trim)
{
	trim->done = NULL;
}

static void sync_done(struct ftl_sync *sync)
{
	sync->done = NULL;
}

/* Waits until something ends; also for those that only the engine's polls tell. */
static int await(struct store *store)
{
	int ret = ftl_poll(store->ftl, -1);

	store->has_ended = true;
	if (ret < 0)
		store_fail(store, ret);
	return ret;
}

static int sync_all(struct store *store)
{
	struct ftl_sync *sync = &store->record.sync;

	*sync = (struct ftl_sync){.lba = 0, .count = FTL_ALL, .done = sync_done};
	ftl_sync(store->ftl, sync);
	while (sync->done) {
		int ret = await(store);

		if (ret < 0)
			return ret;
	}
	return sync->result;
}

/* Writes a small record of the store's own, or removes it (NULL), and waits until that is on the
 * device. */
static int write_record(struct store *store, uint32_t id, const void *data, size_t size)
{
	struct ftl_record_change *change = &store->record.change;
	struct ftl_trim *trim = &store->record.trim;

	if (store->is_gone)
		return error_code(-EIO);
	*change = (struct ftl_record_change){.id = id, .is_removal = !data};
	*trim = (struct ftl_trim){.change = change, .done = trim_done};
	if (data)
		memcpy(change->data, data, size);
	ftl_trim(store->ftl, trim);
	while (trim->done) {
		int ret = await(store);

		if (ret < 0)
			return ret;
	}
	return trim->result != 0 ? trim->result : sync_all(store);
}

static int write_identity(struct store *store)
{
	struct record_identity record = {
		.magic = IDENTITY_MAGIC,
		.version = IDENTITY_VERSION,
		.opening = store->stat.opening,
	};

	memcpy(record.cluster, store->stat.cluster, strlen(store->stat.cluster));
	return write_record(store, RECORD_IDENTITY, &record, sizeof(record));
}

static int write_joins(struct store *store)
{
	const struct record_joins record = {
		.accepted = store->stat.accepted,
		.present = store->stat.present,
		.whole_since = store->whole_since,
	};

	return write_record(store, RECORD_JOINS, &record, sizeof(record));
}

static bool is_same(const struct store_join *left, const struct store_join *right)
{
	return left->opening == right->opening && left->random == right->random;
}

/* Reads what earlier openings left, into the store. */
static int read_records(struct store *store, bool *was_clean)
{
	const struct record_identity *identity = ftl_record(store->ftl, RECORD_IDENTITY);
	const struct record_joins *joins = ftl_record(store->ftl, RECORD_JOINS);
	const struct record_clean *clean = ftl_record(store->ftl, RECORD_CLEAN);
	const struct store_term *term = ftl_record(store->ftl, RECORD_TERM);

	*was_clean = true;
	if (!identity)
		return 0;
	if (identity->magic != IDENTITY_MAGIC || identity->version > IDENTITY_VERSION)
		return error_fail(-EPROTONOSUPPORT,
				  "open the store %s: it is of a newer version; use that one's "
				  "server",
				  store->path);
	memcpy(store->stat.cluster, identity->cluster, STORE_CLUSTER_BYTES);
	store->stat.opening = identity->opening;
	if (joins) {
		store->stat.accepted = joins->accepted;
		store->stat.present = joins->present;
		store->whole_since = joins->whole_since;
	}
	if (term)
		store->stat.term = *term;
	*was_clean = clean && clean->opening == identity->opening;
	return 0;
}

int store_begin_opening(struct store *store)
{
	bool was_clean;
	int ret = read_records(store, &was_clean);

	if (ret != 0)
		return ret;
	store->stat.opening++;
	if (!was_clean || store->whole_since == 0)
		store->whole_since = store->stat.opening;
	if (is_same(&store->stat.accepted, &store->stat.present)) {
		store->stat.present.opening = store->stat.opening;
		if (RAND_bytes((unsigned char *)&store->stat.present.random,
			       sizeof(store->stat.present.random)) != 1)
			return error_fail(-EIO, "open the store %s: no randomness", store->path);
	}
	ret = write_joins(store);
	if (ret == 0)
		ret = write_identity(store);
	if (ret == 0 && ftl_record(store->ftl, RECORD_CLEAN))
		ret = write_record(store, RECORD_CLEAN, NULL, 0);
	return ret == 0 ? 0
			: error_fail(ret, "open the store %s: it cannot be written: %s",
				     store->path, afar_strerror(ret));
}

int store_end_opening(struct store *store)
{
	const struct record_clean clean = {.opening = store->stat.opening};
	int ret = sync_all(store);

	return ret != 0 ? ret : write_record(store, RECORD_CLEAN, &clean, sizeof(clean));
}

/* ---- Joined */

struct joined_call {
	struct store_call call;
	const char *cluster;
};

static void run_joined(struct store_call *call)
{
	struct store *store = call->store;
	const char *cluster = caa_container_of(call, struct joined_call, call)->cluster;
	int ret = 0;

	pthread_mutex_lock(&store->lock);
	store->stat.accepted = store->stat.present;
	pthread_mutex_unlock(&store->lock);
	if (store->stat.cluster[0] == '\0') {
		pthread_mutex_lock(&store->lock);
		snprintf(store->stat.cluster, sizeof(store->stat.cluster), "%s", cluster);
		pthread_mutex_unlock(&store->lock);
		ret = write_identity(store);
	}
	store_call_end(call, ret != 0 ? ret : write_joins(store));
}

int store_joined(struct store *store, const char *cluster)
{
	struct joined_call joined = {.call.run = run_joined, .cluster = cluster};

	return store_wait(store, &joined.call);
}

/* ---- The manager's term: nobody waits until it is on the device */

static void begin_term(struct store *store);

static void end_term(struct store *store, int result)
{
	store_work_end(store, &store->term.work);
	store->term.is_being_written = false;
	if (result != 0)
		log_error_some("store %s: the manager's term cannot be noted: %s", store->path,
			       afar_strerror(result));
	if (store->term.is_due && !store->is_gone)
		begin_term(store);
}

static void on_term_synced(struct ftl_sync *sync)
{
	end_term(caa_container_of(sync, struct store, term.sync), sync->result);
}

static void on_term_written(struct ftl_trim *trim)
{
	struct store *store = caa_container_of(trim, struct store, term.trim);

	if (trim->result != 0) {
		end_term(store, trim->result);
		return;
	}
	store->term.sync = (struct ftl_sync){.lba = 0, .count = FTL_ALL, .done = on_term_synced};
	ftl_sync(store->ftl, &store->term.sync);
}

static void give_up_term(struct store_work *work)
{
	(void)work;
}

static void begin_term(struct store *store)
{
	store->term.is_due = false;
	store->term.is_being_written = true;
	store->term.work = (struct store_work){.give_up = give_up_term};
	store->term.change = (struct ftl_record_change){.id = RECORD_TERM};
	memcpy(store->term.change.data, &store->stat.term, sizeof(store->stat.term));
	store->term.trim =
		(struct ftl_trim){.change = &store->term.change, .done = on_term_written};
	store_work_begin(store, &store->term.work);
	ftl_trim(store->ftl, &store->term.trim);
}

struct term_order {
	struct store *store;
	struct store_term term;
};

static void run_note_term(void *argument)
{
	struct term_order *order = argument;
	struct store *store = order->store;

	pthread_mutex_lock(&store->lock);
	store->stat.term = order->term;
	pthread_mutex_unlock(&store->lock);
	free(order);
	store->term.is_due = true;
	if (!store->is_gone && !store->is_closed && !store->term.is_being_written)
		begin_term(store);
}

int store_note_term(struct store *store, struct store_term term)
{
	struct term_order *order = malloc(sizeof(*order));
	int ret;

	if (!order)
		return error_code(-ENOMEM);
	*order = (struct term_order){store, term};
	ret = progress_run(store->progress, run_note_term, order);
	if (ret != 0)
		free(order);
	return ret;
}
