/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes as people write and read them, for the daemon's and the command line's arguments. */
#ifndef TOOLS_SIZE_H
#define TOOLS_SIZE_H

#include <stddef.h>
#include <stdint.h>

#define SIZE_TEXT_MAX 32

/*
 * Parses a count of bytes with an optional suffix K, M, G, T, P or E (powers of 1024): "4096",
 * "64M". Returns 0, -EINVAL (not such a number) or -ERANGE (2^64 or more).
 */
int size_parse(const char *text, uint64_t *out);

/* Parses a plain decimal number up to `max`. Returns 0, -EINVAL or -ERANGE. */
int number_parse(const char *text, uint64_t max, uint64_t *out);

/* Writes "64 MiB", "1.5 GiB", "17 B" into `out` and returns it. */
const char *size_text(uint64_t bytes, char out[SIZE_TEXT_MAX]);

#endif
