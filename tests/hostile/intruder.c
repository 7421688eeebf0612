/* SPDX-License-Identifier: BSD-3-Clause */
/* The intruder's calls. Waits for each answer; owns its loop and its connection to the manager. */
#include "intruder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <afar/error.h>

#include "base/clock.h"
#include "lib/rpc/control.h"
#include "rpc/layout.h"

#define PATIENCE_MS 20000

/* ---- The manager */

/* Asks and gets an answer of this kind, with status 0. */
static Afar__Frame *ask(struct intruder *intruder, Afar__Request *request,
			Afar__Reply__ResultCase result)
{
	const struct rpc_envelope envelope = {
		.request_id = ++intruder->last_id,
		.session = intruder->session,
		.settled_below = intruder->last_id,
		.deadline = clock_deadline_ms(PATIENCE_MS),
	};
	Afar__Frame *frame;
	int status = rpc_call(intruder->manager, &envelope, request, &frame);

	if (status)
		fail_msg("the manager: %s, %s", afar_strerror(status), afar_last_error());
	assert_int_equal(frame->reply->result_case, result);
	return frame;
}

static void tell(struct intruder *intruder, Afar__Request *request)
{
	afar__frame__free_unpacked(ask(intruder, request, AFAR__REPLY__RESULT__NOT_SET), NULL);
}

void intruder_open(struct intruder *intruder, const char *host, uint16_t port,
		   const struct key *key)
{
	static const struct rpc_handlers handlers;
	Afar__SessionOpen open = AFAR__SESSION_OPEN__INIT;
	Afar__Frame *frame;

	*intruder = (struct intruder){0};
	assert_int_equal(rpc_loop_start("intruder", &intruder->loop), 0);
	assert_int_equal(
		rpc_connect(intruder->loop, host, port, key, &handlers, NULL, &intruder->manager),
		0);
	frame = ask(intruder, RPC_REQUEST(SESSION_OPEN, session_open, &open),
		    AFAR__REPLY__RESULT_SESSION_OPENED);
	intruder->session = frame->reply->session_opened->session;
	afar__frame__free_unpacked(frame, NULL);
}

/* The session is closed when the manager still knows it. */
void intruder_close(struct intruder *intruder)
{
	const struct rpc_envelope envelope = {.request_id = ++intruder->last_id,
					      .session = intruder->session,
					      .deadline = clock_deadline_ms(PATIENCE_MS)};
	Afar__SessionClose close = AFAR__SESSION_CLOSE__INIT;

	rpc_call(intruder->manager, &envelope, RPC_REQUEST(SESSION_CLOSE, session_close, &close),
		 NULL);
	rpc_connection_close(intruder->manager);
	rpc_connection_unref(intruder->manager);
	rpc_loop_stop(intruder->loop);
}

uint64_t intruder_open_namespace(struct intruder *intruder, const char *name)
{
	Afar__NamespaceOpen open = AFAR__NAMESPACE_OPEN__INIT;
	Afar__Frame *frame;
	uint64_t number;

	open.name = (char *)(uintptr_t)name;
	frame = ask(intruder, RPC_REQUEST(NAMESPACE_OPEN, namespace_open, &open),
		    AFAR__REPLY__RESULT_NAMESPACE_INFO);
	number = frame->reply->namespace_info->namespace_;
	afar__frame__free_unpacked(frame, NULL);
	return number;
}

static void reserve(struct intruder *intruder, uint64_t ns, uint64_t bytes)
{
	Afar__NamespaceReserve reserve = AFAR__NAMESPACE_RESERVE__INIT;

	reserve.namespace_ = ns;
	reserve.bytes = bytes;
	afar__frame__free_unpacked(ask(intruder,
				       RPC_REQUEST(NAMESPACE_RESERVE, namespace_reserve, &reserve),
				       AFAR__REPLY__RESULT_NAMESPACE_INFO),
				   NULL);
}

uint64_t intruder_make_namespace(struct intruder *intruder, const char *name, uint64_t bytes)
{
	Afar__NamespaceCreate create = AFAR__NAMESPACE_CREATE__INIT;
	Afar__Frame *frame;
	uint64_t number;

	create.name = (char *)(uintptr_t)name;
	frame = ask(intruder, RPC_REQUEST(NAMESPACE_CREATE, namespace_create, &create),
		    AFAR__REPLY__RESULT_NAMESPACE_INFO);
	number = frame->reply->namespace_info->namespace_;
	afar__frame__free_unpacked(frame, NULL);
	reserve(intruder, number, bytes);
	return number;
}

static void take_chunks(struct place *place, const Layout__Layout *form)
{
	struct layout *layout;
	uint64_t *extents;
	const char *why;

	assert_int_equal(layout_unpack(form, &layout, &why), 0);
	assert_int_equal(layout->nr_homes, 1);
	assert_int_equal(layout_extents(layout, 0, &extents, &place->nr_extents), 0);
	assert_true(place->nr_extents <= NR_EXTENTS_MAX);
	memcpy(place->extents, extents, place->nr_extents * sizeof(*extents));
	place->first_extent = layout->copies[0].extent;
	place->first_offset = layout->copies[0].offset;
	place->first_length = layout->groups[0].chunk_bytes;
	free(extents);
	layout_free(layout);
}

/* From the answer to RegionAlloc or RegionOpen, which is freed. */
static void take_place(struct place *place, Afar__Frame *frame)
{
	const Afar__RegionInfo *info = frame->reply->region_info;
	const Afar__Access *access;

	assert_non_null(info->layout);
	assert_int_equal(info->layout->n_servers, 1);
	assert_int_equal(info->layout->n_accesses, 1);
	access = info->layout->accesses[0];
	*place = (struct place){.ns = info->namespace_,
				.address = info->address,
				.generation = info->generation,
				.length = info->length};
	snprintf(place->control, sizeof(place->control), "%s",
		 info->layout->servers[0]->control_address);
	snprintf(place->data, sizeof(place->data), "%s",
		 info->layout->servers[0]->lanes[0]->address);
	assert_true(strlen(access->pass) <= KEY_IDENTITY_MAX);
	strcpy(place->pass.identity, access->pass);
	assert_int_equal(access->pass_key.len, KEY_BYTES);
	memcpy(place->pass.secret, access->pass_key.data, KEY_BYTES);
	assert_int_equal(access->capability.len, sizeof(place->capability));
	memcpy(&place->capability, access->capability.data, sizeof(place->capability));
	take_chunks(place, info->layout->form);
	afar__frame__free_unpacked(frame, NULL);
}

void intruder_make_region(struct intruder *intruder, uint64_t ns, uint64_t bytes, struct place *out)
{
	Afar__RegionAlloc alloc = AFAR__REGION_ALLOC__INIT;

	alloc.namespace_ = ns;
	alloc.name = (char *)(uintptr_t) "r";
	alloc.bytes = bytes;
	take_place(out, ask(intruder, RPC_REQUEST(REGION_ALLOC, region_alloc, &alloc),
			    AFAR__REPLY__RESULT_REGION_INFO));
}

void intruder_open_region(struct intruder *intruder, uint64_t ns, const char *name,
			  struct place *out)
{
	Afar__RegionOpen open = AFAR__REGION_OPEN__INIT;

	open.namespace_ = ns;
	open.name = (char *)(uintptr_t)name;
	take_place(out, ask(intruder, RPC_REQUEST(REGION_OPEN, region_open, &open),
			    AFAR__REPLY__RESULT_REGION_INFO));
}

void intruder_close_region(struct intruder *intruder, const struct place *place)
{
	Afar__RegionClose close = AFAR__REGION_CLOSE__INIT;

	close.namespace_ = place->ns;
	close.address = place->address;
	close.generation = place->generation;
	tell(intruder, RPC_REQUEST(REGION_CLOSE, region_close, &close));
}

void intruder_give_back(struct intruder *intruder, const struct place *place)
{
	Afar__Request request = AFAR__REQUEST__INIT;
	Afar__RegionFree free_it = AFAR__REGION_FREE__INIT;
	Afar__NamespaceRelease release = AFAR__NAMESPACE_RELEASE__INIT;

	free_it.namespace_ = place->ns;
	free_it.address = place->address;
	free_it.generation = place->generation;
	request.call_case = AFAR__REQUEST__CALL_REGION_FREE;
	request.region_free = &free_it;
	tell(intruder, &request);
	intruder_close_region(intruder, place);
	release.namespace_ = place->ns;
	release.bytes = UINT64_MAX;
	request.call_case = AFAR__REQUEST__CALL_NAMESPACE_RELEASE;
	request.namespace_release = &release;
	afar__frame__free_unpacked(ask(intruder, &request, AFAR__REPLY__RESULT_NAMESPACE_RELEASED),
				   NULL);
}

/* ---- A server */

int intruder_enter(struct intruder *intruder, const char *address, const struct key *pass,
		   struct rpc_connection **out)
{
	return control_open(intruder->loop, address, pass, out);
}

int intruder_ask_ticket(struct rpc_connection *control, uint64_t session, uint64_t ns,
			uint32_t rights, struct rpc_ticket *out)
{
	return intruder_ask_to_attach(control, session, ns, rights, 0, out);
}

int intruder_ask_to_attach(struct rpc_connection *control, uint64_t session, uint64_t ns,
			   uint32_t rights, uint64_t generation, struct rpc_ticket *out)
{
	Afar__Connect connect = AFAR__CONNECT__INIT;
	Afar__Frame *frame;
	int ret;

	connect.session = session;
	connect.namespace_ = ns;
	connect.rights = rights;
	connect.attaches = generation;
	ret = control_ask_ticket(control, &connect, out, &frame);
	if (!ret)
		afar__frame__free_unpacked(frame, NULL);
	return ret;
}

int intruder_ask_keys(struct rpc_connection *control, uint64_t session, const struct place *place,
		      struct remote *out)
{
	struct rpc_capability capability = place->capability;
	Afar__Grant grant = AFAR__GRANT__INIT;
	Afar__Frame *frame;
	int ret;

	grant.session = session;
	grant.namespace_ = place->ns;
	grant.n_extents = place->nr_extents;
	grant.extents = (uint64_t *)(uintptr_t)place->extents;
	grant.capability.data = (uint8_t *)&capability;
	grant.capability.len = sizeof(capability);
	ret = control_ask_keys(control, &grant, &frame);
	if (ret)
		return ret;
	for (size_t i = 0; i < frame->reply->keys->n_keys; i++) {
		const Afar__Key *key = frame->reply->keys->keys[i];

		if (key->extent == place->first_extent)
			*out = (struct remote){key->key, key->origin + place->first_offset};
	}
	afar__frame__free_unpacked(frame, NULL);
	return 0;
}
