/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protection domains: a namespace's memory is registered in two, one to read it and one to read and write
 * it, and each data connection is in one. So a connection reaches what its session may reach and nothing
 * else, whichever keys it has come by; keys need not be secret, and can be shared by all of a namespace.
 * DESIGN: "who may do what".
 *
 * A server may be reached over several fabrics; a domain is one on each of them, so that memory and
 * connections meet whichever way the client takes. Domains are made when first used and closed after the
 * last use. Thread-safe.
 */
#ifndef SERVER_DOMAINS_H
#define SERVER_DOMAINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fabric.h"

#define DOMAIN_FABRICS_MAX 8U

/* What a domain is for. */
struct reach {
	uint64_t namespace;
	bool may_write;
};

struct domain {
	struct reach reach;
	struct fabric_domain *on[DOMAIN_FABRICS_MAX]; /* by the fabric's number */
	unsigned nr_users; /* registrations and connections; guarded by the lock of all */
};

struct domains;

/* For 1 to DOMAIN_FABRICS_MAX fabrics, which stay. -ENOMEM. */
int domains_open(struct fabric *const *fabrics, unsigned nr_fabrics, struct domains **out);
/* All have been put back. */
void domains_close(struct domains *domains);
unsigned domains_nr_fabrics(const struct domains *domains);

/* The domain for this reach, one more use of it. With a sentence: -ENOMEM, those of fabric_domain_open(). */
int domains_get(struct domains *domains, struct reach reach, struct domain **out);
/* Registers memory in the domain, on all its fabrics or none, for what it is for; what is sealed, to be read
 * alone. Errors as fabric_memory_register(). */
int domain_register(const struct domain *domain, void *addr, size_t length, bool is_sealed,
		    struct fabric_memory on[DOMAIN_FABRICS_MAX]);
/* Whether the memory may be used again, as fabric_memory_deregister(). */
bool domain_deregister(const struct domain *domain, struct fabric_memory on[DOMAIN_FABRICS_MAX]);

/* What was registered or accepted in it with this use is closed. */
void domains_put(struct domains *domains, struct domain *domain);

#endif
