/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public API against real daemons: bytes, mappings, names, memory and reservations are as it
 * promises. Queues are test_api_queue.c's, what it answers to misuse test_api_misuse.c's.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include <afar/barrier.h>

#include "lib/api/api.h"
#include "lib/base/transport.h"

static void test_bytes_come_back(void **state)
{
	static const uint64_t sizes[] = {1,	   63,		 4095,		4096,
					 64 * KIB, 64 * KIB + 1, 5 * MIB + 333, 64 * MIB};
	struct afar_namespace *ns = make_namespace("bytes", 64 * KIB, 80 * MIB);
	uint8_t *sent = malloc(64 * MIB);
	uint8_t *got = malloc(64 * MIB);

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct afar_region *region;

		fill(sent, sizes[i], (uint32_t)i);
		memset(got, 0, sizes[i]);
		assert_int_equal(afar_region_alloc(ns, sizes[i], 0, &region), 0);
		assert_int_equal(afar_region_pwrite(region, sent, sizes[i], 0), sizes[i]);
		assert_int_equal(afar_region_pread(region, got, sizes[i], 0), sizes[i]);
		assert_memory_equal(sent, got, sizes[i]);
		drop_region(region);
	}
	free(sent);
	free(got);
	drop_namespace(ns, "bytes");
}

static void test_any_range_and_pieces(void **state)
{
	struct afar_namespace *ns = make_namespace("ranges", 4 * KIB, 4 * MIB);
	const size_t size = 300 * KIB;
	uint8_t *model = calloc(1, size);
	uint8_t *got = malloc(size);
	struct afar_region *region;
	uint32_t seed = 7;

	(void)state;
	assert_int_equal(afar_region_alloc(ns, size, 0, &region), 0);
	assert_int_equal(afar_region_pwrite(region, model, size, 0), size);
	for (int round = 0; round < 300; round++) {
		struct iovec iov[7];
		size_t offset, length = 0;

		for (int i = 0; i < 7; i++) {
			seed = seed * 1664525 + 1013904223;
			iov[i].iov_len = seed % (round % 2 ? 40000 : 600);
			iov[i].iov_base = got + length;
			length += iov[i].iov_len;
		}
		offset = seed % (size - length);
		fill(model + offset, length, seed);
		memcpy(got, model + offset, length);
		assert_int_equal(afar_region_writev(region, iov, 7, offset), length);
		memset(got, 0xee, length);
		assert_int_equal(afar_region_readv(region, iov, 7, offset), length);
		assert_memory_equal(got, model + offset, length);
	}
	assert_int_equal(afar_region_pread(region, got, size, 0), size);
	assert_memory_equal(got, model, size);
	drop_region(region);
	free(model);
	free(got);
	drop_namespace(ns, "ranges");
}

/* Memory that nobody has registered, not even writable where it is only read. */
static void test_unregistered_memory(void **state)
{
	const size_t lengths[] = {1, 4 * KIB, 64 * KIB, 64 * KIB + 1, 9 * MIB + 5};
	struct afar_namespace *ns = make_namespace("plain", 1 * MIB, 16 * MIB);
	uint8_t *from =
		mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *to = malloc(16 * MIB);
	struct afar_region *region;
	struct afar_queue *queue;
	struct afar_iov iov = {.addr = to, .length = 128 * KIB};
	struct afar_op op = {.opcode = AFAR_OP_READ, .nr_iov = 1, .iov = &iov};

	(void)state;
	fill(from, 16 * MIB, 99);
	mprotect(from, 16 * MIB, PROT_READ);
	assert_int_equal(afar_region_alloc(ns, 16 * MIB, 0, &region), 0);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t length = lengths[i], half = length / 2;
		struct iovec in[] = {{to + 4096, half}, {NULL, 0}, {to + 7, length - half}};

		if (half > 4096)
			in[2].iov_base = to + 4096 + half + 3;
		memset(to, 0, 16 * MIB);
		assert_int_equal(afar_region_pwrite(region, from + i, length, 3 * i), length);
		assert_int_equal(afar_region_readv(region, in, 3, 3 * i), length);
		assert_memory_equal(in[0].iov_base, from + i, half);
		assert_memory_equal(in[2].iov_base, from + i + half, length - half);
	}
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	op.target = afar_region_target(region);
	if (is_on_verbs()) {
		expect_error(afar_queue_submit(queue, &op, 1), -EINVAL);
		assert_non_null(strstr(afar_last_error(), "afar_buffer_register()"));
	}
	assert_int_equal(afar_queue_close(queue), 0);
	drop_region(region);
	drop_namespace(ns, "plain");
	munmap(from, 16 * MIB);
	free(to);
}

static void test_mapping_whole_and_part(void **state)
{
	struct afar_namespace *ns = make_namespace("mapping", 0, 16 * MIB);
	struct afar_mapping *whole, *part;
	struct afar_region *region;

	(void)state;
	assert_int_equal(afar_region_alloc(ns, 10 * MIB, 0, &region), 0);
	assert_int_equal(afar_region_map(region, 0, 10 * MIB, 0, &whole), 0);
	assert_int_equal(afar_region_map(region, 3 * MIB + 5, 100, 0, &part), 0);
	assert_int_equal((uintptr_t)afar_mapping_data(whole) % 4096, 0);
	assert_int_equal(afar_mapping_length(part), 100);
	fill(afar_mapping_data(whole), 10 * MIB, 3);
	assert_int_equal(afar_mapping_write(whole, 0, 10 * MIB), 0);
	assert_int_equal(afar_mapping_read(part, 0, 100), 0);
	assert_memory_equal(afar_mapping_data(part),
			    (uint8_t *)afar_mapping_data(whole) + 3 * MIB + 5, 100);
	expect_error(afar_mapping_read(part, 1, 100), -ERANGE);
	expect_error(afar_region_close(region), -EBUSY);
	assert_int_equal(afar_mapping_unmap(part), 0);
	assert_int_equal(afar_mapping_unmap(whole), 0);
	drop_region(region);
	drop_namespace(ns, "mapping");
}

static void test_names_and_addresses(void **state)
{
	struct afar_namespace *ns = make_namespace("names", 0, 8 * MIB);
	struct afar_region *first, *named, *again, *other;
	struct afar_region_stat stats[4] = {{.size = sizeof(stats[0])}};
	uint8_t byte = 42, got = 0;

	(void)state;
	expect_error(afar_region_open_at(ns, AFAR_FIRST_ADDRESS, &first), -ENOENT);
	assert_int_equal(afar_region_alloc(ns, 4096, AFAR_ALLOC_FIRST, &first), 0);
	expect_error(afar_region_alloc(ns, 4096, AFAR_ALLOC_FIRST, &other), -EADDRINUSE);
	assert_int_equal(afar_region_create(ns, "a name", 8192, 0, &named), 0);
	expect_error(afar_region_create(ns, "a name", 8192, 0, &other), -EEXIST);
	assert_int_equal(afar_region_pwrite(named, &byte, 1, 8191), 1);
	assert_int_equal(afar_region_open(ns, "a name", &again), 0);
	assert_int_equal(afar_region_pread(again, &got, 1, 8191), 1);
	assert_int_equal(got, 42);
	assert_int_equal(afar_region_list(ns, 0, stats, 4), 2);
	assert_int_equal(stats[0].address, AFAR_FIRST_ADDRESS);
	assert_string_equal(stats[1].name, "a name");
	assert_int_equal(stats[1].length, 8192);
	assert_int_equal(stats[1].nr_references, 1);
	assert_int_equal(afar_region_close(again), 0);
	assert_int_equal(afar_region_close(named), 0);
	assert_int_equal(afar_region_close(first), 0);
	assert_int_equal(afar_region_delete(ns, "a name"), 0);
	expect_error(afar_region_delete(ns, "a name"), -ENOENT);
	assert_int_equal(afar_region_delete_at(ns, AFAR_FIRST_ADDRESS), 0);
	expect_error(afar_region_delete_at(ns, AFAR_FIRST_ADDRESS), -ENOENT);
	assert_int_equal(afar_region_list(ns, 0, stats, 4), 0);
	drop_namespace(ns, "names");
}

/* An open handle goes on reading its region until it is closed, though the region is freed. */
static void test_freed_region_lives_while_open(void **state)
{
	struct afar_namespace *ns = make_namespace("freed", 0, 2 * MIB);
	struct afar_region_stat stat = {.size = sizeof(stat)};
	struct afar_region *region, *other;
	uint8_t byte = 9, got = 0;

	(void)state;
	assert_int_equal(afar_region_create(ns, "r", 2 * MIB, 0, &region), 0);
	assert_int_equal(afar_region_pwrite(region, &byte, 1, 0), 1);
	assert_int_equal(afar_region_destroy(region), 0);
	expect_error(afar_region_destroy(region), -AFAR_EFREED);
	expect_error(afar_region_open(ns, "r", &other), -ENOENT);
	assert_int_equal(afar_region_pread(region, &got, 1, 0), 1);
	assert_int_equal(got, 9);
	expect_error(afar_region_alloc(ns, 2 * MIB, 0, &other), -AFAR_ERESERVE);
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_region_alloc(ns, MIB, AFAR_ALLOC_FIRST, &region), 0);
	assert_int_equal(afar_region_destroy(region), 0);
	assert_int_equal(afar_region_alloc(ns, MIB, AFAR_ALLOC_FIRST, &other), 0);
	expect_error(afar_region_stat(region, &stat), -AFAR_EFREED); /* another has its address */
	assert_int_equal(afar_region_stat(other, &stat), 0);
	assert_int_equal(stat.length, MIB);
	assert_int_equal(afar_region_close(region), 0);
	drop_region(other);
	drop_namespace(ns, "freed");
}

static void test_registered_memory(void **state)
{
	struct afar_namespace *ns = make_namespace("register", 0, 2 * MIB);
	static uint8_t bytes[8192];
	struct afar_memory memory = {
		.size = sizeof(memory), .addr = bytes, .length = sizeof(bytes)};
	struct afar_buffer *buffer;
	struct afar_region *region;
	struct afar_queue *queue;
	struct afar_completion done;
	struct afar_iov iov;
	struct afar_op op;

	(void)state;
	assert_int_equal(afar_region_alloc(ns, 8192, 0, &region), 0);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	assert_int_equal(afar_buffer_register(session, &memory, AFAR_ACCESS_READ, &buffer), 0);
	iov = (struct afar_iov){buffer, bytes, sizeof(bytes)};
	op = (struct afar_op){.opcode = AFAR_OP_WRITE,
			      .target = afar_region_target(region),
			      .iov = &iov,
			      .nr_iov = 1};
	assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
	assert_int_equal(afar_queue_wait_one(queue, 0, &done, -1), 0);
	assert_int_equal(done.result, sizeof(bytes));
	op.opcode = AFAR_OP_READ; /* the buffer may only be read from */
	expect_error(afar_queue_submit(queue, &op, 1), -EINVAL);
	assert_int_equal(afar_buffer_unregister(buffer), 0);
	expect_error(afar_buffer_unregister(buffer), -EINVAL);
	memory.kind = 1;
	expect_error(afar_buffer_register(session, &memory, AFAR_ACCESS_READ, &buffer),
		     -EOPNOTSUPP);
	assert_int_equal(afar_queue_close(queue), 0);
	drop_region(region);
	drop_namespace(ns, "register");
}

static void test_reserve_and_release(void **state)
{
	struct afar_namespace *ns = make_namespace("reserve", 0, 0);
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	struct afar_region *region;
	uint64_t released;

	(void)state;
	expect_error(afar_region_alloc(ns, 4096, 0, &region), -AFAR_ERESERVE);
	assert_int_equal(afar_namespace_reserve(ns, 64 * MIB), 0);
	assert_int_equal(afar_namespace_stat(ns, &stat), 0);
	assert_true(stat.reserved_bytes >= 64 * MIB);
	assert_int_equal(stat.allocated_bytes, 0);
	assert_int_equal(afar_region_alloc(ns, 4096, 0, &region), 0);
	assert_int_equal(afar_namespace_release(ns, UINT64_MAX, &released), 0);
	assert_true(released < 64 * MIB + 4 * MIB && released > 0);
	assert_int_equal(afar_namespace_stat(ns, &stat), 0);
	assert_true(stat.reserved_bytes >= 4096);
	assert_int_equal(stat.nr_regions, 1);
	drop_region(region);
	drop_namespace(ns, "reserve");
}

/*
 * Inside of a call that succeeds things may fail and be done in another way: that is nobody's
 * business.
 */
static void test_success_leaves_the_last_line(void **state)
{
	const char *const failed = "use a region: the handle is null or closed";
	struct afar_namespace *ns = make_namespace("lines", 0, 70 * MIB);
	struct afar_mapping *mapping;
	struct afar_region *region, *large;
	struct afar_queue *queue;
	char *json;
	int is_first;

	(void)state;
	expect_error(afar_region_close(NULL), -EINVAL);
	assert_string_equal(afar_last_error(), failed);
	/* It is not there yet. */
	assert_int_equal(afar_region_bootstrap(ns, 64 * KIB, &region, &is_first), 0);
	assert_true(is_first);
	assert_string_equal(afar_last_error(), failed);
	/* Not on huge pages, where there are none. */
	assert_int_equal(afar_region_create(ns, "large", 64 * MIB, 0, &large), 0);
	assert_string_equal(afar_last_error(), failed);
	assert_int_equal(afar_region_map(large, 0, 64 * MIB, 0, &mapping), 0);
	assert_int_equal(afar_mapping_write(mapping, 0, 64 * MIB), 0);
	assert_int_equal(afar_mapping_unmap(mapping), 0);
	assert_string_equal(afar_last_error(), failed);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(large)), 0);
	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_region_seal(large), 0);
	assert_int_equal(afar_region_verify(large, 0, 64 * MIB, NULL), 0);
	assert_int_equal(afar_session_status(session, &json), 0);
	free(json);
	drop_region(large);
	drop_region(region);
	drop_namespace(ns, "lines");
	assert_string_equal(afar_last_error(), failed);
	/* A call of ours that fails may make others, which succeed, to clean up. */
	assert_int_equal(afar_region_bootstrap(NULL, 0, &region, NULL), -EINVAL);
	assert_string_not_equal(afar_last_error(), failed);
}

static void test_status_is_json(void **state)
{
	char *json;

	(void)state;
	assert_int_equal(afar_session_status(session, &json), 0);
	assert_int_equal(json[0], '{');
	assert_non_null(strstr(json, "\"servers\""));
	assert_non_null(strstr(json, "\"capacity_bytes\""));
	free(json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_come_back),
		cmocka_unit_test(test_any_range_and_pieces),
		cmocka_unit_test(test_unregistered_memory),
		cmocka_unit_test(test_mapping_whole_and_part),
		cmocka_unit_test(test_names_and_addresses),
		cmocka_unit_test(test_freed_region_lives_while_open),
		cmocka_unit_test(test_registered_memory),
		cmocka_unit_test(test_reserve_and_release),
		cmocka_unit_test(test_success_leaves_the_last_line),
		cmocka_unit_test(test_status_is_json),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
