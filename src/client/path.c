/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths: the connections of a queue to servers, made ahead of the data path. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "client/queue.h"

void path_fail(struct afar_queue *queue, struct path *path, int status)
{
	struct transfer *transfer, *next;

	if (path->endpoint) {
		fabric_endpoint_close(path->endpoint);
		path->endpoint = NULL;
	}
	path->state = PATH_DOWN;
	cds_list_for_each_entry_safe (transfer, next, &path->transfers, node)
		transfer_end(queue, transfer, status);
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

static int path_of(struct afar_queue *queue, struct peer *peer, struct path **out)
{
	struct path *path;
	int ret = grow_paths(queue, peer->index);

	if (ret)
		return ret;
	path = queue->paths[peer->index];
	if (!path) {
		path = calloc(1, sizeof(*path));
		if (!path)
			return error_code(-ENOMEM);
		path->peer = peer;
		CDS_INIT_LIST_HEAD(&path->transfers);
		queue->paths[peer->index] = path;
	}
	*out = path;
	return 0;
}

static int path_start(struct afar_queue *queue, struct path *path)
{
	struct rpc_ticket ticket;
	int ret = peer_ticket(path->peer, &ticket);

	if (ret)
		return ret;
	ret = fabric_connect(queue->fabric, path->peer->data_address, &ticket, sizeof(ticket), path,
			     &path->endpoint);
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
			path_fail(queue, path, -ETIMEDOUT);
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

static int get_keys(struct afar_target *target)
{
	int ret = 0;

	pthread_mutex_lock(&target->keys_lock);
	for (uint32_t i = 0; i < target->layout->nr_servers && !target->has_keys && !ret; i++)
		ret = peer_grant(target->peers[i], target->ns, target->layout, i);
	if (!ret)
		target->has_keys = true;
	pthread_mutex_unlock(&target->keys_lock);
	return ret;
}

int queue_connect(struct afar_queue *queue, struct afar_target *target)
{
	uint64_t deadline = session_deadline(queue->session);
	struct path *path = NULL;
	int ret = get_keys(target);

	if (ret)
		return ret;

	for (uint32_t i = 0; i < target->layout->nr_servers; i++) {
		ret = path_of(queue, target->peers[i], &path);
		if (!ret && path->state == PATH_DOWN)
			ret = path_start(queue, path);
		if (!ret && path->state == PATH_CONNECTING)
			ret = path_wait(queue, path, deadline);
		if (ret)
			return ret;
	}
	return 0;
}
