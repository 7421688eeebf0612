/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of extents: one that lets read, and one that lets write, made when somebody first asks. */
#include <afar/error.h>

#include "base/error.h"
#include "server/memory/extent_book.h"

void extent_keys_end(struct extent_pool *pool, struct extent *extent)
{
	for (int i = 0; i < NR_KEYS; i++) {
		if (!extent->keys[i].domain)
			continue;
		if (!domain_deregister(extent->keys[i].domain, extent->keys[i].on))
			extent->was_lent = true;
		domains_put(pool->options.domains, extent->keys[i].domain);
		extent->keys[i].domain = NULL;
	}
}

int extent_key_register(struct extent_pool *pool, struct extent *extent, struct reach reach)
{
	struct domain *domain;
	int ret;

	if (extent->keys[reach.may_write].domain)
		return 0;
	ret = domains_get(pool->options.domains, reach, &domain);
	if (ret != 0)
		return ret;
	ret = domain_register(domain, extent->addr, extent->length,
			      extent->class == CLASS_DRAM_SEALED, extent->keys[reach.may_write].on);
	if (ret != 0)
		domains_put(pool->options.domains, domain);
	else
		extent->keys[reach.may_write].domain = domain;
	pool->nr_registrations += ret == 0;
	return ret;
}

/* Makes a key. The caller holds the lock, against draining. */
static int make_key(struct extent_pool *pool, struct extent *extent, struct reach reach,
		    struct extent_key *out)
{
	const struct fabric_memory *on = extent->keys[reach.may_write].on;
	int ret = extent_key_register(pool, extent, reach);

	if (ret != 0)
		return ret;
	extent->was_reached = true;
	out->length = extent->length;
	for (unsigned i = 0; i < domains_nr_fabrics(pool->options.domains); i++) {
		out->on[i].key = on[i].key;
		out->on[i].origin = on[i].base;
	}
	return 0;
}

int extent_pool_key(struct extent_pool *pool, uint64_t extent, struct reach reach,
		    struct extent_key *out)
{
	struct extent *found;
	int ret = 0;

	pthread_mutex_lock(&pool->lock);
	found = extent_find(pool, extent);
	if (found && found->namespace != reach.namespace)
		found = NULL;
	if (found)
		ret = make_key(pool, found, reach, out);
	pthread_mutex_unlock(&pool->lock);
	if (!found)
		return error_fail(-AFAR_ELOST,
				  "key of extent %llu: namespace %llu has no such extent on this "
				  "server; open the region again",
				  (unsigned long long)extent, (unsigned long long)reach.namespace);
	return ret;
}
