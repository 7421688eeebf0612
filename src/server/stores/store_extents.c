/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The extents of a store: makes, confirms and removes them, and gives their keys. All of it
 * runs on the store's thread, as orders that other threads have left there. An order that takes
 * several steps continues where the layer says that one has ended.
 */
#include <afar/error.h>
#include <errno.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "memory/segment.h"
#include "server/stores/store_private.h"

static struct store_extent *extent_of(struct space_request *request)
{
	return caa_container_of(request, struct store_extent, request);
}

static void tell_removed(struct store_extent *extent, int result);

void store_drop_extents(struct store *store)
{
	struct store_extent *extent, *next;

	cds_list_for_each_entry_safe (extent, next, &store->extents, node) {
		store_extent_end_keys(extent);
		store_extent_leave(extent);
		tell_removed(extent, -ECANCELED);
		store_extent_free(extent);
	}
}

/* ---- Listing */

struct listing {
	struct store_call call;
	struct store_extent_info *infos;
	size_t nr_infos;
};

static void describe(const struct store_extent *extent, struct store_extent_info *out)
{
	*out = (struct store_extent_info){
		.extent = extent->number,
		.namespace = extent->namespace,
		.length = extent->length,
		.is_provisional = !extent->is_confirmed,
	};
}

static void list(struct store_call *call)
{
	struct listing *listing = caa_container_of(call, struct listing, call);
	const struct store_extent *extent;

	listing->infos = calloc(call->store->nr_extents + 1, sizeof(*listing->infos));
	if (!listing->infos) {
		store_call_end(call, error_code(-ENOMEM));
		return;
	}
	cds_list_for_each_entry (extent, &call->store->extents, node)
		describe(extent, &listing->infos[listing->nr_infos++]);
	store_call_end(call, 0);
}

/* Waits for trims and reservations. Otherwise a trim that the manager asks for again could run when
 * its chunk is another region's. An extent that is being made would not be in the list, and nobody
 * would ask for its release. */
static void run_listing(struct store_call *call)
{
	if (call->store->nr_trims == 0 && cds_list_empty(&call->store->reservations))
		list(call);
	else
		cds_list_add_tail(&call->node, &call->store->listings);
}

void store_listings_go_on(struct store *store)
{
	struct store_call *call, *next;
	CDS_LIST_HEAD(listings);

	cds_list_splice(&store->listings, &listings);
	CDS_INIT_LIST_HEAD(&store->listings);
	cds_list_for_each_entry_safe (call, next, &listings, node)
		call->run(call);
}

int store_list(struct store *store, struct store_extent_info **out, size_t *nr_out)
{
	struct listing listing = {.call.run = run_listing};
	int ret = store_wait(store, &listing.call);

	*out = listing.infos;
	*nr_out = listing.nr_infos;
	return ret;
}

/* ---- Reserving */

struct reservation {
	struct cds_list_head node; /* in the store's list */
	struct store *store;
	struct store_extent *extent;
	uint64_t
		answer_at; /* on clock_ns(): whoever asked hears that it takes too long, while it goes on */
	bool is_answered;
	store_reserved *done;
	void *argument;
};

static void extent_remove(struct store_extent *extent);

static void reservation_answer(struct reservation *reservation, int status)
{
	const struct store_extent *extent = reservation->extent;
	const struct store_extent_info made = {extent->number, extent->namespace, extent->length,
					       true};

	if (!reservation->is_answered)
		reservation->done(reservation->argument, status, status == 0 ? &made : NULL);
	reservation->is_answered = true;
}

static int fail_reservation(const struct reservation *reservation, int code, const char *why)
{
	return error_fail(code, "reserve %llu MiB on the store %s: %s",
			  (unsigned long long)reservation->extent->length >> 20,
			  reservation->store->path, why);
}

/* It is made. If nobody waits for it any more, it goes again. */
static void take_made(struct reservation *reservation, uint32_t range)
{
	struct store_extent *extent = reservation->extent;
	bool is_wanted = !reservation->is_answered;

	extent->is_being_made = false;
	extent->range = range;
	extent->state = is_wanted ? EXTENT_IS_PROVISIONAL : EXTENT_IS_LEAVING;
	store_extent_enter(extent);
	store_count(extent->store);
	reservation_answer(reservation, 0);
	if (!is_wanted)
		extent_remove(extent);
}

static void on_created(struct space_request *request)
{
	struct store_extent *extent = extent_of(request);
	struct store *store = extent->store;
	struct reservation *reservation = extent->reservation;
	const int result = request->result; /* a removal takes the request */

	store_work_end(store, &extent->work);
	cds_list_del(&reservation->node);
	if (result != 0)
		reservation_answer(reservation,
				   fail_reservation(reservation, result, afar_strerror(result)));
	else
		take_made(reservation, request->id);
	if (result != 0 && !store->is_gone)
		store_extent_free(extent);
	free(reservation);
	store_listings_go_on(store);
}

static void run_reservation(void *argument)
{
	struct reservation *reservation = argument;
	struct store_extent *extent = reservation->extent;
	int ret;

	extent->is_being_made = true;
	extent->reservation = reservation;
	extent->request = (struct space_request){
		.start = SPACE_ANYWHERE,
		.length = extent->length / FTL_BLOCK,
		.owner = store_extent_owner(extent->namespace, extent->number),
		.done = on_created,
	};
	ret = store_extent_change(extent, space_create);
	if (ret == 0) {
		cds_list_add_tail(&reservation->node, &reservation->store->reservations);
		return;
	}
	reservation_answer(reservation, fail_reservation(reservation, ret, error_last_line()));
	store_extent_free(extent);
	free(reservation);
}

uint64_t store_reservations_due(const struct store *store)
{
	const struct reservation *reservation;
	uint64_t due = CLOCK_NEVER;

	cds_list_for_each_entry (reservation, &store->reservations, node)
		if (!reservation->is_answered && reservation->answer_at < due)
			due = reservation->answer_at;
	return due;
}

void store_reservations_answer(struct store *store)
{
	struct reservation *reservation;

	cds_list_for_each_entry (reservation, &store->reservations, node)
		if (!reservation->is_answered && clock_ns() >= reservation->answer_at)
			reservation_answer(
				reservation,
				fail_reservation(reservation, -ETIMEDOUT,
						 "its device takes too long; see 'afar store "
						 "ls', and try again"));
}

/* The answer shall be there before the deadline. */
static uint64_t answer_time(uint64_t deadline)
{
	uint64_t now = clock_ns();

	return deadline == CLOCK_NEVER || deadline < now ? deadline
							 : now + (deadline - now) / 4 * 3;
}

int store_reserve(struct store *store, uint64_t namespace, uint64_t bytes, uint64_t deadline,
		  store_reserved *done, void *argument)
{
	struct reservation *reservation;
	uint64_t number = 0;
	int ret;

	if (namespace == 0 || bytes == 0 || bytes % SEGMENT_MIN != 0)
		return error_fail(-EINVAL,
				  "reserve %llu bytes for namespace %llu: not a namespace, or not "
				  "a multiple of 2 MiB",
				  (unsigned long long)bytes, (unsigned long long)namespace);
	while (number == 0) {
		if (RAND_bytes((unsigned char *)&number, sizeof(number)) != 1)
			return error_fail(-EIO, "reserve on the store %s: no randomness",
					  store->path);
	}
	reservation = calloc(1, sizeof(*reservation));
	if (!reservation)
		return error_code(-ENOMEM);
	*reservation =
		(struct reservation){.store = store,
				     .extent = store_extent_new(store, namespace, number, bytes),
				     .answer_at = answer_time(deadline),
				     .done = done,
				     .argument = argument};
	ret = reservation->extent ? progress_run(store->progress, run_reservation, reservation)
				  : error_code(-ENOMEM);
	if (ret != 0) {
		free(reservation->extent);
		free(reservation);
	}
	return ret;
}

/* ---- Confirming, and keys */

static void keys_continue(struct store_keys *keys);

/* The extent is where confirmed ones are, or could not be moved: whoever asked for its key goes
 * on. */
static void on_moved(struct space_request *request)
{
	struct store_extent *extent = extent_of(request);
	struct store *store = extent->store;
	const int result = request->result; /* a removal takes the request */
	struct store_keys *keys, *next;
	CDS_LIST_HEAD(asking);

	store_work_end(store, &extent->work);
	extent->is_moving = false;
	if (result == 0)
		extent->is_confirmed = true;
	if (result == 0 && extent->state == EXTENT_IS_PROVISIONAL)
		store_extent_set_state(extent, EXTENT_IS_CONFIRMED);
	if (extent->is_to_be_removed)
		extent_remove(extent);
	cds_list_splice(&store->asking, &asking);
	CDS_INIT_LIST_HEAD(&store->asking);
	cds_list_for_each_entry_safe (keys, next, &asking, node) {
		if (result != 0 && keys->extents[keys->nr_done] == extent->number)
			keys->done(keys,
				   error_fail(result, "confirm an extent of store %016llx: %s",
					      (unsigned long long)store->number,
					      afar_strerror(result)));
		else
			keys_continue(keys);
	}
}

static int confirm(struct store_extent *extent)
{
	int ret;

	if (extent->is_moving)
		return 0;
	extent->request = (struct space_request){
		.id = extent->range,
		.start = store_confirmed_at(extent->range),
		.done = on_moved,
	};
	ret = store_extent_change(extent, space_relocate);
	extent->is_moving = ret == 0;
	return ret;
}

static int register_for(struct store_extent *extent, struct reach reach)
{
	struct domain *domain;
	int ret;

	if (extent->keys[reach.may_write].domain)
		return 0;
	ret = domains_get(extent->store->domains, reach, &domain);
	if (ret != 0)
		return ret;
	ret = domain_register_paged(domain, &extent->pager, extent->length,
				    extent->keys[reach.may_write].on);
	if (ret != 0)
		domains_put(extent->store->domains, domain);
	else
		extent->keys[reach.may_write].domain = domain;
	return ret;
}

static int give_key(struct store_extent *extent, struct reach reach, struct extent_key *out)
{
	const struct fabric_memory *on = extent->keys[reach.may_write].on;
	int ret = register_for(extent, reach);

	if (ret != 0)
		return ret;
	out->length = extent->length;
	for (unsigned i = 0; i < domains_nr_fabrics(extent->store->domains); i++) {
		out->on[i].key = on[i].key;
		out->on[i].origin = on[i].base;
	}
	return 0;
}

/* Gives keys from where it was on. A provisional extent is confirmed first, which continues this. */
static void keys_continue(struct store_keys *keys)
{
	struct store *store = keys->store;
	int ret = 0;

	for (; keys->nr_done < keys->nr_extents && ret == 0; keys->nr_done++) {
		uint64_t number = keys->extents[keys->nr_done];
		struct store_extent *extent =
			store_extent_named(store, number, keys->reach.namespace);

		if (!extent || store_extent_is_leaving(extent)) {
			ret = error_fail(-AFAR_ELOST,
					 "key of extent %llu: namespace %llu has no such extent in "
					 "store %016llx",
					 (unsigned long long)number,
					 (unsigned long long)keys->reach.namespace,
					 (unsigned long long)store->number);
		} else if (extent->state == EXTENT_IS_PROVISIONAL) {
			ret = confirm(extent);
			if (ret != 0)
				break;
			cds_list_add_tail(&keys->node, &store->asking);
			return;
		} else {
			ret = give_key(extent, keys->reach, &keys->keys[keys->nr_done]);
		}
	}
	keys->done(keys, ret);
}

static void run_keys(void *argument)
{
	struct store_keys *keys = argument;

	if (keys->store->is_closed || keys->store->is_gone)
		keys->done(keys, error_fail(-AFAR_ESERVER,
					    "get keys of store %016llx: its device is gone",
					    (unsigned long long)keys->store->number));
	else
		keys_continue(keys);
}

int store_get_keys(struct store *store, struct store_keys *keys)
{
	keys->store = store;
	keys->nr_done = 0;
	return progress_run(store->progress, run_keys, keys);
}

/* ---- Releasing */

/* One call. Freed when all of its extents are removed. */
struct release {
	struct store *store;
	store_done *done;
	void *argument;
	size_t nr_left; /* extents that it waits for, and 1 while it looks for them */
	int status;
	struct progress_closing *closing;
	size_t nr_names;
	struct release_wait *waits;
	struct store_name names[];
};

struct release_wait {
	struct cds_list_head node; /* in the extent's list */
	struct release *release;
	struct store_extent *extent;
	bool is_first; /* this call is the one that removes the extent */
	bool had_keys; /* connections may be using it */
};

static void release_end(struct release *release)
{
	release->done(release->argument, release->status);
	free(release->waits);
	free(release);
}

static void release_drop(struct release *release)
{
	if (--release->nr_left == 0)
		release_end(release);
}

static void tell_removed(struct store_extent *extent, int result)
{
	struct release_wait *wait, *next;

	cds_list_for_each_entry_safe (wait, next, &extent->releases, node) {
		cds_list_del(&wait->node);
		wait->extent = NULL;
		if (result != 0)
			wait->release->status = result;
		release_drop(wait->release);
	}
}

static void on_removed(struct space_request *request)
{
	struct store_extent *extent = extent_of(request);
	struct store *store = extent->store;

	store_work_end(store, &extent->work);
	cache_change_end(store->pages.cache, &extent->change);
	if (request->result != 0) {
		log_error("store %s: extent %llx cannot be removed: %s", store->path,
			  (unsigned long long)extent->number, afar_strerror(request->result));
		store_extent_set_state(extent, EXTENT_IS_STUCK);
		tell_removed(extent, request->result);
		return;
	}
	store_extent_leave(extent);
	tell_removed(extent, 0);
	store_extent_free(extent);
	store_count(store);
	store->options.changed(store->options.context);
}

/* Nothing is under way on it any more. */
static void extent_remove(struct store_extent *extent)
{
	int ret;

	extent->is_to_be_removed = extent->is_moving;
	if (extent->is_moving)
		return;
	extent->request = (struct space_request){.id = extent->range, .done = on_removed};
	cache_change_begin(extent->store->pages.cache, &extent->change, store_extent_cached(extent),
			   0, extent->length / FTL_BLOCK);
	ret = store_extent_change(extent, space_remove);
	if (ret == 0)
		return;
	cache_change_end(extent->store->pages.cache, &extent->change);
	store_extent_set_state(extent, EXTENT_IS_STUCK);
	tell_removed(extent, ret);
}

/* The connections of the extents' namespaces are closed, and what they had under way has ended. */
static void on_connections_closed(void *argument)
{
	struct release *release = argument;

	for (size_t i = 0; i < release->nr_names; i++) {
		struct release_wait *wait = &release->waits[i];

		if (wait->is_first && wait->extent)
			extent_remove(wait->extent);
	}
	release_drop(release);
}

static bool has_reached(const void *argument, const struct admission *connection)
{
	const struct release *release = argument;

	for (size_t i = 0; i < release->nr_names; i++) {
		if (release->waits[i].had_keys &&
		    release->names[i].namespace == connection->reach.namespace)
			return true;
	}
	return false;
}

static void await(struct release *release, size_t i, struct store_extent *extent)
{
	struct release_wait *wait = &release->waits[i];

	wait->release = release;
	wait->extent = extent;
	cds_list_add_tail(&wait->node, &extent->releases);
	release->nr_left++;
	if (extent->state == EXTENT_IS_LEAVING)
		return;
	wait->is_first = true;
	wait->had_keys = extent->keys[0].domain || extent->keys[1].domain || extent->was_reached;
	store_extent_set_state(extent, EXTENT_IS_LEAVING);
	store_extent_end_keys(extent);
}

/* The manager did not know it when it was listed. Somebody may have shown a capability for it
 * since. */
static bool must_stay(const struct store_name *name, const struct store_extent *extent)
{
	return name->is_unknown && (extent->is_confirmed || extent->is_moving);
}

static void run_release(void *argument)
{
	struct release *release = argument;
	const struct progress_order order = {has_reached, on_connections_closed, release, false};

	if (release->store->is_closed || release->store->is_gone) {
		release->status = -ECANCELED;
		progress_closing_drop(release->closing);
		release_end(release);
		return;
	}
	release->nr_left = 1;
	for (size_t i = 0; i < release->nr_names; i++) {
		struct store_extent *extent = store_extent_named(
			release->store, release->names[i].extent, release->names[i].namespace);

		if (extent && !must_stay(&release->names[i], extent))
			await(release, i, extent);
	}
	progress_close(release->closing, &order);
}

int store_release(struct store *store, const struct store_name *names, size_t nr_names,
		  store_done *done, void *argument)
{
	struct release *release = calloc(1, sizeof(*release) + nr_names * sizeof(*names));
	int ret;

	if (!release)
		return error_code(-ENOMEM);
	release->store = store;
	release->done = done;
	release->argument = argument;
	release->nr_names = nr_names;
	memcpy(release->names, names, nr_names * sizeof(*names));
	release->waits = calloc(nr_names + 1, sizeof(*release->waits));
	ret = release->waits ? progress_closing_new(store->progress, &release->closing)
			     : error_code(-ENOMEM);
	if (ret == 0) {
		ret = progress_run(store->progress, run_release, release);
		if (ret != 0)
			progress_closing_drop(release->closing);
	}
	if (ret != 0) {
		free(release->waits);
		free(release);
	}
	return ret;
}
