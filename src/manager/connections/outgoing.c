/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls to servers and clients, and what becomes of them. A caller hands in the function that takes the answer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <afar/afar.h>

#include "base/log.h"
#include "manager/connections/live.h"
#include "manager/connections/outgoing.h"

/* ---- Extents */

int extent_list_open(struct extent_list *list, const struct layout_home *home, size_t nr)
{
	*list = (struct extent_list){.home = *home,
				     .numbers = calloc(nr + 1, sizeof(uint64_t)),
				     .namespaces = calloc(nr + 1, sizeof(uint64_t))};
	if (list->numbers && list->namespaces)
		return 0;
	extent_list_close(list);
	return error_code(-ENOMEM);
}

void extent_list_close(struct extent_list *list)
{
	free(list->numbers);
	free(list->namespaces);
	*list = (struct extent_list){0};
}

Afar__Request *server_ask_extents(uint64_t ns, uint64_t bytes, enum extent_class class,
				  uint64_t store)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);

	if (!request)
		return NULL;
	request->extents_reserve = MESSAGE_NEW(afar__extents_reserve, Afar__ExtentsReserve);
	if (!request->extents_reserve) {
		free(request);
		return NULL;
	}
	request->call_case = AFAR__REQUEST__CALL_EXTENTS_RESERVE;
	request->extents_reserve->namespace_ = ns;
	request->extents_reserve->bytes = bytes;
	request->extents_reserve->class_ = class;
	request->extents_reserve->store = store;
	return request;
}

static uint64_t *copy_numbers(const uint64_t *numbers, size_t nr)
{
	uint64_t *copy = calloc(nr + 1, sizeof(*copy));

	if (copy)
		memcpy(copy, numbers, nr * sizeof(*copy));
	return copy;
}

Afar__Request *server_ask_release(const struct extent_list *list)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);
	Afar__ExtentsRelease *release;

	if (!request)
		return NULL;
	release = MESSAGE_NEW(afar__extents_release, Afar__ExtentsRelease);
	if (!release) {
		free(request);
		return NULL;
	}
	request->extents_release = release;
	request->call_case = AFAR__REQUEST__CALL_EXTENTS_RELEASE;
	release->extents = copy_numbers(list->numbers, list->nr);
	if (list->home.is_store) {
		release->store = list->home.life;
		release->namespaces = copy_numbers(list->namespaces, list->nr);
	}
	if (!release->extents || (list->home.is_store && !release->namespaces)) {
		afar__request__free_unpacked(request, NULL);
		return NULL;
	}
	release->n_extents = list->nr;
	release->n_namespaces = list->home.is_store ? list->nr : 0;
	return request;
}

/* ---- Calls */

struct outgoing *outgoing_new_to(outgoing_answered *answered, void *peer)
{
	struct outgoing *outgoing = calloc(1, sizeof(*outgoing));

	if (!outgoing)
		return NULL;
	outgoing->failure = event_new(EVENT_ANSWER, peer);
	if (!outgoing->failure) {
		free(outgoing);
		return NULL;
	}
	outgoing->answered = answered;
	return outgoing;
}

struct outgoing *outgoing_new(outgoing_answered *answered, const struct live_server *live)
{
	struct outgoing *outgoing = outgoing_new_to(answered, live->peer);

	if (!outgoing)
		return NULL;
	outgoing->server = live->number;
	outgoing->incarnation = live->incarnation;
	return outgoing;
}

void outgoing_free(struct outgoing *outgoing)
{
	if (!outgoing)
		return;
	if (outgoing->failure)
		event_free(outgoing->failure);
	extent_list_close(&outgoing->extents);
	free(outgoing->trims);
	free(outgoing->inos);
	free(outgoing);
}

void core_call(struct core *core, void *peer, uint32_t timeout_ms, Afar__Request *request,
	       struct outgoing *outgoing)
{
	uint64_t deadline = timeout_ms == CORE_NO_TIMEOUT
				    ? CORE_NEVER
				    : core_now(core) + (uint64_t)timeout_ms * 1000000U;
	struct event *failure = outgoing->failure;
	int ret = core->environment.call(core->environment.context, peer, deadline, request,
					 outgoing);

	afar__request__free_unpacked(request, NULL);
	if (ret == 0)
		return;
	outgoing->failure = NULL;
	failure->outgoing = outgoing;
	failure->status = ret;
	cds_list_add_tail(&failure->node, &core->failed_calls);
}

bool outgoing_is_current(const struct core *core, const struct outgoing *outgoing,
			 const struct event *event)
{
	const struct live_server *live = core_live_server(core, outgoing->server);

	return live && live->peer && live->peer == event->peer;
}

void server_answered(struct core *core, struct event *event)
{
	struct outgoing *outgoing = event->outgoing;
	struct live_server *live = core_live_server(core, outgoing->server);
	int status = event->answer ? event->answer->status : event->status;
	/* -ENOENT: the server does not know it, so it does not hold it. A store may hold it all the
	 * same, if it is the store that the server does not know any more. */
	bool is_done = event->answer &&
		       (status == 0 || (status == -ENOENT && !outgoing->extents.home.is_store));
	bool is_from_now = outgoing_is_current(core, outgoing, event);
	size_t mark = undo_mark(core->undo);
	int ret;

	if (!is_done && is_from_now && !outgoing->may_fail) {
		/* Once, however often it is told again. */
		if (live->refusal != status)
			log_warn("server %llu did not do what it was told: %s; it is told again",
				 (unsigned long long)outgoing->server, afar_strerror(status));
		live->refusal = status;
		live->retry_at = core_now(core) + CORE_RETRY_NS;
		/* Without an answer it is unknown whether it was done. */
		if (!event->answer)
			core->environment.close_peer(core->environment.context, live->peer);
	}
	if (is_done && is_from_now)
		live->refusal = 0;
	ret = outgoing->answered(core, outgoing, event, is_done);
	/* Memory was short: it is told again later, and answers again. */
	if (undo_end(core->undo, mark, ret) < 0 && is_from_now)
		live->retry_at = core_now(core) + CORE_RETRY_NS;
	outgoing_free(outgoing);
	event->outgoing = NULL;
}

/* ---- Calls that must be answered */

/* Without memory for the call it closes the connection, because rejoining brings the same about. */
void server_call_release(struct core *core, struct live_server *live, outgoing_answered *answered,
			 struct extent_list *list)
{
	struct outgoing *outgoing = outgoing_new(answered, live);
	Afar__Request *request = server_ask_release(list);

	if (!outgoing || !request) {
		if (request)
			afar__request__free_unpacked(request, NULL);
		outgoing_free(outgoing);
		extent_list_close(list);
		core->environment.close_peer(core->environment.context, live->peer);
		return;
	}
	outgoing->extents = *list;
	server_call(core, live, list->home.is_store ? STORE_TIMEOUT_MS : server_timeout_ms(live),
		    request, outgoing);
}

/* Nobody asks for it again: joining anew brings the same about. */
static int undone(struct core *core, struct outgoing *outgoing, struct event *event, bool is_done)
{
	struct live_server *live = core_live_server(core, outgoing->server);

	if (event->answer && !is_done && live && live->peer && live->peer == event->peer)
		core->environment.close_peer(core->environment.context, live->peer);
	return 0;
}

void server_undo(struct core *core, struct live_server *live, struct extent_list *list)
{
	server_call_release(core, live, undone, list);
}

void server_call_or_close(struct core *core, struct live_server *live, uint32_t timeout_ms,
			  Afar__Request *request, struct outgoing *outgoing)
{
	if (outgoing && request) {
		server_call(core, live, timeout_ms, request, outgoing);
		return;
	}
	if (request)
		afar__request__free_unpacked(request, NULL);
	outgoing_free(outgoing);
	core->environment.close_peer(core->environment.context, live->peer);
}

static Afar__Request *ask_ping(void)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);
	Afar__Ping *ping = MESSAGE_NEW(afar__ping, Afar__Ping);

	if (!request || !ping) {
		free(request);
		free(ping);
		return NULL;
	}
	request->ping = ping;
	request->call_case = AFAR__REQUEST__CALL_PING;
	return request;
}

static int probed(struct core *core, struct outgoing *outgoing, struct event *event, bool is_done)
{
	struct live_server *live = core_live_server(core, outgoing->server);

	(void)event;
	(void)is_done;
	if (live)
		live->is_probed = false;
	return 0;
}

void server_probe(struct core *core, struct live_server *live)
{
	if (live->is_probed)
		return;
	live->is_probed = true;
	server_call_or_close(core, live, SERVER_PROBE_MS, ask_ping(), outgoing_new(probed, live));
}
