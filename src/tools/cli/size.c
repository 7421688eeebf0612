/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes as people write and read them. Called by afard's configuration and by every afar
 * command. */
#include "size.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char units[] = "KMGTPE";

/* Parses the digits at `text`; `*end` is the first character behind them. */
static int parse_digits(const char *text, const char **end, uint64_t *out)
{
	uint64_t value = 0;
	const char *at = text;

	for (; *at >= '0' && *at <= '9'; at++) {
		if (__builtin_mul_overflow(value, 10U, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
			return -ERANGE;
	}
	if (at == text)
		return -EINVAL;
	*end = at;
	*out = value;
	return 0;
}

int size_parse(const char *text, uint64_t *out)
{
	const char *suffix, *unit;
	uint64_t value;
	int ret;

	ret = parse_digits(text, &suffix, &value);
	if (ret)
		return ret;
	if (*suffix) {
		unit = strchr(units, *suffix);
		if (!unit || suffix[1])
			return -EINVAL;
		if (__builtin_mul_overflow(value, (uint64_t)1 << (10 * (unit - units + 1)), &value))
			return -ERANGE;
	}
	*out = value;
	return 0;
}

int number_parse(const char *text, uint64_t max, uint64_t *out)
{
	const char *end;
	uint64_t value;
	int ret;

	ret = parse_digits(text, &end, &value);
	if (ret)
		return ret;
	if (*end)
		return -EINVAL;
	if (value > max)
		return -ERANGE;
	*out = value;
	return 0;
}

const char *size_text(uint64_t bytes, char out[SIZE_TEXT_MAX])
{
	double value = (double)bytes;
	int unit = -1;

	while (value >= 1024 && unit < (int)sizeof(units) - 2) {
		value /= 1024;
		unit++;
	}
	if (unit < 0)
		snprintf(out, SIZE_TEXT_MAX, "%u B", (unsigned)bytes);
	else if (value == (double)(uint64_t)value)
		snprintf(out, SIZE_TEXT_MAX, "%.0f %ciB", value, units[unit]);
	else
		snprintf(out, SIZE_TEXT_MAX, "%.1f %ciB", value, units[unit]);
	return out;
}
