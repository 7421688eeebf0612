/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Domains and the memory registered in them. A key is 64 random bits that mean something in one domain.
 * Registering and deregistering come from any thread, lending from those of the endpoints; the domain's lock
 * orders them. It is never taken while a transfer is done.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/shared.h"
#include "fabric/local/exchange.h"
#include "fabric/local/memory.h"

int local_domain_open(struct fabric *fabric, struct fabric_domain **out)
{
	struct local_domain *domain = calloc(1, sizeof(*domain));

	if (!domain)
		return error_code(-ENOMEM);
	domain->base.fabric = fabric;
	pthread_mutex_init(&domain->lock, NULL);
	*out = &domain->base;
	return 0;
}

void local_domain_close(struct fabric_domain *base)
{
	struct local_domain *domain = local_container(base, struct local_domain);

	pthread_mutex_destroy(&domain->lock);
	free(domain);
}

/* ---- Registering */

/* Enters a copy. */
static int enter(struct local_domain *domain, const struct local_registration *copy,
		 struct fabric_memory *out)
{
	struct local_registration *registration = malloc(sizeof(*registration));
	int ret;

	if (!registration)
		return error_code(-ENOMEM);
	*registration = *copy;
	CDS_INIT_LIST_HEAD(&registration->loans);
	pthread_mutex_lock(&domain->lock);
	ret = key_book_add(&domain->registrations, &registration->keyed);
	pthread_mutex_unlock(&domain->lock);
	if (ret != 0) {
		free(registration);
		return error_code(ret);
	}
	out->handle = registration;
	out->key = registration->keyed.key;
	return 0;
}

static unsigned access_of_peers(unsigned access)
{
	return access & (FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE);
}

int local_memory_register(struct fabric_domain *domain, void *addr, size_t length, unsigned access,
			  struct fabric_memory *out)
{
	struct local_registration registration = {.length = length,
						  .access = access_of_peers(access)};

	*out = (struct fabric_memory){.domain = domain};
	if (registration.access == 0)
		return 0;
	/* A peer that gets a descriptor gets all memory behind it. */
	registration.fd = shared_descriptor(addr, length);
	if (registration.fd < 0)
		return error_fail(-EOPNOTSUPP,
				  "lend %zu bytes on this machine: they are not a piece of shared "
				  "memory, and all of it; take them from shared_map()",
				  length);
	return enter(local_container(domain, struct local_domain), &registration, out);
}

int local_memory_register_paged(struct fabric_domain *domain, struct fabric_pager *pager,
				uint64_t length, unsigned access, struct fabric_memory *out)
{
	const struct local_registration registration = {
		.pager = pager, .length = length, .access = access_of_peers(access), .fd = -1};

	*out = (struct fabric_memory){.domain = domain};
	return registration.access == 0
		       ? 0
		       : enter(local_container(domain, struct local_domain), &registration, out);
}

/* ---- Lending, and taking back: with the lock held */

static struct local_registration *find(struct local_domain *domain, uint64_t key)
{
	struct keyed *keyed = key_book_find(&domain->registrations, key);

	return keyed ? caa_container_of(keyed, struct local_registration, keyed) : NULL;
}

bool local_memory_find_paged(struct local_domain *domain, uint64_t key,
			     struct local_paged_memory *out)
{
	const struct local_registration *registration;
	bool is_found;

	pthread_mutex_lock(&domain->lock);
	registration = find(domain, key);
	is_found = registration && registration->pager;
	if (is_found)
		*out = (struct local_paged_memory){registration->pager, registration->length,
						   registration->access};
	pthread_mutex_unlock(&domain->lock);
	return is_found;
}

static bool has_loan(const struct local_endpoint *endpoint,
		     const struct local_registration *registration)
{
	const struct local_loan *loan;

	cds_list_for_each_entry (loan, &registration->loans, of_registration) {
		if (loan->endpoint == endpoint)
			return true;
	}
	return false;
}

static void end_loan(struct local_loan *loan)
{
	cds_list_del(&loan->of_registration);
	cds_list_del(&loan->of_endpoint);
	free(loan);
}

/* A descriptor for reading alone. The mode of the one we have cannot be changed: it is opened anew. */
static int open_for_reading(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static bool hand_over(const struct local_endpoint *endpoint,
		      const struct local_registration *registration)
{
	struct local_message message = local_talk_message(LOCAL_LEND, registration->keyed.key);
	bool is_sent, may_write = (registration->access & FABRIC_REMOTE_WRITE) != 0;
	int fd = may_write ? registration->fd : open_for_reading(registration->fd);

	if (fd < 0)
		return false;
	message.length = registration->length;
	message.access = (uint8_t)registration->access;
	is_sent = local_talk_say(endpoint->fd, &message, fd);
	if (!may_write)
		close(fd);
	return is_sent;
}

/* The peer gets the memory itself, or is told of its pager. */
static bool give(struct local_endpoint *endpoint, struct local_registration *registration)
{
	struct local_message told = local_talk_message(LOCAL_PAGED, registration->keyed.key);

	if (!registration->pager) {
		registration->was_lent = true;
		return shared_keep(registration->fd) && hand_over(endpoint, registration);
	}
	told.length = registration->length;
	told.access = (uint8_t)registration->access;
	return local_queue_of(endpoint)->paged->hand_over(endpoint, &told);
}

static bool lend(struct local_endpoint *endpoint, struct local_registration *registration)
{
	struct local_loan *loan = malloc(sizeof(*loan));

	if (!loan)
		return false;
	if (!give(endpoint, registration)) {
		free(loan);
		return false;
	}
	loan->endpoint = endpoint;
	cds_list_add(&loan->of_registration, &registration->loans);
	cds_list_add(&loan->of_endpoint, &endpoint->loans);
	return true;
}

bool local_memory_lend(struct local_endpoint *endpoint, uint64_t key)
{
	struct local_domain *domain = endpoint->domain;
	struct local_registration *registration;
	bool is_lent = false;

	pthread_mutex_lock(&domain->lock);
	registration = find(domain, key);
	if (registration && !has_loan(endpoint, registration))
		is_lent = lend(endpoint, registration);
	pthread_mutex_unlock(&domain->lock);
	return is_lent;
}

void local_memory_forget(struct local_endpoint *endpoint)
{
	struct local_loan *loan, *next;

	pthread_mutex_lock(&endpoint->domain->lock);
	cds_list_for_each_entry_safe (loan, next, &endpoint->loans, of_endpoint)
		end_loan(loan);
	pthread_mutex_unlock(&endpoint->domain->lock);
}

/* Sends the message first, then counts it: who sees the count finds the message. Ends the
 * connection of a peer that has left so much unheard that there is no room. The endpoint's own
 * thread learns of that from the socket. */
static void revoke_from(struct local_endpoint *endpoint, uint64_t key)
{
	const struct local_message message = local_talk_message(LOCAL_REVOKE, key);

	if (local_talk_say(endpoint->fd, &message, -1)) {
		endpoint->nr_revoked_told++;
		atomic_store(&endpoint->mine->nr_revoked, endpoint->nr_revoked_told);
		return;
	}
	atomic_store(&endpoint->mine->nr_revoked, LOCAL_ENDED);
	shutdown(endpoint->fd, SHUT_RDWR);
}

bool local_memory_deregister(struct fabric_memory *memory)
{
	struct local_domain *domain = local_container(memory->domain, struct local_domain);
	struct local_registration *registration = memory->handle;
	struct local_loan *loan, *next;
	bool was_lent;

	if (!registration)
		return true;
	pthread_mutex_lock(&domain->lock);
	key_book_remove(&domain->registrations, &registration->keyed);
	cds_list_for_each_entry_safe (loan, next, &registration->loans, of_registration) {
		revoke_from(loan->endpoint, registration->keyed.key);
		end_loan(loan);
	}
	was_lent = registration->was_lent;
	pthread_mutex_unlock(&domain->lock);
	free(registration);
	memory->handle = NULL;
	return !was_lent;
}
