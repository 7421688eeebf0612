/* SPDX-License-Identifier: BSD-3-Clause */
/* Flushes and syncs: they go to the servers of their target one by one, once the writes before them have completed. */
#include <errno.h>

#include "client/queue/progress.h"
#include "client/target/apart.h"

/* ---- Flushes */

/* A server that a flush goes to. Found like a step. */
struct flush_step {
	struct peer *peer;
	struct path *path;
	bool is_ready;
	bool is_left_out;
	bool has_copy;
	uint64_t opening;		      /* of a store, as the handle remembers it */
	struct copy_key keys[PATH_LANES_MAX]; /* of a copy there, by the path's lanes */
};

/* A target whose homes are used apart: a home may be away with which the flush has nothing to do. */
static bool flush_leaves_out(const struct afar_queue *queue, const struct operation *flush,
			     const struct binding *binding)
{
	const struct binding_server *server = &binding->servers[flush->next_server];

	if (!target_is_apart(flush->carrier))
		return false;
	if (flush->opcode == AFAR_OP_SYNC)
		return binding_may_skip(server);
	return queue->flushed && !need_has(queue->flushed, binding, (uint32_t)flush->next_server);
}

/* Finds the next server of a flush. False: there are no more. If the binding was replaced, the
 * flush begins again, because the servers may be others. */
static bool find_flush_step(const struct afar_queue *queue, struct operation *flush,
			    struct flush_step *out)
{
	const struct layout_copy *copy;
	const struct binding *binding;

	*out = (struct flush_step){.path = NULL};
	epoch_enter();
	binding = flush->carrier->binding;
	if (flush->remaining && flush->flushed_layout != binding->number) {
		flush->flushed_layout = binding->number;
		flush->next_server = 0;
		flush->remaining = binding->layout->nr_homes;
	}
	if (flush->remaining) {
		const struct binding_server *server = &binding->servers[flush->next_server];

		copy = layout_copy_at(binding->layout, (uint32_t)flush->next_server);
		out->peer = server->peer;
		out->path = queue_path(queue, server->reach);
		out->is_ready = binding->is_ready && server->is_keyed;
		out->is_left_out = flush_leaves_out(queue, flush, binding);
		out->has_copy = copy != NULL;
		out->opening = server->opening;
		for (uint32_t i = 0; out->path && out->is_ready && copy && i < out->path->nr_lanes;
		     i++)
			out->keys[i] = *binding_key(binding, copy, out->path->lanes[i].number);
	}
	epoch_exit();
	return flush->remaining > 0;
}

/* Reads FLUSH_BYTES behind the writes that went over a lane. */
static int post_behind(struct afar_queue *queue, struct operation *flush, struct path *path,
		       const struct copy_key *key, const struct path_lane *lane)
{
	const struct fabric_piece piece = {
		.addr = queue->scratch->addr,
		.length = FLUSH_BYTES,
		.descriptor = queue->scratch->memory.on[path->nr_fabric].descriptor};
	struct transfer *transfer;
	int ret;

	if (cds_list_empty(&queue->free_transfers))
		return -EAGAIN;
	transfer = cds_list_first_entry(&queue->free_transfers, struct transfer, node);
	ret = fabric_read(lane->endpoint, &piece, 1, key->remote, key->key,
			  transfer_context(queue, transfer));
	if (!ret)
		transfer_begin(queue, transfer, flush, path, FLUSH_BYTES);
	return ret;
}

/* Has a store make durable what has completed there. */
static int post_sync(struct afar_queue *queue, struct operation *sync,
		     const struct flush_step *step)
{
	const struct message_request request = {.kind = MESSAGE_SYNC, .operand = step->opening};
	const struct step where = {.peer = step->peer, .path = step->path};

	if (cds_list_empty(&queue->free_transfers))
		return -EAGAIN;
	return post_message(queue, sync, &where, &request);
}

/* Posts the flush's read on all lanes of the path. -EAGAIN: there was not enough room; call it
 * again for all of them. */
static int post_behind_all(struct afar_queue *queue, struct operation *flush,
			   const struct flush_step *step)
{
	int ret = 0;

	for (uint32_t i = 0; i < step->path->nr_lanes && !ret; i++)
		ret = post_behind(queue, flush, step->path, &step->keys[i], &step->path->lanes[i]);
	return ret;
}

int flush_advance(struct afar_queue *queue, struct operation *flush)
{
	struct afar_target *target = flush->carrier;
	bool may_write = target_may(target, AFAR_OP_WRITE);
	struct flush_step step;

	for (; find_flush_step(queue, flush, &step); flush->remaining--, flush->next_server++) {
		bool is_read_wanted =
			may_write && step.path && step.path->fabric->attributes.writes_need_flush;
		int ret;

		/* A carrier of others may be on servers that the queue has never written to. */
		if (step.is_left_out || (flush->target != target && !is_read_wanted))
			continue;
		if (!step.path || !step.is_ready || target->is_lost || step.peer->is_lost ||
		    ((is_read_wanted || (flush->opcode == AFAR_OP_SYNC && step.peer->store)) &&
		     step.path->state != PATH_UP)) {
			operation_fail(queue, flush, post_why_not(target, step.path, step.peer),
				       step.peer);
			return 0;
		}
		if (flush->opcode == AFAR_OP_SYNC && step.peer->store)
			ret = post_sync(queue, flush, &step);
		else if (!is_read_wanted || !step.has_copy)
			continue;
		else
			ret = post_behind_all(queue, flush, &step);
		if (ret == -EAGAIN)
			return ret;
		if (ret) {
			post_fail(queue, flush, step.path);
			return 0;
		}
	}
	return 0;
}
