/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <cmocka.h>
#include <urcu/compiler.h>

#include "fabric/sums.h"
#include "lib/fabric/paged_store.h"

static struct paged_store *store_of(struct fabric_pager *pager)
{
	return caa_container_of(pager, struct paged_store, pager);
}

static int take(struct fabric_pager *pager, struct fabric_paged *paged)
{
	struct paged_store *store = store_of(pager);
	struct page *page = &store->pages[store->nr_pages];

	assert_in_range(paged->length, 1, FABRIC_PAGED_MAX);
	assert_true(paged->offset <= PAGED_BYTES && paged->length <= PAGED_BYTES - paged->offset);
	assert_ptr_equal(paged->pager, pager);
	assert_true(!store->owner || paged->owner == store->owner);
	assert_int_equal(paged->is_moved_in_place, store->is_moved_in_place);
	if (store->take_status != 0 || paged->length > store->room) {
		store->nr_refused++;
		return store->take_status != 0 ? store->take_status : -EAGAIN;
	}
	assert_true(store->nr_pages < PAGED_STORE_PAGES);
	store->nr_pages++;
	store->room -= paged->length;
	page->is_lent = store->arena;
	page->memory = store->arena ? store->arena + paged->offset : allocate(paged->length);
	page->paged = paged;
	page->copy = *paged;
	paged->addr = page->memory;
	paged->sums = page->sums;
	paged->taken = page;
	return 0;
}

static void give_back(struct paged_store *store, struct page *page)
{
	if (!page->is_lent)
		free(page->memory);
	page->memory = NULL;
	store->room += page->copy.length;
}

static void make_sums(uint8_t *bytes, uint64_t length, uint32_t *sums)
{
	const struct iovec iov = {bytes, length};

	fabric_sums_make(&iov, length, sums);
}

/* The device keeps what has come, or brings what is kept. */
static int use_device(struct paged_store *store, struct page *page)
{
	const uint64_t length = page->copy.length;
	const uint64_t nr_sums = (length + CHECKSUM_BLOCK - 1) / CHECKSUM_BLOCK;
	uint8_t *stored = store->bytes + page->copy.offset;
	uint32_t sums[PAGED_STORE_SUMS_MAX];

	if (!page->copy.is_write) {
		memcpy(page->memory, stored, length);
		make_sums(stored, length, page->sums);
		page->sums[0] ^= store->lie;
		return 0;
	}
	make_sums(page->memory, length, sums);
	if (page->copy.is_checked && memcmp(sums, page->sums, nr_sums * sizeof(*sums)) != 0)
		return -EBADMSG;
	memcpy(stored, page->memory, length);
	return 0;
}

void paged_store_end(struct paged_store *store, unsigned index, int status)
{
	struct page *page = &store->pages[index];

	assert_true(index < store->nr_pages && page->has_begun && !page->has_ended);
	page->has_ended = true;
	if (status == 0)
		status = use_device(store, page);
	if (page->paged)
		fabric_paged_ended(page->paged, status);
	else
		give_back(store, page);
}

static void begin(struct fabric_pager *pager, struct fabric_paged *paged)
{
	struct paged_store *store = store_of(pager);
	struct page *page = paged->taken;

	assert_ptr_equal(page->paged, paged);
	assert_ptr_equal(page->memory, paged->addr);
	assert_false(page->has_begun);
	page->has_begun = true;
	if (!store->is_waiting)
		paged_store_end(store, (unsigned)(page - store->pages), store->prompt_status);
}

static void leave(struct fabric_pager *pager, struct fabric_paged *paged)
{
	struct paged_store *store = store_of(pager);
	struct page *page = paged->taken;

	assert_ptr_equal(page->paged, paged); /* it leaves once */
	page->paged = NULL;
	store->nr_left++;
	if (!page->has_begun || page->has_ended)
		give_back(store, page);
}

void paged_store_register(struct paged_store *store, struct fabric_domain *domain, unsigned access,
			  struct fabric_memory *out)
{
	assert_int_equal(
		fabric_memory_register_paged(domain, &store->pager, PAGED_BYTES, access, out), 0);
}

void paged_store_open(struct paged_store *store, struct fabric_domain *domain)
{
	store->pages = calloc(PAGED_STORE_PAGES, sizeof(*store->pages));
	assert_non_null(store->pages);
	store->pager = (struct fabric_pager){.take = take, .begin = begin, .leave = leave};
	store->room = UINT64_MAX / 2;
	store->bytes = allocate(PAGED_BYTES);
	fill(store->bytes, PAGED_BYTES, 2);
	paged_store_register(store, domain, FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE,
			     &store->paged);
	paged_store_register(store, domain, FABRIC_REMOTE_READ, &store->read_only);
}

void paged_store_close(struct paged_store *store)
{
	assert_int_equal(store->nr_left, store->nr_pages);
	for (unsigned i = 0; i < store->nr_pages; i++) {
		if (store->pages[i].memory)
			paged_store_end(store, i, 0);
		assert_null(store->pages[i].memory);
	}
	fabric_memory_deregister(&store->paged);
	fabric_memory_deregister(&store->read_only);
	free(store->bytes);
	free(store->pages);
}

bool paged_kind_writes(enum paged_kind kind)
{
	return kind != READ && kind != CHECKED_READ;
}

int paged_begin(struct fabric_endpoint *endpoint, enum paged_kind kind,
		const struct fabric_piece pieces[2], uint64_t offset, uint64_t key,
		uint64_t context)
{
	switch (kind) {
	case READ:
		return fabric_read(endpoint, pieces, 2, offset, key, context);
	case WRITE:
		return fabric_write(endpoint, pieces, 2, offset, key, context);
	case DURABLE:
		return fabric_paged_transfer(endpoint, FABRIC_PAGED_WRITE | FABRIC_PAGED_DURABLE,
					     pieces, 2, offset, key, context);
	case CHECKED_READ:
		return fabric_paged_transfer(endpoint, FABRIC_PAGED_CHECKED, pieces, 2, offset, key,
					     context);
	default:
		return fabric_paged_transfer(
			endpoint,
			FABRIC_PAGED_WRITE | FABRIC_PAGED_CHECKED |
				(kind == CHECKED_DURABLE ? FABRIC_PAGED_DURABLE : 0),
			pieces, 2, offset, key, context);
	}
}

void paged_expect_done(struct fabric_completion completion)
{
	assert_int_equal(completion.context, 7);
	assert_int_equal(completion.status, 0);
	assert_false(completion.is_alone);
}
