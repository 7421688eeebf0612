/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemons' log: one line per event on standard error, "TIME LEVEL TEXT", or a JSON object
 * (log_json.h). If standard error is systemd's journal, "<N>" with the priority is in front, and no
 * time. A library logs nothing, so libafar leaves the level at LOG_LEVEL_NONE, unless
 * AFAR_LOG=error|warn|info|debug says otherwise; AFAR_LOG_FORMAT=json goes with it.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_NONE, LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

/* Sets which lines are written from now on. Thread-safe. */
void log_set_level(enum log_level level);
/* Parses "error", "warn", "info", "debug" or "none". -EINVAL: anything else. */
int log_level_parse(const char *text, enum log_level *out);
/* Sets what a line looks like. Thread-safe. */
void log_set_format(enum log_format format);
/* Parses "text" or "json". -EINVAL: anything else. */
int log_format_parse(const char *text, enum log_format *out);
/* True: lines for people on a terminal; neither JSON nor for a journal. */
bool log_is_plain(void);

/*
 * Lines of one kind of which a stranger, or a device with a million bad blocks, could cause a flood. The first 20 are all
 * written, then one each second, which says how many were left out. One for each kind; begins as zeros.
 */
struct log_limit {
	_Atomic uint64_t
		paid_until; /* on clock_ns(): when the lines so far would have been due, at one a second */
	_Atomic uint64_t nr_left_out;
};

/* A program that reads JSON finds these beside the message, which tells people the same. */
struct log_field {
	const char *name; /* a word of ours */
	const char *text; /* NULL: a number */
	uint64_t number;
};

#define LOG_TEXT(name, value)	((struct log_field){name, value, 0})
#define LOG_NUMBER(name, value) ((struct log_field){name, NULL, value})

/* Which line it is. */
struct log_site {
	const char *file; /* of the source: its folder is the component */
	enum log_level level;
	struct log_limit *limit; /* NULL: none */
	const struct log_field *fields;
	size_t nr_fields;
};

/* Writes one line; control characters in it become '?', or are escaped. Thread-safe; a line is never torn. */
__attribute__((format(printf, 2, 3))) void log_write(const struct log_site *site,
						     const char *format, ...);

#define log_line(log_level, ...) \
	log_write(&(const struct log_site){.file = __FILE__, .level = (log_level)}, __VA_ARGS__)

/* Like log_line(), within a limit. */
#define log_limited(log_limit, log_level, ...)                    \
	log_write(&(const struct log_site){.file = __FILE__,      \
					   .level = (log_level),  \
					   .limit = (log_limit)}, \
		  __VA_ARGS__)

/* Likewise, with a limit for the place that they stand at. */
#define log_error_some(...) LOG_SOME(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn_some(...)  LOG_SOME(LOG_LEVEL_WARN, __VA_ARGS__)
#define LOG_SOME(level, ...)                                      \
	do {                                                      \
		static struct log_limit log_some_limit;           \
                                                                  \
		log_limited(&log_some_limit, level, __VA_ARGS__); \
	} while (0)

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
