/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of the log about transfers to a store that took long: whose, which bytes, which way, and where the time went.
 * Times are taken only if somebody wants lines. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/slow.h"
#include "server/stores/pager_private.h"

#define NR_FIELDS 12U

void pages_slow_take(struct page_io *io, const struct fabric_paged *paged)
{
	io->times.taken = 0;
	if (!slow_is_on())
		return;
	io->times = (struct page_times){
		.taken = clock_ns(),
		.kind = !paged->is_write    ? "read"
			: paged->is_durable ? "durable_write"
					    : "write",
		.offset = paged->offset,
		.length = paged->length,
		.transport = progress_transport(paged->owner),
		.way = io->pinned ? "cache" : "device",
	};
}

void pages_slow_way(struct page_io *io, const char *way)
{
	io->times.way = way;
}

static uint64_t us_between(uint64_t from, uint64_t to)
{
	return to > from ? (to - from) / 1000U : 0;
}

static void write_line(const struct page_io *io, uint64_t now)
{
	const struct page_times *times = &io->times;
	const struct store *store = io->extent->store;
	const uint64_t begun = times->begun ? times->begun : now,
		       ended = times->ended ? times->ended : begun;
	const uint64_t queued = us_between(times->taken, begun), device = us_between(begun, ended),
		       answered = us_between(ended, now), total = us_between(times->taken, now);
	char session[20], number[20], extent[24];
	const struct log_field fields[NR_FIELDS] = {
		LOG_TEXT("kind", times->kind),	     LOG_TEXT("session", session),
		LOG_TEXT("store", number),	     LOG_NUMBER("namespace", io->extent->namespace),
		LOG_TEXT("extent", extent),	     LOG_NUMBER("offset", times->offset),
		LOG_NUMBER("length", times->length), LOG_TEXT("transport", times->transport),
		LOG_TEXT("way", times->way),	     LOG_NUMBER("total_us", total),
		LOG_NUMBER("queued_us", queued),     LOG_NUMBER("device_us", device),
	};

	snprintf(session, sizeof(session), "%016" PRIx64, io->work->session);
	snprintf(number, sizeof(number), "%016" PRIx64, store->number);
	snprintf(extent, sizeof(extent), "%" PRIu64, io->extent->number);
	slow_write(__FILE__, now, fields, NR_FIELDS,
		   "slow: %s of %" PRIu64 " bytes at %" PRIu64 " of extent %s (namespace %" PRIu64
		   ", store %s) over %s for session %s took %" PRIu64 " us: queued %" PRIu64
		   ", %s %" PRIu64 ", answered %" PRIu64,
		   times->kind, times->length, times->offset, extent, io->extent->namespace, number,
		   times->transport, session, total, queued, times->way, device, answered);
}

void pages_slow_leave(const struct page_io *io)
{
	uint64_t now;

	if (io->times.taken == 0)
		return;
	now = clock_ns();
	slow_tell(now);
	if (slow_is(now - io->times.taken))
		write_line(io, now);
}

void pages_slow_sync(const struct store *store, uint64_t session, uint64_t begun, uint64_t now)
{
	char whose[20], number[20];
	const struct log_field fields[] = {
		LOG_TEXT("kind", "sync"),
		LOG_TEXT("session", whose),
		LOG_TEXT("store", number),
		LOG_NUMBER("total_us", us_between(begun, now)),
	};

	if (!slow_is(now - begun))
		return;
	snprintf(whose, sizeof(whose), "%016" PRIx64, session);
	snprintf(number, sizeof(number), "%016" PRIx64, store->number);
	slow_write(__FILE__, now, fields, sizeof(fields) / sizeof(fields[0]),
		   "slow: sync of store %s for session %s took %" PRIu64 " us", number, whose,
		   us_between(begun, now));
}
