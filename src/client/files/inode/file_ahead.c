/* SPDX-License-Identifier: BSD-3-Clause */
/* See file_ahead.h. */
#include "client/files/inode/file_ahead.h"

#include <stdlib.h>

#include "client/files/inode/file_map.h"

void file_ahead_end(struct file_ahead *ahead)
{
	free(ahead->written);
	*ahead = (struct file_ahead){0};
}

void file_ahead_begin(struct file_ahead *ahead, uint64_t from, uint64_t to)
{
	uint8_t *written;

	/* They came with an earlier answer. */
	if (ahead->written && from == ahead->from && to == ahead->to)
		return;
	file_ahead_end(ahead);
	if (from >= to || to - from > FILE_AHEAD_MAX)
		return;
	written = calloc(1, (to - from) / 8 + 1);
	if (written)
		*ahead = (struct file_ahead){.from = from, .to = to, .written = written};
}

void file_ahead_note(struct file_ahead *ahead, uint64_t offset, uint64_t length)
{
	uint64_t unit = offset / FILE_UNIT, end = file_units_up(offset + length);

	if (unit < ahead->from)
		unit = ahead->from;
	if (end > ahead->to)
		end = ahead->to;
	for (; unit < end && length != 0; unit++) {
		uint8_t *bits = &ahead->written[(unit - ahead->from) / 8];
		uint8_t bit = (uint8_t)(1U << (unit - ahead->from) % 8);

		ahead->nr_written += (*bits & bit) == 0;
		*bits |= bit;
	}
}
