/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares a sealed region with its checksums. A target of its own reads both: its layout has the
 * sums behind the region's bytes, and its servers are the region's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/error.h"
#include "client/base/call.h"
#include "client/namespace/region.h"

#define PIECE_MAX ((uint64_t)1 << 20) /* a multiple of a block */

static const struct target_kind kind = {
	.noun = "region",
	.handle = HANDLE_REGION,
	.opcodes = 1U << AFAR_OP_READ,
};

struct view {
	struct afar_target target; /* its handle is open while this is used */
	uint64_t *sums_at;	   /* the sums' offset, by the number of the chunk */
	char *data;
	uint32_t *sums;
};

static void view_free(struct view *view)
{
	free(view->sums_at);
	free(view->sums);
	free(view->data);
	handle_discard(view);
}

static void view_close(struct view *view)
{
	target_destroy(&view->target);
	view_free(view);
}

/* Makes the target's present layout, with the sums. */
static int make_layout(struct afar_target *target, struct view *view, struct layout **out)
{
	struct binding *binding;
	int ret = target_get_keys(target, session_deadline(target->session));

	if (ret)
		return ret;
	binding = target_binding(target);
	ret = layout_with_sums(binding->layout, out, &view->sums_at);
	binding_unref(binding);
	return ret;
}

static int view_open(struct afar_target *target, struct view **out)
{
	struct view *view = handle_new(HANDLE_REGION, sizeof(*view));
	struct layout *layout = NULL;
	int ret;

	if (!view)
		return error_code(-ENOMEM);
	view->data = malloc(PIECE_MAX);
	view->sums = malloc(PIECE_MAX / CHECKSUM_BLOCK * sizeof(*view->sums));
	ret = view->data && view->sums ? make_layout(target, view, &layout) : error_code(-ENOMEM);
	if (!ret)
		ret = target_init_beside(&view->target, &kind, target, layout);
	if (ret) {
		view_free(view);
		return ret;
	}
	*out = view;
	return 0;
}

static int read_view(struct view *view, void *data, uint64_t length, uint64_t offset)
{
	const struct afar_iov iov = {.addr = data, .length = length};

	return target_transfer(&view->target, AFAR_OP_READ, 0, &iov, 1, offset, length);
}

/* Verifies a piece of one chunk that begins at `offset`. 0, or -EBADMSG with the first bad block in
 * `*bad`. */
static int verify_piece(struct view *view, const struct layout_piece *piece, uint64_t offset,
			uint64_t *bad)
{
	const struct layout *layout = view->target.binding->layout; /* nobody replaces it */
	uint64_t block = piece->offset / CHECKSUM_BLOCK;
	uint64_t nr_blocks = piece->length / CHECKSUM_BLOCK;
	int ret = read_view(view, view->data, piece->length, offset);

	if (!ret)
		ret = read_view(view, view->sums, nr_blocks * sizeof(*view->sums),
				view->sums_at[piece->copy - layout->copies] +
					block * sizeof(*view->sums));
	for (uint64_t i = 0; i < nr_blocks && !ret; i++) {
		if (checksum_crc32c(view->data + i * CHECKSUM_BLOCK, CHECKSUM_BLOCK) ==
		    view->sums[i])
			continue;
		*bad = offset + i * CHECKSUM_BLOCK;
		ret = -EBADMSG;
	}
	return ret;
}

static int verify(struct view *view, uint64_t offset, uint64_t end, uint64_t *bad)
{
	int ret = 0;

	while (offset < end && !ret) {
		uint64_t left = end - offset < PIECE_MAX ? end - offset : PIECE_MAX;
		struct layout_piece piece =
			layout_piece_at(view->target.binding->layout, offset, left);

		if (piece.copy)
			ret = verify_piece(view, &piece, offset, bad);
		offset += piece.length;
	}
	if (ret == -EBADMSG)
		return error_fail(ret,
				  "verify the region at %#llx: the block at %llu is not what was "
				  "sealed; its server's memory is damaged, so make the region anew",
				  (unsigned long long)view->target.address,
				  (unsigned long long)*bad);
	return ret;
}

/* Rounds up to whole blocks, which end inside the view. */
static uint64_t round_up(uint64_t at)
{
	uint64_t excess = at % CHECKSUM_BLOCK;

	return excess ? at - excess + CHECKSUM_BLOCK : at;
}

static int check(struct afar_region *region, uint64_t offset, uint64_t length)
{
	int ret;

	if (!range_is_inside(offset, length, region->target.length))
		return error_fail(-ERANGE, "verify %llu bytes at %llu of a region: it has %llu",
				  (unsigned long long)length, (unsigned long long)offset,
				  (unsigned long long)region->target.length);
	ret = target_look(&region->target);
	if (!ret && !region->target.is_sealed)
		ret = error_fail(-EINVAL,
				 "verify the region at %#llx: it is not sealed, so there are no "
				 "sums to compare with; seal it first",
				 (unsigned long long)region->target.address);
	return ret;
}

PUBLIC_CALL(int, afar_region_verify,
	    (struct afar_region *region, uint64_t offset, uint64_t length, uint64_t *bad),
	    (region, offset, length, bad))
{
	uint64_t found = 0;
	struct view *view;
	int ret = region_check(region);

	if (ret)
		return ret;
	if (!handle_enter(&region->target.handle))
		return error_fail(-EINVAL, "verify a region: it is being closed");
	ret = check(region, offset, length);
	while (!ret || (ret == -ESTALE && !session_is_stale(region->target.session))) {
		ret = view_open(&region->target, &view);
		if (ret)
			break;
		ret = verify(view, offset - offset % CHECKSUM_BLOCK, round_up(offset + length),
			     &found);
		view_close(view);
		if (!ret)
			break;
	}
	if (ret == -EBADMSG && bad)
		*bad = found;
	handle_unuse(&region->target.handle);
	return ret;
}
