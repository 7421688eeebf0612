/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines for people; see say.h. Called by all of the mount's program. Owns where they go. */
#define FUSE_USE_VERSION 314
#include "say.h"

#include <fuse_log.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

#define LINE_MAX_BYTES 2048

static bool is_logged; /* set while there is one thread */
static bool is_kept;
static char kept[256];

/* Text from elsewhere cannot control the terminal. */
static void make_printable(char *line)
{
	for (; *line; line++) {
		if ((unsigned char)*line < ' ' || *line == 0x7f)
			*line = '?';
	}
}

static void say(int priority, const char *kind, const char *format, va_list arguments)
{
	char line[LINE_MAX_BYTES];

	vsnprintf(line, sizeof(line), format, arguments);
	make_printable(line);
	if (is_logged)
		syslog(priority, "%s%s", kind, line);
	else
		fprintf(stderr, "afar: %s%s\n", kind, line);
}

int say_failed(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(LOG_ERR, "", format, arguments);
	va_end(arguments);
	return EXIT_FAILED;
}

int say_misuse(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(LOG_ERR, "", format, arguments);
	va_end(arguments);
	return EXIT_USAGE;
}

void say_note(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(LOG_NOTICE, "note: ", format, arguments);
	va_end(arguments);
}

void say_to_log(void)
{
	openlog("afar-mount", LOG_PID, LOG_DAEMON);
	is_logged = true;
}

/* ---- libfuse's lines */

static void take_line(enum fuse_log_level level, const char *format, va_list arguments)
{
	static const char name[] = "fuse: ";
	char line[sizeof(kept)];
	const char *text = line;

	vsnprintf(line, sizeof(line), format, arguments);
	line[strcspn(line, "\n")] = '\0';
	if (strncmp(line, name, strlen(name)) == 0)
		text += strlen(name);
	if (is_kept)
		snprintf(kept, sizeof(kept), "%s", text);
	else if (level <= FUSE_LOG_WARNING)
		say_failed("libfuse: %s", text);
}

void say_keep(void)
{
	is_kept = true;
	fuse_set_log_func(take_line);
}

const char *say_kept(void)
{
	return kept;
}

void say_keep_no_more(void)
{
	is_kept = false;
}
