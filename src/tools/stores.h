/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores as the library's status tells of them, for `status` and `store`. */
#ifndef TOOLS_STORES_H
#define TOOLS_STORES_H

#include <jansson.h>

/* Prints a line for each store behind a line of headings. */
void stores_print(const json_t *stores);

#endif
