/* SPDX-License-Identifier: BSD-3-Clause */
/* The domains in use, in a tree by reach. The pool of extents and the progress threads use them. */
#include "server/memory/domains.h"

#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>

#include "base/error.h"

struct domains {
	struct fabric *fabrics[DOMAIN_FABRICS_MAX];
	unsigned nr_fabrics;
	pthread_mutex_t lock;
	void *by_reach;
};

static int compare(const void *a, const void *b)
{
	const struct domain *left = a, *right = b;

	if (left->reach.namespace != right->reach.namespace)
		return left->reach.namespace < right->reach.namespace ? -1 : 1;
	return (int)left->reach.may_write - (int)right->reach.may_write;
}

int domains_open(struct fabric *const *fabrics, unsigned nr_fabrics, struct domains **out)
{
	struct domains *domains = calloc(1, sizeof(*domains));

	if (!domains)
		return error_code(-ENOMEM);
	for (unsigned i = 0; i < nr_fabrics; i++)
		domains->fabrics[i] = fabrics[i];
	domains->nr_fabrics = nr_fabrics;
	pthread_mutex_init(&domains->lock, NULL);
	*out = domains;
	return 0;
}

void domains_close(struct domains *domains)
{
	if (!domains)
		return;
	pthread_mutex_destroy(&domains->lock);
	free(domains);
}

unsigned domains_nr_fabrics(const struct domains *domains)
{
	return domains->nr_fabrics;
}

static void domain_close(struct domain *domain)
{
	for (unsigned i = 0; i < DOMAIN_FABRICS_MAX && domain->on[i]; i++)
		fabric_domain_close(domain->on[i]);
	free(domain);
}

static int add(struct domains *domains, struct reach reach, struct domain **out)
{
	struct domain *domain = calloc(1, sizeof(*domain));
	int ret = 0;

	if (!domain)
		return error_code(-ENOMEM);
	domain->reach = reach;
	for (unsigned i = 0; i < domains->nr_fabrics && ret == 0; i++)
		ret = fabric_domain_open(domains->fabrics[i], &domain->on[i]);
	if (ret == 0 && !tsearch(domain, &domains->by_reach, compare))
		ret = error_code(-ENOMEM);
	if (ret == 0)
		*out = domain;
	else
		domain_close(domain);
	return ret;
}

/* Memory at `addr`, or that a pager has. */
struct registered {
	void *addr;
	struct fabric_pager *pager;
	uint64_t length;
	bool is_writable;
};

static int register_on_all(const struct domain *domain, const struct registered *memory,
			   struct fabric_memory on[DOMAIN_FABRICS_MAX])
{
	const unsigned access =
		FABRIC_REMOTE_READ |
		(domain->reach.may_write && memory->is_writable ? FABRIC_REMOTE_WRITE : 0);
	int ret;

	for (unsigned i = 0; i < DOMAIN_FABRICS_MAX && domain->on[i]; i++) {
		ret = memory->pager ? fabric_memory_register_paged(domain->on[i], memory->pager,
								   memory->length, access, &on[i])
				    : fabric_memory_register(domain->on[i], memory->addr,
							     memory->length, access, &on[i]);
		if (ret == 0)
			continue;
		while (i-- > 0)
			fabric_memory_deregister(&on[i]);
		return ret;
	}
	return 0;
}

int domain_register(const struct domain *domain, void *addr, size_t length, bool is_sealed,
		    struct fabric_memory on[DOMAIN_FABRICS_MAX])
{
	const struct registered memory = {
		.addr = addr, .length = length, .is_writable = !is_sealed};

	return register_on_all(domain, &memory, on);
}

int domain_register_paged(const struct domain *domain, struct fabric_pager *pager, uint64_t length,
			  struct fabric_memory on[DOMAIN_FABRICS_MAX])
{
	const struct registered memory = {.pager = pager, .length = length, .is_writable = true};

	return register_on_all(domain, &memory, on);
}

bool domain_deregister(const struct domain *domain, struct fabric_memory on[DOMAIN_FABRICS_MAX])
{
	bool is_ours = true;

	for (unsigned i = 0; i < DOMAIN_FABRICS_MAX && domain->on[i]; i++) {
		if (!fabric_memory_deregister(&on[i]))
			is_ours = false;
	}
	return is_ours;
}

int domains_get(struct domains *domains, struct reach reach, struct domain **out)
{
	const struct domain like = {.reach = reach};
	struct domain *const *found;
	int ret = 0;

	pthread_mutex_lock(&domains->lock);
	found = tfind(&like, &domains->by_reach, compare);
	if (found)
		*out = *found;
	else
		ret = add(domains, reach, out);
	if (ret == 0)
		(*out)->nr_users++;
	pthread_mutex_unlock(&domains->lock);
	return ret;
}

void domains_put(struct domains *domains, struct domain *domain)
{
	pthread_mutex_lock(&domains->lock);
	if (--domain->nr_users == 0) {
		tdelete(domain, &domains->by_reach, compare);
		domain_close(domain);
	}
	pthread_mutex_unlock(&domains->lock);
}
