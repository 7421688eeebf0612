/* SPDX-License-Identifier: BSD-3-Clause */
/* Text for a person. */
#ifndef TOOLS_PRINTABLE_H
#define TOOLS_PRINTABLE_H

#include <stddef.h>

/*
 * Copies `text`. Bytes that cannot be printed, which a peer may have sent, become \xNN. The caller
 * frees the result with free(); NULL: no memory. `*columns`, if not NULL, is its width.
 */
char *cli_printable(const char *text, size_t *columns);
/* Returns how many bytes at the beginning of printable text fit into `columns`. */
size_t cli_printable_fit(const char *text, size_t columns);

#endif
