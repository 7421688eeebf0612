/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Comparing a sealed region with its sums. Reads both through a target of its own, whose layout has the sums
 * behind the region's bytes; peers, and what the session has of them, are the region's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/error.h"
#include "client/call.h"
#include "client/near.h"
#include "client/region.h"

#define PIECE_MAX ((uint64_t)1 << 20) /* a multiple of a block */

struct view {
	struct afar_target target; /* its handle is open while this is used */
	uint64_t *sums_at;	   /* by the number of the chunk */
	char *data;
	uint32_t *sums;
};

static void view_close(struct view *view)
{
	near_close(&view->target);
	pthread_mutex_destroy(&view->target.lock);
	layout_free(view->target.layout);
	free(view->target.accesses);
	free(view->target.seals);
	free(view->sums_at);
	free(view->sums);
	free(view->data);
	handle_discard(view);
}

static int copy_accesses(struct view *view, struct afar_target *target)
{
	const uint32_t nr_servers = target->layout->nr_servers;

	view->target.accesses = calloc((size_t)nr_servers + 1, sizeof(*view->target.accesses));
	view->target.seals = calloc((size_t)nr_servers + 1, sizeof(*view->target.seals));
	if (!view->target.accesses || !view->target.seals)
		return error_code(-ENOMEM);
	pthread_mutex_lock(&target->lock);
	memcpy(view->target.accesses, target->accesses,
	       nr_servers * sizeof(*view->target.accesses));
	pthread_mutex_unlock(&target->lock);
	return 0;
}

static int view_open(struct afar_target *target, struct view **out)
{
	struct view *view = handle_new(HANDLE_REGION, sizeof(*view));
	struct layout *layout = NULL;
	int ret;

	if (!view)
		return error_code(-ENOMEM);
	pthread_mutex_init(&view->target.lock, NULL);
	view->target.session = target->session;
	view->target.ns = target->ns;
	view->target.ns_name = target->ns_name;
	view->target.address = target->address;
	view->target.generation = target->generation;
	view->target.rights = target->rights;
	view->target.peers = target->peers;
	view->target.reaches = target->reaches;
	ret = layout_with_sums(target->layout, &layout, &view->sums_at);
	view->target.layout = layout;
	view->target.is_sealed = layout->is_sealed;
	if (!ret)
		ret = copy_accesses(view, target);
	view->data = malloc(PIECE_MAX);
	view->sums = malloc(PIECE_MAX / CHECKSUM_BLOCK * sizeof(*view->sums));
	if (!ret && (!view->data || !view->sums))
		ret = error_code(-ENOMEM);
	if (ret) {
		view_close(view);
		return ret;
	}
	view->target.length = layout->length;
	*out = view;
	return 0;
}

static int read_view(struct view *view, void *data, uint64_t length, uint64_t offset)
{
	const struct afar_iov iov = {.addr = data, .length = length};

	return target_transfer(&view->target, AFAR_OP_READ, &iov, 1, offset, length);
}

/* A piece of one chunk that begins at `offset`: 0, or -EBADMSG with the first bad block in `*bad`. */
static int verify_piece(struct view *view, const struct layout_piece *piece, uint64_t offset,
			uint64_t *bad)
{
	const struct layout *layout = view->target.layout;
	uint64_t block = piece->offset / CHECKSUM_BLOCK;
	uint64_t nr_blocks = piece->length / CHECKSUM_BLOCK;
	int ret = read_view(view, view->data, piece->length, offset);

	if (!ret)
		ret = read_view(view, view->sums, nr_blocks * sizeof(*view->sums),
				view->sums_at[piece->chunk - layout->chunks] +
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
		struct layout_piece piece = layout_piece_at(view->target.layout, offset, left);

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

/* Whole blocks, which end inside the view. */
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
	if (!ret && !region->target.layout->is_sealed)
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
	if (!ret)
		ret = view_open(&region->target, &view);
	if (!ret) {
		ret = verify(view, offset - offset % CHECKSUM_BLOCK, round_up(offset + length),
			     &found);
		view_close(view);
	}
	if (ret == -EBADMSG && bad)
		*bad = found;
	handle_unuse(&region->target.handle);
	return ret;
}
