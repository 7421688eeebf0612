/* SPDX-License-Identifier: BSD-3-Clause */
/* Text for a terminal or a log that may hold bytes of a peer or a user. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Returns the ending of the word for so many things: "s", or nothing. */
static inline const char *text_plural(unsigned long long nr)
{
	return nr == 1 ? "" : "s";
}

/* Makes `text` one harmless line: control characters become '?', including those of Latin-1 in
 * UTF-8. */
static inline void text_clean(char *text)
{
	unsigned char *at = (unsigned char *)text;

	for (; *at; at++) {
		if (*at < 0x20 || *at == 0x7f)
			*at = '?';
		else if (*at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0)
			at[0] = at[1] = '?';
	}
}

/* True: 1 to `length_max` bytes, without control characters. */
static inline bool text_is_printable(const char *text, size_t length_max)
{
	size_t length = strlen(text);

	if (length == 0 || length > length_max)
		return false;
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return false;
	return true;
}

/* True if a list of words with commas between them has this word, of `length` bytes. */
static inline bool text_has_word(const char *list, const char *word, size_t length)
{
	for (; *list; list += *list == ',') {
		size_t next = strcspn(list, ",");

		if (next == length && memcmp(list, word, length) == 0)
			return true;
		list += next;
	}
	return false;
}

/* Adds words to a list of `size` bytes. It skips words that the list has already, and words for
 * which there is no room. */
static inline void text_merge(char *list, size_t size, const char *words)
{
	for (; *words; words += *words == ',') {
		size_t length = strcspn(words, ","), end = strlen(list);

		if (length > 0 && !text_has_word(list, words, length) && end + length + 2 <= size)
			snprintf(list + end, size - end, "%s%.*s", end ? "," : "", (int)length,
				 words);
		words += length;
	}
}

#endif
