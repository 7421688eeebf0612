/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths: the connections of a queue to servers, made ahead of the data path. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "client/queue.h"

/*
 * However a connection ended, the server may have bytes of it in a buffer that it has not come to yet: only
 * when it says that the connection is closed does nothing of it land any more.
 */
static void note_loose_writes(struct path *path)
{
	struct transfer *transfer;
	bool has_writes = false;

	cds_list_for_each_entry (transfer, &path->transfers, node) {
		if (!opcode_writes(transfer->operation->opcode))
			continue;
		transfer->operation->target->has_loose_writes = true;
		has_writes = true;
	}
	if (has_writes && path->loose) {
		path->loose->connection = path->connection;
		peer_note_loose(path->peer, path->reach, path->loose);
		path->loose = NULL;
	}
}

void path_end(struct afar_queue *queue, struct path *path, int status)
{
	struct transfer *transfer, *next;

	note_loose_writes(path);
	if (path->endpoint) {
		fabric_endpoint_close(path->endpoint);
		path->endpoint = NULL;
	}
	path->state = PATH_DOWN;
	cds_list_for_each_entry_safe (transfer, next, &path->transfers, node)
		transfer_end(queue, transfer, status);
}

void path_free(struct afar_queue *queue, struct path *path)
{
	path_end(queue, path, -ECANCELED);
	message_box_close(&path->messages);
	peer_remove_path(path->peer, path->reach);
	free(path->loose);
	free(path);
}

/* Where it takes a look at a connection to hear of its end: so often that each is looked at. */
#define REFRESH_POLLS 16

void queue_refresh(struct afar_queue *queue)
{
	for (int i = 0; i < REFRESH_POLLS; i++)
		queue_progress(queue);
	queue_check(queue);
}

/* Connections that no target of the session wants at the moment are kept for a while: regions of the same
 * namespaces may be opened again. */
#define UNUSED_PATHS_MAX 8U

static bool path_is_unused(const struct path *path)
{
	return path && path->reach->nr_targets == 0;
}

static void drop_unused_paths(struct afar_queue *queue)
{
	uint32_t nr_unused = 0;

	for (uint32_t i = 0; i < queue->nr_paths; i++)
		nr_unused += path_is_unused(queue->paths[i]);
	for (uint32_t i = 0; i < queue->nr_paths && nr_unused > UNUSED_PATHS_MAX; i++) {
		if (!path_is_unused(queue->paths[i]))
			continue;
		path_free(queue, queue->paths[i]);
		queue->paths[i] = NULL;
	}
}

static int grow_paths(struct afar_queue *queue, uint32_t index)
{
	struct path **paths;
	uint32_t count = index + 1;

	if (index < queue->nr_paths)
		return 0;
	paths = realloc(queue->paths, count * sizeof(*paths));
	if (!paths)
		return error_code(-ENOMEM);
	memset(paths + queue->nr_paths, 0, (count - queue->nr_paths) * sizeof(*paths));
	queue->paths = paths;
	queue->nr_paths = count;
	return 0;
}

static int path_of(struct afar_queue *queue, const struct afar_target *target, uint32_t server,
		   struct path **out)
{
	uint32_t index = target->reaches[server]->index;
	struct path *path;
	int ret = grow_paths(queue, index);

	if (ret)
		return ret;
	path = queue->paths[index];
	if (!path) {
		drop_unused_paths(queue);
		path = calloc(1, sizeof(*path));
		if (!path)
			return error_code(-ENOMEM);
		path->peer = target->peers[server];
		path->index = index;
		path->reach = target->reaches[server];
		CDS_INIT_LIST_HEAD(&path->transfers);
		ret = message_box_open(&path->messages, queue->session->fabric->domain);
		if (ret) {
			free(path);
			return ret;
		}
		peer_add_path(path->peer, path->reach);
		queue->paths[index] = path;
	}
	*out = path;
	return 0;
}

static int path_start(struct afar_queue *queue, struct path *path, struct afar_target *target,
		      uint32_t index, uint64_t deadline)
{
	struct peer_ticket ticket = {.connection = path->connection};
	int ret;

	if (!path->loose)
		path->loose = malloc(sizeof(*path->loose));
	if (!path->loose)
		return error_code(-ENOMEM);
	ret = target_get_ticket(target, index, deadline, &ticket);
	if (ret)
		return ret;
	path->connection = ticket.connection;
	path->generation = ++queue->nr_connections;
	message_box_reset(&path->messages, (uint64_t)path->generation << 32 | CONTEXT_MESSAGE |
						   path->index * (uint64_t)MESSAGE_CREDITS);
	ret = fabric_connect(queue->fabric, path->peer->data_address, &ticket.ticket,
			     sizeof(ticket.ticket), path, &path->endpoint);
	if (ret)
		return error_fail(-AFAR_ESERVER, "connect to server %s at %s: %s", path->peer->name,
				  path->peer->data_address, afar_strerror(ret));
	path->state = PATH_CONNECTING;
	return 0;
}

static int path_wait(struct afar_queue *queue, struct path *path, uint64_t deadline)
{
	struct pollfd wait = {.fd = fabric_queue_fd(queue->fabric), .events = POLLIN};

	while (path->state == PATH_CONNECTING) {
		queue_progress(queue);
		queue_check(queue);
		if (path->state != PATH_CONNECTING)
			break;
		if (clock_ns() >= deadline) {
			path_end(queue, path, -ETIMEDOUT);
			break;
		}
		if (fabric_queue_arm(queue->fabric) == 0)
			poll(&wait, 1, clock_remaining_ms(deadline));
	}
	if (path->state == PATH_UP)
		return 0;
	return error_fail(-AFAR_ESERVER,
			  "connect to server %s at %s: it does not accept connections",
			  path->peer->name, path->peer->data_address);
}

/* A server that takes memory away closes what it has of the session, a connection that is only being made
 * among it: then once more. */
static int path_open(struct afar_queue *queue, struct path *path, struct afar_target *target,
		     uint32_t index, uint64_t deadline)
{
	int ret = 0;

	for (int attempt = 0; attempt < 2 && path->state == PATH_DOWN; attempt++) {
		ret = path_start(queue, path, target, index, deadline);
		if (ret)
			return ret;
		ret = path_wait(queue, path, deadline);
	}
	return ret;
}

int queue_connect(struct afar_queue *queue, struct afar_target *target, uint64_t deadline)
{
	struct path *path = NULL;
	int ret = target_get_keys(target, deadline);

	if (ret)
		return ret;
	for (uint32_t i = 0; i < target->layout->nr_servers; i++) {
		ret = path_of(queue, target, i, &path);
		if (!ret)
			ret = target_settle(target, i, deadline);
		if (!ret)
			ret = path_open(queue, path, target, i, deadline);
		if (ret)
			return ret;
	}
	if (queue->session->nr_lingering)
		regions_settle(queue->session, false);
	return 0;
}
