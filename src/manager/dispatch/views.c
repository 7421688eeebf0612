/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shows the cluster to the manager's own process, which needs no session for that: to its metrics and its status page. It
 * sees what an operator sees. Servers and clients are asked for their counts first, and waited for, but not as long as for
 * a person: whoever was asked before and has not answered yet is not waited for. See view.h. Called by the core.
 */
#include <errno.h>
#include <string.h>

#include "manager/connections/keyring.h"
#include "manager/dispatch/views.h"
#include "manager/regions/info.h"
#include "manager/servers/use.h"

#define WAIT_NS ((uint64_t)50000000)

/* Any operator will do: they all see the same. */
static struct session an_operator(const struct core *core)
{
	enum principal_kind kind;
	const struct key *key = keyring_file(core->keyring, 0, &kind);
	struct session session = {0};

	if (key && kind == PRINCIPAL_OPERATOR)
		strcpy(session.principal, key->identity);
	return session;
}

void view_begin(struct core *core, struct event *event)
{
	const struct session viewer = an_operator(core);

	event->looks_before = core->nr_looks;
	event->looked_until = core_now(core) + WAIT_NS;
	looks_ask(core, &viewer);
	cds_list_add_tail(&event->node, &core->viewing);
}

static bool has_to_wait(const struct core *core, const struct event *event)
{
	return core->nr_looks > event->looks_before && event->looked_until > core_now(core);
}

static void answer(struct core *core, struct event *event)
{
	const struct session viewer = an_operator(core);

	cds_list_del(&event->node);
	event->viewed(event->call, info_cluster(core, &viewer));
	event_free(event);
}

void views_answer(struct core *core)
{
	struct event *event, *next;

	cds_list_for_each_entry_safe (event, next, &core->viewing, node)
		if (!has_to_wait(core, event))
			answer(core, event);
}

uint64_t views_next(const struct core *core)
{
	const struct event *event;
	uint64_t next = CORE_NEVER;

	cds_list_for_each_entry (event, &core->viewing, node)
		if (event->looked_until < next)
			next = event->looked_until;
	return next;
}

void views_close(struct core *core)
{
	struct event *event, *next;

	cds_list_for_each_entry_safe (event, next, &core->viewing, node) {
		cds_list_del(&event->node);
		event->viewed(event->call, NULL);
		event_free(event);
	}
}
