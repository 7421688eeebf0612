/* SPDX-License-Identifier: BSD-3-Clause */
/* The join of a server, as a message. */
#include "server/join.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "rpc/protobuf.h"
#include "server/advertise.h"

/* Sets `*ret` to -ENOMEM when there was no memory. */
static char *copy_text(const char *text, int *ret)
{
	char *copy = strdup(text);

	if (!copy)
		*ret = error_code(-ENOMEM);
	return copy;
}

static void copy_bytes(ProtobufCBinaryData *out, const void *bytes, size_t length, int *ret)
{
	out->data = malloc(length);
	if (!out->data) {
		*ret = error_code(-ENOMEM);
		return;
	}
	memcpy(out->data, bytes, length);
	out->len = length;
}

/* ---- Lanes */

static int add_lane(const struct membership_options *options, Afar__Server *server,
		    const char *transport, const char *listening, uint64_t store)
{
	Afar__Lane *lane = MESSAGE_NEW(afar__lane, Afar__Lane);
	char address[ADVERTISE_MAX];
	int ret = 0;

	if (!lane)
		return error_code(-ENOMEM);
	server->lanes[server->n_lanes++] = lane;
	advertise(listening, options->manager_host, options->manager_port, address);
	lane->transport = copy_text(transport, &ret);
	lane->address = copy_text(address, &ret);
	lane->store = store;
	return ret;
}

static int add_lanes(const struct membership_options *options, Afar__Server *server)
{
	const struct stores *stores = options->stores;
	const unsigned nr_lanes = lanes_nr(options->lanes);
	int ret = 0;

	server->lanes = calloc(nr_lanes + stores->nr, sizeof(*server->lanes));
	if (!server->lanes)
		return error_code(-ENOMEM);
	for (unsigned i = 0; i < nr_lanes && ret == 0; i++)
		ret = add_lane(options, server, lanes_transport(options->lanes, i),
			       lanes_address(options->lanes, i), 0);
	for (unsigned i = 0; i < stores->nr && ret == 0; i++)
		ret = add_lane(options, server, "tcp",
			       progress_address(store_progress(stores->entries[i])),
			       store_number(stores->entries[i]));
	return ret;
}

static int add_self(const struct membership_options *options, const struct server_identity *self,
		    Afar__ServerJoin *join)
{
	Afar__Server *server = MESSAGE_NEW(afar__server, Afar__Server);
	char control[ADVERTISE_MAX];
	int ret = 0;

	if (!server)
		return error_code(-ENOMEM);
	join->self = server;
	advertise(options->control_address, options->manager_host, options->manager_port, control);
	server->server = self->number;
	server->name = copy_text(options->name, &ret);
	server->incarnation = options->incarnation->number;
	server->control_address = copy_text(control, &ret);
	return ret != 0 ? ret : add_lanes(options, server);
}

/* ---- Extents */

static Afar__Extent *new_extent(const struct extent_info *info)
{
	Afar__Extent *extent = MESSAGE_NEW(afar__extent, Afar__Extent);

	if (!extent)
		return NULL;
	extent->extent = info->extent;
	extent->namespace_ = info->namespace;
	extent->length = info->length;
	extent->class_ = info->class;
	return extent;
}

static int add_extents(const struct membership_options *options, Afar__ServerJoin *join)
{
	struct extent_info *infos = NULL;
	size_t nr_infos = 0;
	int ret = extent_pool_list(options->pool, &infos, &nr_infos);

	if (ret != 0)
		return ret;
	join->extents = calloc(nr_infos + 1, sizeof(*join->extents));
	for (size_t i = 0; i < nr_infos && join->extents; i++) {
		join->extents[i] = new_extent(&infos[i]);
		if (!join->extents[i])
			break;
		join->n_extents++;
	}
	free(infos);
	return join->n_extents == nr_infos && join->extents ? 0 : error_code(-ENOMEM);
}

/* ---- Stores */

static Afar__StoreJoin *new_join(const struct store_join *join)
{
	Afar__StoreJoin *message = MESSAGE_NEW(afar__store_join, Afar__StoreJoin);

	if (!message)
		return NULL;
	message->opening = join->opening;
	message->random = join->random;
	return message;
}

static int add_store_extents(struct store *store, Afar__Store *message)
{
	struct store_extent_info *infos = NULL;
	size_t nr_infos = 0;
	int ret = store_list(store, &infos, &nr_infos);

	if (ret != 0)
		return ret;
	message->extents = calloc(nr_infos + 1, sizeof(*message->extents));
	for (size_t i = 0; i < nr_infos && message->extents; i++) {
		const struct extent_info info = {infos[i].extent, infos[i].namespace,
						 infos[i].length, CLASS_FLASH};

		message->extents[i] = new_extent(&info);
		if (!message->extents[i])
			break;
		message->extents[i]->is_provisional = infos[i].is_provisional;
		message->n_extents++;
	}
	free(infos);
	return message->n_extents == nr_infos && message->extents ? 0 : error_code(-ENOMEM);
}

static int add_store(struct store *store, Afar__ServerJoin *join)
{
	Afar__Store *message = MESSAGE_NEW(afar__store, Afar__Store);
	struct store_stat stat;
	int ret = 0;

	if (!message)
		return error_code(-ENOMEM);
	join->stores[join->n_stores++] = message;
	store_stat(store, &stat);
	message->store = store_number(store);
	copy_bytes(&message->uuid, store_uuid(store), STORE_UUID_BYTES, &ret);
	message->path = copy_text(store_path(store), &ret);
	message->capacity_bytes = stat.capacity_bytes;
	message->cluster = copy_text(stat.cluster, &ret);
	message->opening = stat.opening;
	message->accepted = new_join(&stat.accepted);
	message->present = new_join(&stat.present);
	if (!message->accepted || !message->present)
		ret = error_code(-ENOMEM);
	return ret != 0 ? ret : add_store_extents(store, message);
}

static int add_stores(const struct membership_options *options, Afar__ServerJoin *join)
{
	const struct stores *stores = options->stores;
	int ret = 0;

	join->stores = calloc(stores->nr + 1, sizeof(*join->stores));
	if (!join->stores)
		return error_code(-ENOMEM);
	/* A store whose device has gone is not there: its regions are unavailable. */
	for (unsigned i = 0; i < stores->nr && ret == 0; i++) {
		struct store_stat stat;

		store_stat(stores->entries[i], &stat);
		if (stat.failure == 0)
			ret = add_store(stores->entries[i], join);
	}
	return ret;
}

/* ---- The whole */

static int fill(const struct membership_options *options, const struct server_identity *self,
		Afar__ServerJoin *join)
{
	const struct incarnation *incarnation = options->incarnation;
	struct extent_pool_stat stat;
	int ret = add_self(options, self, join);

	extent_pool_stat(options->pool, &stat);
	join->cluster = copy_text(self->cluster, &ret);
	copy_bytes(&join->signing_key, incarnation->signing_key, sizeof(incarnation->signing_key),
		   &ret);
	join->age_s = incarnation_age_s(incarnation);
	join->capacity_bytes = stat.capacity_bytes;
	if (ret == 0)
		ret = add_extents(options, join);
	return ret != 0 ? ret : add_stores(options, join);
}

int join_compose(const struct membership_options *options, const struct server_identity *self,
		 Afar__ServerJoin **out)
{
	Afar__ServerJoin *join = MESSAGE_NEW(afar__server_join, Afar__ServerJoin);
	int ret = join ? fill(options, self, join) : error_code(-ENOMEM);

	if (ret == 0)
		*out = join;
	else if (join)
		afar__server_join__free_unpacked(join, NULL);
	return ret;
}
