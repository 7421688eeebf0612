/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Domains and the memory registered in them. A key is 64 random bits that mean something in one domain.
 * Registering and deregistering come from any thread. Looking up comes from the threads of the
 * endpoints, which take copies: a transfer that has begun never refers to a registration.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fabric/tcp/tcp.h"

int tcp_domain_open(struct fabric *fabric, struct fabric_domain **out)
{
	struct tcp_domain *domain = calloc(1, sizeof(*domain));

	if (!domain)
		return error_code(-ENOMEM);
	domain->base.fabric = fabric;
	pthread_rwlock_init(&domain->lock, NULL);
	*out = &domain->base;
	return 0;
}

void tcp_domain_close(struct fabric_domain *base)
{
	struct tcp_domain *domain = tcp_container(base, struct tcp_domain);

	pthread_rwlock_destroy(&domain->lock);
	free(domain);
}

/* ---- Registering */

/* Enters a copy. */
static int enter(struct tcp_domain *domain, const struct tcp_registration *copy,
		 struct fabric_memory *out)
{
	struct tcp_registration *registration = malloc(sizeof(*registration));
	int ret;

	if (!registration)
		return error_code(-ENOMEM);
	*registration = *copy;
	pthread_rwlock_wrlock(&domain->lock);
	ret = key_book_add(&domain->registrations, &registration->keyed);
	pthread_rwlock_unlock(&domain->lock);
	if (ret != 0) {
		free(registration);
		return error_code(ret);
	}
	out->handle = registration;
	out->key = registration->keyed.key;
	return 0;
}

static bool is_for_peers(unsigned access)
{
	return (access & (FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE)) != 0;
}

int tcp_memory_register(struct fabric_domain *domain, void *addr, size_t length, unsigned access,
			struct fabric_memory *out)
{
	const struct tcp_registration registration = {
		.addr = addr, .length = length, .access = access};

	*out = (struct fabric_memory){.domain = domain};
	return is_for_peers(access)
		       ? enter(tcp_container(domain, struct tcp_domain), &registration, out)
		       : 0;
}

int tcp_memory_register_paged(struct fabric_domain *domain, struct fabric_pager *pager,
			      uint64_t length, unsigned access, struct fabric_memory *out)
{
	const struct tcp_registration registration = {
		.pager = pager, .length = length, .paged_access = access};

	*out = (struct fabric_memory){.domain = domain};
	return is_for_peers(access)
		       ? enter(tcp_container(domain, struct tcp_domain), &registration, out)
		       : 0;
}

/* A transfer that a peer has begun goes on after this: only closing its endpoint ends it. */
bool tcp_memory_deregister(struct fabric_memory *memory)
{
	struct tcp_domain *domain = tcp_container(memory->domain, struct tcp_domain);
	struct tcp_registration *registration = memory->handle;

	if (!registration)
		return true;
	pthread_rwlock_wrlock(&domain->lock);
	key_book_remove(&domain->registrations, &registration->keyed);
	pthread_rwlock_unlock(&domain->lock);
	/* Last: copies that are made from now on are not of this one. */
	atomic_fetch_add(&domain->generation, 1);
	free(registration);
	memory->handle = NULL;
	return true;
}

/* ---- Looking up */

/* A copy of the registration; its key is 0 when there is none. */
static struct tcp_registration *look_up(struct tcp_domain *domain, struct tcp_known *known,
					uint64_t key)
{
	struct tcp_registration *copy = &known->registrations[key % TCP_KNOWN];
	const struct keyed *found;
	/* First: what is taken away while we look is stale by the next time. */
	unsigned long generation = atomic_load(&domain->generation);

	if (generation != known->generation) {
		memset(known, 0, sizeof(*known));
		known->generation = generation;
	}
	if (copy->keyed.key == key)
		return copy;
	*copy = (struct tcp_registration){0};
	pthread_rwlock_rdlock(&domain->lock);
	found = key_book_find(&domain->registrations, key);
	if (found)
		*copy = *caa_container_of(found, const struct tcp_registration, keyed);
	pthread_rwlock_unlock(&domain->lock);
	return copy;
}

static bool is_inside(const struct tcp_registration *registration, uint64_t offset, uint64_t length)
{
	uint64_t end;

	return !__builtin_add_overflow(offset, length, &end) && end <= registration->length;
}

uint8_t *tcp_memory_find(struct tcp_domain *domain, struct tcp_known *known, uint64_t key,
			 uint64_t offset, uint64_t length, unsigned access)
{
	const struct tcp_registration *registration = look_up(domain, known, key);

	if (registration->keyed.key == 0 || (registration->access & access) != access ||
	    !is_inside(registration, offset, length))
		return NULL;
	return registration->addr + offset;
}

struct fabric_pager *tcp_memory_find_pager(struct tcp_domain *domain, struct tcp_known *known,
					   uint64_t key, uint64_t offset, uint64_t length,
					   unsigned access)
{
	const struct tcp_registration *registration = look_up(domain, known, key);

	if (registration->keyed.key == 0 || (registration->paged_access & access) != access ||
	    !is_inside(registration, offset, length))
		return NULL;
	return registration->pager;
}
