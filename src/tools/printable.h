/* SPDX-License-Identifier: BSD-3-Clause */
/* Text for a person. */
#ifndef TOOLS_PRINTABLE_H
#define TOOLS_PRINTABLE_H

#include <stddef.h>

/*
 * `text` with what cannot be printed — a peer may have sent it — as \xNN. The result is free()d by the caller; NULL
 * when there is no memory. `*columns`, if not NULL, is its width.
 */
char *cli_printable(const char *text, size_t *columns);
/* How many bytes at the beginning of printable text fit into `columns`. */
size_t cli_printable_fit(const char *text, size_t columns);

#endif
