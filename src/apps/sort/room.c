/* SPDX-License-Identifier: BSD-3-Clause */
/* Reservations; see room.h. Called by job.c and generate.c. */
#include "room.h"

#include <stdio.h>

#include "failure.h"

#define UNIT ((uint64_t)2 << 20) /* the unit of reservations */

static uint64_t round_up(uint64_t bytes)
{
	return (bytes + UNIT - 1) / UNIT * UNIT;
}

static int fail(int error, const char *ns, uint64_t bytes)
{
	char what[AFAR_NAME_MAX + 100];

	snprintf(what, sizeof(what), "get %llu bytes ready in %s", (unsigned long long)bytes, ns);
	return sort_fail_last(error, what);
}

static int reserve(struct afar_namespace *ns, uint64_t bytes, struct room *room)
{
	int ret = afar_namespace_reserve(ns, round_up(bytes));

	if (!ret)
		room->reserved += round_up(bytes);
	return ret;
}

static int reserve_missing(struct afar_namespace *ns, uint64_t bytes, struct room *room)
{
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	uint64_t has;
	int ret = afar_namespace_stat(ns, &stat);

	if (ret)
		return ret;
	has = stat.reserved_bytes > stat.allocated_bytes
		      ? stat.reserved_bytes - stat.allocated_bytes
		      : 0;
	return has < bytes ? reserve(ns, bytes - has, room) : 0;
}

static int with_namespace(struct afar_session *session, uint64_t bytes, struct room *room,
			  int (*act)(struct afar_namespace *ns, uint64_t bytes, struct room *room))
{
	struct afar_namespace *ns;
	int ret = afar_namespace_open(session, room->ns, &ns);

	if (ret)
		return fail(ret, room->ns, bytes);
	ret = act(ns, bytes, room);
	if (ret)
		ret = fail(ret, room->ns, bytes);
	afar_namespace_close(ns);
	return ret;
}

int room_get(struct afar_session *session, const char *ns, uint64_t bytes, struct room *room)
{
	snprintf(room->ns, sizeof(room->ns), "%s", ns);
	return with_namespace(session, bytes, room, reserve_missing);
}

int room_get_whole(struct afar_session *session, uint64_t bytes, struct room *room)
{
	return with_namespace(session, bytes, room, reserve);
}

void room_give_back(struct afar_session *session, struct room *room, uint64_t used)
{
	struct afar_namespace *ns;

	if (room->reserved <= used || afar_namespace_open(session, room->ns, &ns))
		return;
	afar_namespace_release(ns, room->reserved - round_up(used), NULL);
	afar_namespace_close(ns);
	room->reserved = 0;
}
