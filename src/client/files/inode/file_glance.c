/* SPDX-License-Identifier: BSD-3-Clause */
/* Setting and closing glances; see file_glance.h. */
#include "client/files/inode/file_glance.h"

#include "base/epoch.h"

void glance_set(struct file_glance *glance, uint64_t begin, uint64_t end, uint64_t pool)
{
	unsigned serial = atomic_load_explicit(&glance->serial, memory_order_relaxed);

	atomic_store_explicit(&glance->serial, serial + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&glance->begin, begin, memory_order_relaxed);
	atomic_store_explicit(&glance->end, end, memory_order_relaxed);
	atomic_store_explicit(&glance->pool, pool, memory_order_relaxed);
	atomic_store_explicit(&glance->serial, serial + 2, memory_order_release);
	atomic_store_explicit(&glance->has_been_set, true, memory_order_relaxed);
}

void glance_close(struct file_glance *glance)
{
	if (!atomic_load_explicit(&glance->has_been_set, memory_order_relaxed))
		return;
	glance_set(glance, 0, 0, 0);
	epoch_wait();
}
