/* SPDX-License-Identifier: BSD-3-Clause */
/* Text of our own on standard output, cut at words to the terminal's width, to 80 columns where there is no terminal. */
#ifndef TOOLS_WRAP_H
#define TOOLS_WRAP_H

#include <stddef.h>

/* Prints the words of `text` from column `at` on, where the line is, and ends it; lines after the first begin at `indent`. */
void wrap_words(const char *text, size_t at, size_t indent);
/* Prints `name`, and `text` in a column that begins at `indent`, or below where there is no room for one. */
void wrap_entry(const char *name, size_t indent, const char *text);

#endif
