/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See registration_cache.h. A registration is looked up by its range in a sorted array. No two in
 * it overlap: registrations that overlap are merged into one. If there is no room, one leaves that
 * was not used for a whole turn (second chance: a hit moves nothing). A registration that has left
 * is condemned when nobody uses it any more. A thread of the cache's own deregisters those in
 * batches.
 *
 * One lock guards all of it. The monitor takes it before it lets the thread go on that freed
 * memory. So while it is held, nothing may be allocated, freed, registered or waited for (except
 * for conditions, which give it up).
 */
#include "memory/registration_cache.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <urcu/list.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/forks.h"
#include "memory/monitor.h"

#define PAGE		   ((uintptr_t)4096)
#define NR_UNWATCHABLE_MAX 256U
#define NR_LINGERING_MAX   4096U /* each may cost a process two of its mappings (vm.max_map_count) */
#define BATCH_MAX	   256U
#define PATIENCE_MS	   100 /* that the condemned wait for others */

enum registration_state {
	REGISTRATION_ADDING, /* in the array, without a handle yet */
	REGISTRATION_KEPT,   /* in the array                       */
	REGISTRATION_LOST,   /* was; or never will be              */
};

struct registration {
	void *handle;
	atomic_uint nr_references; /* one of each user, and one while it is in the array */
	bool was_used;		   /* since it was last looked at for eviction            */
	enum registration_state state;
	struct range range;
	struct cds_list_head node; /* in the array: by age; or condemned */
};

struct registration_cache {
	struct registration_cache_options options;
	struct monitor *monitor;
	pthread_mutex_t lock;
	pthread_cond_t added; /* one is not REGISTRATION_ADDING any more */
	pthread_cond_t condemned_some;
	pthread_cond_t removed;
	struct ranges kept;
	struct ranges unwatchable;	/* items are none */
	struct ranges lingering;	/* still watched, though nothing is kept; items are none */
	size_t lingering_next;		/* the place of the one that makes room for others       */
	struct cds_list_head by_age;	/* those of the array; what was used gets a second turn */
	struct cds_list_head condemned; /* used by nobody, to be deregistered */
	size_t nr_condemned;
	uint64_t condemned_bytes;
	uint64_t removing_bytes; /* that are being deregistered */
	bool is_closing;
	bool is_all_used; /* when last somebody looked for what to evict */
	struct registration_cache_stat stat;
	pthread_t thread;
	unsigned fork_generation; /* of the process that opened it */
};

static size_t length_of(const struct registration *registration)
{
	return registration->range.end - registration->range.start;
}

/* ---- Leaving the cache: with the lock held */

static void condemn(struct registration_cache *cache, struct registration *registration)
{
	cds_list_add_tail(&registration->node, &cache->condemned);
	cache->nr_condemned++;
	cache->condemned_bytes += length_of(registration);
	if (cache->nr_condemned == 1 || cache->nr_condemned == cache->options.batch)
		pthread_cond_signal(&cache->condemned_some);
}

/* Takes a registration out of the array. Transfers that use it go on with it. */
static void lose(struct registration_cache *cache, size_t place)
{
	struct registration *registration = cache->kept.items[place];

	ranges_remove(&cache->kept, place);
	cds_list_del(&registration->node);
	registration->state = REGISTRATION_LOST;
	if (atomic_fetch_sub(&registration->nr_references, 1) == 1)
		condemn(cache, registration);
}

/* The oldest that was not used since its last turn, and is not now. */
static bool evict_one(struct registration_cache *cache)
{
	for (size_t turns = 2 * cache->kept.nr; turns > 0; turns--) {
		struct registration *oldest =
			cds_list_first_entry(&cache->by_age, struct registration, node);

		if (!oldest->was_used && atomic_load(&oldest->nr_references) == 1) {
			lose(cache, ranges_first_behind(&cache->kept, oldest->range.start));
			cache->stat.nr_evicted++;
			return true;
		}
		oldest->was_used = false;
		cds_list_del(&oldest->node);
		cds_list_add_tail(&oldest->node, &cache->by_age);
	}
	return false;
}

static void evict_batch(struct registration_cache *cache)
{
	unsigned nr = 0;

	while (nr < cache->options.batch && evict_one(cache))
		nr++;
	cache->is_all_used = nr == 0;
}

/* ---- Deregistering */

static bool is_unwatchable(const struct registration_cache *cache, struct range range)
{
	return ranges_overlaps(&cache->unwatchable,
			       ranges_first_behind(&cache->unwatchable, range.start), range);
}

/* Ends the watch of the range, but for parts that are kept again by now. If nothing of it may be kept for now,
 * the watch goes on, because we want to hear when it is gone. With the lock held. */
static void unwatch(struct registration_cache *cache, struct range range)
{
	size_t place = ranges_first_behind(&cache->kept, range.start);

	if (is_unwatchable(cache, range))
		return;
	for (; ranges_overlaps(&cache->kept, place, range); place++) {
		const struct range *kept = &cache->kept.at[place];

		if (range.start < kept->start)
			monitor_unwatch(cache->monitor, (struct range){range.start, kept->start});
		range.start = kept->end;
	}
	if (range.start < range.end)
		monitor_unwatch(cache->monitor, range);
}

/*
 * It stays watched for now: to end that takes longer than registering, and programs come back to the same memory, or free it.
 * With the lock held.
 */
static void linger(struct registration_cache *cache, struct range range)
{
	struct ranges *lingering = &cache->lingering;
	size_t place = ranges_first_behind(lingering, range.start);

	while (ranges_overlaps(lingering, place, range)) {
		if (lingering->at[place].start < range.start)
			range.start = lingering->at[place].start;
		if (lingering->at[place].end > range.end)
			range.end = lingering->at[place].end;
		ranges_remove(lingering, place);
	}
	if (lingering->nr == lingering->nr_max) {
		place = cache->lingering_next++ % lingering->nr;
		unwatch(cache, lingering->at[place]);
		ranges_remove(lingering, place);
	}
	ranges_insert(lingering, range, NULL);
}

/* Takes some of the condemned out. With the lock held. */
static size_t take_condemned(struct registration_cache *cache, struct registration **out)
{
	size_t nr = 0;

	while (nr < BATCH_MAX && !cds_list_empty(&cache->condemned)) {
		struct registration *registration =
			cds_list_first_entry(&cache->condemned, struct registration, node);

		cds_list_del(&registration->node);
		linger(cache, registration->range);
		cache->condemned_bytes -= length_of(registration);
		cache->removing_bytes += length_of(registration);
		out[nr++] = registration;
	}
	cache->nr_condemned -= nr;
	if (nr > 0)
		cache->stat.nr_removals++;
	return nr;
}

/* Without the lock. */
static void remove_all(struct registration_cache *cache, struct registration *const *registrations,
		       size_t nr)
{
	void *handles[BATCH_MAX] = {NULL};
	uint64_t bytes = 0;

	if (nr == 0)
		return;
	for (size_t i = 0; i < nr; i++) {
		handles[i] = registrations[i]->handle;
		bytes += length_of(registrations[i]);
	}
	cache->options.registrar.remove(cache->options.registrar.context, handles, nr);
	for (size_t i = 0; i < nr; i++)
		free(registrations[i]);
	pthread_mutex_lock(&cache->lock);
	cache->stat.bytes -= bytes;
	cache->removing_bytes -= bytes;
	pthread_cond_broadcast(&cache->removed);
	pthread_mutex_unlock(&cache->lock);
}

/* Little room is left: a batch is evicted ahead of the need. */
static bool is_short(const struct registration_cache *cache)
{
	const struct registration_cache_options *options = &cache->options;

	return options->batch > 1 && !cache->is_all_used &&
	       (cache->stat.bytes - cache->condemned_bytes - cache->removing_bytes >
			options->bytes_max - options->bytes_max / 8 ||
		cache->kept.nr > options->nr_max - options->nr_max / 8);
}

/* Until there is a full batch, or the first has waited for long enough. With the lock held. */
static void await_batch(struct registration_cache *cache)
{
	struct timespec until;

	while (cache->nr_condemned == 0 && !is_short(cache) && !cache->is_closing)
		pthread_cond_wait(&cache->condemned_some, &cache->lock);
	until = clock_to_timespec(clock_deadline_ms(PATIENCE_MS));
	while (cache->nr_condemned < cache->options.batch && !is_short(cache) &&
	       !cache->is_closing &&
	       pthread_cond_timedwait(&cache->condemned_some, &cache->lock, &until) == 0)
		;
}

static void *thread_run(void *argument)
{
	struct registration_cache *cache = argument;
	struct registration *batch[BATCH_MAX];
	bool is_closing;

	do {
		size_t nr;

		pthread_mutex_lock(&cache->lock);
		await_batch(cache);
		if (is_short(cache))
			evict_batch(cache);
		nr = take_condemned(cache, batch);
		is_closing = cache->is_closing && nr == 0;
		pthread_mutex_unlock(&cache->lock);
		remove_all(cache, batch, nr);
	} while (!is_closing);
	return NULL;
}

/* ---- What the monitor tells, with the lock held */

static void lose_all_of(struct registration_cache *cache, struct range range)
{
	size_t place = ranges_first_behind(&cache->kept, range.start);

	while (ranges_overlaps(&cache->kept, place, range)) {
		lose(cache, place);
		cache->stat.nr_changed++;
	}
}

/* Takes `range` in, and what it touches. When there is no room, what lies between two is taken in as well. */
static void add_unwatchable(struct registration_cache *cache, struct range range)
{
	struct ranges *ranges = &cache->unwatchable;
	size_t place = ranges_first_behind(ranges, range.start);
	bool is_full = ranges->nr == ranges->nr_max;

	if (is_full && !ranges_overlaps(ranges, place, range)) {
		place = place < ranges->nr ? place : place - 1;
		if (ranges->at[place].start < range.start)
			range.start = ranges->at[place].start;
		if (ranges->at[place].end > range.end)
			range.end = ranges->at[place].end;
		place = ranges_first_behind(ranges, range.start);
	}
	while (ranges_overlaps(ranges, place, range)) {
		if (ranges->at[place].start < range.start)
			range.start = ranges->at[place].start;
		if (ranges->at[place].end > range.end)
			range.end = ranges->at[place].end;
		ranges_remove(ranges, place);
	}
	ranges_insert(ranges, range, NULL);
}

/* Forgets a range, because other memory will be there. A range that would have to be cut in two,
 * without room for that, stays whole. */
static void forget(struct ranges *ranges, struct range range)
{
	size_t place = ranges_first_behind(ranges, range.start);

	while (ranges_overlaps(ranges, place, range)) {
		struct range found = ranges->at[place];

		if (found.start < range.start && found.end > range.end &&
		    ranges->nr == ranges->nr_max)
			return;
		ranges_remove(ranges, place);
		if (found.start < range.start) {
			ranges_insert(ranges, (struct range){found.start, range.start}, NULL);
			place++;
		}
		if (found.end > range.end)
			ranges_insert(ranges, (struct range){range.end, found.end}, NULL);
	}
}

/*
 * When madvise() drops pages the kernel tells before it does, and not when it has. A registration made in between
 * holds pages that are the memory's no more, and nobody would hear of it. Nothing of it is kept until it is gone.
 */
static void on_changed(void *context, struct range range, enum monitor_change change)
{
	struct registration_cache *cache = context;

	lose_all_of(cache, range);
	if (change == MONITOR_DROPPED) {
		add_unwatchable(cache, range);
		return;
	}
	forget(&cache->unwatchable, range);
	forget(&cache->lingering, range);
}

/* ---- Looking up: with the lock held */

/* NULL: none covers it. Waits for one that is being registered; then all has to be looked at again. */
static struct registration *find(struct registration_cache *cache, struct range range,
				 bool *has_waited)
{
	struct registration *found = ranges_covering(&cache->kept, range);

	if (found && found->state == REGISTRATION_ADDING) {
		pthread_cond_wait(&cache->added, &cache->lock);
		*has_waited = true;
		return NULL;
	}
	if (found) {
		atomic_fetch_add_explicit(&found->nr_references, 1, memory_order_relaxed);
		found->was_used = true;
		cache->stat.nr_hits++;
	}
	return found;
}

/* ---- Entering the cache: with the lock held */

/* `range`, and all that is kept and overlaps it; false: one of those is not registered yet. */
static bool widen(const struct registration_cache *cache, struct range *range)
{
	size_t place = ranges_first_behind(&cache->kept, range->start);

	for (; ranges_overlaps(&cache->kept, place, *range); place++) {
		const struct registration *other = cache->kept.items[place];

		if (other->state == REGISTRATION_ADDING)
			return false;
		if (other->range.start < range->start)
			range->start = other->range.start;
		if (other->range.end > range->end)
			range->end = other->range.end;
	}
	return true;
}

/* Makes room for one more. False: there is none, because all are in use, and those stay. */
static bool make_room(struct registration_cache *cache)
{
	while (cache->kept.nr == cache->options.nr_max)
		if (!evict_one(cache))
			return false;
	return true;
}

/* Enters `registration` without its handle. False: it is for one use. */
static bool enter(struct registration_cache *cache, struct registration *registration)
{
	struct range range = registration->range;
	size_t place;

	if (!widen(cache, &range) || is_unwatchable(cache, range) ||
	    range.end - range.start > cache->options.bytes_max)
		return false;
	for (place = ranges_first_behind(&cache->kept, range.start);
	     ranges_overlaps(&cache->kept, place, range);) {
		lose(cache, place);
		cache->stat.nr_merged++;
	}
	if (!make_room(cache) || !monitor_watch(cache->monitor, range))
		return false;
	if (!ranges_insert(&cache->kept, range, registration))
		return false;
	registration->range = range;
	registration->state = REGISTRATION_ADDING;
	atomic_fetch_add(&registration->nr_references, 1);
	cds_list_add_tail(&registration->node, &cache->by_age);
	return true;
}

/* Deregisters some, or waits until somebody has, if `length` more bytes would be too many: more than `bytes_max`. False:
 * they would not, or all others are used. */
static bool make_some_space(struct registration_cache *cache, size_t length, uint64_t bytes_max)
{
	struct registration *batch[BATCH_MAX];
	bool may_help = true;
	size_t nr = 0;

	pthread_mutex_lock(&cache->lock);
	if (cache->stat.bytes + length <= bytes_max) {
		may_help = false;
	} else if (cache->removing_bytes > 0) {
		pthread_cond_wait(&cache->removed, &cache->lock);
	} else {
		if (cache->nr_condemned < cache->options.batch)
			evict_batch(cache);
		nr = take_condemned(cache, batch);
		cache->stat.nr_removals_in_use += nr > 0;
		may_help = nr > 0;
	}
	pthread_mutex_unlock(&cache->lock);
	remove_all(cache, batch, nr);
	return may_help;
}

/* ---- Registering */

/* Registers it, and keeps it if it was entered for that and nothing has become of its memory meanwhile. */
static int complete(struct registration_cache *cache, struct registration *registration,
		    bool is_entered)
{
	const struct registrar *registrar = &cache->options.registrar;
	struct range range = registration->range;
	bool is_private;
	int ret;

	ret = registrar->add(registrar->context, (void *)range.start, length_of(registration),
			     &registration->handle);
	is_private = ret == 0 && monitor_is_private(cache->monitor, range);
	pthread_mutex_lock(&cache->lock);
	if (registration->state == REGISTRATION_ADDING) {
		if (is_private) {
			registration->state = REGISTRATION_KEPT;
		} else {
			lose(cache, ranges_first_behind(&cache->kept, range.start));
			unwatch(cache, range);
		}
		pthread_cond_broadcast(&cache->added);
	}
	if (ret != 0)
		cache->stat.bytes -= length_of(registration);
	else if (is_entered)
		cache->stat.nr_added++;
	else
		cache->stat.nr_passing++;
	cache->is_all_used = false;
	if (is_short(cache))
		pthread_cond_signal(&cache->condemned_some);
	pthread_mutex_unlock(&cache->lock);
	return ret;
}

/* `*may_keep`: whether it was to be kept. */
static int try_to_add(struct registration_cache *cache, struct range range, bool *may_keep,
		      struct registration **out)
{
	struct registration *registration = calloc(1, sizeof(*registration));
	int ret;

	if (!registration)
		return error_code(-ENOMEM);
	while (make_some_space(cache, range.end - range.start, cache->options.bytes_max))
		;
	registration->range = range;
	registration->nr_references = 1;
	registration->state = REGISTRATION_LOST;
	pthread_mutex_lock(&cache->lock);
	*may_keep = *may_keep && enter(cache, registration);
	cache->stat.bytes += length_of(registration);
	pthread_mutex_unlock(&cache->lock);
	ret = complete(cache, registration, *may_keep);
	if (ret == 0)
		*out = registration;
	else
		free(registration);
	return ret;
}

static uint64_t bytes_now(struct registration_cache *cache)
{
	uint64_t bytes;

	pthread_mutex_lock(&cache->lock);
	bytes = cache->stat.bytes;
	pthread_mutex_unlock(&cache->lock);
	return bytes;
}

/* Where no more can be pinned, what is kept for later is what is missing now: as much as is wanted is let go of. */
static int add(struct registration_cache *cache, struct range range, struct registration **out)
{
	uint64_t bytes_max = bytes_now(cache);
	bool may_keep = true;

	for (;;) {
		uint64_t bytes_before = bytes_now(cache);
		bool is_kept = may_keep;
		int ret = try_to_add(cache, range, &is_kept, out);

		if (ret == 0)
			return 0;
		/* Others may have made some way meanwhile. */
		if ((ret == -ENOMEM || ret == -EAGAIN) &&
		    (make_some_space(cache, range.end - range.start, bytes_max) ||
		     bytes_now(cache) < bytes_before))
			continue;
		/* It may have been too much, or of two kinds, together with what it touches. */
		if (!is_kept)
			return ret;
		may_keep = false;
	}
}

/* ---- Taking and giving */

static struct registration *look_up(struct registration_cache *cache, struct range range)
{
	struct registration *found;
	bool has_waited;

	do {
		has_waited = false;
		if (!cache->options.trusts_thread)
			monitor_settle(cache->monitor);
		pthread_mutex_lock(&cache->lock);
		found = find(cache, range, &has_waited);
		pthread_mutex_unlock(&cache->lock);
	} while (has_waited);
	return found;
}

int registration_take(struct registration_cache *cache, void *addr, size_t length,
		      struct registration **out)
{
	uintptr_t start = (uintptr_t)addr, end;
	struct range range;

	if (length == 0)
		return error_fail(-EINVAL, "register memory: 0 bytes");
	if (__builtin_add_overflow(start, length, &end) || end > UINTPTR_MAX - PAGE)
		return error_fail(-EINVAL,
				  "register %zu bytes at %p: they reach beyond the end of "
				  "the address space",
				  length, addr);
	if (cache->fork_generation != forks_generation())
		return error_code(-AFAR_EFORKED);
	range = (struct range){start & ~(PAGE - 1), (end + PAGE - 1) & ~(PAGE - 1)};
	*out = look_up(cache, range);
	return *out ? 0 : add(cache, range, out);
}

void registration_give(struct registration_cache *cache, struct registration *registration)
{
	if (atomic_fetch_sub(&registration->nr_references, 1) != 1)
		return;
	pthread_mutex_lock(&cache->lock);
	condemn(cache, registration);
	pthread_mutex_unlock(&cache->lock);
}

void *registration_handle(const struct registration *registration)
{
	return registration->handle;
}

void registration_cache_stat(struct registration_cache *cache, struct registration_cache_stat *out)
{
	pthread_mutex_lock(&cache->lock);
	*out = cache->stat;
	out->bytes_max = cache->options.bytes_max;
	out->nr = cache->kept.nr;
	out->nr_max = cache->options.nr_max;
	out->nr_unwatchable = cache->unwatchable.nr;
	pthread_mutex_unlock(&cache->lock);
}

/* ---- Life */

static int start_thread(struct registration_cache *cache)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&cache->thread, NULL, thread_run, cache);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret != 0)
		return error_fail(-ret,
				  "cache registrations: no thread; raise the limit of processes");
	pthread_setname_np(cache->thread, "afar-registrar");
	return 0;
}

static void free_cache(struct registration_cache *cache)
{
	monitor_close(cache->monitor);
	ranges_close(&cache->kept);
	ranges_close(&cache->unwatchable);
	ranges_close(&cache->lingering);
	pthread_cond_destroy(&cache->removed);
	pthread_cond_destroy(&cache->condemned_some);
	pthread_cond_destroy(&cache->added);
	pthread_mutex_destroy(&cache->lock);
	free(cache);
}

static void init_locks(struct registration_cache *cache)
{
	pthread_condattr_t attributes;

	pthread_mutex_init(&cache->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&cache->condemned_some, &attributes);
	pthread_cond_init(&cache->removed, &attributes);
	pthread_cond_init(&cache->added, &attributes);
	pthread_condattr_destroy(&attributes);
}

int registration_cache_open(const struct registration_cache_options *options,
			    struct registration_cache **out)
{
	struct registration_cache *cache = calloc(1, sizeof(*cache));
	struct monitor_options watching;
	int ret;

	if (!cache)
		return error_code(-ENOMEM);
	cache->options = *options;
	cache->fork_generation = forks_generation();
	CDS_INIT_LIST_HEAD(&cache->by_age);
	CDS_INIT_LIST_HEAD(&cache->condemned);
	init_locks(cache);
	watching = (struct monitor_options){&cache->lock, on_changed, cache};
	ret = ranges_open(&cache->kept, options->nr_max);
	if (ret == 0)
		ret = ranges_open(&cache->unwatchable, NR_UNWATCHABLE_MAX);
	if (ret == 0)
		ret = ranges_open(&cache->lingering, NR_LINGERING_MAX);
	if (ret == 0)
		ret = monitor_open(&watching, &cache->monitor);
	if (ret == 0)
		ret = start_thread(cache);
	if (ret != 0) {
		free_cache(cache);
		return ret;
	}
	*out = cache;
	return 0;
}

void registration_cache_close(struct registration_cache *cache)
{
	/* In a child its threads are not, and somebody may have had the lock. */
	if (!cache || cache->fork_generation != forks_generation())
		return;
	pthread_mutex_lock(&cache->lock);
	while (evict_one(cache))
		;
	cache->is_closing = true;
	pthread_cond_signal(&cache->condemned_some);
	pthread_mutex_unlock(&cache->lock);
	pthread_join(cache->thread, NULL);
	pthread_mutex_lock(&cache->lock);
	monitor_unwatch_all(cache->monitor, &cache->lingering);
	monitor_unwatch_all(cache->monitor, &cache->unwatchable);
	pthread_mutex_unlock(&cache->lock);
	free_cache(cache);
}
