/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A line of the log as a JSON object. The text may be a peer's, so each line is valid JSON and UTF-8
 * whatever bytes that has. Called by log.c; owns nothing.
 */
#include "base/log_json.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define TAIL_BYTES    1024U /* all fields, the number of lines left out, and the end */
#define END_BYTES     64U   /* of the tail's: the number, and the end */
#define ESCAPED_BYTES 8U    /* of one character at most, with a final 0 */

struct text {
	char *bytes;
	size_t length, size;
};

/* Adds all of it, or nothing. */
static bool put(struct text *text, const char *bytes, size_t length)
{
	if (text->size - text->length < length)
		return false;
	memcpy(text->bytes + text->length, bytes, length);
	text->length += length;
	return true;
}

/* Returns how many bytes the UTF-8 character has, and which it is; 0: it is none. RFC 3629, so that nothing is encoded longer
 * than it need be, and there are no surrogates. */
static size_t decode(const unsigned char *at, uint32_t *out)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t length = at[0] < 0x80   ? 1
			: at[0] < 0xc2 ? 0
			: at[0] < 0xe0 ? 2
			: at[0] < 0xf0 ? 3
				       : 4;

	if (at[0] > 0xf4)
		return 0;
	*out = length == 1 ? at[0] : at[0] & (0x7fU >> length);
	for (size_t i = 1; i < length; i++) {
		if ((at[i] & 0xc0) != 0x80) /* also at the text's end, a 0 */
			return 0;
		*out = *out << 6 | (at[i] & 0x3fU);
	}
	if (length > 1 &&
	    (*out < least[length] || *out > 0x10ffff || (*out >= 0xd800 && *out < 0xe000)))
		return 0;
	return length;
}

/* True: as it is, it would end the string or the line, or control a terminal. Line separators are among them. */
static bool is_harmful(uint32_t character)
{
	return character < 0x20 || character == '"' || character == '\\' ||
	       (character >= 0x7f && character < 0xa0) || character == 0x2028 ||
	       character == 0x2029;
}

/* Writes what stands for the next character. Returns how many bytes that takes from `at`. */
static size_t escape(const unsigned char *at, char out[ESCAPED_BYTES])
{
	uint32_t character = 0;
	size_t length = decode(at, &character);

	if (length == 0 || is_harmful(character)) {
		if (character == '"' || character == '\\')
			snprintf(out, ESCAPED_BYTES, "\\%c", (int)character);
		else
			snprintf(out, ESCAPED_BYTES, "\\u%04" PRIx32,
				 length ? character & 0xffff : 0xfffd);
		return length ? length : 1;
	}
	memcpy(out, at, length);
	out[length] = '\0';
	return length;
}

/* Adds the string with its quotes, cut between two characters where there is no more room. */
static void put_string(struct text *text, const char *string)
{
	const unsigned char *at = (const unsigned char *)string;
	char escaped[ESCAPED_BYTES];

	if (text->size - text->length < 2)
		return;
	put(text, "\"", 1);
	text->size--; /* for the other quote */
	while (*at) {
		const size_t taken = escape(at, escaped);

		if (!put(text, escaped, strlen(escaped)))
			break;
		at += taken;
	}
	text->size++;
	put(text, "\"", 1);
}

/* Readers know no larger numbers. */
static uint64_t in_json(uint64_t number)
{
	return number > INT64_MAX ? INT64_MAX : number;
}

/* Adds a field, all of it or nothing, but for a long text. */
static void put_field(struct text *text, const struct log_field *field)
{
	const size_t before = text->length;
	char name[64], number[24];
	bool is_whole;

	snprintf(name, sizeof(name), ",\"%.50s\":", field->name);
	snprintf(number, sizeof(number), "%" PRIu64, in_json(field->number));
	is_whole = put(text, name, strlen(name));
	if (is_whole && field->text)
		put_string(text, field->text);
	else if (is_whole)
		is_whole = put(text, number, strlen(number));
	if (!is_whole || text->length == before + strlen(name))
		text->length = before;
}

static void put_tail(struct text *tail, const struct log_entry *entry)
{
	char left_out[END_BYTES];

	tail->size -= END_BYTES;
	for (size_t i = 0; i < entry->nr_fields; i++)
		put_field(tail, &entry->fields[i]);
	tail->size += END_BYTES;
	snprintf(left_out, sizeof(left_out), ",\"left_out\":%" PRIu64, in_json(entry->nr_left_out));
	if (entry->nr_left_out)
		put(tail, left_out, strlen(left_out));
	put(tail, "}\n", 2);
}

size_t log_json(const struct log_entry *entry, char *line, size_t size)
{
	char end[TAIL_BYTES], head[192], seconds[32];
	struct text text = {.bytes = line, .size = size},
		    tail = {.bytes = end, .size = sizeof(end)};
	struct tm utc;

	gmtime_r(&entry->time.tv_sec, &utc);
	strftime(seconds, sizeof(seconds), "%Y-%m-%dT%H:%M:%S", &utc);
	put_tail(&tail, entry);
	text.size -= tail.length;
	snprintf(head, sizeof(head),
		 "{\"time\":\"%s.%09ldZ\",\"level\":\"%s\",\"component\":\"%.50s\",\"message\":",
		 seconds, entry->time.tv_nsec, entry->level, entry->component);
	put(&text, head, strlen(head));
	put_string(&text, entry->message);
	text.size += tail.length;
	put(&text, tail.bytes, tail.length);
	return text.length;
}
