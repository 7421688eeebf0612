/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protection domains. A namespace's memory is registered in two, one to read it, and one to read
 * and write it. Each data connection is in one domain. So a connection reaches what its session may
 * reach, and nothing else, whichever keys it has come by. Keys need not be secret, and all sessions
 * of a namespace can share them. DESIGN: "who may do what".
 *
 * A server may be reached over several fabrics. A domain has a part on each of them, so that memory
 * and connections meet whichever way the client takes. A domain is made when it is first used, and
 * closed after its last use. Thread-safe.
 */
#ifndef SERVER_DOMAINS_H
#define SERVER_DOMAINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/paged.h"

#define DOMAIN_FABRICS_MAX 8U

/* The memory that a domain gives access to. */
struct reach {
	uint64_t namespace;
	bool may_write;
};

struct domain {
	struct reach reach;
	struct fabric_domain *on[DOMAIN_FABRICS_MAX]; /* by the fabric's number */
	unsigned nr_users; /* registrations and connections; guarded by the lock of `domains` */
};

struct domains;

/* Opens domains over 1 to DOMAIN_FABRICS_MAX fabrics, which must outlive them. -ENOMEM. */
int domains_open(struct fabric *const *fabrics, unsigned nr_fabrics, struct domains **out);
/* Call it when all domains have been put back. */
void domains_close(struct domains *domains);
unsigned domains_nr_fabrics(const struct domains *domains);

/* Finds or makes the domain for this reach, and counts one more use of it. With a sentence:
 * -ENOMEM, those of fabric_domain_open(). */
int domains_get(struct domains *domains, struct reach reach, struct domain **out);
/* Registers memory in the domain, on all its fabrics or none, with the access that the domain is
 * for. Sealed memory is registered for reading alone. Errors are those of
 * fabric_memory_register(). */
int domain_register(const struct domain *domain, void *addr, size_t length, bool is_sealed,
		    struct fabric_memory on[DOMAIN_FABRICS_MAX]);
/* Registers memory that a pager brings and keeps, on all fabrics of the domain or none. Errors are
 * those of fabric_memory_register_paged(). */
int domain_register_paged(const struct domain *domain, struct fabric_pager *pager, uint64_t length,
			  struct fabric_memory on[DOMAIN_FABRICS_MAX]);
/* Deregisters memory. False: never use the memory again (fabric_memory_deregister()). */
bool domain_deregister(const struct domain *domain, struct fabric_memory on[DOMAIN_FABRICS_MAX]);

/* Gives one use back. Close first what was registered or accepted in the domain with it. */
void domains_put(struct domains *domains, struct domain *domain);

#endif
