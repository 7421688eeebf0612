/* SPDX-License-Identifier: BSD-3-Clause */
/* Trying again what has failed because servers, or the manager, could not be reached: files and volumes that wait for
 * them do so. */
#ifndef CLIENT_RETRY_H
#define CLIENT_RETRY_H

#include "client/session.h"

struct retry {
	uint64_t give_up; /* no attempt begins later; 0: the first has not failed yet */
	struct backoff pause;
};
#define RETRY_UNTIL(when) \
	((struct retry){.give_up = (when), .pause = {.min_ms = 10, .max_ms = 500}})

/* Returns whether what failed so may go well once servers, or the manager, can be reached. */
bool retry_may_help(struct afar_session *session, int status);
/* Pauses before the next attempt. False: that would begin too late. */
bool retry_pause(struct retry *retry);

#endif
