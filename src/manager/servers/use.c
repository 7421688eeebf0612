/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Figures that clients and servers have counted. Nobody reports them unasked, so that idle processes
 * stay idle. A Status that wants fresh figures has the clients and servers asked that it shows,
 * each once at a time. It waits for their answers, but not for long. For those that do not answer
 * in time it shows what they said before.
 *
 * A client's figures are claims. They are checked for form and size, kept with its session, and
 * passed on. Nothing is decided by them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/histogram.h"
#include "base/text.h"
#include "manager/connections/callers.h"
#include "manager/connections/live.h"
#include "manager/connections/outgoing.h"
#include "manager/members/sessions.h"
#include "manager/servers/servers.h"
#include "manager/servers/use.h"

static outgoing_answered answered;

#define LOOK_MS	      2000U		    /* until one that was asked is asked again       */
#define WAIT_NS	      ((uint64_t)200000000) /* a Status waits no longer                      */
#define USE_BYTES_MAX 16384U		    /* of one client's figures, packed               */
#define USE_PATHS_MAX 64U
#define KINDS_MAX     16U /* of operations: there are four, and newer clients may know more */
#define TRANSPORT_MAX 15U

/* ---- What they say */

static bool is_operation_sound(const Afar__OperationUse *use)
{
	if (use->n_buckets != use->n_counts || use->n_buckets > HISTOGRAM_BUCKETS)
		return false;
	for (size_t i = 0; i < use->n_buckets; i++)
		if (use->buckets[i] >= HISTOGRAM_BUCKETS ||
		    (i > 0 && use->buckets[i] <= use->buckets[i - 1]))
			return false;
	return true;
}

static bool is_use_sound(const Afar__SessionUse *use)
{
	/* The size includes fields that we do not know. */
	if (afar__session_use__get_packed_size(use) > USE_BYTES_MAX ||
	    use->n_operations > KINDS_MAX || use->n_paths > USE_PATHS_MAX)
		return false;
	for (size_t i = 0; i < use->n_operations; i++)
		if (!is_operation_sound(use->operations[i]))
			return false;
	for (size_t i = 0; i < use->n_paths; i++)
		if (!text_is_printable(use->paths[i]->transport, TRANSPORT_MAX) ||
		    (use->paths[i]->congestion[0] != '\0' &&
		     !text_is_printable(use->paths[i]->congestion, CONGESTIONS_MAX)))
			return false;
	return true;
}

/* ---- The sum of what they say */

static uint64_t growth(uint64_t before, uint64_t now)
{
	return now > before ? now - before : 0;
}

static void add(struct counter *counter, uint64_t more)
{
	counter_set(counter, saturating_add(counter_get(counter), more));
}

/* Counts those that were not in the figures before. A span is taken for the middle of its bucket. */
static void count_spans(struct latency *spans, const Afar__OperationUse *before,
			const Afar__OperationUse *now)
{
	for (size_t i = 0, j = 0; i < now->n_buckets; i++) {
		const uint32_t bucket = now->buckets[i];
		const uint64_t ns = histogram_ns(bucket) - histogram_ns(bucket) / 16;
		uint64_t nr, sum;

		while (before && j < before->n_buckets && before->buckets[j] < bucket)
			j++;
		nr = growth(before && j < before->n_buckets && before->buckets[j] == bucket
				    ? before->counts[j]
				    : 0,
			    now->counts[i]);
		add(&spans->counts[latency_bucket(ns)], nr);
		if (!__builtin_mul_overflow(nr, ns, &sum))
			add(&spans->sum_ns, sum);
	}
}

static void count_operations(struct core *core, const Afar__SessionUse *before,
			     const Afar__SessionUse *now)
{
	static const Afar__OperationUse none = AFAR__OPERATION_USE__INIT;

	for (size_t i = 0; i < now->n_operations && i < MANAGER_KINDS; i++) {
		struct manager_operations *all = &core->counts.operations[i];
		const Afar__OperationUse *old =
			before && i < before->n_operations ? before->operations[i] : &none;
		const Afar__OperationUse *new = now->operations[i];

		add(&all->nr, growth(old->nr, new->nr));
		add(&all->bytes, growth(old->bytes, new->bytes));
		add(&all->nr_failed, growth(old->nr_failed, new->nr_failed));
		count_spans(&all->spans, old, new);
	}
}

/* Takes the figures out of the answer. */
static void take_use(struct core *core, struct live_session *live, Afar__Reply *answer)
{
	if (answer->result_case != AFAR__REPLY__RESULT_SESSION_USE ||
	    !is_use_sound(answer->session_use))
		return;
	count_operations(core, live->use, answer->session_use);
	use_free(live);
	live->use = answer->session_use;
	live->used_at = core_now(core);
	answer->session_use = NULL;
	answer->result_case = AFAR__REPLY__RESULT__NOT_SET;
}

/* ---- Asking */

/* False: it could not be asked. */
static bool ask(struct core *core, void *peer, struct outgoing *outgoing)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);

	if (!outgoing || !request)
		goto out_free;
	request->look = MESSAGE_NEW(afar__look, Afar__Look);
	if (!request->look)
		goto out_free;
	request->call_case = AFAR__REQUEST__CALL_LOOK;
	outgoing->may_fail = true;
	core->nr_looks++;
	core_call(core, peer, LOOK_MS, request, outgoing);
	return true;

out_free:
	free(request);
	outgoing_free(outgoing);
	return false;
}

static void ask_servers(struct core *core)
{
	struct live_server *live;

	cds_list_for_each_entry (live, &core->live_servers, node)
		if (live->peer && !live->is_looked_at)
			live->is_looked_at = ask(core, live->peer, outgoing_new(answered, live));
}

static void ask_sessions(struct core *core, const struct session *caller)
{
	bool sees_all = is_operator(core, caller);
	struct live_session *live;
	size_t nr = 0;

	cds_list_for_each_entry (live, &core->connected, node) {
		struct outgoing *outgoing;

		if (live->is_looked_at || !live->session ||
		    (!sees_all && strcmp(live->session->principal, caller->principal) != 0))
			continue;
		if (nr++ == CORE_LIST_MAX)
			break;
		outgoing = outgoing_new_to(answered, live->peer);
		if (outgoing)
			outgoing->session = live->number;
		live->is_looked_at = ask(core, live->peer, outgoing);
	}
}

void looks_ask(struct core *core, const struct session *caller)
{
	ask_servers(core);
	ask_sessions(core, caller);
}

static void begin_looks(struct core *core, struct event *event)
{
	uint64_t now = core_now(core), left;
	struct session *caller;

	event->looked_until = now;
	if (event->deadline <= now || core_session(core, event, &caller) < 0)
		return;
	left = (event->deadline - now) / 2;
	event->looked_until = now + (left < WAIT_NS ? left : WAIT_NS);
	looks_ask(core, caller);
}

uint64_t looks_wait(struct core *core, struct event *event)
{
	if (event->request->status->is_fresh && event->looked_until == 0)
		begin_looks(core, event);
	return core->nr_looks > 0 ? event->looked_until : 0;
}

static int answered(struct core *core, struct outgoing *outgoing, struct event *event, bool is_done)
{
	struct live_server *server;
	struct live_session *live;
	bool is_good = event->answer && event->answer->status == 0;

	(void)is_done;
	core->nr_looks--;
	if (outgoing->session == 0) {
		server = core_live_server(core, outgoing->server);
		if (!server || server->peer != event->peer)
			return 0;
		server->is_looked_at = false;
		if (is_good && event->answer->result_case == AFAR__REPLY__RESULT_SERVER_REPORT)
			server_take_report(core, server, event->answer->server_report);
		return 0;
	}
	cds_list_for_each_entry (live, &core->connected, node) {
		if (live->number != outgoing->session || live->peer != event->peer)
			continue;
		live->is_looked_at = false;
		if (is_good)
			take_use(core, live, event->answer);
		return 0;
	}
	return 0;
}
