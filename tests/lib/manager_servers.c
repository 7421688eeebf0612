/* SPDX-License-Identifier: BSD-3-Clause */
/* The servers of the manager's tests; see manager_servers.h. Everything here asserts by cmocka. */
#include "lib/manager_servers.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/checksum.h"
#include "lib/bytes.h"
#include "lib/manager_requests.h"
#include "manager/placement.h"

static Afar__Reply *status_reply(int status)
{
	Afar__Reply *reply = MESSAGE_NEW(afar__reply, Afar__Reply);

	assert_non_null(reply);
	reply->status = status;
	return reply;
}

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
	assert_true(ask->n_moves > 0);
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
		return grant(server, request->extents_reserve);
	case AFAR__REQUEST__CALL_EXTENTS_RELEASE:
		for (size_t i = 0; i < request->extents_release->n_extents; i++)
			fake_server_release(server, request->extents_release->extents[i]);
		return status_reply(0);
	case AFAR__REQUEST__CALL_EXTENTS_SEAL:
		return seal(server, request->extents_seal);
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
	self->server = server->number;
	snprintf(text, sizeof(text), "server-%zu", index);
	self->name = strdup(text);
	self->incarnation = server->incarnation;
	snprintf(text, sizeof(text), "127.0.0.1:%zu", 7500 + index);
	self->control_address = strdup(text);
	self->lanes = calloc(1, sizeof(*self->lanes));
	self->lanes[0] = MESSAGE_NEW(afar__lane, Afar__Lane);
	self->lanes[0]->transport = strdup("tcp");
	self->lanes[0]->address = strdup("127.0.0.1:9000");
	self->n_lanes = 1;
	join->cluster = strdup(server->cluster);
	join->capacity_bytes = server->capacity;
	join->age_s = server->age_s;
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
	return request;
}
