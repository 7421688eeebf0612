/* SPDX-License-Identifier: BSD-3-Clause */
/* Composes the join of a server, and that of a store that comes later, as messages. Has the stores
 * do what the manager's answer says. */
#include "server/control/join.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "rpc/protobuf.h"
#include "server/data/advertise.h"

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

static int add_lane(const struct membership_options *options, Afar__Lane **out,
		    const char *transport, const char *listening, uint64_t store)
{
	Afar__Lane *lane = MESSAGE_NEW(afar__lane, Afar__Lane);
	char address[ADVERTISE_MAX];
	int ret = 0;

	if (!lane)
		return error_code(-ENOMEM);
	*out = lane;
	advertise(listening, options->manager_host, options->manager_port, address);
	lane->transport = copy_text(transport, &ret);
	lane->address = copy_text(address, &ret);
	lane->store = store;
	return ret;
}

static int add_store_lane(const struct membership_options *options, Afar__Lane **out,
			  struct store *store, unsigned i)
{
	return add_lane(options, out, store_lane_transport(store, i), store_lane_address(store, i),
			store_number(store));
}

static int add_store_lanes(const struct membership_options *options, Afar__Server *server,
			   struct store *store)
{
	int ret = 0;

	for (unsigned i = 0; i < store_nr_lanes(store) && ret == 0; i++)
		ret = add_store_lane(options, &server->lanes[server->n_lanes++], store, i);
	return ret;
}

static int add_lanes(const struct membership_options *options, Afar__Server *server)
{
	struct stores *stores = options->stores;
	const unsigned nr_lanes = lanes_nr(options->lanes);
	size_t nr_all = nr_lanes;
	int ret = 0;

	for (unsigned i = 0; i < stores->nr; i++)
		nr_all += store_nr_lanes(stores->entries[i]);
	server->lanes = calloc(nr_all, sizeof(*server->lanes));
	if (!server->lanes)
		return error_code(-ENOMEM);
	for (unsigned i = 0; i < nr_lanes && ret == 0; i++)
		ret = add_lane(options, &server->lanes[server->n_lanes++],
			       lanes_transport(options->lanes, i), lanes_address(options->lanes, i),
			       0);
	for (unsigned i = 0; i < stores->nr && ret == 0; i++)
		ret = add_store_lanes(options, server, stores->entries[i]);
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

static Afar__Term *new_term(struct store_term term)
{
	Afar__Term *message = MESSAGE_NEW(afar__term, Afar__Term);

	if (!message)
		return NULL;
	message->number = term.number;
	message->random = term.random;
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

static int add_store(struct store *store, Afar__Store **out)
{
	Afar__Store *message = MESSAGE_NEW(afar__store, Afar__Store);
	struct store_stat stat;
	int ret = 0;

	if (!message)
		return error_code(-ENOMEM);
	*out = message;
	store_stat(store, &stat);
	message->store = store_number(store);
	copy_bytes(&message->uuid, store_uuid(store), STORE_UUID_BYTES, &ret);
	message->path = copy_text(store_path(store), &ret);
	message->capacity_bytes = stat.capacity_bytes;
	message->cluster = copy_text(stat.cluster, &ret);
	message->opening = stat.opening;
	message->accepted = new_join(&stat.accepted);
	message->present = new_join(&stat.present);
	message->term = new_term(stat.term);
	if (!message->accepted || !message->present || !message->term)
		ret = error_code(-ENOMEM);
	return ret != 0 ? ret : add_store_extents(store, message);
}

static int add_stores(const struct membership_options *options, Afar__ServerJoin *join)
{
	struct stores *stores = options->stores;
	int ret = 0;

	join->stores = calloc(stores->nr + 1, sizeof(*join->stores));
	if (!join->stores)
		return error_code(-ENOMEM);
	/* A store whose device has gone is not there: its regions are unavailable. */
	for (unsigned i = 0; i < stores->nr && ret == 0; i++) {
		struct store_stat stat;

		store_stat(stores->entries[i], &stat);
		if (stat.failure == 0)
			ret = add_store(stores->entries[i], &join->stores[join->n_stores++]);
	}
	return ret;
}

/* ---- The whole */

static int fill(const struct membership_options *options, const struct server_identity *self,
		struct store_term term, Afar__ServerJoin *join)
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
	join->term = new_term(term);
	if (!join->term)
		ret = error_code(-ENOMEM);
	if (ret == 0)
		ret = add_extents(options, join);
	return ret != 0 ? ret : add_stores(options, join);
}

int join_compose(const struct membership_options *options, const struct server_identity *self,
		 struct store_term term, Afar__ServerJoin **out)
{
	Afar__ServerJoin *join = MESSAGE_NEW(afar__server_join, Afar__ServerJoin);
	int ret = join ? fill(options, self, term, join) : error_code(-ENOMEM);

	if (ret == 0)
		*out = join;
	else if (join)
		afar__server_join__free_unpacked(join, &protobuf_wiping);
	return ret;
}

int join_compose_store(const struct membership_options *options, struct store *store,
		       Afar__StoreLend **out)
{
	Afar__StoreLend *lend = MESSAGE_NEW(afar__store_lend, Afar__StoreLend);
	int ret = lend ? add_store(store, &lend->store) : error_code(-ENOMEM);

	if (ret == 0)
		ret = add_store_lane(options, &lend->lane, store, 0);
	for (unsigned i = 1; i < store_nr_lanes(store) && ret == 0; i++)
		ret = add_store_lane(options,
				     store_lane_is_near(store, i) ? &lend->near_lane
								  : &lend->driven_lane,
				     store, i);
	if (ret == 0)
		*out = lend;
	else if (lend)
		afar__store_lend__free_unpacked(lend, NULL);
	return ret;
}

/* ---- Accepted */

/* Nobody waits for it: what is not released is reported again by the next join. */
static void on_store_released(void *argument, int status)
{
	(void)argument;
	(void)status;
}

/* Releases the store's extents that the manager does not know, of those that nobody was ever granted
 * a key of. */
static void release_unknown_of(const struct membership_options *options, struct store *store,
			       const Afar__Store *joining, const Afar__StoreJoined *joined)
{
	struct store_name *names = calloc(joined->n_release + 1, sizeof(*names));
	size_t nr_names = 0;
	int ret = names ? 0 : error_code(-ENOMEM);

	for (size_t i = 0; i < joining->n_extents && names; i++) {
		const Afar__Extent *extent = joining->extents[i];

		for (size_t j = 0; j < joined->n_release && extent->is_provisional; j++) {
			if (joined->release[j] == extent->extent)
				names[nr_names++] = (struct store_name){extent->extent,
									extent->namespace_, true};
		}
	}
	if (nr_names > 0)
		ret = fence_store_extents(options->fence, store, names, nr_names, on_store_released,
					  NULL);
	if (ret != 0)
		log_error("release of %zu extents: %s", joined->n_release, error_last_line());
	free(names);
}

/* The manager has accepted the store. */
static void take_store(const struct membership_options *options, struct store *store,
		       const Afar__Store *joining, const Afar__StoreJoined *joined,
		       const char *cluster)
{
	const Afar__Term *term = joined->term;
	int ret = store_joined(store, cluster);

	if (ret == 0 && term)
		ret = store_note_term(store, (struct store_term){term->number, term->random});
	if (ret != 0)
		log_error("%s", error_last_line());
	if (joined->n_release > 0)
		release_unknown_of(options, store, joining, joined);
}

void join_take_stores(const struct membership_options *options, const Afar__ServerJoin *join,
		      const Afar__ServerJoined *joined)
{
	for (size_t i = 0; i < joined->n_stores && i < join->n_stores; i++) {
		struct store *store = stores_find(options->stores, joined->stores[i]->store);

		if (store && join->stores[i]->store == joined->stores[i]->store)
			take_store(options, store, join->stores[i], joined->stores[i],
				   joined->cluster);
	}
}

int join_take_store(const struct membership_options *options, struct store *store,
		    const Afar__StoreLend *lend, const char *cluster, const Afar__Frame *frame)
{
	const Afar__Reply *reply = frame->reply;

	if (reply->result_case != AFAR__REPLY__RESULT_STORE_JOINED ||
	    reply->store_joined->store != store_number(store))
		return error_fail(-AFAR_EMALFORMED,
				  "lend a store: the manager's answer does not say that it has it");
	take_store(options, store, lend->store, reply->store_joined, cluster);
	return 0;
}
