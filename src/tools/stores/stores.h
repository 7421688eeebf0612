/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores as the library's status tells of them, for `status` and `store`. */
#ifndef TOOLS_STORES_H
#define TOOLS_STORES_H

#include <jansson.h>

/* Prints a line for each store behind a line of headings. */
void stores_print(const json_t *stores);

/* Returns for how many seconds a server that is up, or the one of a store, has said nothing. 0: it says something every
 * 10 s, as it should. One that does not was stopped, has too much to do, or was cut off without a word. */
unsigned long long silent_seconds(const json_t *status);

#endif
