/* SPDX-License-Identifier: BSD-3-Clause */
/* Bindings: making one from what the manager says, and ending it. target.c gets the keys. */
#include "client/binding.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "client/target.h"

static int take_access(struct binding *binding, uint32_t index, const Afar__Access *message)
{
	struct peer *peer = binding->servers[index].peer;
	struct access *access = &binding->servers[index].access;
	int ret;

	assert(peer); /* each server of the layout has one */
	if (message->incarnation != peer->incarnation) {
		/* The manager was asked for it after the layout was made: this is the newer word. */
		peer_lose(peer);
		return 0;
	}
	if (message->capability.len != sizeof(access->capability))
		return error_fail(
			-AFAR_EMALFORMED,
			"get access to server %s: the manager gave a capability that is none",
			peer->name);
	ret = peer_take_pass(peer, message);
	if (ret)
		return ret;
	memcpy(access->capability, message->capability.data, sizeof(access->capability));
	access->expiry = clock_deadline_ms(message->lifetime_ms);
	return 0;
}

int binding_take_accesses(struct binding *binding, Afar__Access *const *messages, size_t count)
{
	uint32_t index;
	int ret = 0;

	for (size_t i = 0; i < count && !ret; i++) {
		if (layout_find_server(binding->layout, messages[i]->server, &index))
			ret = take_access(binding, index, messages[i]);
	}
	return ret;
}

bool binding_uses(const struct binding *binding, const struct peer_reach *reach)
{
	for (uint32_t i = 0; i < binding->layout->nr_servers; i++) {
		if (binding->servers[i].reach == reach)
			return true;
	}
	return false;
}

/* Takes the layout over. */
static struct binding *new_binding(struct afar_target *target, struct layout *layout)
{
	struct binding *binding = calloc(1, sizeof(*binding) + (size_t)layout->nr_servers *
								       sizeof(*binding->servers));

	if (!binding) {
		layout_free(layout);
		return NULL;
	}
	binding->target = target;
	binding->nr_references = 1;
	binding->layout = layout;
	return binding;
}

static int reach_server(struct binding *binding, uint32_t index, struct peer *peer)
{
	struct binding_server *server = &binding->servers[index];
	const struct afar_target *target = binding->target;

	server->peer = peer;
	return peer_reach(peer, target->ns, target->rights, target->has_nic_atomics,
			  &server->reach);
}

int binding_new(struct afar_target *target, const struct layout_description *from,
		struct binding **out)
{
	const Afar__Layout *message = from->message;
	struct layout *layout;
	struct binding *binding;
	int ret = layout_decode(message, from->length, &layout);

	if (ret)
		return ret;
	layout->is_sealed = from->is_sealed;
	binding = new_binding(target, layout);
	if (!binding)
		return error_code(-ENOMEM);
	binding->number = from->number;
	for (uint32_t i = 0; i < layout->nr_servers && !ret; i++) {
		struct peer *peer;

		ret = peer_get(target->session, message->servers[i], &peer);
		if (!ret)
			ret = reach_server(binding, i, peer);
	}
	if (!ret)
		ret = binding_take_accesses(binding, message->accesses, message->n_accesses);
	if (ret) {
		binding_unref(binding);
		return ret;
	}
	*out = binding;
	return 0;
}

int binding_like(const struct binding *from, struct afar_target *target, struct layout *layout,
		 struct binding **out)
{
	struct binding *binding = new_binding(target, layout);
	int ret = binding ? 0 : error_code(-ENOMEM);

	for (uint32_t i = 0; !ret && i < layout->nr_servers; i++) {
		ret = reach_server(binding, i, from->servers[i].peer);
		binding->servers[i].access = from->servers[i].access;
		binding->servers[i].changes = from->servers[i].changes;
	}
	if (ret) {
		binding_unref(binding);
		return ret;
	}
	*out = binding;
	return 0;
}

void binding_unref(struct binding *binding)
{
	if (!binding || atomic_fetch_sub(&binding->nr_references, 1) > 1)
		return;
	for (uint32_t i = 0; i < binding->layout->nr_servers; i++) {
		if (binding->servers[i].reach)
			peer_leave(binding->servers[i].peer, binding->servers[i].reach);
	}
	layout_free(binding->layout);
	free(binding);
}
