/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts from a manager that may lie: whatever is accepted must keep every piece inside its chunk. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "rpc/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_inside(const struct layout *layout, const struct layout_piece *piece)
{
	const uint64_t bytes = layout->groups[piece->copy->group].chunk_bytes;
	uint64_t end;

	return piece->copy->home < layout->nr_homes && piece->offset <= bytes &&
	       piece->length <= bytes - piece->offset &&
	       !__builtin_add_overflow(piece->copy->offset, bytes, &end);
}

/* Packs the layout, and finds the same when it unpacks that. */
static void check_packing(const struct layout *layout)
{
	Layout__Layout *message = layout_pack(layout);
	struct layout *again = NULL;
	const char *why;

	if (!message || layout_unpack(message, &again, &why) || again->length != layout->length ||
	    layout_lost_bytes(again) != layout_lost_bytes(layout) ||
	    again->nr_copies != layout->nr_copies || again->nr_homes != layout->nr_homes)
		abort();
	layout_free(again);
	layout__layout__free_unpacked(message, NULL);
}

static void check_pieces(const struct layout *layout)
{
	uint64_t step = layout->length / 61 + 1;

	for (uint64_t offset = 0; offset < layout->length; offset += step) {
		struct layout_piece piece =
			layout_piece_at(layout, offset, layout->length - offset);

		if (piece.length == 0 || piece.length > layout->length - offset)
			abort();
		if (piece.copy && (piece.lost || !is_inside(layout, &piece)))
			abort();
		if (offset > UINT64_MAX - step)
			break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Layout__Layout *message = layout__layout__unpack(NULL, size, data);
	struct layout *layout;
	const char *why;

	if (!message)
		return 0;
	if (layout_unpack(message, &layout, &why) == 0) {
		check_pieces(layout);
		check_packing(layout);
		layout_free(layout);
	}
	layout__layout__free_unpacked(message, NULL);
	return 0;
}
