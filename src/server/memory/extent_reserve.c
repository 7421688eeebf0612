/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reserving extents: takes what is clean, populates what is missing, and waits for what is being
 * scrubbed. Then it makes keys where that is slow, and grants. Called by orders and the control port,
 * on any thread; several reservations may wait at once.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/shared.h"
#include "memory/segment.h"
#include "server/memory/extent_book.h"

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
		until = clock_to_timespec(reservation->deadline);
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
 * Collects all that is asked for. This ends, because no more than the capacity is ever promised.
 * When nothing is clean, draining, dirty or under the scrubber, there is room to populate what is
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

static void extents_unmap(struct cds_list_head *gone)
{
	struct extent *extent, *next;

	cds_list_for_each_entry_safe (extent, next, gone, node) {
		segment_unmap(extent->addr, extent->length);
		free(extent);
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

static void deregister_all(struct extent_pool *pool, struct reservation *reservation,
			   const struct extent *end)
{
	struct extent *extent;

	cds_list_for_each_entry (extent, &reservation->taken, node) {
		if (extent == end)
			return;
		extent_keys_end(pool, extent);
	}
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
		ret = extent_key_register(pool, extent, reach);
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

/* Grants what was collected to the namespace. */
static int grant_all(struct extent_pool *pool, uint64_t namespace, struct reservation *reservation,
		     struct extent_info **out, size_t *nr_out)
{
	struct extent *extent, *next;
	struct extent_info *infos;
	size_t nr_infos = 0;
	int ret;

	infos = calloc(extent_list_length(&reservation->taken), sizeof(*infos));
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
		infos[nr_infos++] = extent_describe(extent);
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
