/* SPDX-License-Identifier: BSD-3-Clause */
#include "manager/metastore/sums.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/checksum.h"

#define KEY_SEED 0x4b657953U /* so that zeros are no sum of anything short */

static uint32_t read_sum(struct meta_bytes stored, size_t offset)
{
	uint32_t sum = 0;

	if (stored.length >= SUMS_BYTES)
		memcpy(&sum, (const uint8_t *)stored.data + stored.length - SUMS_BYTES + offset,
		       sizeof(sum));
	return le32toh(sum);
}

void sums_make(struct meta_bytes key, struct meta_bytes value, uint8_t sums[SUMS_BYTES])
{
	uint32_t of_key = checksum_crc32c_seeded(KEY_SEED, key.data, key.length);
	uint32_t of_both = checksum_crc32c_seeded(~of_key, value.data, value.length);

	of_key = htole32(of_key);
	of_both = htole32(of_both);
	memcpy(sums, &of_key, sizeof(of_key));
	memcpy(sums + sizeof(of_key), &of_both, sizeof(of_both));
}

int sums_check(struct meta_bytes key, struct meta_bytes stored, struct meta_bytes *value)
{
	const uint8_t *found = (const uint8_t *)stored.data + stored.length - SUMS_BYTES;
	uint8_t wanted[SUMS_BYTES];

	if (stored.length < SUMS_BYTES)
		return -EILSEQ;
	*value = (struct meta_bytes){stored.data, stored.length - SUMS_BYTES};
	sums_make(key, *value, wanted);
	/* The second sum has the first one in it, so with it the key is right, too. */
	if (memcmp(wanted + sizeof(uint32_t), found + sizeof(uint32_t), sizeof(uint32_t)) == 0)
		return 0;
	return memcmp(wanted, found, sizeof(uint32_t)) == 0 ? -EBADMSG : -EILSEQ;
}

void sums_add(struct meta_totals *totals, struct meta_bytes stored)
{
	totals->nr_pairs++;
	totals->sum += read_sum(stored, sizeof(uint32_t));
}

void sums_remove(struct meta_totals *totals, struct meta_bytes stored)
{
	totals->nr_pairs--;
	totals->sum -= read_sum(stored, sizeof(uint32_t));
}
