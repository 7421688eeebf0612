/* SPDX-License-Identifier: BSD-3-Clause */
/* Making and closing views; see file_view.h. */
#include "client/files/inode/file_view.h"

#include <stdlib.h>
#include <string.h>

#include "base/epoch.h"

static struct file_view *view_new(const struct file_map *map)
{
	struct file_view *view = malloc(sizeof(*view) + map->nr * sizeof(*map->runs));

	if (!view)
		return NULL;
	view->nr = map->nr;
	view->nr_changes = map->nr_changes;
	atomic_init(&view->last, view->runs);
	memcpy(view->runs, map->runs, map->nr * sizeof(*map->runs));
	return view;
}

void view_refresh(struct file_view *_Atomic *place, pthread_mutex_t *lock,
		  const struct file_map *map, const uint64_t *size)
{
	struct file_view *view, *old = NULL;

	pthread_mutex_lock(lock);
	view = *place;
	if (map->nr != 0 && !(view && view->nr_changes == map->nr_changes)) {
		struct file_view *newer = view_new(map);

		if (newer) {
			atomic_init(&newer->size, *size);
			old = view;
			view = newer;
			atomic_store(place, view);
		}
	}
	if (view && view->size < *size)
		view->size = *size;
	pthread_mutex_unlock(lock);
	if (!old)
		return;
	epoch_wait();
	free(old);
}

void view_close(struct file_view *_Atomic *place)
{
	struct file_view *view = atomic_exchange(place, NULL);

	if (!view)
		return;
	epoch_wait();
	free(view);
}

void view_free(struct file_view *_Atomic *place)
{
	free(atomic_exchange(place, NULL));
}

const struct file_run *view_search(struct file_view *view, uint64_t unit)
{
	size_t low = 0, high = view->nr;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (view->runs[middle].unit > unit)
			high = middle;
		else
			low = middle;
	}
	if (unit - view->runs[low].unit >= view->runs[low].nr)
		return NULL;
	atomic_store_explicit(&view->last, &view->runs[low], memory_order_relaxed);
	return &view->runs[low];
}
