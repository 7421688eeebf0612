/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store's device and identity, its thread, and its end. The thread is a progress thread
 * (progress.h) with the layer as its engine. Owns all of the store.
 *
 * The device tells what it is by three records of the layer, behind those of the ranges: the
 * identity, with the count of openings; the joins; and, only after a clean end, which opening that
 * was. The last is removed, durably, before anything can be written in the next opening, and is
 * written after everything else.
 */
#include "server/stores/store.h"

#include <afar/error.h>
#include <errno.h>
#include <openssl/rand.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "flash/device/file.h"
#include "flash/device/superblock.h"
#include "flash/device/uring.h"
#include "memory/available.h"
#include "memory/segment.h"
#include "server/stores/store_private.h"

#define BUSY_MS	     5000
#define PAUSE_NS     50000000
#define COUNT_NS     UINT64_C(200000000) /* between looks at the layer's numbers */
#define SLOW_NS	     UINT64_C(1000000000) /* an operation at the device that takes so long is told of */
#define BLOCKS_A_MAP 510U		  /* of a page of the map: FTL */

/* ---- Records */

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

/* ---- What is under way */

void store_work_begin(struct store *store, struct store_work *work)
{
	cds_list_add_tail(&work->node, &store->under_way);
}

void store_work_end(struct store *store, struct store_work *work)
{
	if (!store->is_gone)
		cds_list_del(&work->node);
}

/* The device is beyond use. True: something was under way. */
static bool give_up_all(struct store *store)
{
	bool has_some = !cds_list_empty(&store->under_way);

	while (!cds_list_empty(&store->under_way)) {
		struct store_work *work =
			cds_list_first_entry(&store->under_way, struct store_work, node);

		cds_list_move(&work->node, &store->given_up);
		work->give_up(work);
	}
	return has_some;
}

/* The layer has gone. */
static void forget_all(struct store *store)
{
	struct store_work *work, *next;

	cds_list_for_each_entry_safe (work, next, &store->given_up, node) {
		cds_list_del(&work->node);
		if (work->forget)
			work->forget(work);
	}
}

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

int store_write_record(struct store *store, uint32_t id, const void *data, size_t size)
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
	return store_write_record(store, RECORD_IDENTITY, &record, sizeof(record));
}

static int write_joins(struct store *store)
{
	const struct record_joins record = {
		.accepted = store->stat.accepted,
		.present = store->stat.present,
		.whole_since = store->whole_since,
	};

	return store_write_record(store, RECORD_JOINS, &record, sizeof(record));
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

/* Begins the next opening, on the device. A join that no manager is known to have accepted is
 * proposed again, because one may have. */
static int begin_opening(struct store *store)
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
		ret = store_write_record(store, RECORD_CLEAN, NULL, 0);
	return ret == 0 ? 0
			: error_fail(ret, "open the store %s: it cannot be written: %s",
				     store->path, afar_strerror(ret));
}

static int end_opening(struct store *store)
{
	const struct record_clean clean = {.opening = store->stat.opening};
	int ret = sync_all(store);

	return ret != 0 ? ret : store_write_record(store, RECORD_CLEAN, &clean, sizeof(clean));
}

/* ---- The device */

/* Returns the last sentence without what it says was asked, because the caller says that better. */
static const char *last_reason(void)
{
	const char *line = error_last_line(), *reason = strstr(line, "flash layer: ");

	return reason ? reason + strlen("flash layer: ") : line;
}

static int fail_open(const struct store *store, int code)
{
	switch (code) {
	case -EBUSY:
		return error_fail(
			code,
			"open the store %s: it is mounted, or another process has it open "
			"for %u s now; end that first",
			store->path, BUSY_MS / 1000);
	case -EACCES:
	case -EPERM:
	case -EROFS:
		return error_fail(
			code,
			"open the store %s: it must be readable and writable: %s; let the "
			"server's user write it",
			store->path, afar_strerror(code));
	case -ENOENT:
		return error_fail(
			code,
			"open the store %s: it is not there; 'afar flash create %s --size "
			"SIZE' makes it",
			store->path, store->path);
	default:
		return code; /* with its sentence */
	}
}

/* Tries for a while, because the kernel may still hold the device of a killed process. */
static int open_device(struct store *store, const char *path)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	uint64_t deadline = clock_deadline_ms(BUSY_MS);
	int ret = flash_device_open_path(path, 0, &store->device);

	while (ret == -EBUSY && clock_ns() < deadline) {
		nanosleep(&pause, NULL);
		ret = flash_device_open_path(path, 0, &store->device);
	}
	return ret ? fail_open(store, ret) : 0;
}

/* Makes an empty layer in the file, and waits until its device is closed again. */
static int create_layer(const char *path)
{
	struct flash_device *device;
	int ret = flash_device_open_path(path, 0, &device);

	if (ret != 0)
		return ret;
	ret = ftl_create(device, NULL);
	flash_device_close(device);
	return ret;
}

/* Makes the file with an empty layer, beside its place: what is at the path is whole at any time.
 * Whoever was killed here left the file beside it. */
static int create(const struct store *store)
{
	char beside[sizeof(store->path) + sizeof(".new")];
	int ret;

	snprintf(beside, sizeof(beside), "%s.new", store->path);
	if (unlink(beside) != 0 && errno != ENOENT)
		return error_fail(-errno, "make the store %s: remove %s: %s", store->path, beside,
				  strerror(errno));
	ret = flash_file_create(beside, store->options.create_bytes, NULL);
	if (ret != 0)
		return error_fail(ret, "make the store: %s", error_last_line());
	ret = create_layer(beside);
	if (ret == 0)
		ret = flash_file_rename(beside, store->path);
	if (ret == 0)
		return 0;
	unlink(beside);
	return error_fail(ret, "make the store %s: %s", store->path, last_reason());
}

/* Opens what is there; a file that is to be made and is not there is made. */
static int open_or_create(struct store *store)
{
	struct stat stat_of_path;
	int ret = 0;

	if (store->options.create_bytes != 0 && stat(store->path, &stat_of_path) != 0 &&
	    errno == ENOENT)
		ret = create(store);
	return ret == 0 ? open_device(store, store->path) : ret;
}

/* Refuses a device whose map would not fit into memory when all of it is in use. */
static int check_memory(const struct store *store, const struct format_superblock *superblock)
{
	uint64_t need = (uint64_t)superblock->nr_slots * FTL_BLOCK * 5 / 4;

	if (need <= memory_limit() / 2)
		return 0;
	return error_fail(-ENOMEM,
			  "open the store %s: its map can grow to %llu MiB, and this machine lets "
			  "us have %llu MiB for it; use a smaller device, or a machine with more "
			  "memory",
			  store->path, (unsigned long long)(need >> 20),
			  (unsigned long long)(memory_limit() / 2 >> 20));
}

static int fail_layer(const struct store *store, const struct format_superblock *found, int code)
{
	bool is_none = memcmp(found->magic, format_magic, sizeof(format_magic)) != 0;

	if (code == -EINVAL && is_none)
		return error_fail(code,
				  "open the store %s: it holds no flash layer; 'afar flash create "
				  "%s' makes it one",
				  store->path, store->path);
	if (code == -EBADMSG)
		return error_fail(
			code, "open the store %s: %s; 'afar flash repair %s' says what can be done",
			store->path, last_reason(), store->path);
	return error_fail(code, "open the store %s: %s", store->path, last_reason());
}

static int open_layer(struct store *store)
{
	struct format_superblock superblock = {0};
	int ret = superblock_read(store->device, &superblock);

	if (ret != 0)
		return fail_layer(store, &superblock, ret);
	ret = check_memory(store, &superblock);
	if (ret != 0)
		return ret;
	ret = ftl_open(store->device, 0, &store->ftl);
	if (ret != 0)
		return fail_layer(store, &superblock, ret);
	memcpy(store->uuid, superblock.uuid, STORE_UUID_BYTES);
	memcpy(&store->number, superblock.uuid, sizeof(store->number));
	store->number = le64toh(store->number);
	return 0;
}

/* ---- Numbers */

/* How much can be lent: all blocks, but no more than the map can have pages for. */
static uint64_t capacity_of(const struct ftl_stat *stat)
{
	uint64_t blocks = stat->capacity_blocks;

	if (blocks > (uint64_t)stat->map_slots * BLOCKS_A_MAP)
		blocks = (uint64_t)stat->map_slots * BLOCKS_A_MAP;
	return blocks * FTL_BLOCK / SEGMENT_MIN * SEGMENT_MIN;
}

void store_count(struct store *store)
{
	struct space_total total;
	struct ftl_stat stat;

	store->counted_at = clock_ns();
	store->is_count_due = false;
	ftl_stat(store->ftl, &stat);
	space_total(store->space, NULL, &total);
	pthread_mutex_lock(&store->lock);
	store->stat.capacity_bytes = capacity_of(&stat);
	store->stat.granted_bytes = total.length * FTL_BLOCK;
	store->stat.used_bytes = stat.used_blocks * FTL_BLOCK;
	store->stat.map_bytes = stat.map_bytes;
	store->stat.nr_errors = stat.crc_errors + stat.read_errors + stat.write_errors;
	store->stat.nr_syncs = stat.syncs;
	pthread_mutex_unlock(&store->lock);
}

/* On any thread: the store's own may be waiting for that operation. */
static uint64_t slow_ms(struct store *store)
{
	uint64_t since = flash_device_oldest(store->device), now = clock_coarse_ns();

	return since != 0 && now > since + SLOW_NS ? (now - since) / 1000000U : 0;
}

void store_stat(struct store *store, struct store_stat *out)
{
	pthread_mutex_lock(&store->lock);
	*out = store->stat;
	pthread_mutex_unlock(&store->lock);
	out->slow_ms = slow_ms(store);
}

/* ---- The engine. On the thread. */

void store_fail(struct store *store, int code)
{
	if (store->is_gone)
		return;
	log_error("store %s: the device is beyond use: %s; its regions are unavailable until a "
		  "server opens it again",
		  store->path, afar_strerror(code));
	store->is_gone = true;
	pthread_mutex_lock(&store->lock);
	store->stat.failure = code;
	pthread_mutex_unlock(&store->lock);
	store->options.changed(store->options.context);
}

int store_answer(struct store *store, int result, bool is_change)
{
	switch (result) {
	case 0:
	case -EIO:
	case -EBADMSG:
	case -ECANCELED:
		return result;
	case -ENOSPC:
		if (is_change) /* the layer's */
			return result;
		break;
	default:
		break;
	}
	log_limited(&store->errors, LOG_LEVEL_ERROR,
		    "store %s: a %s failed: %s; programs are told of an input/output error",
		    store->path, is_change ? "write" : "read", afar_strerror(result));
	return -EIO;
}

/* The layer has just begun to refuse changes. */
static void refuse_changes(struct store *store, int code)
{
	log_error("store %s: it is read only from now on: %s; reads go on, and writes are refused "
		  "until "
		  "a server opens it again",
		  store->path, afar_strerror(code));
	pthread_mutex_lock(&store->lock);
	store->stat.refusal = code;
	store->stat.refused_at = clock_ns();
	pthread_mutex_unlock(&store->lock);
	store->options.changed(store->options.context);
}

/* Gives the layer up as it is: the next opening finds an unclean end. */
static void abandon(struct store *store)
{
	if (store->ftl)
		ftl_abandon(store->ftl);
	store->ftl = NULL;
	store_scrub_close(store);
	forget_all(store);
	store_drop_extents(store);
	if (store->space)
		space_close(store->space);
	store->space = NULL;
}

static int engine_open(void *context)
{
	struct store *store = context;
	int ret = open_or_create(store);

	if (ret == 0)
		ret = open_layer(store);
	if (ret == 0)
		ret = space_open(store->ftl, &store->space);
	if (ret == 0)
		ret = store_find_extents(store);
	if (ret == 0)
		ret = begin_opening(store);
	if (ret == 0)
		ret = store_scrub_open(store);
	if (ret == 0)
		store_count(store);
	else
		abandon(store);
	return ret;
}

static bool engine_poll(void *context)
{
	struct store *store = context;
	bool is_telling = false;
	int ret;

	if (store->is_gone)
		return give_up_all(store);
	/* First, so that the poll starts its reads. */
	if (store->scrub && (store->has_ended || clock_ns() >= store->scrub_due))
		store_scrub_go_on(store);
	ret = ftl_poll(store->ftl, 0);
	if (ret < 0) {
		store_fail(store, ret);
		give_up_all(store);
		return true;
	}
	store_reservations_answer(store);
	if (store->stat.refusal == 0 && ftl_failure(store->ftl) != 0)
		refuse_changes(store, ftl_failure(store->ftl));
	store->has_ended = ret > 0;
	store->is_count_due = store->is_count_due || ret > 0;
	if (store->is_count_due && clock_ns() - store->counted_at > COUNT_NS) {
		store_count(store);
		is_telling = ftl_tell_synced(store->ftl);
	}
	/* A request of many parts moves on long before it ends. */
	return ret > 0 || ftl_has_moved(store->ftl) || is_telling;
}

static uint64_t engine_due(void *context)
{
	const struct store *store = context;

	uint64_t due = store->is_gone ? CLOCK_NEVER : store->scrub_due;

	if (store->is_count_due && store->counted_at + COUNT_NS < due && !store->is_gone)
		due = store->counted_at + COUNT_NS;
	if (store_reservations_due(store) < due)
		due = store_reservations_due(store);
	return due;
}

/* With several under way the time of one counts less, and the cores are wanted for the others. */
static bool engine_is_alone(void *context)
{
	const struct store *store = context;
	const struct cds_list_head *all = &store->under_way;

	return !store->is_gone && all->next != all && all->next == all->prev;
}

static int engine_fd(void *context)
{
	struct store *store = context;

	return store->is_gone ? -1 : ftl_fd(store->ftl);
}

/* No connection has anything under way. What others have begun, and what the space finishes by
 * itself, ends before the record of the clean end is written. */
static void engine_close(void *context)
{
	struct store *store = context;
	int ret = 0;

	store->is_closed = true;
	store_scrub_close(store);
	while (ret >= 0 && !store->is_gone &&
	       (!cds_list_empty(&store->under_way) || space_is_busy(store->space)))
		ret = ftl_poll(store->ftl, -1);
	if (ret < 0)
		store_fail(store, ret);
	ret = store->is_gone ? -EIO : end_opening(store);
	if (ret != 0) {
		log_error("store %s: it could not be closed as it should be: %s", store->path,
			  afar_strerror(ret));
		if (store->is_gone)
			give_up_all(store);
		abandon(store);
		return;
	}
	store_drop_extents(store);
	space_close(store->space);
	if (ftl_close(store->ftl) != 0)
		log_error("store %s: it could not be closed as it should be", store->path);
	store->space = NULL;
	store->ftl = NULL;
}

/* ---- Calls that wait */

struct store_waiter {
	sem_t done;
};

void store_call_end(struct store_call *call, int ret)
{
	call->ret = ret;
	if (ret != 0)
		snprintf(call->sentence, sizeof(call->sentence), "%s", error_last_line());
	sem_post(&call->waiter->done);
}

static void run_call(void *argument)
{
	struct store_call *call = argument;

	if (call->store->is_closed)
		store_call_end(call, error_code(-ECANCELED));
	else
		call->run(call);
}

int store_wait(struct store *store, struct store_call *call)
{
	struct store_waiter waiter;
	int ret;

	call->store = store;
	call->waiter = &waiter;
	sem_init(&waiter.done, 0, 0);
	ret = progress_run(store->progress, run_call, call);
	while (ret == 0 && sem_wait(&waiter.done) != 0)
		;
	sem_destroy(&waiter.done);
	if (ret != 0)
		return ret;
	return call->ret == 0 ? 0 : error_fail(call->ret, "%s", call->sentence);
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

/* ---- Life */

static bool serve(void *context, const struct admission *admission,
		  const struct message_request *request, struct message_reply *reply,
		  const struct progress_message *message)
{
	if (request->kind == MESSAGE_SYNC)
		return store_sync(context, request, reply, message);
	if (request->kind == MESSAGE_ZERO)
		return store_zero(context, admission->reach, request, reply, message);
	reply->status = -EOPNOTSUPP;
	return true;
}

static int admit(void *context, const void *shown, size_t length, struct admission *out)
{
	struct store *store = context;

	return store->options.admit(store->options.context, shown, length, out);
}

static void changed(void *context)
{
	struct store *store = context;

	store->options.changed(store->options.context);
}

static int start_thread(struct store *store)
{
	const struct progress_options options = {
		.fabric = store->fabric,
		.address = store->address,
		.nr_threads = 1,
		.engine = &store->engine,
		.spin_us = store->options.spin_us,
		.nr_descriptors_max = store->options.nr_descriptors_max,
		.domains = store->domains,
		.admit = admit,
		.serve = serve,
		.changed = changed,
		.context = store,
	};

	store->engine = (struct progress_engine){
		.open = engine_open,
		.poll = engine_poll,
		.fd = engine_fd,
		.due = engine_due,
		.is_alone = engine_is_alone,
		.left = pages_left,
		.close = engine_close,
		.context = store,
	};
	return progress_start(&options, &store->progress);
}

/* Frees what store_start() has made, once the thread has ended or if it never ran. */
static void store_free(struct store *store)
{
	if (store->device)
		flash_device_close(store->device);
	pages_close(&store->pages);
	domains_close(store->domains);
	if (store->fabric)
		fabric_close(store->fabric);
	pthread_mutex_destroy(&store->lock);
	free(store);
}

static int open_parts(struct store *store)
{
	int ret = pages_open(&store->pages);

	if (ret == 0)
		ret = fabric_open("tcp", &store->fabric);
	if (ret != 0)
		return ret;
	store->fabric->congestion = store->options.congestion;
	ret = domains_open(&store->fabric, 1, &store->domains);
	return ret == 0 ? start_thread(store) : ret;
}

int store_start(const struct store_options *options, struct store **out)
{
	struct store *store = calloc(1, sizeof(*store));
	int ret;

	if (!store)
		return error_code(-ENOMEM);
	if (strlen(options->path) >= sizeof(store->path) ||
	    strlen(options->address) >= sizeof(store->address)) {
		free(store);
		return error_fail(-ENAMETOOLONG, "open the store %.64s…: its path is too long",
				  options->path);
	}
	store->options = *options;
	strcpy(store->path, options->path);
	strcpy(store->address, options->address);
	pthread_mutex_init(&store->lock, NULL);
	CDS_INIT_LIST_HEAD(&store->extents);
	CDS_INIT_LIST_HEAD(&store->listings);
	CDS_INIT_LIST_HEAD(&store->reservations);
	CDS_INIT_LIST_HEAD(&store->asking);
	CDS_INIT_LIST_HEAD(&store->under_way);
	CDS_INIT_LIST_HEAD(&store->given_up);
	ret = open_parts(store);
	if (ret != 0) {
		store_free(store);
		return ret;
	}
	*out = store;
	return 0;
}

void store_stop(struct store *store)
{
	if (!store)
		return;
	progress_stop(store->progress);
	store_free(store);
}

/* ---- What it is */

uint64_t store_number(const struct store *store)
{
	return store->number;
}

const uint8_t *store_uuid(const struct store *store)
{
	return store->uuid;
}

const char *store_path(const struct store *store)
{
	return store->path;
}

struct progress *store_progress(const struct store *store)
{
	return store->progress;
}
