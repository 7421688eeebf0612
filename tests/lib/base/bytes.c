/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes to send around; see bytes.h. */
#include "lib/base/bytes.h"

#include <string.h>

#define BLOCK 4096U

/* Instrumented for data races, byte by byte, this takes most of a test's time. */
__attribute__((no_sanitize("thread"))) void fill(void *data, size_t length, unsigned seed)
{
	uint64_t value = seed * 0x9e3779b97f4a7c15U + 1;
	uint8_t *bytes = data;

	for (size_t i = 0; i < length; i++) {
		value = value * 6364136223846793005U + 1442695040888963407U;
		bytes[i] = (uint8_t)(value >> 56);
	}
}

static size_t count_in_block(const uint8_t *bytes, size_t length, uint8_t value)
{
	size_t count = 0;

	if (!memchr(bytes, value, length))
		return 0;
	for (size_t i = 0; i < length; i++)
		count += bytes[i] == value;
	return count;
}

size_t count_bytes(const void *data, size_t length, uint8_t value)
{
	const uint8_t *bytes = data;
	uint8_t full[BLOCK];
	size_t count = 0;

	memset(full, value, sizeof(full));
	for (size_t at = 0; at < length; at += BLOCK) {
		size_t left = length - at < BLOCK ? length - at : BLOCK;

		/* Mostly all have it, or none: no byte is looked at by itself then. */
		count += memcmp(bytes + at, full, left) == 0
				 ? left
				 : count_in_block(bytes + at, left, value);
	}
	return count;
}
