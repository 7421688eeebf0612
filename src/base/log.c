/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log. Called from any thread, by the daemons and, when AFAR_LOG asks for it, by the library; owns
 * nothing but the level. A line is formatted on the stack and leaves in one write(), and none is
 * longer than a pipe takes at once. So lines of threads and of processes that share a pipe do not mix.
 */
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"

#define LINE_BYTES     2048
#define LEFT_OUT_BYTES 64 /* of a line's, for how many were left out, and its end */
_Static_assert(LINE_BYTES <= PIPE_BUF, "a longer line could be torn");

#define LIMIT_BURST	  UINT64_C(20)
#define LIMIT_INTERVAL_NS UINT64_C(1000000000)

#define LEVEL_UNSET (-1) /* nobody has set it: the environment decides */

static atomic_int current_level = LEVEL_UNSET;

static const char *const level_names[] = {
	[LOG_LEVEL_NONE] = "none", [LOG_LEVEL_ERROR] = "error", [LOG_LEVEL_WARN] = "warn",
	[LOG_LEVEL_INFO] = "info", [LOG_LEVEL_DEBUG] = "debug",
};

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

int log_level_parse(const char *text, enum log_level *out)
{
	for (size_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
		if (!strcmp(text, level_names[i])) {
			*out = (enum log_level)i;
			return 0;
		}
	}
	return error_fail(-EINVAL, "log level '%s': is none of error, warn, info, debug, none",
			  text);
}

static int level_of_environment(void)
{
	const char *text = getenv("AFAR_LOG");

	for (size_t i = 0; text && i < sizeof(level_names) / sizeof(level_names[0]); i++) {
		if (!strcmp(text, level_names[i]))
			return (int)i;
	}
	return LOG_LEVEL_NONE;
}

static int level_now(void)
{
	int level = atomic_load_explicit(&current_level, memory_order_relaxed);
	int unset = LEVEL_UNSET;

	if (level != LEVEL_UNSET)
		return level;
	level = level_of_environment();
	/* A log_set_level() that came between wins. */
	return atomic_compare_exchange_strong(&current_level, &unset, level) ? level : unset;
}

/* "2024-05-01T12:00:00.123Z error ": returns its length. */
static size_t put_head(char *line, size_t size, enum log_level level)
{
	struct timespec now;
	struct tm utc;
	size_t length;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	length = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &utc);
	return length + (size_t)snprintf(line + length, size - length, ".%03ldZ %s ",
					 now.tv_nsec / 1000000, level_names[level]);
}

/* Formats and writes a line. `nr_left_out`: so many like it were not written before. */
__attribute__((format(printf, 3, 0))) static void
write_line(enum log_level level, uint64_t nr_left_out, const char *format, va_list arguments)
{
	char line[LINE_BYTES];
	const int saved_errno = errno; /* logging a failure must not change what it was */
	size_t length = put_head(line, sizeof(line), level);

	vsnprintf(line + length, sizeof(line) - LEFT_OUT_BYTES - length, format, arguments);
	text_clean(line + length);
	length += strlen(line + length);
	if (nr_left_out)
		length += (size_t)snprintf(line + length, LEFT_OUT_BYTES,
					   " (%" PRIu64 " lines like this were left out)",
					   nr_left_out);
	line[length++] = '\n'; /* over the final 0 */
	while (write(STDERR_FILENO, line, length) < 0 && errno == EINTR)
		;
	errno = saved_errno;
}

void log_line(enum log_level level, const char *format, ...)
{
	va_list arguments;

	if (level == LOG_LEVEL_NONE || (int)level > level_now())
		return;
	va_start(arguments, format);
	write_line(level, 0, format, arguments);
	va_end(arguments);
}

/* Returns whether another line may be written, and counts it. */
static bool may_write(struct log_limit *limit)
{
	uint64_t now = clock_ns(), paid = atomic_load(&limit->paid_until), next;

	do {
		if (paid > now + (LIMIT_BURST - 1) * LIMIT_INTERVAL_NS)
			return false;
		next = (paid > now ? paid : now) + LIMIT_INTERVAL_NS;
	} while (!atomic_compare_exchange_weak(&limit->paid_until, &paid, next));
	return true;
}

void log_limited(struct log_limit *limit, enum log_level level, const char *format, ...)
{
	va_list arguments;

	if (level == LOG_LEVEL_NONE || (int)level > level_now())
		return;
	if (!may_write(limit)) {
		atomic_fetch_add(&limit->nr_left_out, 1);
		return;
	}
	va_start(arguments, format);
	write_line(level, atomic_exchange(&limit->nr_left_out, 0), format, arguments);
	va_end(arguments);
}
