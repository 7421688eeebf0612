/* SPDX-License-Identifier: BSD-3-Clause */
/* A line of the log as a JSON object; for log.c, and for tests of what strangers can put into it. */
#ifndef BASE_LOG_JSON_H
#define BASE_LOG_JSON_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/log.h"

struct log_entry {
	struct timespec time;
	const char *level;
	const char *component;
	const char *message; /* any bytes */
	const struct log_field *fields;
	size_t nr_fields;
	uint64_t nr_left_out; /* lines like it were not written before; 0: not said */
};

#define LOG_JSON_MIN 2048U /* the least size of a line: all fields, and some of the message */

/*
 * Writes the object and a newline, without a final 0. Returns its length, at most `size`. Bytes that are no UTF-8 become
 * U+FFFD, control characters are escaped, and a long message is cut.
 */
size_t log_json(const struct log_entry *entry, char *line, size_t size);

#endif
