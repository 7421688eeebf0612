/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints text of our own, wrapped to the terminal's width, or to 80 columns without a terminal. */
#ifndef TOOLS_WRAP_H
#define TOOLS_WRAP_H

#include <stddef.h>

/* Prints the words of `text` from column `at`, where the line is, and ends the line. Further lines
 * begin at `indent`. */
void wrap_words(const char *text, size_t at, size_t indent);
/* Prints `name`, and `text` in a column that begins at `indent`, or below `name` if that is too
 * long. */
void wrap_entry(const char *name, size_t indent, const char *text);

#endif
