/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C, and the sums of sealed memory: one sum for each block, little-endian, one behind the
 * other. Servers make them while they copy, and clients compare them. The functions touch nothing
 * but their arguments.
 */
#ifndef BASE_CHECKSUM_H
#define BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#define CHECKSUM_BLOCK 4096U /* bytes that one sum covers */

/* The CRC32C of RFC 3720: that of "123456789" is 0xe3069283. `length` is at most INT_MAX. */
uint32_t checksum_crc32c(const void *data, size_t length);

/* Continues a sum: the sum of a followed by b is seeded(crc32c(a), b). Each other start gives sums
 * of its own; a start of 0 gives the plain CRC32C. */
uint32_t checksum_crc32c_seeded(uint32_t start, const void *data, size_t length);

/*
 * Returns by how much a start changes the sum of a block, whatever is in the block:
 * seeded(start, block) is crc32c(block) ^ carried(start). CRCs are linear, so no data is needed.
 */
uint32_t checksum_carried(uint32_t start);

#define CHECKSUM_OF_ZEROS 0x98f94189U /* the CRC32C of a block of zeros */

/* Returns how many bytes the sums of `length` bytes take, in whole blocks. */
static inline uint64_t checksum_bytes(uint64_t length)
{
	uint64_t nr_sums = length / CHECKSUM_BLOCK + (length % CHECKSUM_BLOCK != 0);
	uint64_t sums_per_block = CHECKSUM_BLOCK / sizeof(uint32_t);

	return (nr_sums / sums_per_block + (nr_sums % sums_per_block != 0)) * CHECKSUM_BLOCK;
}

#endif
