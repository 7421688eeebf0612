/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * References at the end that asks: where the peer keeps pages that we have read, so that we find them again
 * without it. Each answer may bring one. Called by hear.c, ask.c, endpoint.c and mapping.c; owned by
 * an endpoint, from its first paged key on.
 *
 * The directory has sets of four entries. A new one takes the place of the least used one of its set, and the others are
 * worth half of their uses then. The endpoint's thread alone changes it. Others look at it in an epoch section, inside the
 * endpoint's gate: an entry is read between two looks at its version.
 *
 * A reference is good if four things hold after the copy. The page's guard shows the generation. The process that
 * shows the page lives. It has not ended the connection, nor any key of ours that we have not heard of. The life is
 * the owner's robust lock. The kernel breaks it before it closes the dead process's files, so before another
 * process can open the device and change what is on it.
 */
#include "fabric/local/references.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/copy.h"
#include "fabric/local/exchange.h"

#define WAYS	 4U
#define SETS	 65536U /* for 1 GiB */
#define READ_MAX (UINT64_C(64) << 10)

struct reference {
	atomic_uint version; /* odd while it is changed */
	atomic_uint place;
	_Atomic uint64_t key, page, generation; /* generation 0: none */
	atomic_uint nr_uses;
};

#define DIRECTORY_BYTES ((size_t)SETS * WAYS * sizeof(struct reference)) /* 10 MiB */

struct local_references {
	struct fabric_pages base;
	struct local_exchange *exchange; /* the endpoint's */
	const atomic_uint
		*_Atomic life; /* NULL: nothing has been shown yet, and there is no directory */
	const uint8_t *_Atomic slabs[FABRIC_SLABS_MAX];
	struct reference *directory;
};

/* ---- What the peer shows */

/* NULL: it is not what it should be, or somebody could make it shorter. */
static const void *map(int fd, uint64_t length)
{
	const int seals = fcntl(fd, F_GET_SEALS);
	struct stat file;
	void *memory;

	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &file) != 0 ||
	    file.st_size != (off_t)length)
		return NULL;
	memory = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, length, MADV_DONTFORK);
	madvise(memory, length, MADV_DONTDUMP);
	return memory;
}

bool local_references_take_life(struct local_references *references, int fd)
{
	const atomic_uint *life;
	void *directory;

	if (references->life)
		return false;
	directory = mmap(NULL, DIRECTORY_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (directory == MAP_FAILED)
		return false;
	/* A few references take little memory. */
	madvise(directory, DIRECTORY_BYTES, MADV_NOHUGEPAGE);
	life = map(fd, LOCAL_LIFE_BYTES);
	if (!life) {
		munmap(directory, DIRECTORY_BYTES);
		return false;
	}
	references->directory = directory;
	atomic_store_explicit(&references->life, life, memory_order_release);
	return true;
}

bool local_references_take_slab(struct local_references *references,
				const struct local_message *message, int fd)
{
	const uint8_t *slab, *old;

	if (!references->life || message->key >= FABRIC_SLABS_MAX ||
	    message->length != FABRIC_SLAB_BYTES)
		return false;
	slab = map(fd, FABRIC_SLAB_BYTES);
	if (!slab)
		return false;
	old = atomic_exchange(&references->slabs[message->key], slab);
	if (!old)
		return true;
	epoch_wait();
	munmap((void *)old, FABRIC_SLAB_BYTES);
	return true;
}

/* ---- The directory */

static struct reference *set_of(const struct local_references *references, uint64_t key,
				uint64_t page)
{
	uint64_t hash = (key ^ page * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93);

	return &references->directory[(size_t)((hash ^ hash >> 32) % SETS) * WAYS];
}

static uint64_t word_of(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static bool is_for(const struct reference *reference, uint64_t key, uint64_t page)
{
	return word_of(&reference->page) == page && word_of(&reference->key) == key;
}

/* Any thread. */
static struct reference *find(const struct local_references *references, uint64_t key,
			      uint64_t page, struct local_page_reference *out)
{
	struct reference *reference = set_of(references, key, page);

	for (unsigned i = 0; i < WAYS; i++, reference++) {
		unsigned version = atomic_load_explicit(&reference->version, memory_order_acquire);

		if (version % 2 != 0 || !is_for(reference, key, page))
			continue;
		out->generation = word_of(&reference->generation);
		out->place = atomic_load_explicit(&reference->place, memory_order_relaxed);
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load_explicit(&reference->version, memory_order_relaxed) == version)
			return reference;
	}
	return NULL;
}

/* The one of this page, or the least used one. */
static struct reference *choose(const struct local_references *references, uint64_t key,
				uint64_t page)
{
	struct reference *set = set_of(references, key, page), *least = set;

	for (unsigned i = 0; i < WAYS; i++) {
		if (word_of(&set[i].generation) != 0 && is_for(&set[i], key, page))
			return &set[i];
		if (atomic_load_explicit(&set[i].nr_uses, memory_order_relaxed) <
		    atomic_load_explicit(&least->nr_uses, memory_order_relaxed))
			least = &set[i];
	}
	for (unsigned i = 0; i < WAYS; i++)
		atomic_store_explicit(&set[i].nr_uses,
				      atomic_load_explicit(&set[i].nr_uses, memory_order_relaxed) /
					      2,
				      memory_order_relaxed);
	return least;
}

bool local_references_note(struct local_references *references, uint64_t key, uint64_t page,
			   const struct local_page_reference *from)
{
	struct reference *reference;
	unsigned version;

	if (from->generation == 0 || !references->life)
		return true;
	if (from->place / FABRIC_SLAB_PAGES >= FABRIC_SLABS_MAX)
		return false;
	reference = choose(references, key, page);
	version = atomic_load_explicit(&reference->version, memory_order_relaxed);
	atomic_store_explicit(&reference->version, version + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&reference->place, from->place, memory_order_relaxed);
	atomic_store_explicit(&reference->key, key, memory_order_relaxed);
	atomic_store_explicit(&reference->page, page, memory_order_relaxed);
	atomic_store_explicit(&reference->generation, from->generation, memory_order_relaxed);
	atomic_store_explicit(&reference->nr_uses, 1, memory_order_relaxed);
	atomic_store_explicit(&reference->version, version + 2, memory_order_release);
	return true;
}

/* ---- Reading */

/* The peer hears of it with its next look at our requests. Some may be lost. */
static void tell_use(struct local_references *references, const struct local_page_reference *used)
{
	struct local_exchange *exchange = references->exchange;
	const unsigned number =
		atomic_fetch_add_explicit(&exchange->nr_used, 1, memory_order_relaxed);

	atomic_store_explicit(&exchange->used[number % LOCAL_USED_MAX],
			      (uint64_t)used->place << 32 | (uint32_t)used->generation,
			      memory_order_relaxed);
}

/* Copies bytes of one page. */
static bool read_page(struct local_references *references, uint64_t key, uint64_t page,
		      uint64_t skip, uint8_t *to, uint64_t length)
{
	struct local_page_reference found;
	struct reference *reference = find(references, key, page, &found);
	const struct page_guard *guards;
	const uint8_t *slab;

	if (!reference || found.generation == 0)
		return false;
	slab = atomic_load_explicit(&references->slabs[found.place / FABRIC_SLAB_PAGES],
				    memory_order_acquire);
	if (!slab)
		return false;
	guards = (const struct page_guard *)(const void *)(slab +
							   (size_t)FABRIC_SLAB_PAGES * FABRIC_PAGE);
	guards += found.place % FABRIC_SLAB_PAGES;
	if (!page_guard_begin(guards, found.generation))
		return false;
	copy_memory(to, slab + (size_t)(found.place % FABRIC_SLAB_PAGES) * FABRIC_PAGE + skip,
		    length);
	if (!page_guard_end(guards, found.generation))
		return false;
	atomic_store_explicit(&reference->nr_uses,
			      atomic_load_explicit(&reference->nr_uses, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	tell_use(references, &found);
	return true;
}

static bool lives(const atomic_uint *life)
{
	return (atomic_load_explicit(life, memory_order_acquire) & FUTEX_TID_MASK) != 0;
}

bool local_references_read(struct local_references *references, uint64_t key, uint64_t offset,
			   uint8_t *to, uint64_t length)
{
	const atomic_uint *life = atomic_load_explicit(&references->life, memory_order_acquire);

	if (!life || length > READ_MAX)
		return false;
	while (length > 0) {
		const uint64_t skip = offset % FABRIC_PAGE;
		uint64_t part = FABRIC_PAGE - skip;

		if (part > length)
			part = length;
		if (!read_page(references, key, offset / FABRIC_PAGE, skip, to, part))
			return false;
		offset += part;
		to += part;
		length -= part;
	}
	return lives(life);
}

static bool read_shown(struct fabric_pages *pages, uint64_t key, uint64_t remote, void *to,
		       uint64_t length)
{
	return local_references_read(local_container(pages, struct local_references), key, remote,
				     to, length);
}

/* ---- Opening and closing */

struct local_references *local_references_open(struct local_exchange *exchange)
{
	struct local_references *references = calloc(1, sizeof(*references));

	if (!references)
		return NULL;
	references->base.read = read_shown;
	references->exchange = exchange;
	return references;
}

void local_references_close(struct local_references *references)
{
	if (!references)
		return;
	for (uint32_t i = 0; i < FABRIC_SLABS_MAX; i++) {
		if (references->slabs[i])
			munmap((void *)references->slabs[i], FABRIC_SLAB_BYTES);
	}
	if (references->life) {
		munmap((void *)references->life, LOCAL_LIFE_BYTES);
		munmap(references->directory, DIRECTORY_BYTES);
	}
	free(references);
}

struct fabric_pages *local_references_pages(struct local_references *references)
{
	return references ? &references->base : NULL;
}
