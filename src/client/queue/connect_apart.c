/* SPDX-License-Identifier: BSD-3-Clause */
/* Connects to the homes of a target one by one, each for itself. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/error.h"
#include "client/queue/progress.h"
#include "client/queue/queue.h"
#include "client/target/apart.h"

#define LATELY_NS \
	((uint64_t)30000000000) /* a server that has failed is asked by one at a time for so long */
#define TURN_NS	    50000000L	/* how long to wait for that one, which may just be connecting */
#define REBINDS_MAX 3		/* in one call: several stores may have come back */

struct connecting {
	struct afar_queue *queue;
	struct afar_target *target;
	const struct target_need *need;
	uint64_t deadline;
	uint64_t began;
	unsigned nr_rebinds;
	int status; /* the first failure, of which `why` tells */
	char why[ERROR_LINE_BYTES];
};

static void note_failure(struct connecting *connecting, int status)
{
	if (connecting->status)
		return;
	connecting->status = status;
	snprintf(connecting->why, sizeof(connecting->why), "%s", error_last_line());
}

static bool has_failed_lately(const struct peer *peer)
{
	uint64_t failed_at = peer->failed_at;

	return failed_at != 0 && clock_ns() < failed_at + LATELY_NS;
}

static bool is_up(const struct afar_queue *queue, const struct binding_server *server)
{
	const struct path *path = queue_path(queue, server->reach);

	return server->is_keyed && path && path->state == PATH_UP &&
	       server->reach->nr_in_doubt == 0;
}

static int fail_busy(const struct peer *peer)
{
	return error_fail(-AFAR_ESERVER,
			  "reach server %s at %s:%u: it has not answered lately, and another call "
			  "waits for it; see 'afar status' whether it is up",
			  peer->name, peer->control_host, peer->control_port);
}

static int connect_in_turn(struct connecting *connecting, struct binding *binding, uint32_t home)
{
	struct peer *peer = binding->servers[home].peer;
	int ret;

	/* Somebody else has found it away since we began. */
	if (peer->failed_at > connecting->began)
		return fail_busy(peer);
	ret = binding_get_keys(binding, home, connecting->deadline);
	if (!ret)
		ret = path_connect(connecting->queue, binding, home, connecting->deadline);
	if (!ret)
		peer->failed_at = 0;
	else if (ret == -AFAR_ESERVER || ret == -ETIMEDOUT)
		peer->failed_at = clock_ns();
	return ret;
}

/* Returns whether it is the caller's turn. A caller that waits keeps others from its queue, which is the
 * session's. */
static bool take_turn(struct peer *peer)
{
	struct timespec until;

	if (!has_failed_lately(peer))
		return pthread_mutex_lock(&peer->turn) == 0;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += TURN_NS;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	return pthread_mutex_timedlock(&peer->turn, &until) == 0;
}

static int connect_home(struct connecting *connecting, struct binding *binding, uint32_t home)
{
	struct peer *peer = binding->servers[home].peer;
	int ret;

	if (!take_turn(peer))
		return fail_busy(peer);
	ret = connect_in_turn(connecting, binding, home);
	pthread_mutex_unlock(&peer->turn);
	return ret;
}

/* Connects to those that have failed lately, or to the others. -ESTALE: there is another binding, or one is
 * to be made. */
static int connect_some(struct connecting *connecting, struct binding *binding, bool is_of_failed)
{
	for (uint32_t i = 0; i < binding->layout->nr_homes; i++) {
		const struct binding_server *server = &binding->servers[i];
		int ret;

		if (is_up(connecting->queue, server) ||
		    has_failed_lately(server->peer) != is_of_failed ||
		    !need_has(connecting->need, binding, i))
			continue;
		ret = connect_home(connecting, binding, i);
		if (ret == -ESTALE && (connecting->target->binding != binding ||
				       connecting->nr_rebinds < REBINDS_MAX))
			return ret;
		if (ret == -ESTALE) /* the manager does not know yet where it is now */
			ret = error_fail(-AFAR_ESERVER, "%s", error_last_line());
		if (ret)
			note_failure(connecting, ret);
	}
	return 0;
}

static int connect_once(struct connecting *connecting, bool *is_ready)
{
	struct binding *binding = NULL;
	int ret = target_prepare(connecting->target, connecting->deadline, &binding);

	if (ret)
		return ret;
	ret = connect_some(connecting, binding, false);
	if (!ret)
		ret = connect_some(connecting, binding, true);
	*is_ready = binding->is_ready && !ret && connecting->target->binding == binding;
	if (ret == -ESTALE && connecting->target->binding == binding) {
		connecting->nr_rebinds++;
		ret = target_rebind(connecting->target, binding, connecting->deadline);
	} else if (ret == -ESTALE) {
		ret = 0;
	}
	binding_unref(binding);
	return ret;
}

int apart_connect(struct afar_queue *queue, struct afar_target *target,
		  const struct target_need *need, uint64_t deadline)
{
	struct connecting connecting = {.queue = queue,
					.target = target,
					.need = need,
					.deadline = deadline,
					.began = clock_ns()};
	bool is_ready = false;
	int ret = 0;

	/* While we connect, a server may tell of a change. */
	while (!ret && !is_ready)
		ret = connect_once(&connecting, &is_ready);
	if (!ret && connecting.status)
		ret = error_fail(connecting.status, "%s", connecting.why);
	return ret;
}
