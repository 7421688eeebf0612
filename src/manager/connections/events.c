/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of the core: made, answered, freed. All rooms use this, and it uses none of them. See core.h, core_private.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "manager/connections/slow.h"
#include "manager/core_private.h"
#include "rpc/rpc.h"

uint64_t core_now(const struct core *core)
{
	return core->environment.now(core->environment.context);
}

struct event *event_new(enum event_kind kind, void *peer)
{
	struct event *event = calloc(1, sizeof(*event));

	if (!event)
		return NULL;
	CDS_INIT_LIST_HEAD(&event->node);
	event->kind = kind;
	event->peer = peer;
	event->deadline = CORE_NEVER;
	if (kind != EVENT_REQUEST)
		return event;
	event->reply = MESSAGE_NEW(afar__reply, Afar__Reply);
	if (!event->reply) {
		free(event);
		return NULL;
	}
	return event;
}

void event_free(struct event *event)
{
	if (event->request)
		afar__request__free_unpacked(event->request, request_freer(event->request));
	if (event->reply)
		afar__reply__free_unpacked(event->reply, reply_freer(event->reply));
	if (event->answer)
		afar__reply__free_unpacked(event->answer, reply_freer(event->answer));
	slow_free(event);
	free(event);
}

int event_reset(struct event *event)
{
	Afar__Reply *reply = MESSAGE_NEW(afar__reply, Afar__Reply);

	if (!reply)
		return error_code(-ENOMEM);
	afar__reply__free_unpacked(event->reply, reply_freer(event->reply));
	event->reply = reply;
	return 0;
}

void event_fail(struct event *event, int status)
{
	Afar__Reply *reply = MESSAGE_NEW(afar__reply, Afar__Reply);

	if (!reply) {
		/* Better a result beside the error than no answer: who looks at the status
		 * first. */
		event->reply->status = -ENOMEM;
		return;
	}
	reply->status = status;
	reply->message = strdup(error_last_line());
	afar__reply__free_unpacked(event->reply, reply_freer(event->reply));
	event->reply = reply;
}

static void count_answer(struct core *core, const struct event *event)
{
	const ProtobufCFieldDescriptor *call;
	size_t place;

	if (event->came_at == 0 || !event->request)
		return;
	call = protobuf_c_message_descriptor_get_field(&afar__request__descriptor,
						       (unsigned)event->request->call_case);
	place = call ? (size_t)(call - afar__request__descriptor.fields) : MANAGER_CALLS_MAX;
	if (place < MANAGER_CALLS_MAX)
		latency_add(&core->counts.calls[place], core_now(core) - event->came_at);
}

void event_answer(struct core *core, struct event *event)
{
	slow_answer(core, event);
	count_answer(core, event);
	core->environment.answer(core->environment.context, event->call, event->reply);
	event_free(event);
}

/* ---- Those that wait */

uint64_t waiters_due(const struct cds_list_head *waiters)
{
	const struct event *event;
	uint64_t due = CORE_NEVER;

	cds_list_for_each_entry (event, waiters, node)
		if (event->answer_by < due)
			due = event->answer_by;
	return due;
}

void waiters_answer_due(struct core *core, struct cds_list_head *waiters, int status)
{
	struct event *event, *next;

	cds_list_for_each_entry_safe (event, next, waiters, node) {
		if (event->answer_by > core_now(core))
			continue;
		cds_list_del(&event->node);
		event_fail(event, status);
		event_answer(core, event);
	}
}
