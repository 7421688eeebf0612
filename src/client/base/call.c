/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps the line of the thread's last failed call; see call.h. */
#include "client/base/call.h"

#include "base/error.h"

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
		error_keep_line();
}

int afar_fail(int error, const char *line)
{
	error_line("%s", line && *line ? line : afar_strerror(error));
	error_keep_line();
	return error;
}

const char *afar_last_error(void)
{
	return error_kept_line();
}
