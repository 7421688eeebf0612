/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths: which ones a queue has, and its fabrics, and how paths end. connect.c connects them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/error.h"
#include "client/queue/queue.h"
#include "client/session/buffer.h"

/*
 * Notes the path's writes as in doubt, however its connections ended: the server may still have bytes
 * of them in a receive buffer. They can land until the server says that it has closed the
 * connection.
 */
static void note_writes_in_doubt(struct path *path)
{
	struct transfer *transfer;
	bool has_writes = false;

	cds_list_for_each_entry (transfer, &path->transfers, node) {
		if (!opcode_writes(transfer->operation->opcode))
			continue;
		transfer->operation->carrier->has_writes_in_doubt = true;
		has_writes = true;
	}
	for (uint32_t i = 0; i < path->nr_lanes && has_writes; i++) {
		struct path_lane *lane = &path->lanes[i];

		if (!lane->endpoint)
			continue;
		lane->doubt->connection = lane->connection;
		peer_note_doubt(path->peer, path->reach, lane->doubt);
		lane->doubt = NULL;
	}
}

void path_end(struct afar_queue *queue, struct path *path, int status)
{
	struct transfer *transfer, *next;

	note_writes_in_doubt(path);
	for (uint32_t i = 0; i < path->nr_lanes; i++) {
		if (path->lanes[i].endpoint)
			fabric_endpoint_close(path->lanes[i].endpoint);
		path->lanes[i].endpoint = NULL;
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
	path_count_close(queue->session, &path->count);
	for (uint32_t i = 0; i < PATH_LANES_MAX; i++)
		free(path->lanes[i].doubt);
	free(path);
}

/* ---- Those of a queue */

int queue_use_fabric(struct afar_queue *queue, struct fabric *fabric, struct fabric_queue **out)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct fabric_queue *opened;
	int ret;

	for (unsigned f = 0; f < queue->nr_fabrics; f++) {
		*out = queue->fabrics[f];
		if ((*out)->fabric == fabric)
			return 0;
	}
	ret = fabric_queue_open(fabric, queue->nr_transfers, &opened);
	if (ret)
		return ret;
	if (epoll_ctl(queue->sleep_fd, EPOLL_CTL_ADD, fabric_queue_fd(opened), &event)) {
		ret = error_code(-errno);
		goto out_close;
	}
	if (fabric->attributes.writes_need_flush && !queue->scratch)
		ret = buffer_new(queue->session, FLUSH_BYTES, &queue->scratch);
	if (!ret && fabric->atomics && !queue->words)
		ret = buffer_new(queue->session, queue->nr_transfers * sizeof(uint64_t),
				 &queue->words);
	if (ret)
		goto out_close;
	*out = queue->fabrics[queue->nr_fabrics++] = opened;
	return 0;

out_close:
	fabric_queue_close(opened);
	return ret;
}

static bool path_is_unused(const struct path *path)
{
	return path && path->reach->nr_targets == 0;
}

static void drop_unused_paths(struct afar_queue *queue)
{
	uint32_t nr_unused = 0;

	for (uint32_t i = 0; i < queue->nr_paths; i++)
		nr_unused += path_is_unused(queue->paths[i]);
	for (uint32_t i = 0; i < queue->nr_paths && nr_unused > PATHS_UNUSED_MAX; i++) {
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

int path_of(struct afar_queue *queue, const struct binding_server *server, struct path **out)
{
	uint32_t index = server->reach->index;
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
		path->peer = server->peer;
		path->index = index;
		path->reach = server->reach;
		CDS_INIT_LIST_HEAD(&path->transfers);
		peer_add_path(path->peer, path->reach);
		queue->paths[index] = path;
	}
	*out = path;
	return 0;
}
