/* SPDX-License-Identifier: BSD-3-Clause */
/* Wraps help texts; see wrap.h. Called by both programs' --help. */
#include "wrap.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define WIDTH_DEFAULT	 80
#define TEXT_COLUMNS_MIN 24 /* a narrower column of text is hard to read */

static size_t width_now(void)
{
	struct winsize size;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col
									   : WIDTH_DEFAULT;
}

/* Returns the columns of `length` bytes of our own UTF-8 text. */
static size_t columns_of(const char *text, size_t length)
{
	size_t columns = 0;

	for (size_t i = 0; i < length; i++)
		columns += ((unsigned char)text[i] & 0xc0) != 0x80;
	return columns;
}

/* Returns the bytes up to the next place to wrap: "[--flag VALUE]" stays together. */
static size_t word_length(const char *text)
{
	size_t depth = 0, n;

	for (n = 0; text[n] && (depth || text[n] != ' '); n++) {
		if (text[n] == '[')
			depth++;
		else if (text[n] == ']' && depth)
			depth--;
	}
	return n;
}

static void start_line(size_t indent)
{
	printf("\n%*s", (int)indent, "");
}

void wrap_words(const char *text, size_t at, size_t indent)
{
	const size_t width = width_now();
	bool is_first = true;

	while (*text) {
		size_t length = word_length(text), columns = columns_of(text, length);

		if (!is_first && at + 1 + columns > width) {
			start_line(indent);
			at = indent;
		} else if (!is_first) {
			putchar(' ');
			at++;
		}
		fwrite(text, 1, length, stdout);
		at += columns;
		text += length + strspn(text + length, " ");
		is_first = false;
	}
	putchar('\n');
}

void wrap_entry(const char *name, size_t indent, const char *text)
{
	size_t at = 2 + columns_of(name, strlen(name));
	const size_t width = width_now();

	if (indent + TEXT_COLUMNS_MIN > width)
		indent = 6;
	fputs("  ", stdout);
	if (at + 2 > indent) {
		wrap_words(name, 2, 6);
		printf("%*s", (int)indent, "");
	} else {
		printf("%s%*s", name, (int)(indent - at), "");
	}
	wrap_words(text, indent, indent);
}
