/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See table.h. The root is in memory that the kernel gives children of a fork filled with zeros. Pages of entries, and blocks of
 * held files, are mapped when they are first needed, and stay. A held that was freed is only ever a held again, so a late
 * look at it does no harm.
 */
#include "table.h"

#include <stddef.h>
#include <sys/mman.h>

#include "real.h"

#define PAGE_ENTRIES 1024
#define NR_PAGES     1024 /* a million descriptors; those beyond are the kernel's */
#define BLOCK_HELD   64
#define NR_BLOCKS    1024
#define NOBODY	     0U /* held are counted from 1 */

typedef atomic_uintptr_t entry_page[PAGE_ENTRIES];

struct root {
	atomic_bool is_on;
	atomic_int end;
	entry_page *_Atomic pages[NR_PAGES];
	struct held *_Atomic blocks[NR_BLOCKS];
	atomic_uint nr_blocks;
	atomic_ullong free; /* the first free held, and above it a count of changes */
};

static struct root *root; /* NULL: off for good */
static void (*end_held)(struct held *held);

static void *map(size_t size)
{
	void *found =
		REAL(mmap)(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return found == MAP_FAILED ? NULL : found;
}

void table_begin(void (*end)(struct held *held))
{
	struct root *made = map(sizeof(*made));

	if (!made)
		return;
	if (madvise(made, sizeof(*made), MADV_WIPEONFORK)) {
		munmap(made, sizeof(*made));
		return;
	}
	made->is_on = true;
	end_held = end;
	root = made;
}

bool table_is_on(void)
{
	return root && atomic_load_explicit(&root->is_on, memory_order_relaxed);
}

bool table_set_on(bool is_on)
{
	return root && atomic_exchange(&root->is_on, is_on);
}

/* ---- Entries */

static atomic_uintptr_t *entry_of(int fd)
{
	entry_page *page;

	if (!root || fd < 0 || fd >= NR_PAGES * PAGE_ENTRIES)
		return NULL;
	page = atomic_load_explicit(&root->pages[fd / PAGE_ENTRIES], memory_order_acquire);
	return page ? &(*page)[fd % PAGE_ENTRIES] : NULL;
}

static atomic_uintptr_t *make_entry(int fd)
{
	atomic_uintptr_t *entry = entry_of(fd);
	entry_page *page, *other = NULL;
	int end;

	if (entry || !root || fd < 0 || fd >= NR_PAGES * PAGE_ENTRIES)
		return entry;
	page = map(sizeof(*page));
	if (!page)
		return NULL;
	if (!atomic_compare_exchange_strong(&root->pages[fd / PAGE_ENTRIES], &other, page))
		munmap(page, sizeof(*page));
	end = root->end;
	while (end < (fd / PAGE_ENTRIES + 1) * PAGE_ENTRIES &&
	       !atomic_compare_exchange_weak(&root->end, &end,
					     (fd / PAGE_ENTRIES + 1) * PAGE_ENTRIES))
		;
	return entry_of(fd);
}

static struct held *held_of(uintptr_t entry)
{
	return entry & ENTRY_TAGS ? NULL : (struct held *)entry;
}

static void drop_entry(uintptr_t entry)
{
	struct held *held = held_of(entry);

	if (held)
		held_drop(held);
}

uintptr_t table_get(int fd)
{
	const atomic_uintptr_t *entry = entry_of(fd);

	return entry ? atomic_load_explicit(entry, memory_order_acquire) : 0;
}

bool table_set(int fd, uintptr_t value)
{
	atomic_uintptr_t *entry = value ? make_entry(fd) : entry_of(fd);

	if (!entry)
		return false;
	drop_entry(atomic_exchange(entry, value));
	return true;
}

void table_forget(int fd, uintptr_t value)
{
	atomic_uintptr_t *entry = entry_of(fd);
	struct held *held = entry ? held_of(atomic_exchange(entry, value)) : NULL;

	if (held)
		atomic_fetch_add(&held->nr_forgotten, 1);
}

bool table_replace(int fd, uintptr_t expected, uintptr_t value)
{
	atomic_uintptr_t *entry = make_entry(fd);
	const uintptr_t before = expected;

	if (!entry || !atomic_compare_exchange_strong(entry, &expected, value))
		return false;
	drop_entry(before);
	return true;
}

int table_end(void)
{
	return root ? root->end : 0;
}

/* ---- Held files */

static struct held *held_at(uint32_t number)
{
	struct held *block = root->blocks[(number - 1) / BLOCK_HELD];

	return &block[(number - 1) % BLOCK_HELD];
}

static void put_free(uint32_t number, struct held *held)
{
	unsigned long long first = root->free, next;

	do {
		held->next = (uint32_t)first;
		next = ((first >> 32) + 1) << 32 | number;
	} while (!atomic_compare_exchange_weak(&root->free, &first, next));
}

static struct held *take_free(void)
{
	unsigned long long first = root->free, next;
	struct held *held;

	do {
		if ((uint32_t)first == NOBODY)
			return NULL;
		held = held_at((uint32_t)first);
		next = ((first >> 32) + 1) << 32 | held->next;
	} while (!atomic_compare_exchange_weak(&root->free, &first, next));
	return held;
}

static bool add_block(void)
{
	struct held *block = map(BLOCK_HELD * sizeof(*block));
	const unsigned at = block ? atomic_fetch_add(&root->nr_blocks, 1) : NR_BLOCKS;

	if (at >= NR_BLOCKS)
		return false;
	root->blocks[at] = block;
	for (uint32_t i = 0; i < BLOCK_HELD; i++)
		put_free(at * BLOCK_HELD + i + 1, &block[i]);
	return true;
}

static uint32_t number_of(const struct held *held)
{
	for (uint32_t i = 0; i < NR_BLOCKS; i++) {
		const struct held *block = root->blocks[i];

		if (block && held >= block && held < block + BLOCK_HELD)
			return i * BLOCK_HELD + (uint32_t)(held - block) + 1;
	}
	return NOBODY;
}

struct held *held_new(void)
{
	struct held *held;

	if (!root)
		return NULL;
	while (!(held = take_free()))
		if (!add_block())
			return NULL;
	held->is_over = held->is_written = false;
	held->nr_forgotten = 0;
	held->file = NULL;
	held->users = 1;
	return held;
}

void held_keep(struct held *held)
{
	atomic_fetch_add(&held->users, 1);
}

static bool keep_if_used(struct held *held)
{
	unsigned users = held->users;

	while (users != 0)
		if (atomic_compare_exchange_weak(&held->users, &users, users + 1))
			return true;
	return false;
}

void held_drop(struct held *held)
{
	/* While it ends, nobody may take it: only the last user sees 1. */
	if (atomic_fetch_sub(&held->users, 1) != 1)
		return;
	end_held(held);
	put_free(number_of(held), held);
}

void held_drop_forgotten(struct held *held)
{
	for (unsigned nr = atomic_exchange(&held->nr_forgotten, 0); nr > 0; nr--)
		held_drop(held);
}

struct held *table_take(int fd)
{
	for (;;) {
		struct held *held = held_of(table_get(fd));

		if (!held)
			return NULL;
		if (!keep_if_used(held))
			continue;
		/* It may have become another one's before it was kept. */
		if ((uintptr_t)held == table_get(fd))
			return held;
		held_drop(held);
	}
}

void held_for_each(void (*call)(struct held *held, void *argument), void *argument)
{
	if (!root)
		return;
	for (uint32_t i = 0; i < NR_BLOCKS && root->blocks[i]; i++)
		for (uint32_t j = 0; j < BLOCK_HELD; j++) {
			struct held *held = &root->blocks[i][j];

			if (!keep_if_used(held))
				continue;
			call(held, argument);
			held_drop(held);
		}
}
