/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemons' log: one line per event on standard error, "TIME LEVEL TEXT". A library logs
 * nothing, so libafar leaves the level at LOG_LEVEL_NONE, unless AFAR_LOG=error|warn|info|debug
 * says otherwise.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_LEVEL_NONE, LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Sets which lines are written from now on. Thread-safe. */
void log_set_level(enum log_level level);
/* Parses "error", "warn", "info", "debug" or "none". -EINVAL: anything else. */
int log_level_parse(const char *text, enum log_level *out);

/* Writes one line; control characters in it become '?'. Thread-safe; a line is never torn. */
__attribute__((format(printf, 2, 3))) void log_line(enum log_level level, const char *format, ...);

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
