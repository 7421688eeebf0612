/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool of extents, its memory reached as peers reach it: through a data port and keys. All or
 * nothing, never two holders, always zeroed, no way in after a release; a random walk against a model.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/shared.h"
#include "data_client.h"
#include "memory/segment.h"
#include "server/extent.h"
#include "server/progress.h"
#include "server/selfcheck.h"

#define MIB ((uint64_t)1 << 20)

/* A pool with a data port that admits everybody. */
static const struct reach mine = {1, true}, others = {2, true}, read_only = {1, false};

struct bed {
	struct fabric *fabric;
	struct domains *domains;
	struct extent_pool *pool;
	struct progress *progress;
	struct data_client client;
	struct reach reach; /* that it is connected for */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_settled;
};

static void on_settled(void *context)
{
	struct bed *bed = context;

	pthread_mutex_lock(&bed->lock);
	bed->is_settled = true;
	pthread_cond_broadcast(&bed->changed);
	pthread_mutex_unlock(&bed->lock);
}

static bool is_nobodys(const void *argument, const struct admission *connection)
{
	(void)argument;
	(void)connection;
	return false;
}

/* Waits for the progress thread to have done what it was at, as a fence does. */
static void settle(struct bed *bed)
{
	const struct progress_order order = {is_nobodys, on_settled, bed};
	struct progress_closing *closing;

	assert_int_equal(progress_closing_new(bed->progress, &closing), 0);
	bed->is_settled = false;
	progress_close(closing, &order);
	pthread_mutex_lock(&bed->lock);
	while (!bed->is_settled)
		pthread_cond_wait(&bed->changed, &bed->lock);
	pthread_mutex_unlock(&bed->lock);
}

static void on_changed(void *context)
{
	struct bed *bed = context;

	pthread_mutex_lock(&bed->lock);
	pthread_cond_broadcast(&bed->changed);
	pthread_mutex_unlock(&bed->lock);
}

/* Whoever comes gets what they say they want. */
static int admit(void *context, const void *shown, size_t length, struct admission *out)
{
	(void)context;
	assert_int_equal(length, sizeof(out->reach));
	out->session = 1;
	memcpy(&out->reach, shown, sizeof(out->reach));
	return 0;
}

/* Anew, for this. */
static void bed_connect(struct bed *bed, uint64_t namespace, bool may_write)
{
	data_client_disconnect(&bed->client);
	bed->reach = (struct reach){.namespace = namespace, .may_write = may_write};
	assert_int_equal(data_client_connect(&bed->client, progress_address(bed->progress),
					     &bed->reach, sizeof(bed->reach)),
			 0);
}

static void bed_open(struct bed *bed, uint64_t capacity_bytes, uint64_t pool_bytes)
{
	struct extent_pool_options pool = {.capacity_bytes = capacity_bytes,
					   .pool_bytes = pool_bytes,
					   .is_shared = is_on_local(),
					   .changed = on_changed,
					   .context = bed};
	struct progress_options progress = {.address = any_port(),
					    .nr_threads = 1,
					    .spin_us = 50,
					    .admit = admit,
					    .changed = on_changed,
					    .context = bed};

	pthread_mutex_init(&bed->lock, NULL);
	pthread_cond_init(&bed->changed, NULL);
	assert_int_equal(fabric_open_at(test_transport(), any_port(), &bed->fabric), 0);
	assert_int_equal(domains_open(&bed->fabric, 1, &bed->domains), 0);
	pool.domains = progress.domains = bed->domains;
	progress.fabric = bed->fabric;
	assert_int_equal(extent_pool_open(&pool, &bed->pool), 0);
	assert_int_equal(progress_start(&progress, &bed->progress), 0);
	data_client_open(&bed->client);
	bed_connect(bed, 1, true);
}

static void bed_close(struct bed *bed)
{
	data_client_close(&bed->client);
	progress_stop(bed->progress);
	extent_pool_close(bed->pool);
	domains_close(bed->domains);
	fabric_close(bed->fabric);
	pthread_cond_destroy(&bed->changed);
	pthread_mutex_destroy(&bed->lock);
}

static struct extent_pool_stat stat_of(struct bed *bed)
{
	struct extent_pool_stat stat;

	extent_pool_stat(bed->pool, &stat);
	return stat;
}

/* Waits until the scrubber has nothing left. */
static void await_scrubbed(struct bed *bed)
{
	pthread_mutex_lock(&bed->lock);
	while (stat_of(bed).dirty_bytes > 0)
		pthread_cond_wait(&bed->changed, &bed->lock);
	pthread_mutex_unlock(&bed->lock);
}

static size_t reserve(struct bed *bed, uint64_t namespace, uint64_t bytes, struct extent_info **out)
{
	size_t nr_extents;

	assert_int_equal(
		extent_pool_reserve(bed->pool, namespace, bytes, CLOCK_NEVER, out, &nr_extents), 0);
	return nr_extents;
}

static int transfer(struct bed *bed, const struct extent_info *extent, int is_write, void *data,
		    size_t length, uint64_t offset)
{
	const struct reach reach = {.namespace = extent->namespace, .may_write = true};
	struct extent_key key;

	assert_int_equal(extent_pool_key(bed->pool, extent->extent, reach, &key), 0);
	if (bed->reach.namespace != reach.namespace || !bed->reach.may_write)
		bed_connect(bed, reach.namespace, true);
	assert_int_equal(key.length, extent->length);
	return data_client_transfer(&bed->client, is_write, data, length, key.on[0].origin + offset,
				    key.on[0].key);
}

static void fill(struct bed *bed, const struct extent_info *extent, int byte)
{
	char *data = malloc(extent->length);

	assert_non_null(data);
	memset(data, byte, extent->length);
	assert_int_equal(transfer(bed, extent, 1, data, extent->length, 0), 0);
	free(data);
}

static void assert_filled(struct bed *bed, const struct extent_info *extent, char byte)
{
	char *data = malloc(extent->length);

	assert_non_null(data);
	memset(data, ~byte, extent->length);
	assert_int_equal(transfer(bed, extent, 0, data, extent->length, 0), 0);
	assert_true(data[0] == byte && memcmp(data, data + 1, extent->length - 1) == 0);
	free(data);
}

static void release_all(struct bed *bed, struct extent_info *extents, size_t nr_extents)
{
	size_t i;

	settle(bed);
	for (i = 0; i < nr_extents; i++)
		assert_int_equal(extent_pool_release(bed->pool, &extents[i].extent, 1), 1);
	free(extents);
}

static void test_all_or_nothing(void **state)
{
	struct extent_info *held, *none = NULL;
	struct bed bed;
	size_t nr_held, nr_none;

	(void)state;
	bed_open(&bed, 16 * MIB + 4096, 0);
	assert_int_equal(stat_of(&bed).capacity_bytes, 16 * MIB);
	nr_held = reserve(&bed, 1, 10 * MIB, &held);
	assert_int_equal(extent_pool_reserve(bed.pool, 2, 8 * MIB, CLOCK_NEVER, &none, &nr_none),
			 -ENOSPC);
	assert_non_null(strstr(afar_last_error(), "16 MiB of capacity, 10 MiB granted"));
	assert_int_equal(stat_of(&bed).granted_bytes, 10 * MIB);

	release_all(&bed, held, nr_held);
	nr_held = reserve(&bed, 2, 16 * MIB, &held);
	release_all(&bed, held, nr_held);
	bed_close(&bed);
}

static void test_absurd(void **state)
{
	static const uint64_t odd[] = {0, 1, 4096, 2 * MIB - 1, 2 * MIB + 1, UINT64_MAX};
	static const uint64_t absurd[] = {UINT64_MAX / (2 * MIB) * (2 * MIB), (uint64_t)1 << 63};
	struct extent_info *out;
	struct bed bed;
	size_t nr_out, i;

	(void)state;
	/* More than any machine has: the pool would, the kernel does not. */
	bed_open(&bed, (uint64_t)1 << 50, 0);
	for (i = 0; i < sizeof(odd) / sizeof(*odd); i++)
		assert_int_equal(
			extent_pool_reserve(bed.pool, 1, odd[i], CLOCK_NEVER, &out, &nr_out),
			-EINVAL);
	assert_int_equal(extent_pool_reserve(bed.pool, 0, 2 * MIB, CLOCK_NEVER, &out, &nr_out),
			 -EINVAL);
	for (i = 0; i < sizeof(absurd) / sizeof(*absurd); i++)
		assert_int_equal(
			extent_pool_reserve(bed.pool, 1, absurd[i], CLOCK_NEVER, &out, &nr_out),
			-ENOSPC);
	assert_int_equal(
		extent_pool_reserve(bed.pool, 1, (uint64_t)1 << 49, CLOCK_NEVER, &out, &nr_out),
		-ENOSPC);
	assert_int_equal(stat_of(&bed).granted_bytes + stat_of(&bed).clean_bytes, 0);
	bed_close(&bed);
}

static void test_zeroed_for_the_next(void **state)
{
	struct extent_info *first, *second;
	size_t nr_first, nr_second, i;
	struct bed bed;

	(void)state;
	bed_open(&bed, 32 * MIB, 0);
	nr_first = reserve(&bed, 1, 32 * MIB, &first);
	for (i = 0; i < nr_first; i++) {
		assert_filled(&bed, &first[i], 0);
		fill(&bed, &first[i], 0x5a);
		assert_filled(&bed, &first[i], 0x5a);
	}
	release_all(&bed, first, nr_first);
	await_scrubbed(&bed);
	assert_int_equal(stat_of(&bed).clean_bytes, 32 * MIB);

	/* From the pool, in another cut; and then when the scrubber has to be waited for. */
	for (int round = 0; round < 2; round++) {
		nr_second = reserve(&bed, 2, 12 * MIB, &second);
		for (i = 0; i < nr_second; i++) {
			assert_filled(&bed, &second[i], 0);
			fill(&bed, &second[i], 0x77);
		}
		nr_first = reserve(&bed, 3, 20 * MIB, &first);
		for (i = 0; i < nr_first; i++) {
			assert_filled(&bed, &first[i], 0);
			fill(&bed, &first[i], 0x33);
		}
		release_all(&bed, first, nr_first);
		release_all(&bed, second, nr_second);
	}
	bed_close(&bed);
}

static void test_no_way_in_after_release(void **state)
{
	struct extent_info *extents, *next;
	struct extent_drain drain;
	struct extent_key key, late;
	char data[64] = "late";
	size_t nr_extents;
	struct bed bed;

	(void)state;
	bed_open(&bed, 2 * MIB, 0);
	nr_extents = reserve(&bed, 1, 2 * MIB, &extents);
	assert_int_equal(nr_extents, 1);
	assert_int_equal(extent_pool_key(bed.pool, extents[0].extent, mine, &key), 0);
	assert_int_equal(extent_pool_key(bed.pool, extents[0].extent, others, &late), -AFAR_ELOST);
	assert_int_equal(
		data_client_write(&bed.client, data, sizeof(data), key.on[0].origin, key.on[0].key),
		0);
	/* Past the end is refused too, and costs the connection. */
	assert_int_not_equal(data_client_write(&bed.client, data, sizeof(data),
					       key.on[0].origin + key.length - sizeof(data) + 1,
					       key.on[0].key),
			     0);
	bed_connect(&bed, 1, true);

	extent_pool_drain(bed.pool, &extents[0].extent, 1, &drain);
	settle(&bed);
	extent_pool_drained(bed.pool, &drain);
	assert_int_equal(extent_pool_release(bed.pool, &extents[0].extent, 1), 0);
	assert_int_equal(extent_pool_key(bed.pool, extents[0].extent, mine, &late), -AFAR_ELOST);
	assert_int_not_equal(
		data_client_write(&bed.client, data, sizeof(data), key.on[0].origin, key.on[0].key),
		0);
	/* Nor into what the next holder got of the same memory. */
	reserve(&bed, 2, 2 * MIB, &next);
	assert_int_not_equal(next[0].extent, extents[0].extent);
	bed_connect(&bed, 2, true);
	assert_int_not_equal(
		data_client_write(&bed.client, data, sizeof(data), key.on[0].origin, key.on[0].key),
		0);
	bed_connect(&bed, 2, true);
	assert_filled(&bed, &next[0], 0);
	free(extents);
	release_all(&bed, next, 1);
	bed_close(&bed);
}

/* Whether the pool says that somebody has the extent. */
static bool is_listed(struct bed *bed, uint64_t extent)
{
	struct extent_info *listed;
	bool is_found = false;
	size_t nr_listed, i;

	assert_int_equal(extent_pool_list(bed->pool, &listed, &nr_listed), 0);
	for (i = 0; i < nr_listed; i++)
		is_found = is_found || listed[i].extent == extent;
	free(listed);
	return is_found;
}

static void test_draining(void **state)
{
	struct extent_info *extents, *next;
	struct extent_drain drain, again;
	struct extent_key key;
	size_t nr_extents, nr_next;
	uint64_t twice[2];
	struct bed bed;

	(void)state;
	bed_open(&bed, 4 * MIB, 0);
	nr_extents = reserve(&bed, 1, 4 * MIB, &extents);
	assert_int_equal(nr_extents, 1);
	fill(&bed, &extents[0], 0x11);
	twice[0] = twice[1] = extents[0].extent;
	extent_pool_drain(bed.pool, twice, 2, &drain);
	assert_int_equal(drain.nr_extents, 1);
	extent_pool_drain(bed.pool, twice, 2, &again);
	assert_int_equal(again.nr_extents, 0);
	extent_pool_drained(bed.pool, &again);

	/* No keys any more, but it is not free yet: nobody gets the memory, and the manager is told. */
	assert_int_equal(extent_pool_key(bed.pool, extents[0].extent, mine, &key), -AFAR_ELOST);
	assert_int_equal(extent_pool_key(bed.pool, extents[0].extent, read_only, &key),
			 -AFAR_ELOST);
	assert_int_equal(stat_of(&bed).draining_bytes, 4 * MIB);
	assert_int_equal(stat_of(&bed).dirty_bytes, 0);
	assert_true(is_listed(&bed, extents[0].extent));
	assert_int_equal(
		extent_pool_reserve(bed.pool, 2, 2 * MIB, clock_ns() + 1000000, &next, &nr_next),
		-ETIMEDOUT);

	settle(&bed);
	extent_pool_drained(bed.pool, &drain);
	assert_false(is_listed(&bed, extents[0].extent));
	nr_next = reserve(&bed, 2, 4 * MIB, &next);
	assert_int_equal(stat_of(&bed).scrubbed_bytes, 4 * MIB);
	assert_true(stat_of(&bed).scrub_bytes_per_s > 0);
	assert_filled(&bed, &next[0], 0);
	free(extents);
	release_all(&bed, next, nr_next);
	bed_close(&bed);
}

/* A key is worth something on connections for just the same, also where registering is slow. */
static void test_keys_are_of_one_domain(void **state)
{
	struct extent_pool_options options = {
		.capacity_bytes = 2 * MIB, .is_registering_slow = true, .is_shared = is_on_local()};
	struct extent_key read, both, again;
	struct extent_info *extents;
	size_t nr_extents;
	char data[8] = "before";
	struct bed bed;

	(void)state;
	bed_open(&bed, 2 * MIB, 0);
	extent_pool_close(bed.pool);
	options.domains = bed.domains;
	assert_int_equal(extent_pool_open(&options, &bed.pool), 0);
	nr_extents = reserve(&bed, 1, 2 * MIB, &extents);
	assert_int_equal(extent_pool_key(bed.pool, extents[0].extent, read_only, &read), 0);
	assert_int_equal(extent_pool_key(bed.pool, extents[0].extent, mine, &both), 0);
	assert_int_equal(extent_pool_key(bed.pool, extents[0].extent, mine, &again), 0);
	assert_int_equal(again.on[0].key, both.on[0].key);
	assert_int_equal(data_client_write(&bed.client, data, 8, both.on[0].origin, both.on[0].key),
			 0);
	bed_connect(&bed, 1, false);
	assert_int_equal(data_client_read(&bed.client, data, 8, read.on[0].origin, read.on[0].key),
			 0);
	assert_string_equal(data, "before");
	assert_int_not_equal(
		data_client_write(&bed.client, "after!!", 8, read.on[0].origin, read.on[0].key), 0);
	bed_connect(&bed, 1, false);
	assert_int_not_equal(
		data_client_write(&bed.client, "after!!", 8, both.on[0].origin, both.on[0].key), 0);
	bed_connect(&bed, 2, true);
	assert_int_not_equal(
		data_client_write(&bed.client, "after!!", 8, both.on[0].origin, both.on[0].key), 0);
	bed_connect(&bed, 1, true);
	assert_int_equal(data_client_read(&bed.client, data, 8, both.on[0].origin, both.on[0].key),
			 0);
	assert_string_equal(data, "before");
	data_client_disconnect(&bed.client);
	release_all(&bed, extents, nr_extents);
	bed_close(&bed);
}

static void test_pool_limit(void **state)
{
	struct extent_info *extents;
	size_t nr_extents;
	struct bed bed;

	(void)state;
	bed_open(&bed, 16 * MIB, 4 * MIB);
	nr_extents = reserve(&bed, 1, 2 * MIB, &extents);
	release_all(&bed, extents, nr_extents);
	await_scrubbed(&bed);
	assert_int_equal(stat_of(&bed).clean_bytes, 2 * MIB);
	nr_extents = reserve(&bed, 1, 16 * MIB, &extents);
	release_all(&bed, extents, nr_extents);
	await_scrubbed(&bed);
	assert_true(stat_of(&bed).clean_bytes <= 4 * MIB);
	/* What was let go can be populated again. */
	nr_extents = reserve(&bed, 1, 16 * MIB, &extents);
	release_all(&bed, extents, nr_extents);
	bed_close(&bed);
}

static void test_large_extents_and_deadline(void **state)
{
	struct extent_info *extents, *none;
	size_t nr_extents, nr_none;
	struct bed bed;

	(void)state;
	bed_open(&bed, EXTENT_BYTES_MAX + 64 * MIB, 0);
	nr_extents = reserve(&bed, 1, EXTENT_BYTES_MAX + 64 * MIB, &extents);
	assert_int_equal(nr_extents, 2);
	assert_int_equal(extents[0].length + extents[1].length, EXTENT_BYTES_MAX + 64 * MIB);
	assert_true(extents[0].length <= EXTENT_BYTES_MAX && extents[1].length <= EXTENT_BYTES_MAX);

	/* Split off and merged back, it is whole again. */
	release_all(&bed, extents, nr_extents);
	assert_int_equal(extent_pool_reserve_clean(bed.pool, 1, EXTENT_BYTES_MAX + 66 * MIB, &none,
						   &nr_none),
			 -EAGAIN);
	await_scrubbed(&bed);
	/* What is shared is not split: room is made for another. */
	assert_int_equal(extent_pool_reserve_clean(bed.pool, 1, 128 * MIB, &extents, &nr_extents),
			 is_on_local() ? -EAGAIN : 0);
	if (is_on_local())
		nr_extents = reserve(&bed, 1, 128 * MIB, &extents);
	release_all(&bed, extents, nr_extents);
	await_scrubbed(&bed);
	nr_extents = reserve(&bed, 2, EXTENT_BYTES_MAX, &extents);
	assert_true(nr_extents == 1 || is_on_local());
	release_all(&bed, extents, nr_extents);
	extent_pool_stop(bed.pool);
	assert_int_equal(extent_pool_reserve(bed.pool, 1, 2 * MIB, CLOCK_NEVER, &none, &nr_none),
			 -ECANCELED);
	bed_close(&bed);
}

/* The file behind an extent that somebody has. */
static ino_t file_of(struct bed *bed, const struct extent_info *extent)
{
	uint64_t *word;
	struct stat file;

	assert_int_equal(extent_pool_word(bed->pool, extent->extent, extent->namespace, 0, &word),
			 0);
	assert_int_equal(fstat(shared_descriptor(word, extent->length), &file), 0);
	return file.st_ino;
}

/* Whoever has had the memory may have kept it: the next one's is other memory, if it was lent to anybody. */
static void test_exchanges_what_was_lent(void **state)
{
	struct extent_info *extents;
	uint64_t data = 0x5a5a;
	struct bed bed;
	ino_t first;

	(void)state;
	if (!is_on_local())
		skip();
	for (int was_lent = 0; was_lent < 2; was_lent++) {
		bed_open(&bed, 4 * MIB, 0);
		assert_int_equal(reserve(&bed, 1, 4 * MIB, &extents), 1);
		first = file_of(&bed, &extents[0]);
		if (was_lent)
			assert_int_equal(transfer(&bed, &extents[0], 1, &data, 8, 0), 0);
		data_client_disconnect(&bed.client);
		release_all(&bed, extents, 1);
		await_scrubbed(&bed);
		assert_int_equal(reserve(&bed, 2, 4 * MIB, &extents), 1);
		if (was_lent)
			assert_int_not_equal(file_of(&bed, &extents[0]), first);
		else
			assert_int_equal(file_of(&bed, &extents[0]), first);
		assert_int_equal(transfer(&bed, &extents[0], 0, &data, 8, 0), 0);
		assert_int_equal(data, 0);
		release_all(&bed, extents, 1);
		bed_close(&bed);
	}
}

/* Before it lends anything, a server tries whether its transport keeps to its keys. */
static void test_transport_keeps_to_its_keys(void **state)
{
	struct fabric *fabric;

	(void)state;
	assert_int_equal(fabric_open(test_transport(), &fabric), 0);
	assert_int_equal(selfcheck(fabric, any_port()), 0);
	fabric_close(fabric);
}

/* ---- A random walk: the model knows who has what, and every extent bears its holder's mark. */

#define WALK_CAPACITY (64 * MIB)
#define WALK_STEPS    400
#define WALK_HELD_MAX 64

static unsigned random_below(unsigned *state, unsigned limit)
{
	*state = *state * 1103515245U + 12345U;
	return (*state >> 16) % limit;
}

static uint64_t mark_of(const struct extent_info *extent)
{
	return extent->extent * 0x9e3779b97f4a7c15U ^ extent->namespace;
}

/* First and last word: somebody else's extent over this one would touch one of them, or be found by
 * its own. */
static void mark(struct bed *bed, const struct extent_info *extent)
{
	uint64_t word = mark_of(extent), zero[2] = {1, 1};

	assert_int_equal(transfer(bed, extent, 0, &zero[0], 8, 0), 0);
	assert_int_equal(transfer(bed, extent, 0, &zero[1], 8, extent->length - 8), 0);
	assert_true(zero[0] == 0 && zero[1] == 0);
	assert_int_equal(transfer(bed, extent, 1, &word, 8, 0), 0);
	assert_int_equal(transfer(bed, extent, 1, &word, 8, extent->length - 8), 0);
}

static void check_mark(struct bed *bed, const struct extent_info *extent)
{
	uint64_t words[2] = {0, 0};

	assert_int_equal(transfer(bed, extent, 0, &words[0], 8, 0), 0);
	assert_int_equal(transfer(bed, extent, 0, &words[1], 8, extent->length - 8), 0);
	assert_true(words[0] == mark_of(extent) && words[1] == mark_of(extent));
}

static void check_listed(struct bed *bed, const struct extent_info *held, size_t nr_held)
{
	struct extent_info *listed;
	size_t nr_listed, i, j;

	assert_int_equal(extent_pool_list(bed->pool, &listed, &nr_listed), 0);
	assert_int_equal(nr_listed, nr_held);
	for (i = 0; i < nr_held; i++) {
		for (j = 0; j < nr_listed; j++) {
			if (memcmp(&held[i], &listed[j], sizeof(held[i])) == 0)
				break;
		}
		assert_true(j < nr_listed);
	}
	free(listed);
}

static void walk(uint64_t pool_bytes, unsigned random)
{
	struct extent_info held[WALK_HELD_MAX], *got;
	uint64_t granted = 0, bytes;
	size_t nr_held = 0, nr_got, i;
	struct bed bed;
	int status;

	bed_open(&bed, WALK_CAPACITY, pool_bytes);
	for (unsigned step = 0; step < WALK_STEPS; step++) {
		if (random_below(&random, 2) == 0) {
			bytes = (1 + random_below(&random, 12)) * 2 * MIB;
			status = extent_pool_reserve(bed.pool, 1 + random_below(&random, 3), bytes,
						     CLOCK_NEVER, &got, &nr_got);
			assert_int_equal(status, granted + bytes <= WALK_CAPACITY ? 0 : -ENOSPC);
			if (status != 0)
				continue;
			assert_true(nr_held + nr_got <= WALK_HELD_MAX);
			for (i = 0; i < nr_got; i++) {
				mark(&bed, &got[i]);
				held[nr_held++] = got[i];
				granted += got[i].length;
				bytes -= got[i].length;
			}
			assert_int_equal(bytes, 0);
			free(got);
		} else if (nr_held > 0) {
			i = random_below(&random, (unsigned)nr_held);
			check_mark(&bed, &held[i]);
			granted -= held[i].length;
			settle(&bed);
			assert_int_equal(extent_pool_release(bed.pool, &held[i].extent, 1), 1);
			held[i] = held[--nr_held];
		}
		assert_int_equal(stat_of(&bed).granted_bytes, granted);
		assert_true(granted + stat_of(&bed).clean_bytes <= WALK_CAPACITY);
		if (step % 50 == 0)
			check_listed(&bed, held, nr_held);
	}
	for (i = 0; i < nr_held; i++)
		check_mark(&bed, &held[i]);
	bed_close(&bed);
}

static void test_walk(void **state)
{
	(void)state;
	walk(0, 1);
	walk(8 * MIB, 2);
}

/* ---- Several threads reserve and release at once */

#define NR_THREADS 4
#define NR_TURNS   50

struct worker {
	pthread_t thread;
	struct bed *bed;
	unsigned number;
	int nr_wrong;
};

static void *worker_run(void *argument)
{
	struct worker *worker = argument;
	unsigned random = worker->number + 1;
	struct extent_info *got;
	size_t nr_got, i;
	uint64_t bytes;
	int status;

	for (unsigned turn = 0; turn < NR_TURNS; turn++) {
		/* Together at most the capacity: each must always succeed. */
		bytes = (1 + random_below(&random, 4)) * 2 * MIB;
		status = extent_pool_reserve(worker->bed->pool, worker->number + 1, bytes,
					     CLOCK_NEVER, &got, &nr_got);
		if (status != 0) {
			worker->nr_wrong++;
			continue;
		}
		for (i = 0; i < nr_got; i++)
			worker->nr_wrong +=
				extent_pool_release(worker->bed->pool, &got[i].extent, 1) != 1;
		free(got);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct worker workers[NR_THREADS];
	struct bed bed;
	unsigned i;

	(void)state;
	bed_open(&bed, NR_THREADS * 8 * MIB, 0);
	for (i = 0; i < NR_THREADS; i++) {
		workers[i] = (struct worker){.bed = &bed, .number = i};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]),
				 0);
	}
	for (i = 0; i < NR_THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].nr_wrong, 0);
	}
	assert_int_equal(stat_of(&bed).granted_bytes, 0);
	await_scrubbed(&bed);
	bed_close(&bed);
}

/* To be read alone in both domains, not by the processor's atomics either; and no other process, whatever it was
 * lent, can write it. */
static void test_sealed(void **state)
{
	struct extent_info *infos;
	struct extent_key key;
	size_t nr_infos;
	uint64_t *word;
	char *at, *none, byte = 1;
	struct bed bed;
	int fd;

	(void)state;
	bed_open(&bed, 8 * MIB, 0);
	assert_int_equal(
		extent_pool_reserve_sealed(bed.pool, 1, 2 * MIB, CLOCK_NEVER, &infos, &nr_infos),
		0);
	assert_int_equal(nr_infos, 1);
	assert_true(infos[0].is_sealed);
	assert_int_equal(extent_pool_span(bed.pool, infos[0].extent, 1, true, 0, 2 * MIB, &at), 0);
	*at = 7; /* the server can */
	assert_int_equal(extent_pool_key(bed.pool, infos[0].extent, mine, &key), 0);
	assert_int_not_equal(
		data_client_write(&bed.client, &byte, 1, key.on[0].origin, key.on[0].key), 0);
	bed_connect(&bed, 1, true);
	assert_int_equal(data_client_read(&bed.client, &byte, 1, key.on[0].origin, key.on[0].key),
			 0);
	assert_int_equal(byte, 7);
	assert_int_equal(extent_pool_word(bed.pool, infos[0].extent, 1, 0, &word), -EROFS);
	assert_int_equal(extent_pool_span(bed.pool, infos[0].extent, 1, false, 0, 1, &none),
			 -AFAR_ELOST);
	if (is_on_local()) {
		fd = shared_descriptor(at, 2 * MIB);
		assert_int_equal(pwrite(fd, "x", 1, 0), -1);
		assert_ptr_equal(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	}
	data_client_disconnect(&bed.client);
	assert_int_equal(extent_pool_release(bed.pool, &infos[0].extent, 1), 1);
	free(infos);
	/* For anybody else it is as any other. */
	await_scrubbed(&bed);
	assert_int_equal(extent_pool_reserve(bed.pool, 1, 8 * MIB, CLOCK_NEVER, &infos, &nr_infos),
			 0);
	bed_connect(&bed, 1, true);
	for (size_t i = 0; i < nr_infos; i++) {
		assert_false(infos[i].is_sealed);
		assert_int_equal(extent_pool_key(bed.pool, infos[i].extent, mine, &key), 0);
		assert_int_equal(
			data_client_write(&bed.client, &byte, 1, key.on[0].origin, key.on[0].key),
			0);
	}
	free(infos);
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_or_nothing),
		cmocka_unit_test(test_absurd),
		cmocka_unit_test(test_zeroed_for_the_next),
		cmocka_unit_test(test_no_way_in_after_release),
		cmocka_unit_test(test_draining),
		cmocka_unit_test(test_keys_are_of_one_domain),
		cmocka_unit_test(test_pool_limit),
		cmocka_unit_test(test_large_extents_and_deadline),
		cmocka_unit_test(test_exchanges_what_was_lent),
		cmocka_unit_test(test_transport_keeps_to_its_keys),
		cmocka_unit_test(test_sealed),
		cmocka_unit_test(test_walk),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
