/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pager for tests of paged memory, and the device behind it, which keeps bytes; and the transfers that there are. The test says when a transfer ends, and how.
 * A failure in here fails the test.
 */
#ifndef TESTS_PAGED_STORE_H
#define TESTS_PAGED_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/checksum.h"
#include "fabric/paged.h"
#include "lib/fabric/fabric_fixture.h"

#define PAGED_BYTES	     (4 * MIB)
#define PAGED_STORE_PAGES    512U /* transfers of one test */
#define PAGED_STORE_SUMS_MAX (FABRIC_PAGED_MAX / CHECKSUM_BLOCK)

/* A transfer that it has taken. */
struct page {
	struct fabric_paged *paged; /* NULL: it has left */
	struct fabric_paged copy;   /* of it, when it was taken */
	uint8_t *memory;	    /* NULL: given back */
	uint32_t sums[PAGED_STORE_SUMS_MAX];
	bool is_lent, has_begun, has_ended;
};

struct paged_store {
	struct fabric_pager pager;
	struct fabric_memory paged, read_only;
	uint8_t *bytes; /* PAGED_BYTES that it keeps */
	uint8_t *arena; /* so many, lent, the test's; NULL: each transfer has memory of its own */
	struct page *pages;
	unsigned nr_pages, nr_left, nr_refused;
	uint64_t room;	   /* bytes that may be taken */
	int take_status;   /* of transfers that are to be taken */
	bool is_waiting;   /* transfers end when the test says so; else when they begin, … */
	int prompt_status; /* … with this */
	uint32_t lie;	   /* of the first block's sum */
	const void *owner; /* of each transfer; NULL: not looked at */
	bool is_moved_in_place;
};

/* Registers its bytes in a domain: to read and write, and to read alone. */
void paged_store_open(struct paged_store *store, struct fabric_domain *domain);
/* Registers its bytes once more; the caller deregisters `*out`. */
void paged_store_register(struct paged_store *store, struct fabric_domain *domain, unsigned access,
			  struct fabric_memory *out);
/* Every transfer has left by now, because every endpoint is closed. */
void paged_store_close(struct paged_store *store);

enum paged_kind { READ, WRITE, DURABLE, CHECKED_READ, CHECKED_WRITE, CHECKED_DURABLE, NR_KINDS };

bool paged_kind_writes(enum paged_kind kind);
/* Begins a transfer of two pieces. Returns as the fabric does. */
int paged_begin(struct fabric_endpoint *endpoint, enum paged_kind kind,
		const struct fabric_piece pieces[2], uint64_t offset, uint64_t key,
		uint64_t context);
/* The completion of a transfer that was begun with the context 7. */
void paged_expect_done(struct fabric_completion completion);

/* The device is done with a transfer. */
void paged_store_end(struct paged_store *store, unsigned index, int status);

#endif
