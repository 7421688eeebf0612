/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool of extents. The server reserves and releases when the manager asks; its control port
 * asks for keys. Owns all lent memory and its registrations.
 *
 * extent_move() alone changes an extent's state. The pool may access the memory in TAKEN (fresh or
 * scrubbed: nobody writes it), DIRTY and SCRUBBING; peers may in GRANTED and DRAINING.
 *
 * Ending a key stops every transfer that has not begun. Transports that check the key once per
 * message (tcp) finish the message in progress; only closing the connection stops that. DRAINING is
 * for that: there are no new keys, the old ones are ended and connections closed (fence.c).
 */
#include <errno.h>
#include <openssl/rand.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/shared.h"
#include "memory/segment.h"
#include "server/memory/extent_book.h"

static void extents_unmap(struct cds_list_head *gone)
{
	struct extent *extent, *next;

	cds_list_for_each_entry_safe (extent, next, gone, node) {
		segment_unmap(extent->addr, extent->length);
		free(extent);
	}
}

/* ---- Reserving */

/* A reservation in progress. */
struct reservation {
	uint64_t bytes;
	uint64_t missing; /* bytes of those that are not in `taken` yet */
	uint64_t deadline;
	enum extent_class class;
	bool is_machine_full;	    /* populating failed: wait for memory that comes back */
	struct cds_list_head taken; /* in TAKEN                                      */
};

static void take(struct extent_pool *pool, struct extent *extent, struct reservation *reservation)
{
	extent_move(pool, extent, EXTENT_TAKEN);
	cds_list_add_tail(&extent->node, &reservation->taken);
	reservation->missing -= extent->length;
}

/* Splits a clean extent that is larger than what is missing, and takes the first part. */
static int take_split(struct extent_pool *pool, struct extent *extent,
		      struct reservation *reservation)
{
	size_t wanted = reservation->missing;
	struct extent *rest;

	extent_move(pool, extent, EXTENT_TAKEN);
	rest = extent_new(pool, extent->addr + wanted, extent->length - wanted);
	if (!rest) {
		extent_to_clean(pool, extent);
		return error_code(-ENOMEM);
	}
	pool->bytes[EXTENT_TAKEN] -= rest->length; /* extent_move() booked the whole extent */
	extent->length = wanted;
	extent_to_clean(pool, rest);
	cds_list_add_tail(&extent->node, &reservation->taken);
	reservation->missing = 0;
	return 0;
}

/* Finds the smallest clean extent that is larger than what is missing; NULL: there is none. */
static struct extent *larger_clean(struct extent_pool *pool, const struct reservation *reservation)
{
	for (size_t units = reservation->missing / SEGMENT_MIN + 1; units <= NR_SIZES; units++) {
		if (!cds_list_empty(&pool->clean[units]))
			return cds_list_first_entry(&pool->clean[units], struct extent, node);
	}
	return NULL;
}

/* Takes from the pool: the largest extents that fit, then a part of the smallest larger one, if it
 * can be split. */
static int take_clean(struct extent_pool *pool, struct reservation *reservation)
{
	struct cds_list_head *sizes = pool->clean;
	struct extent *extent;
	size_t units;

	for (units = NR_SIZES; units > 0; units--) {
		while (reservation->missing >= units * SEGMENT_MIN &&
		       !cds_list_empty(&sizes[units]))
			take(pool, cds_list_first_entry(&sizes[units], struct extent, node),
			     reservation);
	}
	if (reservation->missing == 0 || pool->options.is_shared)
		return 0;
	extent = larger_clean(pool, reservation);
	return extent ? take_split(pool, extent, reservation) : 0;
}

/* Gives the memory of a larger clean extent back to the machine, to make room. Drops the lock
 * meanwhile. False: there is none. */
static bool drop_clean(struct extent_pool *pool, struct reservation *reservation)
{
	struct extent *extent = larger_clean(pool, reservation);

	if (!extent)
		return false;
	extent_move(pool, extent, EXTENT_TAKEN);
	pool->dropping += extent->length;
	pthread_mutex_unlock(&pool->lock);
	segment_unmap(extent->addr, extent->length);
	pthread_mutex_lock(&pool->lock);
	pool->dropping -= extent->length;
	extent_move(pool, extent, EXTENT_GONE);
	free(extent);
	/* Other reservations may have room now, too. */
	pthread_cond_broadcast(&pool->supply);
	reservation->is_machine_full = false;
	return true;
}

/* Returns how much may be populated without exceeding the capacity. */
static uint64_t room(const struct extent_pool *pool)
{
	uint64_t mapped = pool->populating;
	int state;

	for (state = 0; state < NR_STATES; state++)
		mapped += pool->bytes[state];
	return pool->options.capacity_bytes - mapped;
}

/* Cuts fresh memory into extents and takes them. */
static int take_fresh(struct extent_pool *pool, char *addr, uint64_t bytes,
		      struct reservation *reservation)
{
	struct extent *extent;
	size_t length;

	for (; bytes > 0; addr += length, bytes -= length) {
		length = bytes;
		if (length > EXTENT_BYTES_MAX)
			length = EXTENT_BYTES_MAX;
		extent = extent_new(pool, addr, length);
		if (!extent) {
			segment_unmap(addr, bytes);
			return error_code(-ENOMEM);
		}
		cds_list_add_tail(&extent->node, &reservation->taken);
		reservation->missing -= length;
	}
	return 0;
}

/* Maps `bytes` of the `missing` ones; none, unless the machine has all of them. */
static int map_fresh(const struct extent_pool *pool, uint64_t bytes, uint64_t missing, void **addr)
{
	enum segment_backing backing;
	int ret;

	if (!pool->options.is_shared)
		return segment_map(bytes, 0, addr, &backing);
	ret = segment_fits(missing);
	return ret == 0 ? segment_map_shared(bytes, 0, addr) : ret;
}

/* Populates what is missing, or as much as makes one extent. Drops the lock meanwhile. If the
 * machine lacks memory, this notes it and returns 0: the reservation may still succeed. */
static int take_populated(struct extent_pool *pool, struct reservation *reservation)
{
	uint64_t missing = reservation->missing, bytes = missing;
	void *addr;
	int ret;

	if (pool->options.is_shared && bytes > EXTENT_BYTES_MAX)
		bytes = EXTENT_BYTES_MAX;
	pool->populating += bytes;
	pthread_mutex_unlock(&pool->lock);
	ret = map_fresh(pool, bytes, missing, &addr);
	if (ret == 0)
		/* It will hold others' data, which our core dumps must not have. */
		madvise(addr, bytes, MADV_DONTDUMP);
	pthread_mutex_lock(&pool->lock);
	pool->populating -= bytes;
	if (ret != 0) {
		reservation->is_machine_full = true;
		return 0;
	}
	return take_fresh(pool, addr, bytes, reservation);
}

static unsigned long long in_mib(uint64_t bytes)
{
	return (unsigned long long)(bytes >> 20);
}

static int fail_full(const struct extent_pool *pool, uint64_t bytes, const char *what)
{
	return error_fail(-ENOSPC,
			  "reserve %llu MiB: %s, %llu MiB of capacity, %llu MiB granted; release "
			  "some, or add a server",
			  in_mib(bytes), what, in_mib(pool->options.capacity_bytes),
			  in_mib(pool->bytes[EXTENT_GRANTED]));
}

/* Waits until there may be more memory. Without a deadline it ends, too, because dirty memory
 * becomes clean. */
static int wait_for_supply(struct extent_pool *pool, struct reservation *reservation)
{
	struct timespec until;
	int ret = 0;

	if (pool->bytes[EXTENT_DRAINING] + pool->bytes[EXTENT_DIRTY] +
		    pool->bytes[EXTENT_SCRUBBING] + pool->dropping ==
	    0)
		return fail_full(pool, reservation->bytes,
				 "the machine has not so much memory left");
	pool->nr_waiting++;
	if (reservation->deadline == CLOCK_NEVER) {
		pthread_cond_wait(&pool->supply, &pool->lock);
	} else {
		until.tv_sec = (time_t)(reservation->deadline / 1000000000U);
		until.tv_nsec = (long)(reservation->deadline % 1000000000U);
		ret = pthread_cond_timedwait(&pool->supply, &pool->lock, &until);
	}
	pool->nr_waiting--;
	if (ret == ETIMEDOUT)
		return error_fail(-ETIMEDOUT,
				  "reserve %llu MiB: scrubbing released memory takes longer than "
				  "the deadline; try again",
				  in_mib(reservation->bytes));
	return 0;
}

/*
 * Collects all that is asked for. This ends, because no more than the capacity is ever promised:
 * when nothing is clean, draining, dirty or under the scrubber, there is room to populate what is
 * missing.
 */
static int collect(struct extent_pool *pool, struct reservation *reservation)
{
	int ret;

	for (;;) {
		if (pool->is_stopping)
			return error_fail(-ECANCELED, "reserve %llu MiB: the server is stopping",
					  in_mib(reservation->bytes));
		ret = take_clean(pool, reservation);
		if (ret != 0 || reservation->missing == 0)
			return ret;
		if (!reservation->is_machine_full && room(pool) >= reservation->missing)
			ret = take_populated(pool, reservation);
		else if (!pool->options.is_shared || !drop_clean(pool, reservation))
			ret = wait_for_supply(pool, reservation);
		if (ret != 0)
			return ret;
	}
}

/* Puts the memory back into the pool, unused. Unmaps what the pool may not keep. */
static void give_up(struct extent_pool *pool, struct reservation *reservation)
{
	struct extent *extent, *next;
	CDS_LIST_HEAD(gone);

	pthread_mutex_lock(&pool->lock);
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a list's entries are never null */
	cds_list_for_each_entry_safe (extent, next, &reservation->taken, node) {
		if (extent_may_keep(pool, extent->length)) {
			extent_to_clean(pool, extent);
		} else {
			extent_move(pool, extent, EXTENT_GONE);
			cds_list_add(&extent->node, &gone);
		}
	}
	pool->reserving -= reservation->bytes;
	pthread_mutex_unlock(&pool->lock);
	extents_unmap(&gone);
}

/* Ends the extent's keys. Afterwards no transfer can begin on it, unless its memory was lent: peers
 * that have the memory itself can still access it. */
static void deregister(struct extent_pool *pool, struct extent *extent)
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

static void deregister_all(struct extent_pool *pool, struct reservation *reservation,
			   const struct extent *end)
{
	struct extent *extent;

	cds_list_for_each_entry (extent, &reservation->taken, node) {
		if (extent == end)
			return;
		deregister(pool, extent);
	}
}

/* Makes the key for this reach, if there is none. */
static int register_for(struct extent_pool *pool, struct extent *extent, struct reach reach)
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

static int register_all(struct extent_pool *pool, uint64_t namespace,
			struct reservation *reservation)
{
	const struct reach reach = {.namespace = namespace, .may_write = true};
	struct extent *extent;
	int ret;

	cds_list_for_each_entry (extent, &reservation->taken, node)
		extent->class = reservation->class;
	if (!pool->options.is_registering_slow)
		return 0;
	cds_list_for_each_entry (extent, &reservation->taken, node) {
		ret = register_for(pool, extent, reach);
		if (ret != 0) {
			deregister_all(pool, reservation, extent);
			return error_fail(ret,
					  "reserve %llu MiB: the fabric does not register the "
					  "memory (%s); raise the limit of locked memory "
					  "(LimitMEMLOCK=)",
					  in_mib(reservation->bytes), afar_strerror(ret));
		}
	}
	return 0;
}

/* Gives the extents numbers, by which they are found. Without memory for that, undoes it. */
static int enroll_all(struct extent_pool *pool, uint64_t namespace, struct reservation *reservation)
{
	struct extent *extent, *other;

	cds_list_for_each_entry (extent, &reservation->taken, node) {
		extent->namespace = namespace;
		extent->was_reached = false;
		if (extent_enroll(pool, extent))
			continue;
		cds_list_for_each_entry (other, &reservation->taken, node) {
			if (other == extent)
				break;
			extent_withdraw(pool, other);
		}
		return error_code(-ENOMEM);
	}
	return 0;
}

static size_t list_length(const struct cds_list_head *list)
{
	const struct cds_list_head *node;
	size_t length = 0;

	for (node = list->next; node != list; node = node->next)
		length++;
	return length;
}

static void describe(const struct extent *extent, struct extent_info *out)
{
	out->extent = extent->number;
	out->namespace = extent->namespace;
	out->length = extent->length;
	out->class = extent->class;
}

/* Grants what was collected to the namespace. */
static int grant_all(struct extent_pool *pool, uint64_t namespace, struct reservation *reservation,
		     struct extent_info **out, size_t *nr_out)
{
	struct extent *extent, *next;
	struct extent_info *infos;
	size_t nr_infos = 0;
	int ret;

	infos = calloc(list_length(&reservation->taken), sizeof(*infos));
	if (!infos)
		return error_code(-ENOMEM);
	ret = register_all(pool, namespace, reservation);
	if (ret != 0)
		goto out_free;

	pthread_mutex_lock(&pool->lock);
	ret = enroll_all(pool, namespace, reservation);
	if (ret != 0) {
		pthread_mutex_unlock(&pool->lock);
		goto out_deregister;
	}
	cds_list_for_each_entry_safe (extent, next, &reservation->taken, node) {
		extent_move(pool, extent, EXTENT_GRANTED);
		describe(extent, &infos[nr_infos++]);
	}
	pool->reserving -= reservation->bytes;
	pthread_mutex_unlock(&pool->lock);
	*out = infos;
	*nr_out = nr_infos;
	return 0;

out_deregister:
	deregister_all(pool, reservation, NULL);
out_free:
	free(infos);
	return ret;
}

/* Promises the bytes if the capacity has them. */
static int admit(struct extent_pool *pool, uint64_t namespace, uint64_t bytes)
{
	uint64_t promised = pool->bytes[EXTENT_GRANTED] + pool->reserving;

	if (namespace == 0 || bytes == 0 || bytes % SEGMENT_MIN != 0)
		return error_fail(-EINVAL,
				  "reserve %llu bytes for namespace %llu: not a namespace, or not "
				  "a multiple of 2 MiB",
				  (unsigned long long)bytes, (unsigned long long)namespace);
	if (bytes > pool->options.capacity_bytes - promised)
		return fail_full(pool, bytes, "the server has not so much free");
	pool->reserving += bytes;
	return 0;
}

/* Collects and grants what was admitted. Called with the lock held; releases it. */
static int reserve_admitted(struct extent_pool *pool, uint64_t namespace,
			    struct reservation *reservation, struct extent_info **out,
			    size_t *nr_out)
{
	int ret;

	ret = collect(pool, reservation);
	pthread_mutex_unlock(&pool->lock);
	if (ret == 0)
		ret = grant_all(pool, namespace, reservation, out, nr_out);
	if (ret != 0)
		give_up(pool, reservation);
	extent_notify(pool);
	return ret;
}

static int reserve(struct extent_pool *pool, uint64_t namespace, uint64_t bytes, uint64_t deadline,
		   enum extent_class class, struct extent_info **out, size_t *nr_out)
{
	struct reservation reservation = {
		.bytes = bytes, .missing = bytes, .deadline = deadline, .class = class};
	int ret;

	CDS_INIT_LIST_HEAD(&reservation.taken);
	pthread_mutex_lock(&pool->lock);
	ret = admit(pool, namespace, bytes);
	if (ret != 0) {
		pthread_mutex_unlock(&pool->lock);
		return ret;
	}
	return reserve_admitted(pool, namespace, &reservation, out, nr_out);
}

int extent_pool_reserve(struct extent_pool *pool, uint64_t namespace, uint64_t bytes,
			uint64_t deadline, struct extent_info **out, size_t *nr_out)
{
	return reserve(pool, namespace, bytes, deadline, CLASS_DRAM, out, nr_out);
}

/* Makes the memory of sealed extents read-only for all processes that are lent it. It cannot be
 * used for anything else afterwards. */
static int lock_all(struct extent_pool *pool, struct extent_info **infos, size_t nr_infos)
{
	int ret = 0;

	pthread_mutex_lock(&pool->lock);
	for (size_t i = 0; i < nr_infos && ret == 0; i++) {
		struct extent *extent = extent_find(pool, (*infos)[i].extent);

		extent->was_lent = true;
		ret = shared_make_read_only(extent->addr, extent->length);
	}
	pthread_mutex_unlock(&pool->lock);
	if (ret == 0)
		return 0;
	for (size_t i = 0; i < nr_infos; i++)
		extent_pool_release(pool, &(*infos)[i].extent, 1);
	free(*infos);
	return ret;
}

int extent_pool_reserve_sealed(struct extent_pool *pool, uint64_t namespace, uint64_t bytes,
			       uint64_t deadline, struct extent_info **out, size_t *nr_out)
{
	int ret = reserve(pool, namespace, bytes, deadline, CLASS_DRAM_SEALED, out, nr_out);

	if (ret == 0 && pool->options.is_shared)
		ret = lock_all(pool, out, *nr_out);
	return ret;
}

int extent_pool_reserve_clean(struct extent_pool *pool, uint64_t namespace, uint64_t bytes,
			      struct extent_info **out, size_t *nr_out)
{
	struct reservation reservation = {
		.bytes = bytes, .missing = bytes, .deadline = CLOCK_NEVER};
	int ret;

	CDS_INIT_LIST_HEAD(&reservation.taken);
	pthread_mutex_lock(&pool->lock);
	ret = -EAGAIN;
	if (!pool->options.is_shared && pool->bytes[EXTENT_CLEAN] >= bytes)
		ret = admit(pool, namespace, bytes);
	if (ret != 0) {
		pthread_mutex_unlock(&pool->lock);
		return ret;
	}
	return reserve_admitted(pool, namespace, &reservation, out, nr_out);
}

/* ---- Releasing, and what is had */

/* The caller holds the lock. */
static void start_draining(struct extent_pool *pool, struct extent *extent,
			   struct extent_drain *drain)
{
	extent_move(pool, extent, EXTENT_DRAINING);
	cds_list_add_tail(&extent->drained, &drain->extents);
	drain->nr_extents++;
}

/* Ends the keys of draining extents, which is slow on some transports. No lock is needed, because
 * nothing else looks at their keys. */
static void end_keys(struct extent_pool *pool, struct extent_drain *drain)
{
	struct extent *extent;

	cds_list_for_each_entry (extent, &drain->extents, drained)
		deregister(pool, extent);
}

void extent_pool_drain(struct extent_pool *pool, const uint64_t *extents, size_t nr_extents,
		       struct extent_drain *out)
{
	struct extent *extent;

	*out = (struct extent_drain){.nr_extents = 0};
	CDS_INIT_LIST_HEAD(&out->extents);
	pthread_mutex_lock(&pool->lock);
	for (size_t i = 0; i < nr_extents; i++) {
		extent = extent_find(pool, extents[i]);
		if (extent)
			start_draining(pool, extent, out);
	}
	pthread_mutex_unlock(&pool->lock);
	end_keys(pool, out);
	if (out->nr_extents > 0)
		extent_notify(pool);
}

void extent_pool_drained(struct extent_pool *pool, struct extent_drain *drain)
{
	struct extent *extent, *next;

	if (drain->nr_extents == 0)
		return;
	pthread_mutex_lock(&pool->lock);
	cds_list_for_each_entry_safe (extent, next, &drain->extents, drained) {
		cds_list_del_init(&extent->drained);
		extent_move(pool, extent, EXTENT_DIRTY);
	}
	pthread_mutex_unlock(&pool->lock);
	extent_notify(pool);
}

size_t extent_pool_release(struct extent_pool *pool, const uint64_t *extents, size_t nr_extents)
{
	struct extent_drain drain;

	extent_pool_drain(pool, extents, nr_extents, &drain);
	extent_pool_drained(pool, &drain);
	return drain.nr_extents;
}

bool extent_drain_reached(const struct extent_drain *drain, uint64_t namespace)
{
	const struct extent *extent;

	cds_list_for_each_entry (extent, &drain->extents, drained) {
		if (extent->was_reached && extent->namespace == namespace)
			return true;
	}
	return false;
}

void extent_drain_namespaces(const struct extent_drain *drain,
			     void (*each)(const void *context, uint64_t namespace),
			     const void *context)
{
	const struct extent *extent;
	uint64_t last = 0; /* the number of no namespace */

	cds_list_for_each_entry (extent, &drain->extents, drained) {
		if (extent->namespace != last)
			each(context, extent->namespace);
		last = extent->namespace;
	}
}

/* Makes a key. The caller holds the lock, against draining. */
static int make_key(struct extent_pool *pool, struct extent *extent, struct reach reach,
		    struct extent_key *out)
{
	const struct fabric_memory *on = extent->keys[reach.may_write].on;
	int ret = register_for(pool, extent, reach);

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

int extent_pool_list(struct extent_pool *pool, struct extent_info **out, size_t *nr_out)
{
	struct extent_info *infos;
	struct extent *extent;
	size_t nr_infos = 0;

	pthread_mutex_lock(&pool->lock);
	infos = calloc(pool->nr_granted + list_length(&pool->draining) + 1, sizeof(*infos));
	if (infos) {
		cds_list_for_each_entry (extent, &pool->granted, node)
			describe(extent, &infos[nr_infos++]);
		cds_list_for_each_entry (extent, &pool->draining, node)
			describe(extent, &infos[nr_infos++]);
	}
	pthread_mutex_unlock(&pool->lock);
	if (!infos)
		return error_code(-ENOMEM);
	*out = infos;
	*nr_out = nr_infos;
	return 0;
}

/* ---- Life */

static void init_lists(struct extent_pool *pool)
{
	size_t i;

	CDS_INIT_LIST_HEAD(&pool->granted);
	CDS_INIT_LIST_HEAD(&pool->draining);
	CDS_INIT_LIST_HEAD(&pool->dirty);
	for (i = 0; i <= NR_SIZES; i++)
		CDS_INIT_LIST_HEAD(&pool->clean[i]);
}

/* Deadlines are on the monotonic clock. */
static void init_supply(pthread_cond_t *supply)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(supply, &attributes);
	pthread_condattr_destroy(&attributes);
}

int extent_pool_open(const struct extent_pool_options *options, struct extent_pool **out)
{
	struct extent_pool *pool = calloc(1, sizeof(*pool));
	int ret;

	if (!pool)
		return error_code(-ENOMEM);
	pool->options = *options;
	pool->options.capacity_bytes -= options->capacity_bytes % SEGMENT_MIN;
	/* Numbers of an earlier start are invalid. Begin at a random number, which they have hardly
	 * reached. */
	if (RAND_bytes((unsigned char *)&pool->next_number, sizeof(pool->next_number)) != 1) {
		ret = error_fail(-EIO, "start the server: no randomness");
		goto out_free;
	}
	pool->next_number = (pool->next_number >> 16) | 1;
	pthread_mutex_init(&pool->lock, NULL);
	init_supply(&pool->supply);
	pthread_cond_init(&pool->work, NULL);
	init_lists(pool);
	ret = scrubber_start(pool);
	if (ret != 0)
		goto out_destroy;
	*out = pool;
	return 0;

out_destroy:
	pthread_cond_destroy(&pool->work);
	pthread_cond_destroy(&pool->supply);
	pthread_mutex_destroy(&pool->lock);
out_free:
	free(pool);
	return ret;
}

void extent_pool_stop(struct extent_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	pool->is_stopping = true;
	pthread_cond_broadcast(&pool->supply);
	pthread_mutex_unlock(&pool->lock);
}

static void drop_all(struct extent_pool *pool, struct cds_list_head *list)
{
	struct extent *extent, *next;

	cds_list_for_each_entry_safe (extent, next, list, node) {
		extent_move(pool, extent, EXTENT_GONE);
		segment_unmap(extent->addr, extent->length);
		free(extent);
	}
}

void extent_pool_close(struct extent_pool *pool)
{
	struct extent *extent, *next;
	struct extent_drain drain = {.extents = CDS_LIST_HEAD_INIT(drain.extents)};
	size_t i;

	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->is_closing = true;
	pthread_cond_signal(&pool->work);
	pthread_mutex_unlock(&pool->lock);
	pthread_join(pool->scrubber, NULL);

	cds_list_for_each_entry_safe (extent, next, &pool->granted, node)
		start_draining(pool, extent, &drain);
	end_keys(pool, &drain);
	cds_list_for_each_entry_safe (extent, next, &drain.extents, drained)
		extent_move(pool, extent, EXTENT_DIRTY);
	drop_all(pool, &pool->dirty);
	for (i = 0; i <= NR_SIZES; i++)
		drop_all(pool, &pool->clean[i]);

	pthread_cond_destroy(&pool->work);
	pthread_cond_destroy(&pool->supply);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}
