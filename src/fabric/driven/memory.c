/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Domains and their keys, paged memory behind these, and memory that is lent. Called through the fabric seam, from any
 * thread, and by serve.c.
 */
#include "fabric/driven/driven.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"

/* ---- Domains */

int driven_domain_open(struct fabric *fabric, struct fabric_domain **out)
{
	struct driven_domain *domain = calloc(1, sizeof(*domain));

	if (!domain)
		return error_code(-ENOMEM);
	domain->base.fabric = fabric;
	pthread_rwlock_init(&domain->lock, NULL);
	*out = &domain->base;
	return 0;
}

void driven_domain_close(struct fabric_domain *base)
{
	struct driven_domain *domain = driven_container(base, struct driven_domain);

	pthread_rwlock_destroy(&domain->lock);
	free(domain);
}

const char *driven_find_pager(struct driven_domain *domain, const struct driven_ask *ask,
			      struct fabric_pager **out)
{
	const unsigned access =
		(ask->flags & DRIVEN_WRITE) != 0 ? FABRIC_REMOTE_WRITE : FABRIC_REMOTE_READ;
	const char *problem = NULL;
	const struct driven_paged *paged;
	const struct keyed *found;

	pthread_rwlock_rdlock(&domain->lock);
	found = key_book_find(&domain->keys, ask->key);
	paged = found ? caa_container_of(found, const struct driven_paged, keyed) : NULL;
	if (!paged)
		problem = "a key that it does not have, or that has ended";
	else if ((paged->access & access) == 0)
		problem = "an access that it does not have";
	else if (ask->offset > paged->length || ask->length > paged->length - ask->offset)
		problem = "bytes outside of what the key is for";
	else
		*out = paged->pager;
	pthread_rwlock_unlock(&domain->lock);
	return problem;
}

/* ---- Paged memory */

int driven_paged_register(struct fabric_domain *base, struct fabric_pager *pager, uint64_t length,
			  unsigned access, struct fabric_memory *out)
{
	struct driven_domain *domain = driven_container(base, struct driven_domain);
	struct driven_paged *paged = malloc(sizeof(*paged));
	int ret;

	*out = (struct fabric_memory){.domain = base};
	if (!paged)
		return error_code(-ENOMEM);
	*paged = (struct driven_paged){.pager = pager, .length = length, .access = access};
	pthread_rwlock_wrlock(&domain->lock);
	ret = key_book_add(&domain->keys, &paged->keyed);
	pthread_rwlock_unlock(&domain->lock);
	if (ret != 0) {
		free(paged);
		return error_code(ret);
	}
	out->handle = paged;
	out->key = paged->keyed.key;
	return 0;
}

static void deregister_paged(struct fabric_memory *memory)
{
	struct driven_domain *domain = driven_container(memory->domain, struct driven_domain);
	struct driven_paged *paged = memory->handle;

	pthread_rwlock_wrlock(&domain->lock);
	key_book_remove(&domain->keys, &paged->keyed);
	pthread_rwlock_unlock(&domain->lock);
	free(paged);
}

/* ---- Lent memory */

/* Peers can be lent memory of connecting ends alone. Memory for messages is copied, and needs no
 * registration. */
int driven_memory_register(struct fabric_domain *domain, void *addr, size_t length, unsigned access,
			   struct fabric_memory *out)
{
	struct driven_fabric *fabric = driven_container(domain->fabric, struct driven_fabric);
	struct driven_memory *memory;
	int ret;

	*out = (struct fabric_memory){.domain = domain};
	if ((access & (FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE)) == 0)
		return 0;
	if (domain != fabric->base.domain)
		return error_fail(-EOPNOTSUPP, "register memory with %s: it lends a pager's alone",
				  fabric->name);
	memory = malloc(sizeof(*memory));
	if (!memory)
		return error_code(-ENOMEM);
	memory->addr = addr;
	ret = fabric_memory_register(fabric->below->domain, addr, length, access, &memory->below);
	if (ret != 0) {
		free(memory);
		return ret;
	}
	out->handle = memory;
	out->descriptor = memory;
	return 0;
}

bool driven_memory_deregister(struct fabric_memory *memory)
{
	bool is_ours = true;

	if (memory->descriptor) {
		struct driven_memory *lent = memory->handle;

		is_ours = fabric_memory_deregister(&lent->below);
		free(lent);
	} else if (memory->handle) {
		deregister_paged(memory);
	}
	memory->handle = memory->descriptor = NULL;
	return is_ours;
}

int driven_lend(struct fabric *base, void *addr, size_t length)
{
	struct driven_fabric *fabric = driven_container(base, struct driven_fabric);
	int ret;

	if (fabric->nr_lent == DRIVEN_LENT_MAX)
		return error_code(-ENOSPC);
	ret = fabric_memory_register(fabric->below->domain, addr, length, FABRIC_LOCAL,
				     &fabric->lent[fabric->nr_lent].memory);
	if (ret != 0)
		return ret;
	fabric->lent[fabric->nr_lent].addr = addr;
	fabric->lent[fabric->nr_lent++].length = length;
	return 0;
}

bool driven_find_lent(const struct driven_fabric *fabric, const void *addr, uint64_t length,
		      void **descriptor)
{
	const uint8_t *begin = addr;

	for (unsigned i = 0; i < fabric->nr_lent; i++) {
		const uint8_t *lent = fabric->lent[i].addr;

		if (begin < lent || begin + length > lent + fabric->lent[i].length)
			continue;
		*descriptor = fabric->lent[i].memory.descriptor;
		return true;
	}
	return false;
}
