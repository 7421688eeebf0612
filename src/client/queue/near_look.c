/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes windows on near memory over a queue's connections, for the blocking calls; see target/near.c. */
#include "client/queue/near_look.h"

#include <stdlib.h>

#include "base/hold.h"
#include "client/queue/queue.h"
#include "client/target/near_private.h"

/* Finds the path to a server over which there may be windows. NULL: there is none. */
static struct path *near_path(const struct afar_queue *queue, const struct binding *binding,
			      uint32_t server)
{
	struct path *path = queue_path(queue, binding->servers[server].reach);

	return path && binding->servers[server].is_keyed && path->state == PATH_UP &&
			       path->fabric->mapped
		       ? path
		       : NULL;
}

static bool has_gate(const struct near *near, uint32_t server)
{
	return near->servers[server].gate && fabric_gate_is_open(near->servers[server].gate);
}

/* Returns whether the queue's connections would give windows that the target does not have. */
static bool is_lacking(const struct afar_target *target, const struct afar_queue *queue)
{
	const struct near *near = target->near;
	const struct binding *binding = target->binding;
	bool is_lacking = false;

	hold_begin();
	for (uint32_t i = 0; i < binding->layout->nr_homes && !is_lacking; i++)
		is_lacking = near_path(queue, binding, i) &&
			     !(near && near->binding == binding && has_gate(near, i));
	hold_end();
	return is_lacking;
}

static struct near *new_windows(const struct afar_target *target)
{
	struct binding *binding = target->binding;
	const struct layout *layout = binding->layout;
	struct near *near =
		calloc(1, sizeof(*near) + (size_t)layout->nr_copies * sizeof(*near->chunks));

	if (!near)
		return NULL;
	near->session = target->session;
	near->servers = calloc((size_t)layout->nr_homes + 1, sizeof(*near->servers));
	if (!near->servers || !near_counts_open(near->session, &near->counts, layout->nr_homes)) {
		free(near->servers);
		free(near);
		return NULL;
	}
	for (uint32_t i = 0; i < layout->nr_homes; i++)
		near->servers[i].nr_loose = &binding->servers[i].reach->nr_loose;
	binding_ref(binding);
	near->binding = binding;
	near->layout = layout;
	near->may_write = target_may(target, AFAR_OP_WRITE);
	return near;
}

/* Takes a window on a copy, over the path's first lane, because all lanes show the same memory. If
 * the lane does not show the chunk, the copy stays far. */
static void take_chunk(struct near *near, const struct path *path, uint32_t index)
{
	const struct layout_copy *copy = &near->layout->copies[index];
	const uint64_t length = near->layout->groups[copy->group].chunk_bytes;
	const struct copy_key *key = binding_key(near->binding, copy, path->lanes[0].number);
	struct near_server *server = &near->servers[copy->home];
	struct fabric_window window;
	uint64_t chunk_end;

	if (fabric_window(path->lanes[0].endpoint, key->key, &window))
		return;
	if (!server->gate) {
		server->gate = window.gate;
		near_counts_path(near->session, &near->counts, copy->home, path->peer->server,
				 path->fabric->attributes.transport);
	} else
		fabric_gate_drop(window.gate);
	if (server->gate != window.gate || !(window.access & FABRIC_REMOTE_READ) ||
	    __builtin_add_overflow(key->remote, length, &chunk_end) || chunk_end > window.length ||
	    (uintptr_t)(window.addr + key->remote) % sizeof(uint64_t))
		return;
	near->may_write = near->may_write && (window.access & FABRIC_REMOTE_WRITE);
	near->chunks[index] = window.addr + key->remote;
}

static struct near *take_windows(const struct afar_target *target, const struct afar_queue *queue)
{
	struct near *near = new_windows(target);

	for (uint32_t i = 0; near && i < near->layout->nr_copies; i++) {
		const struct path *path =
			near_path(queue, near->binding, near->layout->copies[i].home);

		if (path)
			take_chunk(near, path, i);
	}
	return near;
}

void near_look(struct afar_target *target, struct afar_queue *queue)
{
	struct near *near;

	/* The thread that holds it now is changing what the windows depend on. */
	if (pthread_mutex_trylock(&target->lock) != 0)
		return;
	if (target->binding->is_ready && is_lacking(target, queue)) {
		near = take_windows(target, queue);
		if (near) {
			near_replace(target, near);
			target->near_queue = queue;
		}
	}
	pthread_mutex_unlock(&target->lock);
}
