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
