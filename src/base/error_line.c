/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calling thread's last failure. Called by everyone; owns one line of text per thread, which is why nothing
 * here locks or allocates.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

static _Thread_local char last_line[ERROR_LINE_BYTES];

const char *error_last_line(void)
{
	return last_line;
}

void error_line(const char *format, ...)
{
	char line[ERROR_LINE_BYTES]; /* aside, because the last line may be among the arguments */
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	text_clean(line);
	strcpy(last_line, line);
}
