/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes to send around; see bytes.h. */
#include "lib/bytes.h"

void fill(void *data, size_t length, unsigned seed)
{
	uint64_t value = seed * 0x9e3779b97f4a7c15U + 1;
	uint8_t *bytes = data;

	for (size_t i = 0; i < length; i++) {
		value = value * 6364136223846793005U + 1442695040888963407U;
		bytes[i] = (uint8_t)(value >> 56);
	}
}
