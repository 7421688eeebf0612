/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One segment, cut into buffers once: the largest first, so that each is aligned to its size. Free ones are in their zone's
 * list, last given first taken, as that one is in the processor's caches.
 */
#include "memory/zones.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "memory/segment.h"

struct zone {
	struct cds_list_head free;
	size_t nr_free;
};

struct zones {
	char *memory;
	struct zone_buffer *buffers;
	struct zone zones[NR_ZONES]; /* the smallest first */
	struct zones_stat stat;
};

static size_t size_of(unsigned zone)
{
	return ZONE_LEAST << zone;
}

/* The smallest whose buffers have `length` bytes, or the last. */
static unsigned zone_for(size_t length)
{
	unsigned zone = 0;

	while (zone + 1 < NR_ZONES && size_of(zone) < length)
		zone++;
	return zone;
}

static void put_back(struct zones *zones, struct zone_buffer *buffer)
{
	struct zone *zone = &zones->zones[zone_for(buffer->length)];

	cds_list_add(&buffer->node, &zone->free);
	zone->nr_free++;
	zones->stat.free_bytes += buffer->length;
}

static void cut(struct zones *zones)
{
	struct zone_buffer *next = zones->buffers;
	char *addr = zones->memory;

	for (unsigned zone = 0; zone < NR_ZONES; zone++)
		CDS_INIT_LIST_HEAD(&zones->zones[zone].free);
	for (unsigned zone = NR_ZONES; zone-- > 0;) {
		for (uint64_t done = 0; done < zones->stat.bytes / NR_ZONES;
		     done += size_of(zone), next++) {
			next->addr = addr + done;
			next->length = size_of(zone);
			put_back(zones, next);
		}
		addr += zones->stat.bytes / NR_ZONES;
	}
}

/* All zones together, for each time that ZONES_BYTES are in it. */
static size_t count_buffers(uint64_t bytes)
{
	return (size_t)(bytes / ZONES_BYTES) * (2 * (ZONE_MOST / ZONE_LEAST) - 1);
}

int zones_open(uint64_t bytes, struct zones **out)
{
	enum segment_backing backing;
	struct zones *zones;
	void *memory;
	int ret;

	if (bytes == 0 || __builtin_add_overflow(bytes, ZONES_BYTES - 1, &bytes))
		return error_fail(-EINVAL,
				  "buffers: no memory is too little, 2^64 bytes are too much");
	bytes -= bytes % ZONES_BYTES;
	zones = calloc(1, sizeof(*zones));
	if (!zones)
		return error_code(-ENOMEM);
	zones->buffers = calloc(count_buffers(bytes), sizeof(*zones->buffers));
	if (!zones->buffers) {
		ret = error_code(-ENOMEM);
		goto out_free;
	}
	ret = segment_map(bytes, 0, &memory, &backing);
	if (ret != 0)
		goto out_free;
	zones->memory = memory;
	zones->stat.bytes = bytes;
	cut(zones);
	*out = zones;
	return 0;

out_free:
	free(zones->buffers);
	free(zones);
	return ret;
}

void *zones_memory(const struct zones *zones, size_t *length)
{
	*length = zones->stat.bytes;
	return zones->memory;
}

void zones_close(struct zones *zones)
{
	if (!zones)
		return;
	segment_unmap(zones->memory, zones->stat.bytes);
	free(zones->buffers);
	free(zones);
}

/* How large a buffer a holder may take: afterwards it has no more than is free, or that one alone. */
static uint64_t share_left(const struct zones *zones, const struct zone_holder *holder)
{
	uint64_t free_bytes = zones->stat.free_bytes;

	if (holder->bytes == 0)
		return free_bytes;
	return free_bytes > holder->bytes ? (free_bytes - holder->bytes) / 2 : 0;
}

/* The zone to take a buffer from; NR_ZONES: there is none. */
static unsigned choose(const struct zones *zones, size_t length, uint64_t size_max)
{
	unsigned best = zone_for(length), zone;

	for (zone = best; zone < NR_ZONES && size_of(zone) <= size_max; zone++) {
		if (zones->zones[zone].nr_free > 0)
			return zone;
	}
	for (zone = best; zone-- > 0;) {
		if (zones->zones[zone].nr_free > 0 && size_of(zone) <= size_max)
			return zone;
	}
	return NR_ZONES;
}

struct zone_buffer *zones_take(struct zones *zones, struct zone_holder *holder, size_t length)
{
	unsigned number = choose(zones, length, share_left(zones, holder));
	struct zone_buffer *buffer;

	if (number == NR_ZONES) {
		zones->stat.nr_refused++;
		return NULL;
	}
	buffer = cds_list_first_entry(&zones->zones[number].free, struct zone_buffer, node);
	cds_list_del(&buffer->node);
	zones->zones[number].nr_free--;
	zones->stat.free_bytes -= buffer->length;
	zones->stat.nr_taken++;
	zones->stat.nr_larger += number > zone_for(length);
	zones->stat.nr_smaller += buffer->length < length;
	buffer->holder = holder;
	holder->bytes += buffer->length;
	return buffer;
}

void zones_give(struct zones *zones, struct zone_buffer *buffer)
{
	buffer->holder->bytes -= buffer->length;
	buffer->holder = NULL;
	put_back(zones, buffer);
}

void zones_stat(const struct zones *zones, struct zones_stat *out)
{
	*out = zones->stat;
	for (unsigned zone = 0; zone < NR_ZONES; zone++)
		out->nr_free[zone] = zones->zones[zone].nr_free;
}
