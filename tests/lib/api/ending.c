/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks a manager whether sessions are ending; see ending.h. */
#include "lib/api/ending.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

bool is_a_session_ending(struct afar_session *session)
{
	bool is_ending;
	char *json;

	assert_int_equal(afar_session_status(session, &json), 0);
	is_ending = strstr(json, "\"is_ending\": true") != NULL;
	free(json);
	return is_ending;
}

void await_ending_session(struct afar_session *session)
{
	while (!is_a_session_ending(session))
		sched_yield();
}
