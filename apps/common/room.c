/* SPDX-License-Identifier: BSD-3-Clause */
/* Reservations; see room.h. Called by job.c and generate.c. */
#include "room.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "tools/copy/failure.h"

#define MIB  ((uint64_t)1 << 20)
#define UNIT (2 * MIB) /* the unit of reservations */
#define RELEASE_MS \
	15000 /* longer than a session outlives its process, unless it is told otherwise */
#define PAUSE_NS 50000000

static uint64_t round_up(uint64_t bytes)
{
	return (bytes + UNIT - 1) / UNIT * UNIT;
}

static int fail(int error, const char *ns, uint64_t bytes)
{
	char what[AFAR_NAME_MAX + 100];

	snprintf(what, sizeof(what), "get %llu bytes ready in %s", (unsigned long long)bytes, ns);
	return app_fail_last(error, what);
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

/* Returns whether another attempt cannot mend the error. */
static bool is_final(int error)
{
	return error == -EACCES || error == -EPERM || error == -ENOENT || error == -EINVAL;
}

void room_join(struct room *room, struct room *other)
{
	if (strcmp(room->ns, other->ns))
		return;
	room->reserved += other->reserved;
	other->reserved = 0;
}

/*
 * Releases until `bytes` less are reserved, and returns how many bytes were not given back. Memory that a killed process
 * had open is free when its session has ended, and its servers have said so. Any other failure may pass, too: a manager
 * that is away comes back. A release whose outcome is unknown shows in what is reserved.
 *
 * It begins when so much is free. Only whole extents are released, and those that are free first need not make the sum.
 * Flash is free once it is trimmed, but a release does not wait for that.
 */
static uint64_t release(struct afar_namespace *ns, uint64_t bytes, int *why)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	uint64_t deadline = clock_deadline_ms(RELEASE_MS), goal = 0, left = bytes;
	bool is_known = false, is_late;

	for (;;) {
		is_late = clock_ns() > deadline;
		*why = afar_namespace_stat(ns, &stat);
		if (!*why && !is_known) {
			goal = stat.reserved_bytes > bytes ? stat.reserved_bytes - bytes : 0;
			is_known = true;
		}
		if (!*why) {
			left = stat.reserved_bytes > goal ? stat.reserved_bytes - goal : 0;
			if (!left)
				return 0;
			if (is_late || stat.tier == AFAR_TIER_FLASH ||
			    stat.reserved_bytes - stat.allocated_bytes >= left)
				*why = afar_namespace_release(ns, left, NULL);
		}
		if (is_final(*why) || is_late)
			return left;
		nanosleep(&pause, NULL);
	}
}

static void say_left(const char *ns, uint64_t bytes, int why)
{
	fprintf(stderr,
		"afar: %llu MiB of %s stay reserved, as %s; 'afar ns release %s' gives them "
		"back\n",
		(unsigned long long)(bytes / MIB), ns,
		why ? afar_strerror(why) : "somebody still uses that memory", ns);
}

void room_give_back(struct afar_session *session, struct room *room, uint64_t used)
{
	uint64_t kept = round_up(used), left;
	struct afar_namespace *ns;
	int why;

	if (room->reserved <= kept)
		return;
	left = room->reserved - kept;
	room->reserved = 0;
	why = afar_namespace_open(session, room->ns, &ns);
	if (!why) {
		left = release(ns, left, &why);
		afar_namespace_close(ns);
	}
	if (left && why != -ENOENT)
		say_left(room->ns, left, why);
}
