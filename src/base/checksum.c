/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C by ISA-L, which takes what instructions the machine has for it. */
#include "base/checksum.h"

#include <isa-l/crc.h>

uint32_t checksum_crc32c_seeded(uint32_t start, const void *data, size_t length)
{
	/* It is declared for data that may change, and changes none; begins and ends as it is told. */
	return ~crc32_iscsi((unsigned char *)(uintptr_t)data, (int)length, ~start);
}

uint32_t checksum_crc32c(const void *data, size_t length)
{
	return checksum_crc32c_seeded(0, data, length);
}

/* The sums for the 16 values of four bits of a start: each bit that is set adds its own term. */
#define SUMS(a, b, c, d)                                                                       \
	{                                                                                      \
		0, a, b, a ^ b, c, a ^ c, b ^ c, a ^ b ^ c, d, a ^ d, b ^ d, a ^ b ^ d, c ^ d, \
			a ^ c ^ d, b ^ c ^ d, a ^ b ^ c ^ d                                    \
	}

static const uint32_t carried[8][16] = {
	SUMS(0xc2a5b65e, 0x80a71a4d, 0x04a2426b, 0x094484d6),
	SUMS(0x128909ac, 0x25121358, 0x4a2426b0, 0x94484d60),
	SUMS(0x2d7cec31, 0x5af9d862, 0xb5f3b0c4, 0x6e0b1779),
	SUMS(0xdc162ef2, 0xbdc02b15, 0x7e6c20db, 0xfcd841b6),
	SUMS(0xfc5cf59d, 0xfd559dcb, 0xff474d67, 0xfb62ec3f),
	SUMS(0xf329ae8f, 0xe3bf2bef, 0xc292212f, 0x80c834af),
	SUMS(0x047c1faf, 0x08f83f5e, 0x11f07ebc, 0x23e0fd78),
	SUMS(0x47c1faf0, 0x8f83f5e0, 0x1aeb9d31, 0x35d73a62),
};

uint32_t checksum_carried(uint32_t start)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < 8; i++)
		sum ^= carried[i][start >> 4 * i & 0xf];
	return sum;
}
