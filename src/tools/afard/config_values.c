/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks and keeps values of settings; see config_values.h. */
#include "config_values.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/uri.h"
#include "config.h"
#include "tools/cli/size.h"

int refuse(char problem[PROBLEM_MAX], const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(problem, PROBLEM_MAX, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

int keep_text(char *out, size_t size, const char *value, char problem[PROBLEM_MAX])
{
	size_t length = strlen(value);

	if (!length)
		return refuse(problem, "is empty; leave it out or give it a value");
	if (length >= size)
		return refuse(problem, "is too long; at most %zu bytes", size - 1);
	memcpy(out, value, length + 1);
	return 0;
}

int keep_size(uint64_t *out, const char *value, char problem[PROBLEM_MAX])
{
	int ret = size_parse(value, out);

	if (ret == -ERANGE)
		return refuse(problem, "'%.64s' does not fit 64 bits; give a smaller size", value);
	if (ret)
		return refuse(problem, "'%.64s' is not a size; write for example 512M or 8G",
			      value);
	return 0;
}

int keep_number(uint32_t *out, const char *value, uint32_t min, uint32_t max,
		char problem[PROBLEM_MAX])
{
	uint64_t number;

	if (number_parse(value, max, &number) || number < min)
		return refuse(problem, "'%.64s' is not a number from %u to %u", value, min, max);
	*out = (uint32_t)number;
	return 0;
}

int keep_address(char *out, size_t size, const char *value, char problem[PROBLEM_MAX])
{
	char text[CONFIG_TEXT_MAX + 16];
	const char *colon = strrchr(value, ':');
	struct uri uri;
	uint64_t port;

	/* Port 0 (any) is only for listening: a URI does not have it. */
	if (!colon || colon == value || strlen(value) >= size ||
	    number_parse(colon + 1, UINT16_MAX, &port))
		return refuse(problem, "'%.64s' is not HOST:PORT", value);
	snprintf(text, sizeof(text), "afar://%.*s:1", (int)(colon - value), value);
	if (strchr(value, '?') || strchr(value, '/') || uri_parse(text, &uri))
		return refuse(problem, "'%.64s' is not HOST:PORT", value);
	memcpy(out, value, strlen(value) + 1);
	return 0;
}
