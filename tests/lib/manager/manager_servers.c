/* SPDX-License-Identifier: BSD-3-Clause */
/* The servers of the manager's tests; see manager_servers.h. Everything here asserts by cmocka. */
#include "lib/manager/manager_servers.h"
#include "manager/cluster/devices.h"
#include "manager/cluster/joins.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/checksum.h"
#include "lib/base/bytes.h"
#include "lib/manager/manager_requests.h"
#include "manager/tables/placement.h"
#include "rpc/manager_features.h"

static Afar__Reply *status_reply(int status)
{
	Afar__Reply *reply = MESSAGE_NEW(afar__reply, Afar__Reply);

	assert_non_null(reply);
	reply->status = status;
	return reply;
}

/* ---- Stores */

/* Numbers that do not come again, and that do not look like those of memory. */
static uint64_t random_number(struct fake_store *store)
{
	return ++store->nr_random * 0x9e3779b97f4a7c15U ^ store->number;
}

/* A join that was sent and not answered may have been accepted. It is on the device, and is sent again
 * before there is another. */
void fake_store_open(struct fake_store *store)
{
	if (store->is_unanswered)
		return;
	store->present = (struct store_join){store->present.opening + 1, random_number(store)};
}

static void remove_extent(struct fake_store *store, struct fake_store_extent *extent)
{
	store->granted -= extent->length;
	*extent = store->extents[--store->nr_extents];
}

struct fake_store_extent *fake_store_extent(struct fake_store *store, uint64_t number)
{
	for (size_t i = 0; i < store->nr_extents; i++)
		if (store->extents[i].number == number)
			return &store->extents[i];
	return NULL;
}

/* It gives up only what is provisional. */
void fake_store_joined(struct fake_store *store, const char *cluster,
		       const Afar__StoreJoined *joined)
{
	assert_int_equal(joined->store, store->number);
	store->is_unanswered = store->nr_lost_joins > 0;
	if (store->is_unanswered) {
		store->nr_lost_joins--;
		return;
	}
	snprintf(store->cluster, sizeof(store->cluster), "%s", cluster);
	store->accepted = store->present;
	store->term = (struct term){joined->term->number, joined->term->random};
	for (size_t i = 0; i < joined->n_release; i++) {
		struct fake_store_extent *extent = fake_store_extent(store, joined->release[i]);

		assert_non_null(extent);
		assert_true(extent->is_provisional);
		remove_extent(store, extent);
	}
}

static struct fake_store *store_of(struct fake_server *server, uint64_t number)
{
	for (size_t i = 0; i < server->nr_stores; i++)
		if (server->stores[i]->number == number)
			return server->stores[i];
	fail_msg("a server is asked for a store that it does not have");
	return NULL;
}

static Afar__Reply *grant_flash(struct fake_store *store, const Afar__ExtentsReserve *ask)
{
	Afar__Extent *extent = MESSAGE_NEW(afar__extent, Afar__Extent);
	Afar__Reply *reply;

	store->nr_reserves++;
	assert_int_equal(ask->class_, CLASS_FLASH);
	assert_true(ask->bytes > 0 && ask->bytes % PLACEMENT_EXTENT_UNIT == 0);
	if (ask->bytes > store->capacity - store->granted) {
		free(extent);
		return status_reply(-ENOSPC);
	}
	reply = status_reply(0);
	reply->result_case = AFAR__REPLY__RESULT_EXTENTS;
	reply->extents = MESSAGE_NEW(afar__extents, Afar__Extents);
	reply->extents->extents = calloc(1, sizeof(Afar__Extent *));
	reply->extents->extents[reply->extents->n_extents++] = extent;
	extent->extent = store->does_grant_again ? store->extents[store->nr_extents - 1].number
						 : random_number(store);
	extent->namespace_ = ask->namespace_;
	extent->length = ask->bytes;
	extent->class_ = CLASS_FLASH;
	extent->is_provisional = true;
	if (store->does_grant_again)
		return reply;
	assert_true(store->nr_extents < 64);
	store->extents[store->nr_extents++] =
		(struct fake_store_extent){extent->extent, ask->namespace_, ask->bytes, true};
	store->granted += ask->bytes;
	return reply;
}

/* Another namespace's extents stay. */
static Afar__Reply *release_flash(struct fake_store *store, const Afar__ExtentsRelease *ask)
{
	if (store->refuse_to_release != 0)
		return status_reply(store->refuse_to_release);
	assert_int_equal(ask->n_namespaces, ask->n_extents);
	for (size_t i = 0; i < ask->n_extents; i++) {
		struct fake_store_extent *extent = fake_store_extent(store, ask->extents[i]);

		store->nr_released++;
		if (extent != NULL && extent->namespace == ask->namespaces[i])
			remove_extent(store, extent);
	}
	return status_reply(0);
}

static Afar__Reply *trim_flash(struct fake_store *store, const Afar__ExtentsTrim *ask)
{
	if (store->refuse_to_trim != 0)
		return status_reply(store->refuse_to_trim);
	assert_in_range(ask->n_ranges, 1, 4096);
	for (size_t i = 0; i < ask->n_ranges; i++) {
		const Afar__TrimRange *range = ask->ranges[i];
		const struct fake_store_extent *extent = fake_store_extent(store, range->extent);

		assert_true(range->offset % 4096 == 0 && range->length % 4096 == 0);
		assert_int_not_equal(range->length, 0);
		/* It may have been released since this was sent. */
		if (extent == NULL)
			continue;
		assert_int_equal(extent->namespace, ask->namespace_);
		assert_true(range->offset + range->length <= extent->length);
		store->nr_trimmed += range->length;
	}
	store->nr_trims++;
	if (ask->n_ranges > store->nr_ranges_max)
		store->nr_ranges_max = ask->n_ranges;
	return status_reply(0);
}

static Afar__Reply *read_slot(struct fake_server *server, const Afar__ExtentRead *ask)
{
	Afar__Reply *reply =
		status_reply(ask->is_zeroed ? server->refuse_to_clear : server->refuse_to_read);

	assert_true(ask->length != 0 && ask->length <= 4096 - ask->offset % 4096);
	if (reply->status != 0)
		return reply;
	if (ask->is_zeroed) {
		server->nr_cleared++;
		server->cleared = ask->length;
	} else {
		server->nr_reads++;
	}
	reply->extent_bytes = MESSAGE_NEW(afar__extent_bytes, Afar__ExtentBytes);
	reply->result_case = AFAR__REPLY__RESULT_EXTENT_BYTES;
	reply->extent_bytes->data.data = malloc(sizeof(server->slot));
	memcpy(reply->extent_bytes->data.data, server->slot, sizeof(server->slot));
	reply->extent_bytes->data.len = sizeof(server->slot);
	return reply;
}

struct fake_store *fake_server_asked(struct fake_server *server, const Afar__Request *request)
{
	return request->call_case == AFAR__REQUEST__CALL_EXTENTS_TRIM &&
			       request->extents_trim->store != 0
		       ? store_of(server, request->extents_trim->store)
		       : NULL;
}

static Afar__StoreJoin *make_store_join(const struct store_join *join)
{
	Afar__StoreJoin *message = MESSAGE_NEW(afar__store_join, Afar__StoreJoin);

	message->opening = join->opening;
	message->random = join->random;
	return message;
}

static Afar__Term *make_term(const struct term *term)
{
	Afar__Term *message = MESSAGE_NEW(afar__term, Afar__Term);

	message->number = term->number;
	message->random = term->random;
	return message;
}

static Afar__Store *make_store(const struct fake_store *store)
{
	Afar__Store *message = MESSAGE_NEW(afar__store, Afar__Store);
	char text[64];

	message->store = store->number;
	message->uuid.data = malloc(STORE_UUID_BYTES);
	memcpy(message->uuid.data, store->uuid, STORE_UUID_BYTES);
	message->uuid.len = STORE_UUID_BYTES;
	snprintf(text, sizeof(text), "/dev/flash%u", store->uuid[0]);
	message->path = strdup(text);
	message->capacity_bytes = store->capacity;
	message->cluster = strdup(store->cluster);
	if (store->accepted.opening != 0)
		message->accepted = make_store_join(&store->accepted);
	message->present = make_store_join(&store->present);
	message->opening = store->present.opening;
	message->term = make_term(&store->term);
	message->extents = calloc(store->nr_extents + 1, sizeof(*message->extents));
	for (size_t i = 0; i < store->nr_extents; i++) {
		Afar__Extent *extent = MESSAGE_NEW(afar__extent, Afar__Extent);

		extent->extent = store->extents[i].number;
		extent->namespace_ = store->extents[i].namespace;
		extent->length = store->extents[i].length;
		extent->class_ = CLASS_FLASH;
		extent->is_provisional = store->extents[i].is_provisional;
		message->extents[message->n_extents++] = extent;
	}
	return message;
}

static Afar__Lane *make_lane(const struct fake_store *store)
{
	Afar__Lane *lane = MESSAGE_NEW(afar__lane, Afar__Lane);

	lane->transport = strdup("tcp");
	lane->address = strdup("127.0.0.1:9001");
	lane->store = store->number;
	return lane;
}

Afar__Request *fake_store_lend(const struct fake_store *store)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);

	request->call_case = AFAR__REQUEST__CALL_STORE_LEND;
	request->store_lend = MESSAGE_NEW(afar__store_lend, Afar__StoreLend);
	request->store_lend->store = make_store(store);
	request->store_lend->lane = make_lane(store);
	return request;
}

/* Opens what it was told to, or closes the store. */
static Afar__Reply *change_device(struct fake_server *server, const Afar__Request *request)
{
	Afar__Reply *reply = status_reply(server->refuse_device);

	if (server->refuse_device != 0) {
		reply->message = strdup(server->says != NULL ? server->says : "");
		return reply;
	}
	for (size_t i = 0; i < server->nr_stores && request->store_close != NULL &&
			   request->call_case == AFAR__REQUEST__CALL_STORE_CLOSE;
	     i++)
		if (server->stores[i]->number == request->store_close->store)
			server->stores[i] = server->stores[--server->nr_stores];
	reply->result_case = AFAR__REPLY__RESULT_STORE_OPENED;
	reply->store_opened = MESSAGE_NEW(afar__store_opened, Afar__StoreOpened);
	reply->store_opened->store = server->opened;
	return reply;
}

/* With a lane for each. */
static void add_stores(const struct fake_server *server, Afar__ServerJoin *join)
{
	join->stores = calloc(FAKE_STORES_MAX, sizeof(*join->stores));
	for (size_t i = 0; i < server->nr_stores; i++) {
		join->self->lanes[join->self->n_lanes++] = make_lane(server->stores[i]);
		join->stores[join->n_stores++] = make_store(server->stores[i]);
	}
}

/* ---- Memory */

/* In two extents when there is enough for two: layouts then have to deal with it. */
static Afar__Reply *grant(struct fake_server *server, const Afar__ExtentsReserve *ask)
{
	uint64_t parts[2] = {ask->bytes, 0};
	Afar__Reply *reply;

	if (server->refuse != 0)
		return status_reply(server->refuse);
	if (ask->bytes > server->capacity - server->granted)
		return status_reply(-ENOSPC);
	assert_true(ask->bytes > 0 && ask->bytes % PLACEMENT_EXTENT_UNIT == 0);
	if (server->does_grant_wrong)
		parts[0] = PLACEMENT_EXTENT_UNIT;
	else if (ask->bytes >= 6 * MIB) {
		parts[0] = ask->bytes / (4 * MIB) * (2 * MIB);
		parts[1] = ask->bytes - parts[0];
	}
	reply = status_reply(0);
	reply->result_case = AFAR__REPLY__RESULT_EXTENTS;
	reply->extents = MESSAGE_NEW(afar__extents, Afar__Extents);
	reply->extents->extents = calloc(2, sizeof(Afar__Extent *));
	for (size_t i = 0; i < 2 && parts[i] != 0; i++) {
		Afar__Extent *extent = MESSAGE_NEW(afar__extent, Afar__Extent);
		bool is_repeated = server->does_grant_twice && server->nr_extents > 0;

		assert_true(server->nr_extents < FIXTURE_EXTENTS_MAX);
		extent->extent = is_repeated ? server->extents[server->nr_extents - 1].number
					     : ++server->next_extent;
		extent->namespace_ = ask->namespace_;
		extent->length = parts[i];
		extent->class_ = ask->class_;
		reply->extents->extents[reply->extents->n_extents++] = extent;
		if (is_repeated)
			continue;
		server->extents[server->nr_extents++] =
			(struct fake_extent){extent->extent, extent->namespace_, extent->length,
					     (enum extent_class)extent->class_};
		server->granted += extent->length;
	}
	return reply;
}

void fake_server_release(struct fake_server *server, uint64_t number)
{
	server->nr_released++;
	for (size_t i = 0; i < server->nr_extents; i++) {
		if (server->extents[i].number != number)
			continue;
		server->granted -= server->extents[i].length;
		server->extents[i] = server->extents[--server->nr_extents];
		return;
	}
}

static const struct fake_extent *find_extent(const struct fake_server *server, uint64_t number)
{
	for (size_t i = 0; i < server->nr_extents; i++)
		if (server->extents[i].number == number)
			return &server->extents[i];
	return NULL;
}

static void check_range(const struct fake_server *server, uint64_t number, enum extent_class class,
			uint64_t ns, uint64_t offset, uint64_t length)
{
	const struct fake_extent *extent = find_extent(server, number);

	assert_int_equal(extent->class, class);
	assert_int_equal(extent->namespace, ns);
	assert_true(offset + length <= extent->length);
}

/* From what is not sealed to what is, with room for the sums. */
static Afar__Reply *seal(struct fake_server *server, const Afar__ExtentsSeal *ask)
{
	if (server->refuse_to_seal != 0)
		return status_reply(server->refuse_to_seal);
	for (size_t i = 0; i < ask->n_moves; i++) {
		const Afar__SealMove *move = ask->moves[i];

		assert_true(move->length != 0 && move->length % 4096 == 0);
		if (find_extent(server, move->from) == NULL ||
		    find_extent(server, move->to) == NULL)
			return status_reply(-AFAR_ELOST);
		check_range(server, move->from, false, ask->namespace_, move->from_offset,
			    move->length);
		check_range(server, move->to, true, ask->namespace_, move->to_offset,
			    move->length + checksum_bytes(move->length));
		server->nr_moved += move->length;
	}
	server->nr_seals++;
	return status_reply(0);
}

Afar__Reply *fake_server_serve(struct fake_server *server, const Afar__Request *request)
{
	switch (request->call_case) {
	case AFAR__REQUEST__CALL_EXTENTS_RESERVE:
		if (request->extents_reserve->store != 0)
			return grant_flash(store_of(server, request->extents_reserve->store),
					   request->extents_reserve);
		return grant(server, request->extents_reserve);
	case AFAR__REQUEST__CALL_EXTENTS_RELEASE:
		if (request->extents_release->store != 0)
			return release_flash(store_of(server, request->extents_release->store),
					     request->extents_release);
		for (size_t i = 0; i < request->extents_release->n_extents; i++)
			fake_server_release(server, request->extents_release->extents[i]);
		return status_reply(0);
	case AFAR__REQUEST__CALL_EXTENTS_TRIM:
		if (request->extents_trim->store == 0) {
			server->nr_zeroed++;
			return status_reply(server->refuse_to_zero);
		}
		return trim_flash(fake_server_asked(server, request), request->extents_trim);
	case AFAR__REQUEST__CALL_EXTENT_READ:
		return read_slot(server, request->extent_read);
	case AFAR__REQUEST__CALL_EXTENTS_SEAL:
		return seal(server, request->extents_seal);
	case AFAR__REQUEST__CALL_STORE_OPEN:
	case AFAR__REQUEST__CALL_STORE_CLOSE:
		return change_device(server, request);
	case AFAR__REQUEST__CALL_SESSION_END:
		server->nr_session_ends++;
		return status_reply(0);
	case AFAR__REQUEST__CALL_PING:
		return status_reply(0);
	case AFAR__REQUEST__CALL_LOOK:
		return answer_look(server->nr_moved_in);
	default:
		fail_msg("a server is asked call %d", (int)request->call_case);
		return NULL;
	}
}

Afar__Request *fake_server_join(const struct fake_server *server, size_t index)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);
	Afar__ServerJoin *join = MESSAGE_NEW(afar__server_join, Afar__ServerJoin);
	Afar__Server *self = MESSAGE_NEW(afar__server, Afar__Server);
	char text[64];

	request->call_case = AFAR__REQUEST__CALL_SERVER_JOIN;
	request->server_join = join;
	join->self = self;
	join->features = RPC_SERVER_READS;
	self->server = server->number;
	snprintf(text, sizeof(text), "server-%zu", index);
	self->name = strdup(text);
	self->incarnation = server->incarnation;
	snprintf(text, sizeof(text), "127.0.0.1:%zu", 7500 + index);
	self->control_address = strdup(text);
	self->lanes = calloc(1 + FAKE_STORES_MAX, sizeof(*self->lanes));
	self->lanes[0] = MESSAGE_NEW(afar__lane, Afar__Lane);
	self->lanes[0]->transport = strdup("tcp");
	self->lanes[0]->address = strdup("127.0.0.1:9000");
	self->n_lanes = 1;
	join->cluster = strdup(server->cluster);
	join->capacity_bytes = server->capacity;
	join->age_s = server->age_s;
	join->ends_first = server->ends_first;
	join->has_ended_sessions = server->has_ended_sessions;
	join->signing_key.data = malloc(SIGNING_KEY_BYTES);
	memcpy(join->signing_key.data, server->signing_key, SIGNING_KEY_BYTES);
	join->signing_key.len = SIGNING_KEY_BYTES - server->does_cut_key;
	join->extents = calloc(server->nr_extents + 1, sizeof(*join->extents));
	for (size_t i = 0; i < server->nr_extents; i++) {
		Afar__Extent *extent = MESSAGE_NEW(afar__extent, Afar__Extent);

		extent->extent = server->extents[i].number;
		extent->namespace_ = server->extents[i].namespace;
		extent->length = server->extents[i].length;
		extent->class_ = server->extents[i].class;
		join->extents[join->n_extents++] = extent;
	}
	join->term = make_term(&server->term);
	add_stores(server, join);
	return request;
}
