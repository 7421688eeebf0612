/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * References at the end of the pager: what a peer must be given before it can use one. An endpoint owns the list of what it
 * has given, and a queue the lock that shows that its thread lives. Called by serve.c and queue.c.
 *
 * The lock is in a page that nobody else can write. Otherwise others could write into the list of locks that its
 * thread has.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/shared.h"
#include "fabric/local/exchange.h"
#include "fabric/local/references.h"

union life_page {
	pthread_mutex_t lock;
	atomic_uint word; /* the kernel's: the thread that holds it */
};
_Static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0, "the word comes first");

struct local_life {
	union life_page *page;
	pthread_t owner;
};

struct local_given {
	bool has_life;
	uint32_t nr;
	uint64_t slabs[]; /* their numbers, by their indexes; 0: none */
};

/* ---- The life */

static int lock_for_life(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attributes;
	int ret;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	ret = pthread_mutex_init(lock, &attributes);
	pthread_mutexattr_destroy(&attributes);
	return ret != 0 ? ret : pthread_mutex_lock(lock);
}

/* NULL: it cannot be made. */
static union life_page *make_page(void)
{
	void *page;

	if (shared_map(LOCAL_LIFE_BYTES, LOCAL_LIFE_BYTES, &page) != 0)
		return NULL;
	if (shared_make_read_only(page, LOCAL_LIFE_BYTES) == 0 &&
	    shared_keep(shared_descriptor(page, LOCAL_LIFE_BYTES)) && lock_for_life(page) == 0)
		return page;
	shared_unmap(page);
	return NULL;
}

/* On the queue's thread, for which it stands. */
static const struct local_life *life_of(struct local_queue *queue)
{
	struct local_life *life;

	if (queue->life)
		return queue->life;
	life = malloc(sizeof(*life));
	if (!life)
		return NULL;
	*life = (struct local_life){make_page(), pthread_self()};
	if (!life->page) {
		free(life);
		return NULL;
	}
	queue->life = life;
	return life;
}

/* If the thread lives, and is not this one, its list of locks still leads to the page, which stays. */
void local_life_close(struct local_queue *queue)
{
	struct local_life *life = queue->life;

	if (!life)
		return;
	queue->life = NULL;
	if (pthread_equal(life->owner, pthread_self()))
		pthread_mutex_unlock(&life->page->lock);
	if ((atomic_load(&life->page->word) & FUTEX_TID_MASK) == 0)
		shared_unmap(life->page);
	free(life);
}

/* ---- Giving */

void local_given_free(struct local_given *given)
{
	free(given);
}

static bool give(const struct local_endpoint *endpoint, enum local_message_type type,
		 uint64_t index, uint64_t length, int fd)
{
	struct local_message message = local_talk_message(type, index);

	message.length = length;
	return fd >= 0 && local_talk_say(endpoint->fd, &message, fd);
}

static bool give_life(struct local_endpoint *endpoint, struct local_given *given)
{
	const struct local_life *life = life_of(local_queue_of(endpoint));

	if (given->has_life)
		return true;
	given->has_life = life && give(endpoint, LOCAL_LIFE, 0, LOCAL_LIFE_BYTES,
				       shared_descriptor(life->page, LOCAL_LIFE_BYTES));
	return given->has_life;
}

static struct local_given *grow(struct local_given *given, uint32_t nr)
{
	const uint32_t before = given ? given->nr : 0;
	struct local_given *grown;

	if (nr <= before)
		return given;
	grown = realloc(given, sizeof(*grown) + nr * sizeof(grown->slabs[0]));
	if (!grown)
		return NULL;
	if (!given)
		grown->has_life = false;
	grown->nr = nr;
	for (uint32_t i = before; i < nr; i++)
		grown->slabs[i] = 0;
	return grown;
}

struct local_page_reference local_refer(struct local_endpoint *endpoint, struct local_given **given,
					const struct fabric_reference *reference)
{
	const uint32_t index = reference->place / FABRIC_SLAB_PAGES;
	const struct local_page_reference none = {0};
	struct local_given *grown;

	if (reference->generation == 0)
		return none;
	grown = grow(*given, index + 1);
	if (!grown)
		return none;
	*given = grown;
	if (!give_life(endpoint, grown))
		return none;
	if (grown->slabs[index] != reference->slab &&
	    !give(endpoint, LOCAL_SLAB, index, FABRIC_SLAB_BYTES, reference->fd))
		return none;
	grown->slabs[index] = reference->slab;
	return (struct local_page_reference){.generation = reference->generation,
					     .place = reference->place};
}
