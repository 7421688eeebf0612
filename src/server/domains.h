/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protection domains: a namespace's memory is registered in two, one to read it and one to read and write
 * it, and each data connection is in one. So a connection reaches what its session may reach and nothing
 * else, whichever keys it has come by; keys need not be secret, and can be shared by all of a namespace.
 * DESIGN: "who may do what".
 *
 * Domains are made when first used and closed after the last use. Thread-safe.
 */
#ifndef SERVER_DOMAINS_H
#define SERVER_DOMAINS_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"

/* What a domain is for. */
struct reach {
	uint64_t namespace;
	bool may_write;
};

struct domain {
	struct reach reach;
	struct fabric_domain *fabric;
	unsigned nr_users; /* registrations and connections; guarded by the lock of all */
};

struct domains;

int domains_open(struct fabric *fabric, struct domains **out);
/* All have been put back. */
void domains_close(struct domains *domains);

/* The domain for this reach, one more use of it. With a sentence: -ENOMEM, those of fabric_domain_open(). */
int domains_get(struct domains *domains, struct reach reach, struct domain **out);
/* What was registered or accepted in it with this use is closed. */
void domains_put(struct domains *domains, struct domain *domain);

#endif
