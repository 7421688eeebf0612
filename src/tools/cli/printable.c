/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes text of others safe to print, so that nothing in it controls the terminal. Called by the
 * commands and table.c. */
#include "printable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

/* Returns the length of the printable character at `text`, with its columns; 0 if it is none. */
static size_t printable_length(const char *text, size_t left, mbstate_t *state, int *columns)
{
	wchar_t character;
	size_t length = mbrtowc(&character, text, left, state);

	if (length == (size_t)-1 || length == (size_t)-2) {
		memset(state, 0, sizeof(*state));
		return 0;
	}
	if (!iswprint((wint_t)character))
		return 0;
	*columns = wcwidth(character);
	return *columns < 0 ? 0 : length;
}

char *cli_printable(const char *text, size_t *columns)
{
	size_t left = strlen(text), length, total = 0;
	char *out = malloc(left * 4 + 1);
	char *end = out;
	mbstate_t state = {0};
	int wide;

	if (!out)
		return NULL;
	while (left) {
		length = printable_length(text, left, &state, &wide);
		if (length) {
			end = mempcpy(end, text, length);
			total += (size_t)wide;
		} else {
			length = 1;
			end += sprintf(end, "\\x%02x", (unsigned char)*text);
			total += 4;
		}
		text += length;
		left -= length;
	}
	*end = 0;
	if (columns)
		*columns = total;
	return out;
}

size_t cli_printable_fit(const char *text, size_t columns)
{
	size_t left = strlen(text), taken = 0, length;
	mbstate_t state = {0};
	int wide;

	while (left) {
		length = printable_length(text + taken, left, &state, &wide);
		if (!length || (size_t)wide > columns)
			break;
		columns -= (size_t)wide;
		taken += length;
		left -= length;
	}
	return taken;
}
