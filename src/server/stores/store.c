/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store's thread, and its life. The thread is a progress thread (progress.h) with the layer as its
 * engine. Owns all of the store.
 */
#include "server/stores/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "flash/device/uring.h"
#include "memory/segment.h"
#include "server/stores/store_private.h"

#define COUNT_NS UINT64_C(200000000) /* between looks at the layer's numbers */

/* ---- The engine. On the thread. */

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
	store_forget_work(store);
	store_drop_extents(store);
	if (store->space)
		space_close(store->space);
	store->space = NULL;
}

static int engine_open(void *context)
{
	struct store *store = context;
	int ret = store_open_device(store);

	if (ret == 0)
		ret = store_open_layer(store);
	if (ret == 0)
		ret = space_open(store->ftl, &store->space);
	if (ret == 0)
		ret = store_find_extents(store);
	if (ret == 0)
		ret = store_begin_opening(store);
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
		return store_give_up_work(store);
	/* First, so that the poll starts its reads. */
	if (store->scrub && (store->has_ended || clock_ns() >= store->scrub_due))
		store_scrub_go_on(store);
	ret = ftl_poll(store->ftl, 0);
	if (ret < 0) {
		store_fail(store, ret);
		store_give_up_work(store);
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

/* No connection has anything under way. Requests that others have begun, and what the space
 * finishes by itself, end before the record of the clean end is written. */
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
	ret = store->is_gone ? -EIO : store_end_opening(store);
	if (ret != 0) {
		log_error("store %s: it could not be closed as it should be: %s", store->path,
			  afar_strerror(ret));
		if (store->is_gone)
			store_give_up_work(store);
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

/* ---- Life */

/* Carries out MESSAGE_WILL_NEED. Returns its status. */
static int will_need(struct store *store, struct reach reach, const struct message_request *request)
{
	struct store_extent *extent;
	int ret;

	if (store->is_gone)
		return -EIO;
	if (request->length == 0 || request->length > MESSAGE_NEED_MAX)
		return -EINVAL;
	ret = store_extent_reached(store, reach, request, &extent);
	if (ret == 0)
		pages_fetch(extent, request->offset, request->length);
	return ret;
}

static bool serve(void *context, const struct admission *admission,
		  const struct message_request *request, struct message_reply *reply,
		  const struct progress_message *message)
{
	if (request->kind == MESSAGE_SYNC)
		return store_sync(context, request, reply, message);
	if (request->kind == MESSAGE_ZERO)
		return store_zero(context, admission->reach, request, reply, message);
	reply->status = request->kind == MESSAGE_WILL_NEED
				? will_need(context, admission->reach, request)
				: -EOPNOTSUPP;
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
	struct progress_options options = {
		.fabric = store->fabrics[0],
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

	for (unsigned i = 1; i < store->nr_fabrics; i++) {
		struct fabric *fabric = store->fabrics[i];

		options.beside[i - 1] = (struct progress_way){
			.fabric = fabric,
			.nr_fabric = i,
			.address = fabric->attributes.needs_shared_memory
					   ? fabric->attributes.loopback
					   : store->driven_address,
		};
		options.nr_beside = i;
	}
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
	for (unsigned i = 0; i < store->nr_fabrics; i++)
		fabric_close(store->fabrics[i]);
	pthread_mutex_destroy(&store->lock);
	free(store);
}

/* Opens a fabric of a lane beside the first. Without it clients use the others. */
static void open_beside(struct store *store, const char *transport, const char *address)
{
	struct fabric *fabric = NULL;
	int ret = transport ? fabric_open_at(transport, address, &fabric) : -ENOENT;

	if (ret == 0)
		ret = pages_lend(&store->pages, fabric);
	if (ret == 0) {
		store->fabrics[store->nr_fabrics++] = fabric;
		return;
	}
	if (fabric)
		fabric_close(fabric);
	if (transport)
		log_warn("store %s: it has no lane over %s: %s", store->path, transport,
			 error_last_line());
}

static int open_fabrics(struct store *store)
{
	const struct store_options *options = &store->options;
	int ret = fabric_open("tcp", &store->fabrics[0]);

	if (ret != 0)
		return ret;
	store->nr_fabrics = 1;
	store->fabrics[0]->congestion = options->congestion;
	open_beside(store, options->driven_transport, store->driven_address);
	open_beside(store, options->near_transport, NULL);
	return domains_open(store->fabrics, store->nr_fabrics, &store->domains);
}

/* Pages that clients of this machine may map take descriptors, which connections want, too. */
static bool can_show_pages(const struct store *store)
{
	const uint64_t nr = store->options.cache_bytes / SEGMENT_MIN;
	const uint32_t max = store->options.nr_descriptors_max;

	return store->options.near_transport && nr <= FABRIC_SLABS_MAX &&
	       (max == 0 || nr <= max / 4);
}

static int open_parts(struct store *store)
{
	int ret = pages_open(&store->pages, store->options.cache_bytes, can_show_pages(store));

	if (ret == 0)
		ret = open_fabrics(store);
	return ret == 0 ? start_thread(store) : ret;
}

int store_start(const struct store_options *options, struct store **out)
{
	struct store *store = calloc(1, sizeof(*store));
	int ret;

	if (!store)
		return error_code(-ENOMEM);
	if (strlen(options->path) >= sizeof(store->path) ||
	    strlen(options->address) >= sizeof(store->address) ||
	    (options->driven_transport &&
	     strlen(options->driven_address) >= sizeof(store->driven_address))) {
		free(store);
		return error_fail(-ENAMETOOLONG, "open the store %.64s…: its path is too long",
				  options->path);
	}
	store->options = *options;
	strcpy(store->path, options->path);
	strcpy(store->address, options->address);
	if (options->driven_transport)
		strcpy(store->driven_address, options->driven_address);
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

static void run_press(void *argument)
{
	struct store *store = argument;

	if (store->is_closed || store->is_gone)
		return;
	pages_press(&store->pages, clock_ns());
	store->is_count_due = true;
}

int store_press(struct store *store)
{
	return progress_run(store->progress, run_press, store);
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

unsigned store_nr_lanes(const struct store *store)
{
	return progress_nr_ways(store->progress);
}

static struct progress_way lane(const struct store *store, unsigned i)
{
	struct progress_way way;

	progress_way(store->progress, i, &way);
	return way;
}

const char *store_lane_transport(const struct store *store, unsigned i)
{
	return lane(store, i).fabric->attributes.transport;
}

const char *store_lane_address(const struct store *store, unsigned i)
{
	return lane(store, i).address;
}

unsigned store_lane_fabric(const struct store *store, unsigned i)
{
	return lane(store, i).nr_fabric;
}

bool store_lane_is_near(const struct store *store, unsigned i)
{
	return lane(store, i).fabric->attributes.needs_shared_memory;
}
