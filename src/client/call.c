/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps the line of the thread's last failed call; see call.h. */
#include "client/call.h"

#include <string.h>

#include "base/error.h"

static _Thread_local char shown_line[ERROR_LINE_BYTES];
static _Thread_local unsigned nr_outer_calls; /* public calls that make others now */

void call_nest(void)
{
	nr_outer_calls++;
}

void call_unnest(void)
{
	nr_outer_calls--;
}

void call_failed(void)
{
	if (!nr_outer_calls)
		strcpy(shown_line, error_last_line());
}

const char *afar_last_error(void)
{
	return shown_line;
}
