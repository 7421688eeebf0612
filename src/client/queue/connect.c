/* SPDX-License-Identifier: BSD-3-Clause */
/* Connecting: makes a queue's connections to the servers of a target, ahead of the data path. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "client/namespace/deferred_close.h"
#include "client/queue/progress.h"
#include "client/queue/queue.h"
#include "client/target/apart.h"
#include "fabric/mapped.h"
#include "fabric/paged.h"

#define TRANSFER_BYTES_MAX ((uint64_t)8 << 20) /* the longest: none holds others up for long */
#define LANE_MS		   3000	 /* how long to try one transport, if there are others */
#define LANE_REST_MS	   10000 /* a lane that did not work is tried last for so long */

/* A refresh polls so often that it looks at each connection at least once, and so hears of its
 * end. */
#define REFRESH_POLLS 16

void queue_refresh(struct afar_queue *queue)
{
	for (int i = 0; i < REFRESH_POLLS; i++)
		queue_progress(queue);
	queue_check(queue);
}

/* ---- Connecting over lanes */

/* All lanes of one transport. A path uses all of them. */
struct lane_group {
	struct peer_lane *lanes[PATH_LANES_MAX];
	uint32_t nr_lanes;
};

/* Finds the first lane that is not in `except` (bits), and all others of the same transport. */
static struct lane_group find_group(struct peer *peer, uint32_t except)
{
	struct lane_group group = {.nr_lanes = 0};

	for (unsigned i = 0; i < peer->nr_lanes && group.nr_lanes < PATH_LANES_MAX; i++) {
		if (except & 1U << i)
			continue;
		if (group.nr_lanes > 0 &&
		    strcmp(peer->lanes[i].transport, group.lanes[0]->transport) != 0)
			continue;
		group.lanes[group.nr_lanes++] = &peer->lanes[i];
	}
	return group;
}

static uint32_t resting_lanes(const struct peer *peer)
{
	uint64_t now = clock_ns();
	uint32_t resting = 0;

	for (unsigned i = 0; i < peer->nr_lanes; i++) {
		if (peer->lanes[i].rests_until > now)
			resting |= 1U << i;
	}
	return resting;
}

/* Finds the lanes without NIC atomics, if the path is for those. They are tried last, because they
 * can still carry reads and writes. */
static uint32_t unfit_lanes(struct fabrics *fabrics, const struct path *path)
{
	uint32_t unfit = 0;

	for (unsigned i = 0; i < path->peer->nr_lanes && path->reach->wants_nic_atomics; i++) {
		if (!lane_has_atomics(fabrics, &path->peer->lanes[i]))
			unfit |= 1U << i;
	}
	return unfit;
}

/* Blames the lanes that were refused, else those that have not connected, else all, and lets them
 * rest. */
static uint32_t rest_bad(const struct path *path, const struct lane_group *group)
{
	bool has_refused = false, has_silent = false;
	uint32_t bad = 0;

	for (uint32_t i = 0; i < group->nr_lanes; i++) {
		has_refused |= path->lanes[i].is_refused;
		has_silent |= !path->lanes[i].is_connected;
	}
	for (uint32_t i = 0; i < group->nr_lanes; i++) {
		if (has_refused ? !path->lanes[i].is_refused
				: has_silent && path->lanes[i].is_connected)
			continue;
		group->lanes[i]->rests_until = clock_deadline_ms(LANE_REST_MS);
		bad |= 1U << (group->lanes[i] - path->peer->lanes);
	}
	return bad;
}

/* True if the group has all lanes of the server, and the server has answered over none of them. */
static bool group_is_silent(const struct path *path, const struct lane_group *group,
			    const struct peer *peer)
{
	if (group->nr_lanes < peer->nr_lanes)
		return false;
	for (uint32_t i = 0; i < group->nr_lanes; i++) {
		if (path->lanes[i].is_connected || path->lanes[i].is_refused)
			return false;
	}
	return true;
}

/* Gets what the path needs of the group's fabric. */
static int use_fabric(struct afar_queue *queue, struct path *path, const struct lane_group *group,
		      struct fabric_queue **out)
{
	struct fabrics *fabrics = &queue->session->fabrics;
	const struct fabric *fabric;
	int ret = fabrics_get(fabrics, group->lanes[0]->transport, group->lanes[0]->address,
			      &path->nr_fabric);
	uint64_t bytes_max;

	if (ret)
		return ret;
	fabric = fabrics_at(fabrics, path->nr_fabric);
	ret = queue_use_fabric(queue, fabrics_at(fabrics, path->nr_fabric), out);
	if (ret || path->fabric == fabric)
		return ret;
	message_box_close(&path->messages);
	path->fabric = NULL;
	ret = message_box_open(&path->messages, fabric->domain);
	if (ret)
		return ret;
	bytes_max = fabric->attributes.transfer_bytes_max;
	if (path->peer->store && bytes_max > FABRIC_PAGED_MAX)
		bytes_max = FABRIC_PAGED_MAX;
	path->transfer_bytes_max = bytes_max < TRANSFER_BYTES_MAX ? bytes_max : TRANSFER_BYTES_MAX;
	path->fabric = fabric;
	path_count_open(queue->session, &path->count, path->peer->server,
			fabric->attributes.transport);
	return 0;
}

/* Gets a ticket for a connection that replaces the lane's last one. */
static int get_ticket(struct path_lane *lane, struct binding *binding, uint32_t index,
		      uint64_t deadline, struct peer_ticket *ticket)
{
	int ret;

	if (!lane->doubt)
		lane->doubt = malloc(sizeof(*lane->doubt));
	if (!lane->doubt)
		return error_code(-ENOMEM);
	ticket->connection = lane->connection;
	ret = binding_get_ticket(binding, index, deadline, ticket);
	if (!ret)
		lane->connection = ticket->connection;
	return ret;
}

/* Has the server close the path's connections over lanes that this attempt does not use. */
static int settle_rest(struct path *path, struct binding *binding, uint32_t index,
		       uint64_t deadline)
{
	struct peer_ticket ticket = {.attaches = 0};
	int ret = 0;

	for (uint32_t i = path->nr_lanes; i < PATH_LANES_MAX && !ret; i++) {
		if (path->lanes[i].connection == 0)
			continue;
		ticket.connection = path->lanes[i].connection;
		ret = binding_get_ticket(binding, index, deadline, &ticket);
		if (!ret)
			path->lanes[i].connection = 0;
	}
	return ret;
}

static int fail_lane(const struct path *path, const struct peer_lane *lane, const char *why)
{
	return error_fail(-AFAR_ESERVER, "connect to server %s at %s: %s", path->peer->name,
			  lane->address, why);
}

/* Starts connecting over all lanes of the group. `*is_lane_bad`: another group may do better. */
static int path_start(struct afar_queue *queue, struct path *path, const struct lane_group *group,
		      struct binding *binding, uint32_t index, uint64_t deadline, bool *is_lane_bad)
{
	struct fabric_queue *fabric_queue;
	struct peer_ticket ticket = {.attaches = 0};
	int ret = use_fabric(queue, path, group, &fabric_queue);

	*is_lane_bad = ret != 0;
	if (ret)
		return ret;
	path->generation = ++queue->nr_connections;
	atomic_store(&path->peer->last_lane, (unsigned)(group->lanes[0] - path->peer->lanes));
	path->nr_lanes = path->nr_connecting = group->nr_lanes;
	message_box_reset(&path->messages, (uint64_t)path->generation << 32 | CONTEXT_MESSAGE |
						   path->index * (uint64_t)MESSAGE_CREDITS);
	ret = settle_rest(path, binding, index, deadline);
	for (uint32_t i = 0; i < group->nr_lanes && !ret; i++) {
		struct path_lane *lane = &path->lanes[i];

		lane->number = group->lanes[i]->number;
		lane->is_connected = lane->is_refused = false;
		ret = get_ticket(lane, binding, index, deadline, &ticket);
		if (ret)
			break;
		ret = fabric_connect(fabric_queue, group->lanes[i]->address, &ticket.ticket,
				     sizeof(ticket.ticket), path, &lane->endpoint);
		*is_lane_bad = ret != 0;
		if (ret)
			ret = fail_lane(path, group->lanes[i], afar_strerror(ret));
	}
	if (ret)
		path_end(queue, path, ret);
	else
		path->state = PATH_CONNECTING;
	return ret;
}

static void note_congestion(struct afar_queue *queue, struct path *path)
{
	char all[FABRIC_CONGESTIONS_MAX] = "", name[FABRIC_CONGESTION_MAX];

	for (uint32_t i = 0; i < path->nr_lanes; i++) {
		fabric_endpoint_congestion(path->lanes[i].endpoint, name);
		text_merge(all, sizeof(all), name);
	}
	path_count_congestion(queue->session, &path->count, all);
}

static int path_wait(struct afar_queue *queue, struct path *path, const struct lane_group *group,
		     uint64_t deadline)
{
	while (path->state == PATH_CONNECTING) {
		queue_progress(queue);
		queue_check(queue);
		if (path->state != PATH_CONNECTING)
			break;
		if (clock_ns() >= deadline) {
			path_end(queue, path, -ETIMEDOUT);
			return fail_lane(path, group->lanes[0],
					 "it did not answer in time; look whether it runs, and "
					 "whether a firewall lets this port through");
		}
		queue_sleep(queue, deadline);
	}
	if (path->state != PATH_UP)
		return fail_lane(path, group->lanes[0], "it does not accept connections");
	note_congestion(queue, path);
	return 0;
}

/* How long a lane may take to answer, from now on: all the time that is left, or only a part of it. */
static uint64_t lane_deadline(uint64_t deadline, bool has_others)
{
	uint64_t until = clock_deadline_ms(LANE_MS);

	return has_others && until < deadline ? until : deadline;
}

/* A server that takes memory away closes all connections of the session, also one that is still
 * being made: so this tries twice. The lane's time begins when it is asked, because opening a transport
 * and getting a ticket say nothing about the lane. */
static int path_try(struct afar_queue *queue, struct path *path, const struct lane_group *group,
		    struct binding *binding, uint32_t index, uint64_t deadline, bool has_others,
		    bool *is_lane_bad)
{
	uint64_t until = deadline;
	int ret = 0;

	for (int attempt = 0; attempt < 2 && path->state == PATH_DOWN; attempt++) {
		if (attempt > 0 && clock_ns() >= until)
			break;
		ret = path_start(queue, path, group, binding, index, deadline, is_lane_bad);
		if (ret)
			return ret;
		until = lane_deadline(deadline, has_others);
		ret = path_wait(queue, path, group, until);
		*is_lane_bad = ret != 0;
	}
	return ret;
}

/* True if the group's lanes may be reachable from this machine. A lane that has no fabric here
 * counts as reachable, so that connecting reports why not. */
static bool group_is_same_host(struct fabrics *fabrics, const struct lane_group *group)
{
	const struct peer_lane *lane = group->lanes[0];
	unsigned number;

	return fabrics_get(fabrics, lane->transport, lane->address, &number) != 0 ||
	       fabric_is_same_host(fabrics_at(fabrics, number), lane->address);
}

static uint32_t group_bits(const struct peer *peer, const struct lane_group *group)
{
	uint32_t bits = 0;

	for (uint32_t i = 0; i < group->nr_lanes; i++)
		bits |= 1U << (group->lanes[i] - peer->lanes);
	return bits;
}

/* Fails because no lane can be reached. First asks over the control channel whether the server is
 * gone. */
static int fail_far(const struct path *path, struct binding *binding, uint32_t index,
		    uint64_t deadline)
{
	struct peer_ticket ticket = {.connection = 0};
	int ret = binding_get_ticket(binding, index, deadline, &ticket);

	return ret ? ret
		   : error_fail(-AFAR_ESERVER,
				"connect to server %s: none of its lanes can be reached from this "
				"machine; see 'afar status'",
				path->peer->name);
}

/* Connects over the best lanes that work. Lanes that have failed lately are tried last. */
static int path_open(struct afar_queue *queue, struct path *path, struct binding *binding,
		     uint32_t index, uint64_t deadline)
{
	struct peer *peer = path->peer;
	uint32_t tried = 0, resting = resting_lanes(peer);
	uint32_t unfit = unfit_lanes(&queue->session->fabrics, path);
	bool has_tried = false, was_silent = false;
	int ret = 0;

	while (path->state == PATH_DOWN) {
		struct lane_group group = find_group(peer, tried | resting | unfit);
		bool is_lane_bad;

		if (group.nr_lanes == 0 && resting == 0 && unfit == 0)
			break;
		if (group.nr_lanes == 0) {
			unfit = resting ? unfit : 0;
			resting = 0;
			continue;
		}
		if (!group_is_same_host(&queue->session->fabrics, &group)) {
			tried |= group_bits(peer, &group);
			continue;
		}
		has_tried = true;
		ret = path_try(queue, path, &group, binding, index, deadline,
			       peer->nr_lanes > 1 && !was_silent, &is_lane_bad);
		if (ret && !is_lane_bad)
			return ret;
		if (ret && clock_ns() >= deadline) {
			/* The next call begins with others. This one says where nobody has answered. */
			if (!group_is_silent(path, &group, peer))
				rest_bad(path, &group);
			return ret;
		}
		if (ret && !was_silent && group_is_silent(path, &group, peer)) {
			was_silent = true; /* the server is slow or gone: no lane is to blame */
			continue;
		}
		if (ret)
			tried |= rest_bad(path, &group);
	}
	if (path->state == PATH_UP)
		return 0;
	return has_tried ? ret : fail_far(path, binding, index, deadline);
}

/* ---- Getting ready */

#define PREPARED_AT_ONCE 16 /* copies */
#define READY_ATTEMPTS	 16

/* Prepares all lanes for transfers to a copy. 0, -EAGAIN, or an error. */
static int prepare_copy(const struct path *path, const struct binding *binding,
			const struct layout_copy *copy)
{
	int ret = 0;

	for (uint32_t i = 0; i < path->nr_lanes && (!ret || ret == -EAGAIN); i++) {
		const struct path_lane *lane = &path->lanes[i];
		int status = fabric_prepare(lane->endpoint,
					    binding_key(binding, copy, lane->number)->key);

		ret = status ? status : ret;
	}
	return ret;
}

/* Prepares the copies on one server, from `*first` on. Moves `*first` to the first copy that is not
 * ready. */
static int prepare_some(const struct path *path, const struct binding *binding, uint32_t server,
			uint32_t *first)
{
	const struct layout *layout = binding->layout;
	uint32_t nr_begun = 0;
	bool are_ready = true;
	int ret = 0;

	for (uint32_t i = *first; i < layout->nr_copies && nr_begun < PREPARED_AT_ONCE; i++) {
		if (layout->copies[i].home == server) {
			ret = prepare_copy(path, binding, &layout->copies[i]);
			if (ret && ret != -EAGAIN)
				return ret;
			nr_begun += ret != 0;
		}
		are_ready = are_ready && !ret;
		if (are_ready)
			*first = i + 1;
	}
	return are_ready ? 0 : -EAGAIN;
}

/* Prepares all copies, so that even the first transfer is one-sided and asks the server for
 * nothing. */
static int path_prepare(struct afar_queue *queue, struct path *path, const struct binding *binding,
			uint32_t server, uint64_t deadline)
{
	uint32_t first = 0;
	bool is_armed;
	/* A binding that is not ready may get other keys; queue_connect() then comes here again. */
	int ret = path->fabric->mapped && binding->is_ready ? -EAGAIN : 0;

	while (ret == -EAGAIN && path->state == PATH_UP && clock_ns() < deadline) {
		queue_progress(queue);
		queue_check(queue);
		is_armed = path->state == PATH_UP && queue_arm(queue);
		if (path->state != PATH_UP)
			break;
		/* Arming polls, so the event that we wait for may have arrived by now. */
		ret = prepare_some(path, binding, server, &first);
		if (ret == -EAGAIN && is_armed)
			queue_doze(queue, deadline);
	}
	if (!ret)
		return 0;
	if (path->state == PATH_UP)
		path_end(queue, path, -AFAR_ESERVER);
	return error_fail(-AFAR_ESERVER,
			  "connect to server %s: it does not give the memory it has promised",
			  path->peer->name);
}

/* Connects and prepares. Tries again, because a server that takes memory away may close the
 * connection in between. */
static int path_get_ready(struct afar_queue *queue, struct path *path, struct binding *binding,
			  uint32_t server, uint64_t deadline)
{
	int ret = -AFAR_ESERVER;

	for (int i = 0; i < READY_ATTEMPTS && ret == -AFAR_ESERVER && clock_ns() < deadline; i++) {
		ret = path_open(queue, path, binding, server, deadline);
		if (ret)
			return ret;
		ret = path_prepare(queue, path, binding, server, deadline);
	}
	return ret;
}

int path_connect(struct afar_queue *queue, struct binding *binding, uint32_t home,
		 uint64_t deadline)
{
	struct path *path = NULL;
	int ret = path_of(queue, &binding->servers[home], &path);

	if (!ret)
		ret = binding_settle(binding, home, deadline);
	return ret ? ret : path_get_ready(queue, path, binding, home, deadline);
}

static int connect_all(struct afar_queue *queue, struct binding *binding, uint64_t deadline)
{
	int ret = 0;

	for (uint32_t i = 0; i < binding->layout->nr_homes && !ret; i++)
		ret = path_connect(queue, binding, i, deadline);
	return ret;
}

/* All homes of a target that needs all. */
static int connect_whole(struct afar_queue *queue, struct afar_target *target, uint64_t deadline)
{
	bool is_ready;

	/* While we connect, a server may tell of a change. Then the keys may have changed, too. */
	do {
		int ret = target_get_keys(target, deadline);
		struct binding *binding;

		if (ret)
			return ret;
		binding = target_binding(target);
		ret = connect_all(queue, binding, deadline);
		is_ready = binding->is_ready && ret != -ESTALE;
		if (ret == -ESTALE)
			ret = target_rebind(target, binding, deadline);
		binding_unref(binding);
		if (ret)
			return ret;
	} while (!is_ready);
	return 0;
}

int queue_connect(struct afar_queue *queue, struct afar_target *target, uint64_t deadline)
{
	return queue_connect_to(queue, target, NULL, deadline);
}

int queue_connect_to(struct afar_queue *queue, struct afar_target *target,
		     const struct target_need *need, uint64_t deadline)
{
	int ret = target_is_apart(target) ? apart_connect(queue, target, need, deadline)
					  : connect_whole(queue, target, deadline);

	if (!ret && queue->session->nr_lingering)
		regions_settle(queue->session, false);
	return ret;
}
