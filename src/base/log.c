/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log. Called from any thread, by the daemons and, when AFAR_LOG asks for it, by the library; owns
 * nothing but the level and the format. A line is formatted on the stack and leaves in one write(), and none is
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
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log_json.h"
#include "base/text.h"

#define LINE_BYTES     2048
#define LEFT_OUT_BYTES 64 /* of a line's, for how many were left out, and its end */
#define PRIORITY_BYTES 3  /* "<N>" */
#define JSON_BYTES     PIPE_BUF
_Static_assert(LINE_BYTES <= PIPE_BUF, "a longer line could be torn");
_Static_assert(JSON_BYTES - PRIORITY_BYTES >= LOG_JSON_MIN, "fields might not fit");

#define LIMIT_BURST	  UINT64_C(20)
#define LIMIT_INTERVAL_NS UINT64_C(1000000000)

#define UNSET (-1) /* nobody has set it: the environment decides */

static atomic_int current_level = UNSET;
static atomic_int current_format = UNSET;
static atomic_int is_in_journal = UNSET;

static const char *const level_names[] = {
	[LOG_LEVEL_NONE] = "none", [LOG_LEVEL_ERROR] = "error", [LOG_LEVEL_WARN] = "warn",
	[LOG_LEVEL_INFO] = "info", [LOG_LEVEL_DEBUG] = "debug",
};

static const char *const format_names[] = {[LOG_FORMAT_TEXT] = "text", [LOG_FORMAT_JSON] = "json"};
#define NR_FORMATS (sizeof(format_names) / sizeof(format_names[0]))

/* A journal counts like syslog(3). */
static const char priorities[] = {
	[LOG_LEVEL_NONE] = '0', [LOG_LEVEL_ERROR] = '3', [LOG_LEVEL_WARN] = '4',
	[LOG_LEVEL_INFO] = '6', [LOG_LEVEL_DEBUG] = '7',
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

/* Returns what was set, else what the environment says, which is looked at once. */
static int setting(atomic_int *current, int (*of_environment)(void))
{
	int value = atomic_load_explicit(current, memory_order_relaxed);
	int unset = UNSET;

	if (value != UNSET)
		return value;
	value = of_environment();
	/* A log_set_level() that came between wins. */
	return atomic_compare_exchange_strong(current, &unset, value) ? value : unset;
}

void log_set_format(enum log_format format)
{
	atomic_store_explicit(&current_format, (int)format, memory_order_relaxed);
}

int log_format_parse(const char *text, enum log_format *out)
{
	for (size_t i = 0; i < NR_FORMATS; i++) {
		if (!strcmp(text, format_names[i])) {
			*out = (enum log_format)i;
			return 0;
		}
	}
	return error_fail(-EINVAL, "log format '%s': is neither text nor json", text);
}

static int format_of_environment(void)
{
	const char *text = getenv("AFAR_LOG_FORMAT");

	return text && !strcmp(text, format_names[LOG_FORMAT_JSON]) ? LOG_FORMAT_JSON
								    : LOG_FORMAT_TEXT;
}

/* Returns whether standard error goes to the journal. A child of a service has the variable too, so only the file itself tells. */
static int journal_of_environment(void)
{
	const char *text = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat found;

	return text && sscanf(text, "%llu:%llu", &device, &inode) == 2 &&
	       fstat(STDERR_FILENO, &found) == 0 && found.st_dev == device && found.st_ino == inode;
}

static bool is_json(void)
{
	return setting(&current_format, format_of_environment) == LOG_FORMAT_JSON;
}

static bool is_journal(void)
{
	return setting(&is_in_journal, journal_of_environment);
}

bool log_is_plain(void)
{
	return !is_json() && !is_journal();
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

static size_t put_priority(char *line, enum log_level level)
{
	if (!is_journal())
		return 0;
	line[0] = '<';
	line[1] = priorities[level];
	line[2] = '>';
	return PRIORITY_BYTES;
}

static void put_out(const char *line, size_t length)
{
	while (write(STDERR_FILENO, line, length) < 0 && errno == EINTR)
		;
}

__attribute__((format(printf, 3, 0))) static void
write_text(enum log_level level, uint64_t nr_left_out, const char *format, va_list arguments)
{
	char line[LINE_BYTES];
	size_t length = put_priority(line, level);

	if (length == 0)
		length = put_head(line, sizeof(line), level);
	vsnprintf(line + length, sizeof(line) - LEFT_OUT_BYTES - length, format, arguments);
	text_clean(line + length);
	length += strlen(line + length);
	if (nr_left_out)
		length += (size_t)snprintf(line + length, LEFT_OUT_BYTES,
					   " (%" PRIu64 " lines like this were left out)",
					   nr_left_out);
	line[length++] = '\n'; /* over the final 0 */
	put_out(line, length);
}

/* Names the part of Afar that a source file belongs to: its layer, or which of the programs. */
static void name_component(const char *file, char *out, size_t size)
{
	const char *at = strncmp(file, "src/", 4) == 0 ? file : NULL;

	for (const char *found = strstr(file, "/src/"); found; found = strstr(found + 1, "/src/"))
		at = found + 1;
	at = at ? at + strlen("src/") : "afar/";
	if (!strncmp(at, "tools/", 6) || !strncmp(at, "frontends/", 10))
		at = strchr(at, '/') + 1;
	snprintf(out, size, "%.*s", (int)strcspn(at, "/"), at);
}

__attribute__((format(printf, 3, 0))) static void
write_json(const struct log_site *site, uint64_t nr_left_out, const char *format, va_list arguments)
{
	char message[LINE_BYTES], component[32], line[JSON_BYTES];
	struct log_entry entry = {
		.level = level_names[site->level],
		.component = component,
		.message = message,
		.fields = site->fields,
		.nr_fields = site->nr_fields,
		.nr_left_out = nr_left_out,
	};
	size_t length = put_priority(line, site->level);

	clock_gettime(CLOCK_REALTIME, &entry.time);
	name_component(site->file, component, sizeof(component));
	vsnprintf(message, sizeof(message), format, arguments);
	length += log_json(&entry, line + length, sizeof(line) - length);
	put_out(line, length);
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

void log_write(const struct log_site *site, const char *format, ...)
{
	const int saved_errno = errno; /* logging a failure must not change what it was */
	uint64_t nr_left_out = 0;
	va_list arguments;

	if (site->level == LOG_LEVEL_NONE ||
	    (int)site->level > setting(&current_level, level_of_environment))
		return;
	if (site->limit && !may_write(site->limit)) {
		atomic_fetch_add(&site->limit->nr_left_out, 1);
		return;
	}
	if (site->limit)
		nr_left_out = atomic_exchange(&site->limit->nr_left_out, 0);
	va_start(arguments, format);
	if (is_json())
		write_json(site, nr_left_out, format, arguments);
	else
		write_text(site->level, nr_left_out, format, arguments);
	va_end(arguments);
	errno = saved_errno;
}
