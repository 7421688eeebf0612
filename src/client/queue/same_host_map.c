/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes windows on same-host memory over a queue's connections, for the blocking calls; see target/same_host.c. */
#include "client/queue/same_host_map.h"

#include <stdlib.h>

#include "base/epoch.h"
#include "client/queue/queue.h"
#include "client/target/same_host_private.h"

/* Finds the path to a server over which there may be windows. NULL: there is none. */
static struct path *same_host_path(const struct afar_queue *queue, const struct binding *binding,
				   uint32_t server)
{
	struct path *path = queue_path(queue, binding->servers[server].reach);

	return path && binding->servers[server].is_keyed && path->state == PATH_UP &&
			       path->fabric->mapped
		       ? path
		       : NULL;
}

static bool has_gate(const struct same_host *same_host, uint32_t server)
{
	return same_host->servers[server].gate &&
	       fabric_gate_is_open(same_host->servers[server].gate);
}

/* Returns whether the queue's connections would give windows that the target does not have. */
static bool is_lacking(const struct afar_target *target, const struct afar_queue *queue)
{
	const struct same_host *same_host = target->same_host;
	const struct binding *binding = target->binding;
	bool is_lacking = false;

	epoch_enter();
	for (uint32_t i = 0; i < binding->layout->nr_homes && !is_lacking; i++)
		is_lacking =
			same_host_path(queue, binding, i) &&
			!(same_host && same_host->binding == binding && has_gate(same_host, i));
	epoch_exit();
	return is_lacking;
}

static struct same_host *new_windows(const struct afar_target *target)
{
	struct binding *binding = target->binding;
	const struct layout *layout = binding->layout;
	struct same_host *same_host = calloc(
		1, sizeof(*same_host) + (size_t)layout->nr_copies * sizeof(*same_host->chunks));

	if (!same_host)
		return NULL;
	same_host->session = target->session;
	same_host->servers = calloc((size_t)layout->nr_homes + 1, sizeof(*same_host->servers));
	if (!same_host->servers ||
	    !same_host_counts_open(same_host->session, &same_host->counts, layout->nr_homes)) {
		free(same_host->servers);
		free(same_host);
		return NULL;
	}
	for (uint32_t i = 0; i < layout->nr_homes; i++)
		same_host->servers[i].nr_in_doubt = &binding->servers[i].reach->nr_in_doubt;
	binding_ref(binding);
	same_host->binding = binding;
	same_host->layout = layout;
	same_host->may_write = target_may(target, AFAR_OP_WRITE);
	return same_host;
}

/* Notes that pages of a copy may be shown. */
static void take_pages(struct same_host *same_host, uint32_t index, struct fabric_pages *pages,
		       const struct copy_key *key)
{
	if (!same_host->shown)
		same_host->shown = calloc(same_host->layout->nr_copies, sizeof(*same_host->shown));
	if (same_host->shown)
		same_host->shown[index] = (struct same_host_shown){pages, key->key, key->remote};
}

/* Takes a window on a copy, over the path's first lane, because all lanes show the same memory. If
 * the lane does not show the chunk, the copy stays far. */
static void take_chunk(struct same_host *same_host, const struct path *path, uint32_t index)
{
	const struct layout_copy *copy = &same_host->layout->copies[index];
	const uint64_t length = same_host->layout->groups[copy->group].chunk_bytes;
	const struct copy_key *key = binding_key(same_host->binding, copy, path->lanes[0].number);
	struct same_host_server *server = &same_host->servers[copy->home];
	struct fabric_window window;
	uint64_t chunk_end;

	if (fabric_window(path->lanes[0].endpoint, key->key, &window))
		return;
	if (!server->gate) {
		server->gate = window.gate;
		same_host_counts_path(same_host->session, &same_host->counts, copy->home,
				      path->peer->server, path->fabric->attributes.transport);
	} else
		fabric_gate_drop(window.gate);
	if (server->gate != window.gate || !(window.access & FABRIC_REMOTE_READ) ||
	    __builtin_add_overflow(key->remote, length, &chunk_end) || chunk_end > window.length)
		return;
	if (window.pages)
		take_pages(same_host, index, window.pages, key);
	if (!window.addr || (uintptr_t)(window.addr + key->remote) % sizeof(uint64_t))
		return;
	same_host->may_write = same_host->may_write && (window.access & FABRIC_REMOTE_WRITE);
	same_host->chunks[index] = window.addr + key->remote;
}

static struct same_host *take_windows(const struct afar_target *target,
				      const struct afar_queue *queue)
{
	struct same_host *same_host = new_windows(target);

	for (uint32_t i = 0; same_host && i < same_host->layout->nr_copies; i++) {
		const struct path *path = same_host_path(queue, same_host->binding,
							 same_host->layout->copies[i].home);

		if (path)
			take_chunk(same_host, path, i);
	}
	return same_host;
}

void same_host_map(struct afar_target *target, struct afar_queue *queue)
{
	struct same_host *same_host;

	/* The thread that holds it now is changing what the windows depend on. */
	if (pthread_mutex_trylock(&target->lock) != 0)
		return;
	if (target->binding->is_ready && is_lacking(target, queue)) {
		same_host = take_windows(target, queue);
		if (same_host) {
			same_host_replace(target, same_host);
			target->same_host_queue = queue;
		}
	}
	pthread_mutex_unlock(&target->lock);
}
