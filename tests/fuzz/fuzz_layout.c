/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts from a manager that may lie: whatever is accepted must keep every piece inside its chunk. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "client/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_pieces(const struct layout *layout)
{
	uint64_t step = layout->length / 61 + 1;

	for (uint64_t offset = 0; offset < layout->length; offset += step) {
		struct layout_piece piece =
			layout_piece_at(layout, offset, layout->length - offset);

		if (piece.length == 0 || piece.length > layout->length - offset)
			abort();
		if (piece.chunk && (piece.offset > piece.chunk->length ||
				    piece.length > piece.chunk->length - piece.offset))
			abort();
		if (offset > UINT64_MAX - step)
			break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Afar__Layout *message = afar__layout__unpack(NULL, size, data);
	struct layout *layout;
	uint64_t length = 0;

	if (!message)
		return 0;
	for (size_t i = 0; i < message->n_groups; i++)
		length += message->groups[i]->length;
	if (layout_decode(message, length, &layout) == 0) {
		check_pieces(layout);
		layout_free(layout);
	}
	afar__layout__free_unpacked(message, NULL);
	return 0;
}
