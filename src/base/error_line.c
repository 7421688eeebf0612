/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calling thread's last failure. Called by everyone. The lines of a thread are on the heap from its first failure to its
 * end, not in static thread memory. A library that is loaded by dlopen() gets a few hundred bytes of that at most, and
 * epoch.h needs them.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

struct lines {
	char last[ERROR_LINE_BYTES];
	char kept[ERROR_LINE_BYTES];
};

static _Thread_local struct lines *mine;
/* For a thread whose first failure finds no memory. Nobody writes to it. */
static struct lines without_memory = {
	.last = "a call failed, and there is no memory to say why",
	.kept = "a call failed, and there is no memory to say why",
};

static pthread_once_t prepared = PTHREAD_ONCE_INIT;
static pthread_key_t at_thread_end;
static bool has_key;

static void leave(void *lines)
{
	mine = NULL;
	free(lines);
}

static void prepare(void)
{
	has_key = pthread_key_create(&at_thread_end, leave) == 0;
}

/* Returns whether the thread has lines of its own that can be written to. */
static bool has_lines(void)
{
	if (mine && mine != &without_memory)
		return true;
	pthread_once(&prepared, prepare);
	mine = has_key ? calloc(1, sizeof(*mine)) : NULL;
	if (mine && pthread_setspecific(at_thread_end, mine)) {
		free(mine);
		mine = NULL;
	}
	if (mine)
		return true;
	mine = &without_memory;
	return false;
}

const char *error_last_line(void)
{
	return mine ? mine->last : "";
}

const char *error_kept_line(void)
{
	return mine ? mine->kept : "";
}

void error_keep_line(void)
{
	if (mine && mine != &without_memory)
		strcpy(mine->kept, mine->last);
}

void error_line(const char *format, ...)
{
	char line[ERROR_LINE_BYTES]; /* aside, because the last line may be among the arguments */
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	text_clean(line);
	if (has_lines())
		strcpy(mine->last, line);
}
