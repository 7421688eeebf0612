/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of memory.c for the other files of this folder: domains, and what is registered in them
 * and lent. */
#ifndef FABRIC_LOCAL_MEMORY_H
#define FABRIC_LOCAL_MEMORY_H

#include "fabric/keys.h"
#include "fabric/local/local.h"
#include "fabric/paged.h"

struct local_domain {
	struct fabric_domain base;
	pthread_mutex_t lock;
	struct key_book registrations;
};

struct local_registration {
	struct keyed keyed; /* first */
	uint64_t length;
	unsigned access;
	struct fabric_pager *pager; /* that has it; NULL: it is there, and … */
	int fd;			    /* … this is its owner's, of the whole memory */
	bool was_lent;
	struct cds_list_head loans; /* of local_loan.of_registration */
};

/* A loan: an endpoint's peer has a registration's memory. The domain's lock guards both lists. */
struct local_loan {
	struct cds_list_head of_registration;
	struct cds_list_head of_endpoint; /* in local_endpoint.loans */
	struct local_endpoint *endpoint;
};

/* Memory that a pager has. */
struct local_paged_memory {
	struct fabric_pager *pager;
	uint64_t length;
	unsigned access;
};

int local_domain_open(struct fabric *fabric, struct fabric_domain **out);
void local_domain_close(struct fabric_domain *domain);
int local_memory_register(struct fabric_domain *domain, void *addr, size_t length, unsigned access,
			  struct fabric_memory *out);
int local_memory_register_paged(struct fabric_domain *domain, struct fabric_pager *pager,
				uint64_t length, unsigned access, struct fabric_memory *out);
/* False: no pager has memory with this key, now. */
bool local_memory_find_paged(struct local_domain *domain, uint64_t key,
			     struct local_paged_memory *out);
bool local_memory_deregister(struct fabric_memory *memory);
/* Gives the endpoint's peer the memory that it asks for. False: it may not have it, or does not
 * take it. */
bool local_memory_lend(struct local_endpoint *endpoint, uint64_t key);
/* Drops all loans to the endpoint's peer: revoking a key no longer tells it. */
void local_memory_forget(struct local_endpoint *endpoint);

#endif
