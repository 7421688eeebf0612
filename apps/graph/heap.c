/* SPDX-License-Identifier: BSD-3-Clause */
/* A binary heap in an array; see heap.h. */
#include "heap.h"

#include <errno.h>
#include <stdlib.h>

#define ROOM_MIN 1024U

static void swap(struct heap_item *one, struct heap_item *other)
{
	struct heap_item kept = *one;

	*one = *other;
	*other = kept;
}

int heap_put(struct heap *heap, uint64_t distance, uint32_t vertex)
{
	size_t at = heap->nr;

	if (heap->nr == heap->room) {
		size_t room = heap->room ? 2 * heap->room : ROOM_MIN;
		struct heap_item *items = reallocarray(heap->items, room, sizeof(*items));

		if (!items)
			return -ENOMEM;
		heap->items = items;
		heap->room = room;
	}
	heap->items[heap->nr++] = (struct heap_item){distance, vertex};
	for (; at > 0 && heap->items[(at - 1) / 2].distance > distance; at = (at - 1) / 2)
		swap(&heap->items[at], &heap->items[(at - 1) / 2]);
	return 0;
}

static size_t nearest(const struct heap *heap, size_t at)
{
	size_t least = at;

	for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < heap->nr; child++)
		if (heap->items[child].distance < heap->items[least].distance)
			least = child;
	return least;
}

bool heap_take(struct heap *heap, uint64_t *distance, uint32_t *vertex)
{
	size_t at = 0, least;

	if (heap->nr == 0)
		return false;
	*distance = heap->items[0].distance;
	*vertex = heap->items[0].vertex;
	heap->items[0] = heap->items[--heap->nr];
	while ((least = nearest(heap, at)) != at) {
		swap(&heap->items[at], &heap->items[least]);
		at = least;
	}
	return true;
}

void heap_free(struct heap *heap)
{
	free(heap->items);
}
