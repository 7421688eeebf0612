/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers that do one job: processes of any machines, numbered from 0. They meet in a region, wait for each other at a
 * barrier in it, and show each other there that they live. A barrier needs memory. The program exchanges data in a second
 * region, which may be on flash. Worker 0 makes both and leads the others.
 *
 * The regions have no names any more once all have met. Their memory goes back to the namespaces with the last session
 * that has them open, however that ends. So nothing is left behind, even if every worker is killed.
 */
#ifndef APPS_COMMON_TEAM_H
#define APPS_COMMON_TEAM_H

#include <afar/barrier.h>

#include "place.h"
#include "room.h"

#define TEAM_WORKERS_MAX 1024U

struct team_options {
	const char *what;    /* the job, for people: "sort s:in" */
	const char *ns;	     /* of what they exchange */
	const char *meet_ns; /* where they meet, in memory */
	const char *job;     /* the name of the region where they meet; all give the same */
	unsigned worker;     /* which of them the caller is */
	unsigned nr_workers;
	uint32_t patience_ms; /* a worker that shows no progress for so long is given up */
	uint64_t plan_bytes;  /* of what worker 0 tells the others */
	bool (*is_ended)(void *context); /* asked often: whether to end early, with -ECANCELED */
	void *context;
};

/* A worker, as it was seen last, and since when. */
struct team_heard {
	uint64_t beat;
	uint64_t since_ns;
};

struct team {
	struct team_options options;
	struct afar_session *session;
	struct place meeting;  /* the program's own part begins at team_bytes() */
	struct place exchange; /* the program's */
	struct room room;      /* what worker 0 has reserved for the meeting */
	struct room exchange_room;
	char exchange_name[AFAR_NAME_MAX + 1];
	struct afar_barrier *barrier;
	uint64_t beats; /* a line of 64 bytes for each worker, which it changes while it lives */
	uint64_t beat, beat_ns;	  /* the caller's last one, and when it was shown */
	struct team_heard *heard; /* of each worker */
	bool is_named;		  /* the regions still have their names */
};

/*
 * Chooses where workers meet: `meet_ns`, or if that is NULL the first of the `nr` namespaces that is in memory; one may be
 * NULL. Returns 0, or -EINVAL with a line (none is in memory), -ENOENT, -EACCES.
 */
int team_choose(struct afar_session *session, const char *what, const char *meet_ns,
		const char *const *others, unsigned nr, char out[AFAR_NAME_MAX + 1]);

/* Bytes at the beginning of the meeting that are the team's. */
uint64_t team_bytes(unsigned nr_workers, uint64_t plan_bytes);
/*
 * Makes the regions, and reserves what their namespaces lack; for worker 0. After a failure, too, the caller calls
 * team_leave(). The strings of the options stay the caller's. Errors: -EEXIST, -ENOSPC, -ENOENT, -EACCES,
 * -ENAMETOOLONG.
 */
int team_create(struct team *team, struct afar_session *session, const struct team_options *options,
		uint64_t meeting_bytes, uint64_t exchange_bytes);
/* Opens them for the others, as soon as worker 0 has made them. Otherwise it is like team_create(). Errors: -ETIMEDOUT. */
int team_join(struct team *team, struct afar_session *session, const struct team_options *options);

/* Waits until all have met. `plan`: what worker 0 says, and the others hear. */
int team_meet(struct team *team, void *plan);
/* Ends the caller's part of a step, and waits until all have ended theirs. All see then what they wrote and flushed. */
int team_sync(struct team *team);
/* Shows that the caller lives. Call it often. Returns -ECANCELED if it is to end. */
int team_live(struct team *team);
/* Tells the others that the caller cannot go on. */
void team_give_up(struct team *team, int error);
/* Ends the caller's part, and closes the regions. The caller gives the rooms back, afterwards. */
void team_leave(struct team *team);
/* Gives back at worker 0 what was reserved for the team, and `other`, of which `used` bytes stay. `other` may be NULL. */
void team_give_back(struct team *team, struct room *other, uint64_t used);

#endif
