/* SPDX-License-Identifier: BSD-3-Clause */
/* Bindings: makes one from the manager's message, and ends it. target.c gets the keys. */
#include "client/target/binding.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "client/target/target.h"

static int take_access(struct binding *binding, uint32_t index, const Afar__Access *message)
{
	struct peer *peer = binding->servers[index].peer;
	struct access *access = &binding->servers[index].access;
	int ret;

	assert(peer); /* each server of the layout has one */
	if (message->incarnation != peer->incarnation || message->server != peer->server) {
		/* The manager answered this after it made the layout, so it is the newer
		 * information. */
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

static bool is_access_to(const struct layout_home *home, const Afar__Access *message)
{
	return home->is_store ? message->store == home->life
			      : message->store == 0 && message->server == home->server;
}

int binding_take_accesses(struct binding *binding, Afar__Access *const *messages, size_t count)
{
	int ret = 0;

	for (size_t i = 0; i < count && !ret; i++) {
		for (uint32_t j = 0; j < binding->layout->nr_homes && !ret; j++) {
			if (is_access_to(&binding->layout->homes[j], messages[i]))
				ret = take_access(binding, j, messages[i]);
		}
	}
	return ret;
}

bool binding_uses(const struct binding *binding, const struct peer_reach *reach)
{
	for (uint32_t i = 0; i < binding->layout->nr_homes; i++) {
		if (binding->servers[i].reach == reach)
			return true;
	}
	return false;
}

/* Makes a binding, and takes the layout over. */
static struct binding *new_binding(struct afar_target *target, struct layout *layout)
{
	struct binding *binding =
		calloc(1, sizeof(*binding) + (size_t)layout->nr_homes * sizeof(*binding->servers));

	if (!binding) {
		layout_free(layout);
		return NULL;
	}
	binding->target = target;
	binding->nr_references = 1;
	binding->layout = layout;
	binding->length = layout->length;
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

static int malformed(const char *what)
{
	return error_fail(-AFAR_EMALFORMED,
			  "read the layout of a region: %s; the manager is faulty", what);
}

static int read_layout(const struct layout_description *from, struct layout **out)
{
	const char *why = NULL;
	int ret;

	if (!from->message)
		return malformed("it has none");
	ret = layout_unpack(from->message->form, out, &why);
	if (ret == -EINVAL)
		return malformed(why);
	if (ret)
		return ret;
	if ((*out)->length < from->length || (*out)->length - from->length != from->behind)
		ret = malformed("its groups do not cover the region");
	else if (from->message->n_servers > (*out)->nr_homes)
		ret = malformed("it lists more servers than it has homes");
	if (ret)
		layout_free(*out);
	return ret;
}

/* Finds the message of a home's server; NULL: there is none. */
static const Afar__Server *find_server(const Afar__LayoutInfo *message,
				       const struct layout_home *home)
{
	for (size_t i = 0; i < message->n_servers; i++) {
		if (message->servers[i]->server == home->server)
			return message->servers[i];
	}
	return NULL;
}

/* Finds where a store is; NULL: the message does not say. */
static const Afar__StorePlace *find_store(const Afar__LayoutInfo *message,
					  const struct layout_home *home)
{
	for (size_t i = 0; i < message->n_stores; i++) {
		if (message->stores[i]->store == home->life)
			return message->stores[i];
	}
	return NULL;
}

/* Returns since when it is away, on our clock; not 0. */
static uint64_t away_since(uint64_t away_ms)
{
	uint64_t now = clock_ns();

	return away_ms < now / 1000000U ? now - away_ms * 1000000U : 1;
}

static int reach_store(struct binding *binding, uint32_t index, const Afar__LayoutInfo *message)
{
	const struct layout_home *home = &binding->layout->homes[index];
	const Afar__StorePlace *place = find_store(message, home);
	const Afar__Server *server = NULL;
	struct peer *peer;
	int ret;

	if (!place)
		return malformed("a chunk is in a store that is not listed");
	for (size_t i = 0; i < message->n_servers && !server; i++) {
		if (message->servers[i]->server == place->server)
			server = message->servers[i];
	}
	if (!server)
		return error_fail(-AFAR_ESERVER,
				  "reach store %016llx: no server of the cluster has it; open its "
				  "device at one ('afard --flash'); see 'afar store ls'",
				  (unsigned long long)home->life);
	binding->servers[index].opening = place->opening;
	binding->servers[index].away_since = place->is_away ? away_since(place->away_ms) : 0;
	ret = peer_get(binding->target->session, server, place, &peer);
	return ret ? ret : reach_server(binding, index, peer);
}

static int reach_home(struct binding *binding, uint32_t index, const Afar__LayoutInfo *message)
{
	const Afar__Server *server;
	struct peer *peer;
	int ret;

	if (binding->layout->homes[index].is_store)
		return reach_store(binding, index, message);
	server = find_server(message, &binding->layout->homes[index]);
	if (!server)
		return malformed("a chunk is on a server that is not listed");
	ret = peer_get(binding->target->session, server, NULL, &peer);
	return ret ? ret : reach_server(binding, index, peer);
}

void binding_take_away(struct binding *binding, Afar__ServerAway *const *messages, size_t count)
{
	for (uint32_t i = 0; i < binding->layout->nr_homes; i++) {
		if (binding->layout->homes[i].is_store)
			continue;
		binding->servers[i].away_since = 0;
		for (size_t j = 0; j < count; j++) {
			if (messages[j]->server == binding->layout->homes[i].server)
				binding->servers[i].away_since = away_since(messages[j]->away_ms);
		}
	}
}

/* Both are the same store; `server` is in the newer binding. */
static void remember_store(struct binding_server *server, const struct binding_server *old)
{
	server->opening = old->opening;
	server->owes_sync = old->owes_sync;
	/* If it is reached in another way, what was written in the old one counts as not synced, also what is only
	 * being written. */
	server->may_owe_sync = old->may_owe_sync || old->peer != server->peer;
	server->nr_synced = old->peer == server->peer ? old->nr_synced : 0;
}

static void settle_owed(struct binding_server *server, const struct binding_server *old)
{
	if (old->peer != server->peer && !old->may_owe_sync && old->peer->nr_writing == 0 &&
	    old->nr_synced == old->peer->nr_written)
		server->may_owe_sync = false;
}

static void for_each_store(struct binding *binding, const struct binding *old,
			   void (*visit)(struct binding_server *server,
					 const struct binding_server *old))
{
	for (uint32_t i = 0; i < binding->layout->nr_homes; i++) {
		for (uint32_t j = 0; j < old->layout->nr_homes; j++) {
			if (old->layout->homes[j].is_store &&
			    layout_home_is(&binding->layout->homes[i], &old->layout->homes[j]))
				visit(&binding->servers[i], &old->servers[j]);
		}
	}
}

void binding_remember(struct binding *binding, const struct binding *old)
{
	for_each_store(binding, old, remember_store);
}

void binding_settle_owed(struct binding *binding, const struct binding *old)
{
	for_each_store(binding, old, settle_owed);
}

int binding_new(struct afar_target *target, const struct layout_description *from,
		struct binding **out)
{
	struct layout *layout;
	struct binding *binding;
	int ret = read_layout(from, &layout);

	if (ret)
		return ret;
	binding = new_binding(target, layout);
	if (!binding)
		return error_code(-ENOMEM);
	binding->number = from->number;
	binding->length = from->length;
	for (uint32_t i = 0; i < layout->nr_homes && !ret; i++)
		ret = reach_home(binding, i, from->message);
	if (!ret)
		ret = binding_take_accesses(binding, from->message->accesses,
					    from->message->n_accesses);
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

	for (uint32_t i = 0; !ret && i < layout->nr_homes; i++) {
		ret = reach_server(binding, i, from->servers[i].peer);
		binding->servers[i].access = from->servers[i].access;
		binding->servers[i].changes = from->servers[i].changes;
		binding->servers[i].opening = from->servers[i].opening;
		binding->servers[i].away_since = from->servers[i].away_since;
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
	for (uint32_t i = 0; i < binding->layout->nr_homes; i++) {
		if (binding->servers[i].reach)
			peer_leave(binding->servers[i].peer, binding->servers[i].reach);
	}
	layout_free(binding->layout);
	free(binding->keys);
	free(binding);
}
