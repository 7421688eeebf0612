/* SPDX-License-Identifier: BSD-3-Clause */
/* The domains in use, in a tree by what they are for. The pool of extents and the progress threads use them. */
#include "server/domains.h"

#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>

#include "base/error.h"

struct domains {
	struct fabric *fabric;
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

int domains_open(struct fabric *fabric, struct domains **out)
{
	struct domains *domains = calloc(1, sizeof(*domains));

	if (!domains)
		return error_code(-ENOMEM);
	domains->fabric = fabric;
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

static int add(struct domains *domains, struct reach reach, struct domain **out)
{
	struct domain *domain = calloc(1, sizeof(*domain));
	int status;

	if (!domain)
		return error_code(-ENOMEM);
	domain->reach = reach;
	status = fabric_domain_open(domains->fabric, &domain->fabric);
	if (status != 0)
		goto out_free;
	if (!tsearch(domain, &domains->by_reach, compare)) {
		status = error_code(-ENOMEM);
		goto out_close;
	}
	*out = domain;
	return 0;

out_close:
	fabric_domain_close(domain->fabric);
out_free:
	free(domain);
	return status;
}

int domains_get(struct domains *domains, struct reach reach, struct domain **out)
{
	const struct domain like = {.reach = reach};
	struct domain *const *found;
	int status = 0;

	pthread_mutex_lock(&domains->lock);
	found = tfind(&like, &domains->by_reach, compare);
	if (found)
		*out = *found;
	else
		status = add(domains, reach, out);
	if (status == 0)
		(*out)->nr_users++;
	pthread_mutex_unlock(&domains->lock);
	return status;
}

void domains_put(struct domains *domains, struct domain *domain)
{
	pthread_mutex_lock(&domains->lock);
	if (--domain->nr_users == 0) {
		tdelete(domain, &domains->by_reach, compare);
		fabric_domain_close(domain->fabric);
		free(domain);
	}
	pthread_mutex_unlock(&domains->lock);
}
