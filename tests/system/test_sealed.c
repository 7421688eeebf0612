/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sealed regions from C: nobody writes them on any path, and all read on. All that was acknowledged is in them,
 * and what a server's memory loses is found.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <cmocka.h>

#include <afar/cache.h>

#include "lib/api/api.h"

#define LENGTH (5 * MIB + 4321)

static struct afar_region *make_region(struct afar_namespace *ns, const char *name, uint64_t length,
				       uint8_t *data)
{
	struct afar_region *region;

	assert_int_equal(afar_region_create(ns, name, length, 0, &region), 0);
	fill(data, length, 1);
	assert_int_equal(afar_region_pwrite(region, data, length, 0), (ssize_t)length);
	return region;
}

static void expect_bytes(struct afar_region *region, const uint8_t *data, uint64_t length)
{
	uint8_t *got = malloc(length);

	assert_non_null(got);
	assert_int_equal(afar_region_pread(region, got, length, 0), (ssize_t)length);
	assert_memory_equal(got, data, length);
	free(got);
}

/* ---- Every way to write */

static int64_t complete_one(struct afar_queue *queue, const struct afar_op *op)
{
	struct afar_completion completion;
	int ret = afar_queue_submit(queue, op, 1);

	if (ret != 1)
		return ret;
	assert_int_equal(afar_queue_wait(queue, &completion, 1, 1, -1), 1);
	return completion.result;
}

static void expect_read_only(struct view *view, struct afar_mapping *mapping,
			     struct afar_queue *queue)
{
	struct iovec piece = {(char *)"x", 1};
	struct afar_iov iov = {.buffer = afar_mapping_buffer(mapping),
			       .addr = afar_mapping_data(mapping),
			       .length = 8};
	struct afar_op op = {.target = afar_region_target(view->region), .iov = &iov, .nr_iov = 1};
	uint64_t before;

	expect_error(afar_region_pwrite(view->region, "x", 1, 0), -EROFS);
	assert_non_null(strstr(afar_last_error(), "sealed"));
	expect_error(afar_region_writev(view->region, &piece, 1, LENGTH - 1), -EROFS);
	expect_error(afar_region_fetch_add(view->region, 0, 1, &before), -EROFS);
	expect_error(afar_region_compare_swap(view->region, 0, 0, 1, &before), -EROFS);
	expect_error(afar_mapping_write(mapping, 0, 8), -EROFS);
	for (uint16_t opcode = AFAR_OP_READ; opcode <= AFAR_OP_COMPARE_SWAP; opcode++) {
		bool does_write = opcode != AFAR_OP_READ && opcode != AFAR_OP_FLUSH;

		op.opcode = opcode;
		op.nr_iov = opcode != AFAR_OP_FLUSH;
		if (does_write)
			expect_error(afar_queue_submit(queue, &op, 1), -EROFS);
		else
			assert_int_equal(complete_one(queue, &op), opcode == AFAR_OP_READ ? 8 : 0);
	}
}

/* Before anything is done about it, operations on what was connected end as when a server goes. */
static void test_nobody_writes(void **state)
{
	struct afar_namespace *ns = make_namespace("ways", 64 * KIB, 16 * MIB);
	static uint8_t data[LENGTH];
	struct afar_region *region = make_region(ns, "r", LENGTH, data), *again;
	struct afar_region_stat stat = {.size = sizeof(stat)};
	struct view owner = {session, ns, region}, other;
	struct afar_mapping *mapping, *other_mapping;
	struct afar_queue *queue, *other_queue;
	struct afar_op read = {.opcode = AFAR_OP_READ, .nr_iov = 1};
	struct afar_iov iov;

	(void)state;
	open_view(&other, "ways", "r");
	assert_int_equal(afar_region_map(region, 0, 4096, 0, &mapping), 0);
	assert_int_equal(afar_region_map(other.region, 0, 4096, 0, &other_mapping), 0);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_open(other.session, NULL, &other_queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	assert_int_equal(afar_queue_connect(other_queue, afar_region_target(other.region)), 0);
	assert_int_equal(afar_region_pwrite(other.region, data, 1, 0), 1);
	expect_error(afar_region_verify(region, 0, LENGTH, NULL), -EINVAL);

	assert_int_equal(afar_region_seal(region), 0);
	assert_int_equal(afar_region_seal(region), 0);
	iov = (struct afar_iov){.buffer = afar_mapping_buffer(other_mapping),
				.addr = afar_mapping_data(other_mapping),
				.length = 8};
	read.target = afar_region_target(other.region);
	read.iov = &iov;
	assert_int_equal(complete_one(other_queue, &read), -AFAR_ESERVER);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	assert_int_equal(afar_queue_connect(other_queue, afar_region_target(other.region)), 0);
	expect_read_only(&owner, mapping, queue);
	expect_read_only(&other, other_mapping, other_queue);
	assert_int_equal(afar_region_seal(other.region), 0);
	expect_bytes(region, data, LENGTH);
	expect_bytes(other.region, data, LENGTH);
	assert_int_equal(afar_mapping_read(other_mapping, 0, 4096), 0);
	assert_memory_equal(afar_mapping_data(other_mapping), data, 4096);

	assert_int_equal(afar_region_stat(other.region, &stat), 0);
	assert_int_equal(stat.is_sealed, 1);
	assert_int_equal(stat.rights, AFAR_RIGHT_READ);
	assert_int_equal(afar_region_open(ns, "r", &again), 0);
	expect_error(afar_region_pwrite(again, "x", 1, 0), -EROFS);
	expect_bytes(again, data, LENGTH);
	assert_int_equal(afar_region_verify(again, 0, LENGTH, NULL), 0);
	assert_int_equal(afar_region_close(again), 0);

	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_queue_close(other_queue), 0);
	assert_int_equal(afar_mapping_unmap(mapping), 0);
	assert_int_equal(afar_mapping_unmap(other_mapping), 0);
	close_view(&other);
	drop_region(region);
	drop_namespace(ns, "ways");
}

/* ---- Through a cache */

static void expect_counts(struct afar_cache *cache, uint64_t nr_hits, uint64_t nr_misses)
{
	struct afar_cache_stat stat = {.size = sizeof(stat)};

	assert_int_equal(afar_cache_stat(cache, &stat), 0);
	assert_int_equal(stat.nr_hits, nr_hits);
	assert_int_equal(stat.nr_misses, nr_misses);
	assert_int_equal(stat.used, nr_misses * 4096);
}

static void expect_cached(struct afar_cache *cache, struct afar_region *region, const uint8_t *data)
{
	static uint8_t got[LENGTH];

	memset(got, 0, LENGTH);
	assert_int_equal(afar_cache_read(cache, region, got, LENGTH, 0), LENGTH);
	assert_memory_equal(got, data, LENGTH);
}

/* It keeps what can't change, and nothing before. */
static void test_cached(void **state)
{
	const uint64_t nr_pages = LENGTH / 4096 + 1;
	struct afar_namespace *ns = make_namespace("cached", 64 * KIB, 16 * MIB);
	static uint8_t data[LENGTH];
	struct afar_region *region = make_region(ns, "r", LENGTH, data);
	struct afar_cache *cache;
	struct view other;

	(void)state;
	open_view(&other, "cached", "r");
	expect_error(afar_cache_open(session, 65535, &cache), -EINVAL);
	assert_int_equal(afar_cache_open(session, 16 * MIB, &cache), 0);
	expect_error(afar_cache_read(cache, other.region, data, 1, 0), -EINVAL);
	expect_cached(cache, region, data);
	data[5000] ^= 1;
	assert_int_equal(afar_region_pwrite(region, data + 5000, 1, 5000), 1);
	expect_cached(cache, region, data);
	expect_counts(cache, 0, 0);

	assert_int_equal(afar_region_seal(other.region), 0);
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_region_open(ns, "r", &region), 0);
	expect_cached(cache, region, data);
	expect_counts(cache, 0, nr_pages);
	expect_cached(cache, region, data);
	expect_counts(cache, nr_pages, nr_pages);
	expect_error(afar_cache_read(cache, region, data, 2, LENGTH - 1), -ERANGE);
	expect_error(afar_cache_read(cache, region, NULL, 1, 0), -EINVAL);
	assert_int_equal(afar_cache_read(cache, region, NULL, 0, 0), 0);

	assert_int_equal(afar_region_close(region), 0);
	expect_error(afar_cache_read(cache, region, data, 1, 0), -EINVAL);
	assert_int_equal(afar_cache_close(cache), 0);
	expect_error(afar_cache_close(cache), -EINVAL);
	assert_int_equal(afar_region_destroy(other.region), 0);
	close_view(&other);
	drop_namespace(ns, "cached");
}

/* ---- While others write and read */

#define NR_WRITERS   3
#define NR_READERS   2
#define SLOT	     (64 * KIB)
#define PLACES	     (SLOT / 8)
#define WRITES_LEAST 200

static atomic_bool is_over;
static atomic_uint nr_writes;

struct writer {
	pthread_t thread;
	struct view view;
	uint64_t slot; /* where its part of the region is */
	uint64_t acknowledged[PLACES], tried[PLACES];
	ssize_t ended_with;
};

/* One word after another, each with a higher number than before, until it cannot. */
static void *run_writer(void *argument)
{
	struct writer *writer = argument;

	for (uint64_t i = 1; !atomic_load(&is_over); i++) {
		uint64_t at = i * 2654435761U % PLACES;

		writer->tried[at] = i;
		writer->ended_with = afar_region_pwrite(writer->view.region, &i, sizeof(i),
							writer->slot + at * 8);
		if (writer->ended_with != sizeof(i))
			break;
		writer->acknowledged[at] = i;
		atomic_fetch_add(&nr_writes, 1);
	}
	return NULL;
}

struct reader {
	pthread_t thread;
	struct view view;
	const uint8_t *data;
	uint64_t from, length;
};

static void *run_reader(void *argument)
{
	struct reader *reader = argument;
	uint8_t *got = malloc(reader->length);
	bool is_right = true;

	while (!atomic_load(&is_over) && is_right)
		is_right = afar_region_pread(reader->view.region, got, reader->length,
					     reader->from) == (ssize_t)reader->length &&
			   memcmp(got, reader->data + reader->from, reader->length) == 0;
	free(got);
	return (void *)(uintptr_t)is_right;
}

/* Each word is the last that was acknowledged, or the one that failed: its outcome is unknown. */
static void check_writer(const struct writer *writer, struct afar_region *region,
			 const uint8_t *before)
{
	static uint64_t got[PLACES];
	uint64_t last;

	assert_int_equal(afar_region_pread(region, got, sizeof(got), writer->slot), sizeof(got));
	for (size_t i = 0; i < PLACES; i++) {
		if (writer->acknowledged[i])
			last = writer->acknowledged[i];
		else
			memcpy(&last, before + writer->slot + i * 8, sizeof(last));
		if (got[i] != writer->tried[i] || !writer->tried[i])
			assert_int_equal(got[i], last);
	}
}

/* A write after the sealing must not reach the old place, which others get. */
static void overwrite_the_rest(struct afar_namespace *ns)
{
	struct afar_region *regions[64];
	static uint8_t junk[256 * KIB];
	size_t nr = 0;

	memset(junk, 0xaa, sizeof(junk));
	while (nr < 64 && afar_region_alloc(ns, sizeof(junk), 0, &regions[nr]) == 0) {
		assert_int_equal(afar_region_pwrite(regions[nr], junk, sizeof(junk), 0),
				 sizeof(junk));
		nr++;
	}
	assert_true(nr > 8);
	while (nr-- > 0)
		drop_region(regions[nr]);
}

static void test_while_others_are_at_it(void **state)
{
	struct afar_namespace *ns = make_namespace("busy", 64 * KIB, 12 * MIB);
	static uint8_t data[LENGTH], kept[SLOT];
	struct afar_region *region = make_region(ns, "r", LENGTH, data);
	struct afar_region *beside = make_region(ns, "beside", SLOT, kept);
	static struct writer writers[NR_WRITERS + 1]; /* the last beside it */
	struct reader readers[NR_READERS + 1];
	struct view idle;
	void *is_right;

	(void)state;
	is_over = false;
	nr_writes = 0;
	open_view(&idle, "busy", "r");
	expect_bytes(idle.region, data, LENGTH);
	for (unsigned i = 0; i <= NR_WRITERS; i++) {
		open_view(&writers[i].view, "busy", i < NR_WRITERS ? "r" : "beside");
		writers[i].slot = i < NR_WRITERS ? i * SLOT : 0;
		pthread_create(&writers[i].thread, NULL, run_writer, &writers[i]);
	}
	for (unsigned i = 0; i < NR_READERS; i++) {
		readers[i] =
			(struct reader){.data = data, .from = MIB, .length = (i + 1) * 300 * KIB};
		open_view(&readers[i].view, "busy", "r");
		pthread_create(&readers[i].thread, NULL, run_reader, &readers[i]);
	}
	while (nr_writes < WRITES_LEAST)
		sched_yield();
	assert_int_equal(afar_region_seal(region), 0);
	for (unsigned i = 0; i < NR_WRITERS; i++) {
		pthread_join(writers[i].thread, NULL);
		assert_int_equal(writers[i].ended_with, -EROFS);
	}
	overwrite_the_rest(ns);
	atomic_store(&is_over, true);
	for (unsigned i = 0; i < NR_READERS; i++) {
		pthread_join(readers[i].thread, &is_right);
		assert_true((bool)(uintptr_t)is_right);
		close_view(&readers[i].view);
	}
	/* The writer beside it has not noticed. */
	pthread_join(writers[NR_WRITERS].thread, NULL);
	assert_int_equal(writers[NR_WRITERS].ended_with, 8);
	check_writer(&writers[NR_WRITERS], beside, kept);
	for (unsigned i = 0; i < NR_WRITERS; i++) {
		check_writer(&writers[i], region, data);
		check_writer(&writers[i], idle.region, data);
		close_view(&writers[i].view);
	}
	close_view(&writers[NR_WRITERS].view);
	assert_int_equal(afar_region_verify(idle.region, 0, LENGTH, NULL), 0);
	close_view(&idle);
	drop_region(region);
	drop_region(beside);
	drop_namespace(ns, "busy");
}

/* Regions beside it are where they were, also for who was not there when it happened. */
static void test_queues_go_on_elsewhere(void **state)
{
	struct afar_namespace *ns = make_namespace("beside", 64 * KIB, 16 * MIB);
	static uint8_t data[LENGTH], word[8] = "written";
	struct afar_region *region = make_region(ns, "r", LENGTH, data);
	struct afar_region *first = make_region(ns, "first", MIB, data);
	struct afar_region *second = make_region(ns, "second", MIB, data);
	struct afar_buffer *buffer = register_if_needed(word, sizeof(word));
	const struct afar_iov iov = {.buffer = buffer, .addr = word, .length = sizeof(word)};
	struct afar_op write = {.opcode = AFAR_OP_WRITE, .iov = &iov, .nr_iov = 1};
	struct afar_queue *queue;

	(void)state;
	fill(data, LENGTH, 1);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(first)), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(second)), 0);
	assert_int_equal(afar_region_seal(region), 0);
	write.target = afar_region_target(second);
	assert_int_equal(complete_one(queue, &write), -AFAR_ESERVER);
	/* Connected again for one, the others have to be asked about, too. */
	assert_int_equal(afar_queue_connect(queue, afar_region_target(first)), 0);
	assert_int_equal(complete_one(queue, &write), -AFAR_ESERVER);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(second)), 0);
	assert_int_equal(complete_one(queue, &write), 8);
	write.target = afar_region_target(first);
	assert_int_equal(complete_one(queue, &write), 8);
	memcpy(data, word, 8);
	expect_bytes(first, data, MIB);
	expect_bytes(second, data, MIB);
	assert_int_equal(afar_queue_close(queue), 0);
	unregister(buffer);
	drop_region(first);
	drop_region(second);
	drop_region(region);
	drop_namespace(ns, "beside");
}

/* ---- Damage */

/* Changes a byte wherever a server's memory has these. How often. */
static unsigned damage(pid_t pid, const uint8_t *bytes, size_t length)
{
	char path[64], line[512];
	unsigned nr_damaged = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "r");
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long begin, end;
		char mode[8];
		struct iovec local, remote;
		uint8_t *copy, *at;

		if (sscanf(line, "%lx-%lx %7s", &begin, &end, mode) != 3 || mode[1] != 'w' ||
		    end - begin > 64 * MIB)
			continue;
		copy = malloc(end - begin);
		local = (struct iovec){copy, end - begin};
		remote = (struct iovec){(void *)begin, end - begin};
		if (copy && process_vm_readv(pid, &local, 1, &remote, 1, 0) > 0) {
			for (at = copy;
			     (at = memmem(at, end - begin - (size_t)(at - copy), bytes, length));
			     at++) {
				local = (struct iovec){(void *)"?", 1};
				remote = (struct iovec){(void *)(begin + (size_t)(at - copy)), 1};
				assert_int_equal(process_vm_writev(pid, &local, 1, &remote, 1, 0),
						 1);
				nr_damaged++;
			}
		}
		free(copy);
	}
	fclose(maps);
	return nr_damaged;
}

static void test_damage_is_found(void **state)
{
	struct afar_namespace *ns = make_namespace("damage", 64 * KIB, 16 * MIB);
	static uint8_t data[LENGTH];
	struct afar_region *region = make_region(ns, "r", LENGTH, data);
	const uint64_t at = 3 * MIB + 5 * KIB, last = LENGTH - 40;
	uint64_t bad = 7;

	(void)state;
	assert_int_equal(afar_region_seal(region), 0);
	assert_int_equal(afar_region_verify(region, 0, LENGTH, &bad), 0);
	assert_int_equal(bad, 7);
	assert_int_equal(afar_region_verify(region, 17, 0, &bad), 0);
	expect_error(afar_region_verify(region, 1, LENGTH, &bad), -ERANGE);
	assert_true(damage(cluster_server(cluster, 0), data + at, 32) +
			    damage(cluster_server(cluster, 1), data + at, 32) >=
		    1);
	expect_error(afar_region_verify(region, 0, LENGTH, &bad), -EBADMSG);
	assert_int_equal(bad, at / 4096 * 4096);
	assert_int_equal(afar_region_verify(region, 0, bad, NULL), 0);
	expect_error(afar_region_verify(region, bad + 4095, 1, NULL), -EBADMSG);
	assert_int_equal(afar_region_verify(region, bad + 4096, LENGTH - bad - 4096, NULL), 0);
	/* In the last block, which the region does not fill. */
	assert_true(damage(cluster_server(cluster, 0), data + last, 32) +
			    damage(cluster_server(cluster, 1), data + last, 32) >=
		    1);
	expect_error(afar_region_verify(region, LENGTH - 1, 1, &bad), -EBADMSG);
	assert_int_equal(bad, last / 4096 * 4096);
	drop_region(region);
	drop_namespace(ns, "damage");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody_writes),
		cmocka_unit_test(test_cached),
		cmocka_unit_test(test_while_others_are_at_it),
		cmocka_unit_test(test_queues_go_on_elsewhere),
		cmocka_unit_test(test_damage_is_found),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
