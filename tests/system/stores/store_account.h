/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests that look for leaks: the manager, the servers and the layers say what is in use of a cluster's stores. */
#ifndef TESTS_STORE_ACCOUNT_H
#define TESTS_STORE_ACCOUNT_H

#include <stdint.h>

#include <afar/afar.h>

/* Sums over all stores, and over all namespaces. In bytes where it is not a number of something. */
struct account {
	uint64_t reserved, allocated, nr_regions; /* of the namespaces */
	uint64_t granted, releasing, nr_orphans;  /* of the stores, as the manager knows */
	uint64_t reported;			  /* granted, as the servers know */
	uint64_t used; /* in blocks that hold something, as the layers know */
	unsigned nr_stores;
};

/* At most four namespaces. A store that is away reports UINT64_MAX. Fails the test if it is not told. */
void account_take(struct afar_session *session, struct account *out);

#endif
