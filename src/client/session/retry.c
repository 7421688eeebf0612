/* SPDX-License-Identifier: BSD-3-Clause */
/* Says what is worth trying again, and when; see retry.h. */
#include "client/session/retry.h"

#include <errno.h>
#include <time.h>

bool retry_may_help(struct afar_session *session, int status)
{
	switch (status) {
	case -AFAR_ESERVER:
	case -AFAR_EMANAGER:
	case -ETIMEDOUT:
	case -ENOTCONN:
	case -ECANCELED: /* another operation's time was up, on the same connection */
		return true;
	case -ESTALE: /* there is another binding, or another cluster */
		return !session_is_stale(session);
	default:
		return false;
	}
}

bool retry_pause(struct retry *retry)
{
	uint64_t ns = (uint64_t)backoff_next_ms(&retry->pause) * 1000000U;
	struct timespec span = clock_to_timespec(ns);

	if (clock_ns() + ns >= retry->give_up)
		return false;
	nanosleep(&span, NULL);
	return true;
}
