/* SPDX-License-Identifier: BSD-3-Clause */
/* A range of the address space as bytes of the layer's record. What is read is believed only when it can be true. */
#ifndef FLASH_SPACE_RECORD_H
#define FLASH_SPACE_RECORD_H

#include <stdint.h>

#include "flash/ftl.h"
#include "flash/space.h"

/* How far a change has come that takes more than one step. */
enum space_intent {
	SPACE_SETTLED,
	SPACE_SHRINKING, /* blocks from `keep` on are being trimmed   */
	SPACE_REMOVING,	 /* all are, and the record goes with the last */
	SPACE_NR_INTENTS,
};

struct space_record {
	struct space_owner owner;
	uint64_t start;
	uint64_t length; /* blocks that it may have data in: with those that are being trimmed */
	uint64_t reserved;
	uint32_t keep; /* SPACE_SHRINKING */
	uint8_t intent;
	uint8_t unused[3];
};
_Static_assert(sizeof(struct space_record) == FTL_RECORD_BYTES, "record of a range");

/* Whether [start, start + length) is not empty and within 64 bits, and no longer than a range can be. */
bool space_extent_is_sane(uint64_t start, uint64_t length);

/* 0, or -EBADMSG and a line. */
int space_record_decode(uint32_t id, const void *data, struct space_record *out);

#endif
