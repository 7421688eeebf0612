/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes as numbers in the bytes' order. */
#ifndef APPS_SORT_WORD_H
#define APPS_SORT_WORD_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The first 8 of `length` bytes as a number that compares as they do. Bytes that are not there count as 0. */
static inline uint64_t word_at(const uint8_t *bytes, size_t length)
{
	uint64_t word = 0;

	if (length >= sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		return be64toh(word);
	}
	for (size_t i = 0; i < length; i++)
		word |= (uint64_t)bytes[i] << (56 - 8 * i);
	return word;
}

#endif
