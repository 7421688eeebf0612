/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C, and the sums of sealed memory: one for each block, little-endian, one behind the other. Servers make them
 * while they copy, clients compare. Pure.
 */
#ifndef BASE_CHECKSUM_H
#define BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#define CHECKSUM_BLOCK 4096U /* bytes that one sum is of */

/* Of RFC 3720: "123456789" has 0xe3069283. `length` is at most INT_MAX. */
uint32_t checksum_crc32c(const void *data, size_t length);

/* The same of bytes that go on: of a and b it is seeded(crc32c(a), b). Started with any other number it is a sum of its own for
 * each; 0 is the plain one. */
uint32_t checksum_crc32c_seeded(uint32_t start, const void *data, size_t length);

/* How many bytes the sums of `length` bytes take, in whole blocks. */
static inline uint64_t checksum_bytes(uint64_t length)
{
	uint64_t nr_sums = length / CHECKSUM_BLOCK + (length % CHECKSUM_BLOCK != 0);
	uint64_t sums_per_block = CHECKSUM_BLOCK / sizeof(uint32_t);

	return (nr_sums / sums_per_block + (nr_sums % sums_per_block != 0)) * CHECKSUM_BLOCK;
}

#endif
