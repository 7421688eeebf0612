/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Assembles a server from its parts and takes it apart again. It is reached over lanes (lanes.c)
 * and a control port (control.c). Its other parts are the pool of extents (extent.c), the tickets
 * (tickets.c), and the membership in the cluster (membership.c). Called by the daemon.
 */
#include <errno.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/uri.h"
#include "memory/available.h"
#include "memory/segment.h"
#include "server/control/control.h"
#include "server/control/fence.h"
#include "server/control/incarnation.h"
#include "server/control/membership.h"
#include "server/control/tickets.h"
#include "server/data/atomics.h"
#include "server/data/lanes.h"
#include "server/data/mover.h"
#include "server/memory/extent.h"
#include "server/memory/zero.h"
#include "server/server.h"
#include "server/server_private.h"
#include "server/stores/pressure.h"
#include "server/stores/stores.h"

#define SPIN_US_DEFAULT 50U

/* The pool and the progress threads call this; the membership exists before they start. */
static void on_changed(void *context)
{
	struct server *server = context;
	struct membership *membership = __atomic_load_n(&server->membership, __ATOMIC_ACQUIRE);

	if (membership)
		membership_changed(membership);
}

static int admit(void *context, const void *shown, size_t length, struct admission *out)
{
	struct server *server = context;

	return tickets_redeem(server->tickets, shown, length, out);
}

static bool serve(void *context, const struct admission *admission,
		  const struct message_request *request, struct message_reply *reply,
		  const struct progress_message *message)
{
	struct server *server = context;

	(void)message;
	if (request->kind == MESSAGE_ZERO)
		zero_serve(server->pool, admission->reach, request, reply);
	else
		atomics_serve(server->pool, admission->reach, request, reply);
	return true;
}

static int locate(void *context, const struct admission *admission,
		  const struct message_request *request, char **out)
{
	struct server *server = context;

	return mover_locate(server->pool, admission->reach, request, out);
}

/* Raises the limit of descriptors to the administrator's maximum, because each client needs some.
 * Returns the limit. */
static uint32_t raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 1024;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	getrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur > UINT32_MAX ? UINT32_MAX : (uint32_t)limit.rlim_cur;
}

static int keep(char *out, size_t size, const char *text, const char *what)
{
	if ((size_t)snprintf(out, size, "%s", text) >= size)
		return error_fail(-EINVAL, "start the server: its %s is too long", what);
	return 0;
}

static int copy_options(struct server *server, const struct server_options *options)
{
	int ret;

	if (options->nr_progress > PROGRESS_THREADS_MAX)
		return error_fail(-EINVAL, "start the server: %u progress threads, at most %u",
				  options->nr_progress, PROGRESS_THREADS_MAX);
	if (options->capacity_bytes > 0 && options->capacity_bytes < SEGMENT_MIN)
		return error_fail(-EINVAL,
				  "start the server: a capacity of %llu bytes, at least %zu",
				  (unsigned long long)options->capacity_bytes, SEGMENT_MIN);
	server->key = *options->key;
	ret = keep(server->manager_host, sizeof(server->manager_host), options->manager_host,
		   "manager's host");
	if (ret != 0)
		return ret;
	if (options->folder) {
		ret = keep(server->folder, sizeof(server->folder), options->folder, "folder");
		if (ret != 0)
			return ret;
	}
	if (options->name)
		return keep(server->name, sizeof(server->name), options->name, "name");
	if (gethostname(server->name, sizeof(server->name) - 1) != 0)
		strcpy(server->name, "server");
	return 0;
}

static int open_lanes(struct server *server, const struct server_options *options)
{
	const struct lanes_manager manager = {server->manager_host, options->manager_port};

	return lanes_open(options->lanes, options->nr_lanes, &manager, &server->lanes);
}

static uint64_t capacity(const struct server_options *options)
{
	return options->capacity_bytes ? options->capacity_bytes : memory_limit() / 2;
}

/* Returns what each store keeps pages in. */
static uint64_t cache_of_each(const struct server_options *options)
{
	return options->nr_stores == 0
		       ? 0
		       : options->cache_bytes / options->nr_stores / SEGMENT_MIN * SEGMENT_MIN;
}

static int check_cache(const struct server_options *options)
{
	if (options->cache_bytes == 0 || options->nr_stores == 0)
		return 0;
	if (cache_of_each(options) == 0)
		return error_fail(
			-EINVAL,
			"start the server: a cache of %llu MiB for %u stores is less than "
			"2 MiB for each; give --cache more, or leave it out",
			(unsigned long long)options->cache_bytes >> 20, options->nr_stores);
	if (options->cache_bytes <= capacity(options) - SEGMENT_MIN)
		return 0;
	return error_fail(
		-EINVAL,
		"start the server: a cache of %llu MiB leaves nothing to lend of %llu MiB; "
		"give --cache less, or --memory more",
		(unsigned long long)options->cache_bytes >> 20,
		(unsigned long long)capacity(options) >> 20);
}

static int open_pool(struct server *server, const struct server_options *options)
{
	const struct extent_pool_options pool = {
		.domains = lanes_domains(server->lanes),
		.capacity_bytes = capacity(options) - cache_of_each(options) * options->nr_stores,
		.pool_bytes = options->pool_bytes,
		.is_shared = lanes_need_shared_memory(server->lanes),
		.is_registering_slow = lanes_register_slowly(server->lanes),
		.changed = on_changed,
		.context = server,
	};

	return extent_pool_open(&pool, &server->pool);
}

static uint32_t spin_us(const struct server_options *options)
{
	if (options->spin_us == 0)
		return SPIN_US_DEFAULT;
	return options->spin_us == UINT32_MAX ? 0 : options->spin_us;
}

static int start_progress(struct server *server, const struct server_options *options)
{
	uint32_t nr_descriptors = raise_descriptor_limit();
	const struct progress_options progress = {
		.nr_threads = options->nr_progress ? options->nr_progress : 1,
		.spin_us = spin_us(options),
		.stage_bytes = options->stage_bytes,
		/* The rest is for control connections and ourselves. */
		.nr_descriptors_max = nr_descriptors - nr_descriptors / 4,
		.admit = admit,
		.serve = serve,
		.locate = locate,
		.changed = on_changed,
		.context = server,
	};

	return lanes_start(server->lanes, options->sysfs ? options->sysfs : "/sys", &progress);
}

/* A store's lane listens at the host where the first lane over tcp does, on a port of its own.
 * Without one, it listens where clients' control connections come. */
static void stores_host(const struct server_options *options, char out[FABRIC_ADDRESS_MAX])
{
	const char *address = options->control_address;
	const char *colon;

	for (unsigned i = options->nr_lanes; i > 0; i--) {
		if (strcmp(options->lanes[i - 1].transport, "tcp") == 0)
			address = options->lanes[i - 1].address;
	}
	colon = strrchr(address, ':');
	snprintf(out, FABRIC_ADDRESS_MAX, "%.*s", colon ? (int)(colon - address) : 0, address);
}

static int check_stores(const struct server_options *options)
{
	if (options->nr_stores > SERVER_STORES_MAX)
		return error_fail(-EINVAL, "start the server: %u stores, at most %u",
				  options->nr_stores, SERVER_STORES_MAX);
	return 0;
}

static int open_stores(struct server *server, const struct server_options *options)
{
	uint32_t nr_descriptors = raise_descriptor_limit();
	char address[FABRIC_ADDRESS_MAX], driven_address[FABRIC_ADDRESS_MAX];
	char driven_transport[FABRIC_NAME_MAX];
	struct store_options store = {
		.address = address,
		.near_transport = lanes_near_transport(server->lanes),
		.spin_us = spin_us(options),
		.scrub_bytes_per_s = options->scrub_bytes_per_s,
		.cache_bytes = cache_of_each(options),
		.nr_descriptors_max = nr_descriptors - nr_descriptors / 4,
		.admit = admit,
		.changed = on_changed,
		.context = server,
	};
	int ret = check_stores(options);
	struct store *opened;

	stores_host(options, address);
	if (lanes_find_driven(server->lanes, driven_transport, driven_address)) {
		store.driven_transport = driven_transport;
		store.driven_address = driven_address;
	}
	stores_set(&server->stores, server->lanes, &store, options->stores_port);
	for (unsigned i = 0; i < options->nr_stores && ret == 0; i++)
		ret = stores_open(&server->stores, options->stores[i].path,
				  options->stores[i].create_bytes, &opened);
	if (options->cache_bytes > 0 && options->nr_stores == 0)
		log_warn("server: no pages are kept (--cache), because it starts without --flash");
	/* Those that come later would take what is lent. */
	server->stores.options.cache_bytes = 0;
	return ret;
}

static void on_pressure(void *context)
{
	struct server *server = context;

	stores_press(&server->stores);
}

static int watch_pressure(struct server *server, const struct server_options *options)
{
	return cache_of_each(options) == 0 ? 0
					   : pressure_watch(on_pressure, server, &server->pressure);
}

static int start_control(struct server *server, struct rpc_loop *loop,
			 const struct server_options *options)
{
	const struct control_options control = {
		.loop = loop,
		.address = options->control_address,
		.incarnation = &server->incarnation,
		.pool = server->pool,
		.tickets = server->tickets,
		.lanes = server->lanes,
		.stores = &server->stores,
	};

	return control_start(&control, &server->control);
}

static int start_membership(struct server *server, struct rpc_loop *loop,
			    const struct server_options *options)
{
	const struct membership_options membership = {
		.loop = loop,
		.name = server->name,
		.manager_host = server->manager_host,
		.manager_port = options->manager_port,
		.key = &server->key,
		.key_file = options->key_file,
		.folder = options->folder ? server->folder : NULL,
		.incarnation = &server->incarnation,
		.control_address = control_address(server->control),
		.pool = server->pool,
		.lanes = server->lanes,
		.fence = &server->fence,
		.stores = &server->stores,
		.gave_up = options->gave_up,
		.context = options->context,
	};
	struct membership *opened;
	int ret;

	server->fence = (struct fence){server->pool,	server->tickets, server->lanes,
				       server->control, &server->stores, &server->incarnation};
	ret = membership_open(&membership, &opened);
	if (ret != 0)
		return ret;
	__atomic_store_n(&server->membership, opened, __ATOMIC_RELEASE);
	return membership_start(opened);
}

int server_start(struct rpc_loop *loop, const struct server_options *options, struct server **out)
{
	struct server *server = calloc(1, sizeof(*server));
	int ret;

	if (!server)
		return error_code(-ENOMEM);
	server->started_at = clock_ns();
	stores_init(&server->stores);
	ret = copy_options(server, options);
	if (ret == 0)
		ret = check_cache(options);
	if (ret == 0)
		ret = incarnation_draw(&server->incarnation);
	if (ret == 0)
		ret = open_lanes(server, options);
	if (ret == 0)
		ret = tickets_open(server->incarnation.number, TICKET_LIFETIME_S,
				   PASS_LIFETIME_MAX_S, &server->tickets);
	if (ret == 0)
		ret = open_pool(server, options);
	if (ret == 0)
		ret = start_progress(server, options);
	if (ret == 0)
		ret = open_stores(server, options);
	if (ret == 0)
		ret = watch_pressure(server, options);
	if (ret == 0)
		ret = start_control(server, loop, options);
	if (ret == 0)
		ret = start_membership(server, loop, options);
	if (ret != 0) {
		server_stop(server);
		return ret;
	}
	*out = server;
	return 0;
}

int server_is_joined(const struct server *server)
{
	return membership_is_joined(server->membership);
}

int server_is_kept_out(const struct server *server)
{
	return membership_is_kept_out(server->membership);
}

int server_failure(const struct server *server)
{
	return membership_failure(server->membership);
}

void server_renew_key(struct server *server)
{
	membership_renew_key(server->membership);
}

/* Stops from the outside in: first requests, then service, then the memory. */
void server_stop(struct server *server)
{
	if (!server)
		return;
	if (server->membership)
		membership_stop(server->membership);
	control_stop(server->control);
	lanes_stop(server->lanes);
	pressure_end(server->pressure);
	stores_close(&server->stores);
	extent_pool_close(server->pool);
	tickets_close(server->tickets);
	membership_close(server->membership);
	lanes_close(server->lanes);
	OPENSSL_cleanse(&server->incarnation, sizeof(server->incarnation));
	OPENSSL_cleanse(&server->key, sizeof(server->key));
	free(server);
}
