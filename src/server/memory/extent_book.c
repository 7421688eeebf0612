/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The books of the pool of extents: the one table of allowed state changes, and the lists and byte
 * counts of each state. Trees find an extent by number or by its neighbour. Called by extent.c and
 * extent_reserve.c alone, with the pool's lock held.
 */
#include <assert.h>
#include <search.h>
#include <stdlib.h>

#include "server/memory/extent_book.h"

static const bool transitions[NR_STATES][NR_STATES] = {
	[EXTENT_CLEAN] = {[EXTENT_TAKEN] = true, [EXTENT_GONE] = true},
	[EXTENT_TAKEN] = {[EXTENT_GRANTED] = true, [EXTENT_CLEAN] = true, [EXTENT_GONE] = true},
	[EXTENT_GRANTED] = {[EXTENT_DRAINING] = true},
	[EXTENT_DRAINING] = {[EXTENT_DIRTY] = true},
	[EXTENT_DIRTY] = {[EXTENT_SCRUBBING] = true, [EXTENT_GONE] = true},
	[EXTENT_SCRUBBING] = {[EXTENT_CLEAN] = true, [EXTENT_GONE] = true},
};

static int compare_start(const void *a, const void *b)
{
	const struct extent *left = a, *right = b;

	return (left->addr > right->addr) - (left->addr < right->addr);
}

static int compare_end(const void *a, const void *b)
{
	const struct extent *left = a, *right = b;
	const char *left_end = left->addr + left->length, *right_end = right->addr + right->length;

	return (left_end > right_end) - (left_end < right_end);
}

static int compare_number(const void *a, const void *b)
{
	const struct extent *left = a, *right = b;

	return (left->number > right->number) - (left->number < right->number);
}

void extent_move(struct extent_pool *pool, struct extent *extent, enum extent_state to)
{
	assert(transitions[extent->state][to]);
	cds_list_del_init(&extent->node);
	pool->bytes[extent->state] -= extent->length;
	if (extent->state == EXTENT_CLEAN) {
		tdelete(extent, &pool->clean_by_start, compare_start);
		tdelete(extent, &pool->clean_by_end, compare_end);
	} else if (extent->state == EXTENT_GRANTED) {
		tdelete(extent, &pool->granted_by_number, compare_number);
		pool->nr_granted--;
	}

	extent->state = to;
	pool->bytes[to] += extent->length;
	switch (to) {
	case EXTENT_CLEAN:
		cds_list_add(&extent->node, &pool->clean[extent->length / SEGMENT_MIN]);
		/* Without memory the extent is not in the tree; then it is only not found as a
		 * neighbour. */
		tsearch(extent, &pool->clean_by_start, compare_start);
		tsearch(extent, &pool->clean_by_end, compare_end);
		pthread_cond_broadcast(&pool->supply);
		break;
	case EXTENT_GRANTED:
		cds_list_add_tail(&extent->node, &pool->granted);
		pool->nr_granted++;
		break;
	case EXTENT_DRAINING:
		cds_list_add_tail(&extent->node, &pool->draining);
		break;
	case EXTENT_DIRTY:
		cds_list_add_tail(&extent->node, &pool->dirty);
		pthread_cond_signal(&pool->work);
		break;
	case EXTENT_GONE:
		pool->bytes[EXTENT_GONE] = 0;
		pthread_cond_broadcast(&pool->supply);
		break;
	default:
		break;
	}
}

struct extent *extent_new(struct extent_pool *pool, char *addr, size_t length)
{
	struct extent *extent = calloc(1, sizeof(*extent));

	if (!extent)
		return NULL;
	CDS_INIT_LIST_HEAD(&extent->node);
	CDS_INIT_LIST_HEAD(&extent->drained);
	extent->state = EXTENT_TAKEN;
	extent->addr = addr;
	extent->length = length;
	pool->bytes[EXTENT_TAKEN] += length;
	return extent;
}

static struct extent *tree_find(const struct extent *like, void *const *root,
				int (*compare)(const void *, const void *))
{
	struct extent *const *found = tfind(like, root, compare);

	return found ? *found : NULL;
}

/* Makes a clean neighbour part of `extent`, which is not clean yet. */
static void extent_absorb(struct extent_pool *pool, struct extent *extent, struct extent *neighbour)
{
	if (!neighbour || extent->length + neighbour->length > EXTENT_BYTES_MAX)
		return;
	if (neighbour->addr < extent->addr)
		extent->addr = neighbour->addr;
	extent->length += neighbour->length;
	pool->bytes[extent->state] += neighbour->length;
	extent_move(pool, neighbour, EXTENT_GONE);
	free(neighbour);
}

void extent_to_clean(struct extent_pool *pool, struct extent *extent)
{
	struct extent like = {.addr = extent->addr, .length = 0};

	if (!pool->options.is_shared) {
		extent_absorb(pool, extent, tree_find(&like, &pool->clean_by_end, compare_end));
		like.addr = extent->addr + extent->length;
		extent_absorb(pool, extent, tree_find(&like, &pool->clean_by_start, compare_start));
	}
	extent_move(pool, extent, EXTENT_CLEAN);
}

bool extent_may_keep(const struct extent_pool *pool, size_t length)
{
	uint64_t limit = pool->options.pool_bytes;

	return limit == 0 || pool->bytes[EXTENT_CLEAN] + length <= limit;
}

bool extent_enroll(struct extent_pool *pool, struct extent *extent)
{
	extent->number = pool->next_number++;
	return tsearch(extent, &pool->granted_by_number, compare_number);
}

void extent_withdraw(struct extent_pool *pool, struct extent *extent)
{
	tdelete(extent, &pool->granted_by_number, compare_number);
}

struct extent *extent_find(struct extent_pool *pool, uint64_t number)
{
	struct extent like = {.number = number};

	return tree_find(&like, &pool->granted_by_number, compare_number);
}
