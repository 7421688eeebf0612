/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for what a manager tells of sessions. Include after cmocka.h. */
#ifndef TESTS_ENDING_H
#define TESTS_ENDING_H

#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <afar/afar.h>

/* Whether there is a session that the manager has ended and some server has not, yet. */
static inline bool is_a_session_ending(struct afar_session *session)
{
	bool is_ending;
	char *json;

	assert_int_equal(afar_session_status(session, &json), 0);
	is_ending = strstr(json, "\"is_ending\": true") != NULL;
	free(json);
	return is_ending;
}

static inline void await_ending_session(struct afar_session *session)
{
	while (!is_a_session_ending(session))
		sched_yield();
}

#endif
