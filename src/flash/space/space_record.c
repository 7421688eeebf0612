/* SPDX-License-Identifier: BSD-3-Clause */
/* Decodes and checks a record; see space_record.h. */
#include "flash/space/space_record.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

bool space_extent_is_sane(uint64_t start, uint64_t length)
{
	/* The last block must have an address; the end may be 2^64. */
	return length && length <= SPACE_LENGTH_MAX && start <= UINT64_MAX - (length - 1);
}

static bool is_sane(const struct space_record *record)
{
	static const uint8_t zeros[sizeof(record->unused)];

	if (!space_extent_is_sane(record->start, record->length) ||
	    record->reserved > record->length || record->intent >= SPACE_NR_INTENTS ||
	    memcmp(record->unused, zeros, sizeof(zeros)) != 0)
		return false;
	if (record->intent == SPACE_SHRINKING)
		return record->keep && record->keep < record->length;
	return record->keep == 0;
}

int space_record_decode(uint32_t id, const void *data, struct space_record *out)
{
	memcpy(out, data, sizeof(*out));
	if (!is_sane(out))
		return error_fail(-EBADMSG,
				  "open an address space: the record of range %u is damaged", id);
	return 0;
}
