/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics of the session's caches: what they hold, and how often they have helped. Nothing here
 * is on the data path. */
#include <errno.h>

#include "base/error.h"
#include "client/base/abi.h"
#include "client/base/call.h"
#include "client/queue/path.h"
#include "client/session.h"
#include "memory/huge.h"
#include "memory/registration_cache.h"

static void fill_segments(struct afar_session *session, struct afar_session_stat *stat)
{
	struct segment_cache_stat segments;

	segment_cache_stat(session->segments, &segments);
	stat->cached_bytes = segments.bytes;
	stat->cached_bytes_max = segments.bytes_max;
	stat->nr_cache_hits = segments.nr_hits;
	stat->nr_cache_misses = segments.nr_misses;
}

static void fill_kept(struct afar_session *session, struct afar_session_stat *stat)
{
	struct registration_cache_stat kept;

	if (!session->registrations)
		return;
	registration_cache_stat(session->registrations, &kept);
	stat->kept_bytes = kept.bytes;
	stat->kept_bytes_max = kept.bytes_max;
	stat->nr_kept = kept.nr;
	stat->nr_kept_max = kept.nr_max;
	stat->nr_kept_hits = kept.nr_hits;
	stat->nr_kept_misses = kept.nr_added + kept.nr_passing;
	stat->nr_kept_evicted = kept.nr_evicted;
	stat->nr_kept_changed = kept.nr_changed;
}

static void fill_paths(struct afar_session *session, struct afar_session_stat *stat)
{
	const struct cds_list_head *node;

	pthread_mutex_lock(&session->lock);
	cds_list_for_each (node, &session->counts.paths)
		stat->nr_paths++;
	stat->nr_blocking_queues = session->nr_blocking_queues;
	pthread_mutex_unlock(&session->lock);
	stat->nr_blocking_queues_max = SESSION_BLOCKING_QUEUES;
	stat->nr_unused_paths_max = PATHS_UNUSED_MAX;
}

static void fill_state(struct afar_session *session, struct afar_session_stat *stat)
{
	stat->has_ended = session_has_ended(session);
	pthread_mutex_lock(&session->lock);
	stat->number = session->number;
	pthread_mutex_unlock(&session->lock);
}

PUBLIC_CALL(int, afar_session_stat, (struct afar_session *session, struct afar_session_stat *out),
	    (session, out))
{
	struct afar_session_stat stat = {.size = sizeof(stat)};
	struct fabrics_stat registered;
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!out)
		return error_fail(-EINVAL,
				  "look at a session: there is nowhere to put it (out is null)");
	ret = ABI_CHECK_OUT(out, afar_session_stat, nr_blocking_queues_max);
	if (ret)
		return ret;
	fabrics_stat(&session->fabrics, &registered);
	stat.nr_registrations = registered.nr_ever;
	stat.registered_bytes = registered.bytes;
	stat.nr_bounced = atomic_load_explicit(&session->nr_bounced, memory_order_relaxed);
	stat.huge_bytes = memory_huge_bytes();
	fill_segments(session, &stat);
	fill_kept(session, &stat);
	fill_paths(session, &stat);
	fill_state(session, &stat);
	abi_give(out, out->size, &stat, sizeof(stat));
	return 0;
}
