/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers from and to unregistered memory of all kinds, in a session that keeps registrations. The memory is freed and
 * mapped anew between transfers, of files and shared, read-only. Where a transport registers memory, a
 * registration that were stale would move the bytes of pages that are not the memory's any more.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/api/api.h"
#include "lib/base/transport.h"

#define BYTES	   (1 * MIB)
#define NR_ROUNDS  40U
#define KEPT_BYTES (16 * MIB)

static struct afar_session *keeping;
static struct afar_namespace *ns;
static struct afar_region *region;
static uint8_t *copy;

static int setup(void **state)
{
	const struct afar_session_options options = {.size = sizeof(options),
						     .registration_bytes = KEPT_BYTES};

	if (start(state) || afar_session_open(cluster_uri(cluster), &options, &keeping) ||
	    afar_namespace_create(keeping, "plain", NULL, &ns) ||
	    afar_namespace_reserve(ns, 2 * BYTES) || afar_region_create(ns, "r", BYTES, 0, &region))
		return -1;
	copy = malloc(BYTES);
	return copy ? 0 : -1;
}

static int teardown(void **state)
{
	free(copy);
	if (afar_region_destroy(region) || afar_region_close(region) || afar_namespace_close(ns) ||
	    afar_session_close(keeping))
		return -1;
	return stop(state);
}

/* Out of it and into it; `copy` is registered over and over as well, and never freed. */
static void check(uint8_t *memory, unsigned round)
{
	fill(memory, BYTES, round);
	assert_int_equal(afar_region_pwrite(region, memory, BYTES, 0), BYTES);
	assert_int_equal(afar_region_pread(region, copy, BYTES, 0), BYTES);
	assert_memory_equal(copy, memory, BYTES);
	memset(memory, 0, BYTES);
	assert_int_equal(afar_region_pread(region, memory, BYTES, 0), BYTES);
	assert_memory_equal(copy, memory, BYTES);
}

static uint8_t *map(void *addr, int flags, int fd)
{
	uint8_t *memory = mmap(addr, BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

static void test_same_memory(void **state)
{
	uint8_t *memory = map(NULL, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	(void)state;
	for (unsigned round = 0; round < NR_ROUNDS; round++)
		check(memory, round);
	munmap(memory, BYTES);
}

static void test_mapped_anew(void **state)
{
	uint8_t *memory = map(NULL, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	(void)state;
	for (unsigned round = 0; round < NR_ROUNDS; round++) {
		check(memory, round);
		if (round % 2)
			munmap(memory, BYTES);
		map(memory, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
	}
	munmap(memory, BYTES);
}

static void test_moved(void **state)
{
	uint8_t *memory = map(NULL, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	uint8_t *other = map(NULL, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	(void)state;
	for (unsigned round = 0; round < NR_ROUNDS; round++) {
		check(memory, round);
		check(other, round + 1);
		assert_ptr_equal(mremap(memory, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, other),
				 other);
		map(memory, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
	}
	munmap(memory, BYTES);
	munmap(other, BYTES);
}

static void test_dropped(void **state)
{
	uint8_t *memory = map(NULL, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	(void)state;
	for (unsigned round = 0; round < NR_ROUNDS; round++) {
		check(memory, round);
		assert_int_equal(madvise(memory, BYTES, MADV_DONTNEED), 0);
	}
	munmap(memory, BYTES);
}

static void test_of_malloc(void **state)
{
	(void)state;
	for (unsigned round = 0; round < NR_ROUNDS; round++) {
		uint8_t *memory = malloc(BYTES);

		assert_non_null(memory);
		check(memory, round);
		free(memory);
	}
}

static void test_shared_and_files(void **state)
{
	int fds[] = {memfd_create("shared", MFD_CLOEXEC), -1};
	char path[] = "/tmp/afar-plain-XXXXXX";

	(void)state;
	fds[1] = mkstemp(path);
	unlink(path);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(ftruncate(fds[i], BYTES), 0);
		for (unsigned round = 0; round < 4; round++) {
			uint8_t *memory = map(NULL, round % 2 ? MAP_PRIVATE : MAP_SHARED, fds[i]);

			check(memory, round);
			munmap(memory, BYTES);
		}
		close(fds[i]);
	}
}

/* Transfers any length, from anywhere, to anywhere; the neighbours stay as they are. */
static void test_lengths_and_alignments(void **state)
{
	static const size_t lengths[] = {1,	7,     4095,	     4096,	    4097,  65535,
					 65536, 65537, 65536 + 4096, 2 * 65536 + 1, 300001};
	static const size_t shifts[] = {0, 1, 63, 4095};
	uint8_t *memory = map(NULL, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	(void)state;
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (unsigned j = 0; j < 4; j++) {
			size_t length = lengths[i], shift = shifts[j];
			uint8_t *at = memory + 4096 + shift;

			fill(memory, BYTES, i * 4 + j);
			memcpy(copy, memory, BYTES);
			assert_int_equal(afar_region_pwrite(region, at, length, 3 * i + j), length);
			memset(at, 0, length);
			assert_int_equal(afar_region_pread(region, at, length, 3 * i + j), length);
			assert_memory_equal(memory, copy, BYTES);
		}
	munmap(memory, BYTES);
}

/* Nothing, wherever it were. */
static void test_no_bytes(void **state)
{
	uint8_t *memory = map(NULL, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	const struct iovec iov[] = {{NULL, 0}, {memory + 1, 0}, {NULL, 0}};

	(void)state;
	munmap(memory, BYTES);
	for (uint64_t offset = 0; offset <= BYTES; offset += BYTES / 2) {
		assert_int_equal(afar_region_pread(region, NULL, 0, offset), 0);
		assert_int_equal(afar_region_pwrite(region, memory, 0, offset), 0);
		assert_int_equal(afar_region_readv(region, iov, 3, offset), 0);
		assert_int_equal(afar_region_writev(region, iov, 3, offset), 0);
		assert_int_equal(afar_region_readv(region, NULL, 0, offset), 0);
	}
}

/* Memory of several kinds at once, with holes between and pieces of nothing. */
static void test_mixed_pieces(void **state)
{
	uint8_t *private = map(NULL, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	uint8_t *shared = map(NULL, MAP_SHARED | MAP_ANONYMOUS, -1);
	const struct iovec iov[] = {
		{private + 5, 70000},	 {NULL, 0},
		{shared + 4097, 140001}, {private + 200000, 3},
		{shared + 300000, 1},	 {private + 300000, 70000},
	};
	size_t length = 0, at = 0;

	(void)state;
	fill(private, BYTES, 1);
	fill(shared, BYTES, 2);
	for (unsigned i = 0; i < 6; i++)
		length += iov[i].iov_len;
	assert_int_equal(afar_region_writev(region, iov, 6, 11), length);
	assert_int_equal(afar_region_pread(region, copy, length, 11), length);
	for (unsigned i = 0; i < 6; at += iov[i++].iov_len) {
		if (!iov[i].iov_len)
			continue;
		assert_memory_equal(copy + at, iov[i].iov_base, iov[i].iov_len);
		memset(iov[i].iov_base, 0, iov[i].iov_len);
	}
	assert_int_equal(afar_region_readv(region, iov, 6, 11), length);
	at = 0;
	for (unsigned i = 0; i < 6; at += iov[i++].iov_len)
		if (iov[i].iov_len)
			assert_memory_equal(copy + at, iov[i].iov_base, iov[i].iov_len);
	munmap(private, BYTES);
	munmap(shared, BYTES);
}

/* A file that was opened to be read alone can be written from. */
static void test_file_to_be_read(void **state)
{
	char path[] = "/tmp/afar-plain-XXXXXX";
	int fd = mkstemp(path), read_only = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t *memory;

	(void)state;
	unlink(path);
	fill(copy, BYTES, 5);
	assert_int_equal(write(fd, copy, BYTES), BYTES);
	memory = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, read_only, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	memset(copy, 0, BYTES);
	assert_int_equal(afar_region_pwrite(region, memory, BYTES, 0), BYTES);
	assert_int_equal(afar_region_pread(region, copy, BYTES, 0), BYTES);
	assert_memory_equal(copy, memory, BYTES);
	munmap(memory, BYTES);
	close(fd);
	close(read_only);
}

/* Read-only memory can be written from. A NIC's read into it ends with an error, and all goes on. */
static void test_read_only(void **state)
{
	uint8_t *memory = map(NULL, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	(void)state;
	fill(memory, BYTES, 1);
	assert_int_equal(mprotect(memory, BYTES, PROT_READ), 0);
	assert_int_equal(afar_region_pwrite(region, memory, BYTES, 0), BYTES);
	assert_int_equal(afar_region_pread(region, copy, BYTES, 0), BYTES);
	assert_memory_equal(copy, memory, BYTES);
	if (is_on_verbs()) /* elsewhere: test_bad_memory.c */
		assert_true(afar_region_pread(region, memory, BYTES, 0) < 0);
	assert_int_equal(mprotect(memory, BYTES, PROT_READ | PROT_WRITE), 0);
	check(memory, 2);
	munmap(memory, BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_memory),
		cmocka_unit_test(test_mapped_anew),
		cmocka_unit_test(test_moved),
		cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_of_malloc),
		cmocka_unit_test(test_shared_and_files),
		cmocka_unit_test(test_lengths_and_alignments),
		cmocka_unit_test(test_no_bytes),
		cmocka_unit_test(test_mixed_pieces),
		cmocka_unit_test(test_file_to_be_read),
		cmocka_unit_test(test_read_only),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
