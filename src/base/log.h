/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemons' log: one line per event on standard error, "TIME LEVEL TEXT". A library logs
 * nothing, so libafar leaves the level at LOG_LEVEL_NONE, unless AFAR_LOG=error|warn|info|debug
 * says otherwise.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdatomic.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_NONE, LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Sets which lines are written from now on. Thread-safe. */
void log_set_level(enum log_level level);
/* Parses "error", "warn", "info", "debug" or "none". -EINVAL: anything else. */
int log_level_parse(const char *text, enum log_level *out);

/* Writes one line; control characters in it become '?'. Thread-safe; a line is never torn. */
__attribute__((format(printf, 2, 3))) void log_line(enum log_level level, const char *format, ...);

/*
 * Lines of one kind of which a stranger, or a device with a million bad blocks, could cause a flood. The first 20 are all
 * written, then one each second, which says how many were left out. One for each kind; begins as zeros.
 */
struct log_limit {
	_Atomic uint64_t
		paid_until; /* on clock_ns(): when the lines so far would have been due, at one a second */
	_Atomic uint64_t nr_left_out;
};

/* Like log_line(), within a limit. Thread-safe. */
__attribute__((format(printf, 3, 4))) void
log_limited(struct log_limit *limit, enum log_level level, const char *format, ...);

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
