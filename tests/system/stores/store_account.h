/* SPDX-License-Identifier: BSD-3-Clause */
/* What the manager, the servers and the layers say is in use of a cluster's stores: for tests that look for leaks. */
#ifndef TESTS_STORE_ACCOUNT_H
#define TESTS_STORE_ACCOUNT_H

#include <stdint.h>

#include <afar/afar.h>

/* In bytes where it is not a number of something. Of all stores, and of all namespaces. */
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
