/* SPDX-License-Identifier: BSD-3-Clause */
/* A heap of vertices by distance: the nearest comes out first. */
#ifndef APPS_GRAPH_HEAP_H
#define APPS_GRAPH_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_item {
	uint64_t distance;
	uint32_t vertex;
};

/* Zeroed: an empty one. */
struct heap {
	struct heap_item *items;
	size_t nr, room;
};

/* -ENOMEM. */
int heap_put(struct heap *heap, uint64_t distance, uint32_t vertex);
/* False: it is empty. */
bool heap_take(struct heap *heap, uint64_t *distance, uint32_t *vertex);
void heap_free(struct heap *heap);

#endif
