/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps the line about the last failure; see failure.h. Called by io.c, and by every room of an application. */
#include "failure.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#include <afar/afar.h>

static _Thread_local char line[PATH_MAX + 1024];

int app_fail(int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	return error;
}

int app_fail_last(int error, const char *what)
{
	const char *said = afar_last_error();

	return app_fail(error, "%s: %s", what, *said ? said : afar_strerror(error));
}

const char *app_failure(void)
{
	return line;
}
