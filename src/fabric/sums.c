/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of checked transfers. The functions touch nothing but their arguments. */
#include "fabric/sums.h"

#include "base/checksum.h"

void fabric_sums_make(const struct iovec *iov, uint64_t length, uint32_t *sums)
{
	static const uint8_t zeros[CHECKSUM_BLOCK];
	size_t at = 0;

	for (; length > 0; sums++) {
		uint64_t left = length < CHECKSUM_BLOCK ? length : CHECKSUM_BLOCK;
		const size_t behind = CHECKSUM_BLOCK - (size_t)left;
		uint32_t sum = 0;

		length -= left;
		while (left > 0) {
			size_t part = iov->iov_len - at;

			if (part > left)
				part = (size_t)left;
			sum = checksum_crc32c_seeded(sum, (const char *)iov->iov_base + at, part);
			left -= part;
			at += part;
			if (at == iov->iov_len) {
				iov++;
				at = 0;
			}
		}
		*sums = checksum_crc32c_seeded(sum, zeros, behind);
	}
}
