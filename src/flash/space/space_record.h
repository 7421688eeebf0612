/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A range of the address space as the bytes of one of the layer's records, and the checks on them.
 */
#ifndef FLASH_SPACE_RECORD_H
#define FLASH_SPACE_RECORD_H

#include <stdint.h>

#include "flash/ftl.h"
#include "flash/space/space.h"

/* The change of several steps that is under way; after a crash the next open finishes it. */
enum space_intent {
	SPACE_SETTLED,	 /* none */
	SPACE_SHRINKING, /* blocks from `keep` on are being trimmed */
	SPACE_REMOVING,	 /* all blocks are being trimmed; the last step removes the record */
	SPACE_NR_INTENTS,
};

struct space_record {
	struct space_owner owner;
	uint64_t start;
	uint64_t length;   /* blocks, including those that are being trimmed */
	uint64_t reserved; /* blocks */
	uint32_t keep;	   /* SPACE_SHRINKING: blocks that stay; else 0 */
	uint8_t intent;
	uint8_t unused[3];
};
_Static_assert(sizeof(struct space_record) == FTL_RECORD_BYTES, "record of a range");

/* Returns whether [start, start + length) is not empty, ends within 64 bits, and is not longer than
 * SPACE_LENGTH_MAX. */
bool space_extent_is_sane(uint64_t start, uint64_t length);

/* Decodes the record of range `id`. Returns 0; -EBADMSG: it cannot be right, and error_last_line()
 * says so. */
int space_record_decode(uint32_t id, const void *data, struct space_record *out);

#endif
