/* SPDX-License-Identifier: BSD-3-Clause */
/* A pool of extents with a data port; see extent_bed.h. */
#include "lib/server/extent_bed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "lib/base/transport.h"

static void on_settled(void *context)
{
	struct extent_bed *bed = context;

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

void extent_bed_settle(struct extent_bed *bed)
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
	struct extent_bed *bed = context;

	pthread_mutex_lock(&bed->lock);
	pthread_cond_broadcast(&bed->changed);
	pthread_mutex_unlock(&bed->lock);
}

/* Admits everybody, with what they say they want. */
static int admit(void *context, const void *shown, size_t length, struct admission *out)
{
	(void)context;
	assert_int_equal(length, sizeof(out->reach));
	out->session = 1;
	memcpy(&out->reach, shown, sizeof(out->reach));
	return 0;
}

void extent_bed_connect(struct extent_bed *bed, uint64_t namespace, bool may_write)
{
	data_client_disconnect(&bed->client);
	bed->reach = (struct reach){.namespace = namespace, .may_write = may_write};
	assert_int_equal(data_client_connect(&bed->client, progress_address(bed->progress),
					     &bed->reach, sizeof(bed->reach)),
			 0);
}

void extent_bed_open(struct extent_bed *bed, uint64_t capacity_bytes, uint64_t pool_bytes)
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
	extent_bed_connect(bed, 1, true);
}

void extent_bed_close(struct extent_bed *bed)
{
	data_client_close(&bed->client);
	progress_stop(bed->progress);
	extent_pool_close(bed->pool);
	domains_close(bed->domains);
	fabric_close(bed->fabric);
	pthread_cond_destroy(&bed->changed);
	pthread_mutex_destroy(&bed->lock);
}

struct extent_pool_stat extent_bed_stat(struct extent_bed *bed)
{
	struct extent_pool_stat stat;

	extent_pool_stat(bed->pool, &stat);
	return stat;
}

void extent_bed_await_scrubbed(struct extent_bed *bed)
{
	pthread_mutex_lock(&bed->lock);
	while (extent_bed_stat(bed).dirty_bytes > 0)
		pthread_cond_wait(&bed->changed, &bed->lock);
	pthread_mutex_unlock(&bed->lock);
}

size_t extent_bed_reserve(struct extent_bed *bed, uint64_t namespace, uint64_t bytes,
			  struct extent_info **out)
{
	size_t nr_extents;

	assert_int_equal(
		extent_pool_reserve(bed->pool, namespace, bytes, CLOCK_NEVER, out, &nr_extents), 0);
	return nr_extents;
}

int extent_bed_transfer(struct extent_bed *bed, const struct extent_info *extent, int is_write,
			void *data, size_t length, uint64_t offset)
{
	const struct reach reach = {.namespace = extent->namespace, .may_write = true};
	struct extent_key key;

	assert_int_equal(extent_pool_key(bed->pool, extent->extent, reach, &key), 0);
	if (bed->reach.namespace != reach.namespace || !bed->reach.may_write)
		extent_bed_connect(bed, reach.namespace, true);
	assert_int_equal(key.length, extent->length);
	return data_client_transfer(&bed->client, is_write, data, length, key.on[0].origin + offset,
				    key.on[0].key);
}

void extent_bed_fill(struct extent_bed *bed, const struct extent_info *extent, int byte)
{
	char *data = malloc(extent->length);

	assert_non_null(data);
	memset(data, byte, extent->length);
	assert_int_equal(extent_bed_transfer(bed, extent, 1, data, extent->length, 0), 0);
	free(data);
}

void extent_bed_expect(struct extent_bed *bed, const struct extent_info *extent, char byte)
{
	char *data = malloc(extent->length);

	assert_non_null(data);
	memset(data, ~byte, extent->length);
	assert_int_equal(extent_bed_transfer(bed, extent, 0, data, extent->length, 0), 0);
	assert_true(data[0] == byte && memcmp(data, data + 1, extent->length - 1) == 0);
	free(data);
}

void extent_bed_release(struct extent_bed *bed, struct extent_info *extents, size_t nr_extents)
{
	size_t i;

	extent_bed_settle(bed);
	for (i = 0; i < nr_extents; i++)
		assert_int_equal(extent_pool_release(bed->pool, &extents[i].extent, 1), 1);
	free(extents);
}
