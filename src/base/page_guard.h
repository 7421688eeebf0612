/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Guards of pages that other processes read in memory, without asking. The page's owner gives it a generation, which
 * no page of the owner's has twice. A reader who knows the generation looks at the guard, copies, and
 * looks again. If the guard has it both times, the bytes are the page as it was all the while.
 *
 * The owner hides a page before it changes the memory, and before it tells anybody that what is kept
 * there is old. So whoever begins to read after that finds another guard.
 *
 * Readers copy bytes that may change meanwhile, and forget them then.
 */
#ifndef BASE_PAGE_GUARD_H
#define BASE_PAGE_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* In a cache line of its own, because pages come and go one by one. */
struct page_guard {
	_Alignas(64) _Atomic uint64_t generation; /* 0: there is nothing to read */
};

/* ---- The owner's */

/* The page's bytes are there. */
static inline void page_guard_show(struct page_guard *guard, uint64_t generation)
{
	atomic_store_explicit(&guard->generation, generation, memory_order_release);
}

/* No change of the bytes that follows is seen before this. */
static inline void page_guard_hide(struct page_guard *guard)
{
	atomic_store_explicit(&guard->generation, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
}

/* ---- A reader's: begin, copy, and end. Both say whether the page is there. */

static inline bool page_guard_begin(const struct page_guard *guard, uint64_t generation)
{
	return atomic_load_explicit(&guard->generation, memory_order_acquire) == generation;
}

static inline bool page_guard_end(const struct page_guard *guard, uint64_t generation)
{
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&guard->generation, memory_order_relaxed) == generation;
}

#endif
