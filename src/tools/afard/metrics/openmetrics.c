/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of metrics; see openmetrics.h. */
#include "openmetrics.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 32

/* ---- Text */

static bool make_room(struct metrics_text *text, size_t more)
{
	size_t room = text->room;
	char *bytes;

	if (text->has_failed)
		return false;
	if (text->length + more < room)
		return true;
	while (room <= text->length + more)
		room = room ? 2 * room : 16384;
	bytes = realloc(text->bytes, room);
	if (!bytes) {
		text->has_failed = true;
		return false;
	}
	text->bytes = bytes;
	text->room = room;
	return true;
}

static void put_bytes(struct metrics_text *text, const char *bytes, size_t length)
{
	if (!make_room(text, length))
		return;
	memcpy(text->bytes + text->length, bytes, length);
	text->length += length;
}

static void put(struct metrics_text *text, const char *string)
{
	put_bytes(text, string, strlen(string));
}

/* Returns the length of the character at `at`, or 0: it is no UTF-8. */
static size_t character_length(const char *at)
{
	const unsigned char *bytes = (const unsigned char *)at;
	size_t length;
	uint32_t code;

	if (bytes[0] < 0x80)
		return 1;
	if (bytes[0] >= 0xc2 && bytes[0] <= 0xdf)
		length = 2;
	else if ((bytes[0] & 0xf0) == 0xe0)
		length = 3;
	else if (bytes[0] >= 0xf0 && bytes[0] <= 0xf4)
		length = 4;
	else
		return 0;
	code = bytes[0] & (0xffU >> (length + 1));
	for (size_t i = 1; i < length; i++) {
		if ((bytes[i] & 0xc0) != 0x80) /* the string's end, too */
			return 0;
		code = code << 6 | (bytes[i] & 0x3f);
	}
	if ((length == 3 && code < 0x800) || (length == 4 && code < 0x10000) || code > 0x10ffff ||
	    (code >= 0xd800 && code <= 0xdfff))
		return 0;
	return length;
}

static void put_escaped(struct metrics_text *text, const char *value)
{
	while (*value) {
		size_t length = character_length(value);

		if (*value == '\n')
			put(text, "\\n");
		else if (*value == '"')
			put(text, "\\\"");
		else if (*value == '\\')
			put(text, "\\\\");
		else if (length > 0)
			put_bytes(text, value, length);
		else
			put(text, "?");
		value += length > 0 ? length : 1;
	}
}

/* ---- Lines */

static const char *type_name(enum metric_type type, bool is_open)
{
	switch (type) {
	case METRIC_COUNTER:
		return "counter";
	case METRIC_HISTOGRAM:
		return "histogram";
	case METRIC_INFO:
		return is_open ? "info" : "gauge";
	case METRIC_GAUGE:
		break;
	}
	return "gauge";
}

/* What the names of a family's samples have behind its own. */
static const char *suffix_of(enum metric_type type)
{
	return type == METRIC_COUNTER ? "_total" : type == METRIC_INFO ? "_info" : "";
}

/* A line about the family. Only OpenMetrics names it without what its samples have behind it. */
static void put_about(struct metrics_text *text, const char *what, const char *value)
{
	put(text, "# ");
	put(text, what);
	put(text, " ");
	put(text, text->family->name);
	if (!text->is_open)
		put(text, suffix_of(text->family->type));
	put(text, " ");
	put(text, value);
	put(text, "\n");
}

void metrics_begin(struct metrics_text *text, bool is_open)
{
	*text = (struct metrics_text){.is_open = is_open};
}

void metrics_family(struct metrics_text *text, const struct metric_family *family)
{
	text->family = family;
	put_about(text, "HELP", family->help);
	put_about(text, "TYPE", type_name(family->type, text->is_open));
	if (family->unit && text->is_open)
		put_about(text, "UNIT", family->unit);
}

static void put_labels(struct metrics_text *text, const struct metric_label *labels, const char *le)
{
	const char *before = "{";

	for (; labels && labels->name; labels++) {
		put(text, before);
		put(text, labels->name);
		put(text, "=\"");
		put_escaped(text, labels->value);
		put(text, "\"");
		before = ",";
	}
	if (le) {
		put(text, before);
		put(text, "le=\"");
		put(text, le);
		put(text, "\"");
		before = ",";
	}
	if (*before == ',')
		put(text, "}");
}

static void put_sample(struct metrics_text *text, const char *suffix,
		       const struct metric_label *labels, const char *le, const char *value)
{
	put(text, text->family->name);
	put(text, suffix);
	put_labels(text, labels, le);
	put(text, " ");
	put(text, value);
	put(text, "\n");
}

void metrics_number(struct metrics_text *text, const struct metric_label *labels, uint64_t value)
{
	char number[NUMBER_MAX];

	snprintf(number, sizeof(number), "%" PRIu64, value);
	put_sample(text, suffix_of(text->family->type), labels, NULL, number);
}

/* Behind 15 digits a double has no more. */
static void format_real(char out[NUMBER_MAX], double value)
{
	snprintf(out, NUMBER_MAX, "%.15g", value);
}

void metrics_real(struct metrics_text *text, const struct metric_label *labels, double value)
{
	char number[NUMBER_MAX];

	format_real(number, value);
	put_sample(text, suffix_of(text->family->type), labels, NULL, number);
}

void metrics_info(struct metrics_text *text, const struct metric_label *labels)
{
	put_sample(text, suffix_of(text->family->type), labels, NULL, "1");
}

/* ---- Histograms */

/* A span on the boundary itself, to the nanosecond, is in the bucket behind it. Nobody can tell. */
static double end_of(unsigned bucket)
{
	return (double)(UINT64_C(1) << (LATENCY_FIRST + bucket)) / 1e9;
}

void metrics_histogram(struct metrics_text *text, const struct metric_label *labels,
		       const struct latency *latency)
{
	uint64_t counts[LATENCY_BUCKETS], seen = 0;
	char le[NUMBER_MAX], number[NUMBER_MAX];

	/* Each count is read once, so that what is said of them agrees. */
	for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
		counts[i] = counter_get(&latency->counts[i]);
	for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
		seen = saturating_add(seen, counts[i]);
		if (i + 1 < LATENCY_BUCKETS)
			format_real(le, end_of(i));
		else
			strcpy(le, "+Inf");
		snprintf(number, sizeof(number), "%" PRIu64, seen);
		put_sample(text, "_bucket", labels, le, number);
	}
	put_sample(text, "_count", labels, NULL, number);
	format_real(number, (double)counter_get(&latency->sum_ns) / 1e9);
	put_sample(text, "_sum", labels, NULL, number);
}

char *metrics_end(struct metrics_text *text, size_t *length)
{
	put_bytes(text, "# EOF\n", sizeof("# EOF\n")); /* with its zero */
	if (text->has_failed) {
		free(text->bytes);
		return NULL;
	}
	*length = text->length - 1;
	return text->bytes;
}
