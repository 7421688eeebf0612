/* SPDX-License-Identifier: BSD-3-Clause */
/* Open arrays. An array lies in a region or in a file, which stays open as long. */
#ifndef CLIENT_ARRAY_H
#define CLIENT_ARRAY_H

#include <pthread.h>

#include "client/array/array_form.h"
#include "client/base/handle.h"

/* One of the two is not NULL. */
struct array_place {
	struct afar_region *region;
	struct afar_file *file;
};

/* The group of blocks that was read ahead. In here dimensions are the program's. */
struct array_ahead {
	pthread_mutex_t lock;
	char *data; /* packed; NULL: nothing is read ahead */
	uint64_t factor[DIMENSIONS_MAX];
	struct afar_slab group;
	bool is_full; /* the group is in the data */
};

struct afar_array {
	struct handle handle; /* in use during calls */
	struct array_place place;
	struct array_form form;
	struct afar_array_shape shape; /* with all blocks */
	struct array_ahead ahead;
};

/* Counts a call in, which counts itself out with handle_unuse(). -EINVAL, with a sentence. */
int array_enter(struct afar_array *array);

/* array_transfer.c: moves a part of an array that the caller is counted into. Returns its bytes, or the error with a sentence. */
ssize_t array_move(const struct afar_array *array, const struct afar_slab *slab, char *data,
		   bool is_read);
/* Finds a block, by the program's dimensions; -ERANGE, with a sentence. */
int array_find_block(const struct afar_array *array, const uint64_t *index, struct afar_slab *slab);

/* Forgets the group, because bytes have arrived, or may have. */
static inline void array_ahead_drop(struct array_ahead *ahead)
{
	pthread_mutex_lock(&ahead->lock);
	ahead->is_full = false;
	pthread_mutex_unlock(&ahead->lock);
}

#endif
