/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The grant book. Each session that was given keys has an array of its grants, by extent. Sessions are in a
 * list, in the order of their first grant, and in a tree. Owns the registrations behind all keys.
 */
#include "server/grants.h"

#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <urcu/list.h>

#include "base/error.h"

/* To read, and to read and write: a session may have come by both. */
enum { KEY_READ, KEY_BOTH, NR_KEYS };

struct grant {
	uint64_t extent;    /* first: it is searched for by number */
	uint64_t namespace; /* whose the extent is, when there is a key */
	bool has[NR_KEYS];
	struct extent_key keys[NR_KEYS];
};

struct holder {
	struct cds_list_head node;
	uint64_t session;
	struct grant *grants; /* by extent, each once */
	size_t nr_grants;
	size_t room; /* of `grants` */
};

struct grants {
	struct extent_pool *pool;
	pthread_mutex_t lock; /* taken before the pool's */
	struct cds_list_head holders;
	void *holders_by_session;
};

static int compare_numbers(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

static int compare_holders(const void *a, const void *b)
{
	const struct holder *left = a, *right = b;

	return (left->session > right->session) - (left->session < right->session);
}

/* ---- With the lock held */

static void end_keys(struct grant *grant)
{
	for (int i = 0; i < NR_KEYS; i++) {
		if (grant->has[i])
			fabric_memory_deregister(&grant->keys[i].memory);
		grant->has[i] = false;
	}
}

static void drop(struct grants *grants, struct holder *holder)
{
	for (size_t i = 0; i < holder->nr_grants; i++)
		end_keys(&holder->grants[i]);
	tdelete(holder, &grants->holders_by_session, compare_holders);
	cds_list_del(&holder->node);
	free(holder->grants);
	free(holder);
}

static struct holder *find(struct grants *grants, uint64_t session)
{
	const struct holder like = {.session = session};
	struct holder *const *found = tfind(&like, &grants->holders_by_session, compare_holders);

	return found ? *found : NULL;
}

static struct holder *find_or_add(struct grants *grants, uint64_t session)
{
	struct holder *holder = find(grants, session);

	if (holder)
		return holder;
	holder = calloc(1, sizeof(*holder));
	if (!holder)
		return NULL;
	holder->session = session;
	if (!tsearch(holder, &grants->holders_by_session, compare_holders)) {
		free(holder);
		return NULL;
	}
	cds_list_add_tail(&holder->node, &grants->holders);
	return holder;
}

static struct grant *find_grant(const struct holder *holder, uint64_t extent)
{
	if (holder->nr_grants == 0)
		return NULL;
	return bsearch(&extent, holder->grants, holder->nr_grants, sizeof(*holder->grants),
		       compare_numbers);
}

static bool make_room(struct holder *holder, size_t nr_more)
{
	size_t room = holder->nr_grants + nr_more;
	struct grant *larger;

	if (room <= holder->room)
		return true;
	room += room / 2;
	larger = reallocarray(holder->grants, room, sizeof(*larger));
	if (!larger)
		return false;
	holder->grants = larger;
	holder->room = room;
	return true;
}

static size_t count_new(const struct holder *holder, const uint64_t *extents, size_t nr_extents)
{
	size_t nr_new = 0;

	for (size_t i = 0; i < nr_extents; i++)
		nr_new += find_grant(holder, extents[i]) == NULL;
	return nr_new;
}

/* Merges from the end, where the room is: what is read has not been written over. */
static void merge(struct holder *holder, const uint64_t *extents, size_t nr_extents, size_t nr_new)
{
	struct grant *grants = holder->grants;
	size_t held = holder->nr_grants, end = held + nr_new;

	holder->nr_grants = end;
	while (nr_extents > 0) {
		if (held > 0 && grants[held - 1].extent >= extents[nr_extents - 1]) {
			if (grants[held - 1].extent == extents[nr_extents - 1])
				nr_extents--;
			grants[--end] = grants[--held];
		} else {
			grants[--end] = (struct grant){.extent = extents[--nr_extents]};
		}
	}
}

/* Has a grant of each of the extents on the book, without keys where it had none. */
static int enroll(struct holder *holder, const uint64_t *extents, size_t nr_extents)
{
	size_t nr_new = count_new(holder, extents, nr_extents);

	if (!make_room(holder, nr_new))
		return error_code(-ENOMEM);
	merge(holder, extents, nr_extents, nr_new);
	return 0;
}

/* What is drained has no more keys to give: a grant comes before that and is found by
 * grants_end_extents(), or too late. */
static int give_key(struct grants *grants, struct grant *grant, uint64_t namespace, bool may_write,
		    struct extent_key *out)
{
	int which = may_write ? KEY_BOTH : KEY_READ, status;

	/* What it has of another namespace's is no answer: the pool knows better. */
	if (grant->has[which] && grant->namespace == namespace) {
		*out = grant->keys[which];
		return 0;
	}
	status = extent_pool_key(grants->pool, grant->extent, namespace, may_write, out);
	if (status != 0)
		return status;
	grant->namespace = namespace;
	grant->has[which] = true;
	grant->keys[which] = *out;
	return 0;
}

/* Both are ascending: one walk along them. */
static void end_some(struct holder *holder, const uint64_t *extents, size_t nr_extents)
{
	size_t nr_kept = 0, i, j = 0;

	for (i = 0; i < holder->nr_grants; i++) {
		while (j < nr_extents && extents[j] < holder->grants[i].extent)
			j++;
		if (j == nr_extents || extents[j] != holder->grants[i].extent)
			holder->grants[nr_kept++] = holder->grants[i];
		else
			end_keys(&holder->grants[i]);
	}
	holder->nr_grants = nr_kept;
}

/* ---- The book */

int grants_open(struct extent_pool *pool, struct grants **out)
{
	struct grants *grants = calloc(1, sizeof(*grants));

	if (!grants)
		return error_code(-ENOMEM);
	grants->pool = pool;
	pthread_mutex_init(&grants->lock, NULL);
	CDS_INIT_LIST_HEAD(&grants->holders);
	*out = grants;
	return 0;
}

void grants_close(struct grants *grants)
{
	struct holder *holder, *next;

	if (!grants)
		return;
	cds_list_for_each_entry_safe (holder, next, &grants->holders, node)
		drop(grants, holder);
	pthread_mutex_destroy(&grants->lock);
	free(grants);
}

int grants_give(struct grants *grants, uint64_t session, uint64_t namespace,
		const uint64_t *extents, size_t nr_extents, bool may_write, struct extent_key *out)
{
	struct holder *holder;
	int status;

	if (nr_extents == 0)
		return 0;
	pthread_mutex_lock(&grants->lock);
	holder = find_or_add(grants, session);
	status = holder ? enroll(holder, extents, nr_extents) : error_code(-ENOMEM);
	for (size_t i = 0; i < nr_extents && status == 0; i++)
		status = give_key(grants, find_grant(holder, extents[i]), namespace, may_write,
				  &out[i]);
	pthread_mutex_unlock(&grants->lock);
	return status;
}

void grants_end_extents(struct grants *grants, const uint64_t *extents, size_t nr_extents)
{
	struct holder *holder, *next;

	pthread_mutex_lock(&grants->lock);
	cds_list_for_each_entry_safe (holder, next, &grants->holders, node) {
		end_some(holder, extents, nr_extents);
		if (holder->nr_grants == 0)
			drop(grants, holder);
	}
	pthread_mutex_unlock(&grants->lock);
}

void grants_end_session(struct grants *grants, uint64_t session)
{
	struct holder *holder;

	pthread_mutex_lock(&grants->lock);
	holder = find(grants, session);
	if (holder)
		drop(grants, holder);
	pthread_mutex_unlock(&grants->lock);
}
