/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cache of registrations over a registrar that only keeps books. Tests what is found again, merged, evicted
 * and deregistered together. Nothing is found of memory that has changed. How the cache stands up to threads
 * that change it at the same time is in tests/fault/test_registration_races.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <afar/afar.h>

#include "lib/base/child.h"
#include "memory/registration_cache.h"
#include "unit/group.h"

#define PAGE	 ((size_t)4096)
#define KIB	 ((size_t)1024)
#define BOOK_MAX 4096

/* The registrar's book of what it has. */
static struct book {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct entry {
		char *addr;
		size_t length;
		bool is_there;
	} entries[BOOK_MAX];
	size_t nr_made;
	size_t nr_there;
	size_t bytes, bytes_most;
	unsigned nr_batches;
	size_t largest; /* that it takes; 0: any */
	size_t most;	/* bytes that it has at once; 0: any */
	unsigned nr_refused;
} book;

static struct registration_cache *cache;

static int add(void *context, void *addr, size_t length, void **registration)
{
	struct entry *entry;

	(void)context;
	if (book.largest && length > book.largest)
		return -ENOMEM;
	pthread_mutex_lock(&book.lock);
	if (book.most && book.bytes + length > book.most) {
		book.nr_refused++;
		pthread_mutex_unlock(&book.lock);
		return -ENOMEM;
	}
	entry = &book.entries[book.nr_made++ % BOOK_MAX];
	*entry = (struct entry){addr, length, true};
	book.nr_there++;
	book.bytes += length;
	if (book.bytes > book.bytes_most)
		book.bytes_most = book.bytes;
	pthread_mutex_unlock(&book.lock);
	*registration = entry;
	return 0;
}

static void remove_some(void *context, void *const *registrations, size_t nr)
{
	(void)context;
	pthread_mutex_lock(&book.lock);
	for (size_t i = 0; i < nr; i++) {
		struct entry *entry = registrations[i];

		assert_true(entry->is_there);
		entry->is_there = false;
		book.nr_there--;
		book.bytes -= entry->length;
	}
	book.nr_batches++;
	pthread_cond_broadcast(&book.changed);
	pthread_mutex_unlock(&book.lock);
}

/* Until the registrar has no more than `nr`. */
static void await_there(size_t nr)
{
	pthread_mutex_lock(&book.lock);
	while (book.nr_there > nr)
		pthread_cond_wait(&book.changed, &book.lock);
	pthread_mutex_unlock(&book.lock);
}

static void open_cache(uint64_t bytes_max, size_t nr_max, unsigned batch)
{
	const struct registration_cache_options options = {
		.registrar = {.add = add, .remove = remove_some},
		.bytes_max = bytes_max,
		.nr_max = nr_max,
		.batch = batch,
	};

	book = (struct book){.lock = PTHREAD_MUTEX_INITIALIZER,
			     .changed = PTHREAD_COND_INITIALIZER};
	assert_int_equal(registration_cache_open(&options, &cache), 0);
}

static void close_cache(void)
{
	registration_cache_close(cache);
	assert_int_equal(book.nr_there, 0);
}

/* Far below everything that the system maps by itself: what a test unmaps stays free until it maps there again. */
#define DISTANCE ((size_t)64 << 30)

static char *next_memory;

static int choose_memory(void **state)
{
	(void)state;
	next_memory =
		mmap(NULL, DISTANCE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return next_memory == MAP_FAILED ? -1 : munmap(next_memory, DISTANCE);
}

static void map_at(char *addr, size_t length)
{
	assert_ptr_equal(mmap(addr, length, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0),
			 addr);
}

static char *map(size_t length)
{
	char *addr = next_memory;

	next_memory += length + PAGE;
	map_at(addr, length);
	return addr;
}

static bool is_there(const struct registration *registration)
{
	const struct entry *entry = registration_handle(registration);
	bool answer;

	pthread_mutex_lock(&book.lock);
	answer = entry->is_there;
	pthread_mutex_unlock(&book.lock);
	return answer;
}

static size_t nr_there(void)
{
	size_t answer;

	pthread_mutex_lock(&book.lock);
	answer = book.nr_there;
	pthread_mutex_unlock(&book.lock);
	return answer;
}

static struct registration *take(void *addr, size_t length)
{
	struct registration *registration;
	const struct entry *entry;

	assert_int_equal(registration_take(cache, addr, length, &registration), 0);
	entry = registration_handle(registration);
	assert_true(is_there(registration));
	assert_true(entry->addr <= (char *)addr &&
		    entry->addr + entry->length >= (char *)addr + length);
	return registration;
}

static void use(void *addr, size_t length)
{
	registration_give(cache, take(addr, length));
}

static struct registration_cache_stat stat_now(void)
{
	struct registration_cache_stat stat;

	registration_cache_stat(cache, &stat);
	return stat;
}

/* ---- What is found again */

static void test_steady_state_registers_nothing(void **state)
{
	char *memory;

	(void)state;
	open_cache(1024 * KIB, 64, 1);
	memory = map(64 * PAGE);
	for (unsigned i = 0; i < 1000000; i++)
		use(memory + i % 8 * 8 * PAGE + i % 77, 4 * PAGE - 77);
	assert_int_equal(book.nr_made, 8);
	assert_int_equal(stat_now().nr_hits, 1000000 - 8);
	munmap(memory, 64 * PAGE);
	close_cache();
}

static void test_merges_what_overlaps(void **state)
{
	char *memory;

	(void)state;
	open_cache(1024 * KIB, 64, 1);
	memory = map(16 * PAGE);
	use(memory, 4 * PAGE);
	use(memory + 8 * PAGE, 4 * PAGE);
	use(memory + 2 * PAGE, 7 * PAGE);
	assert_int_equal(stat_now().nr_merged, 2);
	await_there(1);
	use(memory, 12 * PAGE);
	assert_int_equal(book.nr_made, 3);
	assert_int_equal(stat_now().nr, 1);
	munmap(memory, 16 * PAGE);
	close_cache();
}

/* One that is used is not taken away by a merger, and is deregistered when it is given back. */
static void test_merges_under_use(void **state)
{
	struct registration *used;
	char *memory;

	(void)state;
	open_cache(1024 * KIB, 64, 1);
	memory = map(16 * PAGE);
	used = take(memory, 4 * PAGE);
	use(memory + 2 * PAGE, 7 * PAGE);
	assert_true(is_there(used));
	assert_int_equal(nr_there(), 2);
	registration_give(cache, used);
	await_there(1);
	munmap(memory, 16 * PAGE);
	close_cache();
}

/* Memory that cannot be registered together is registered alone. */
static void test_merger_that_fails(void **state)
{
	char *memory;

	(void)state;
	open_cache(1024 * KIB, 64, 1);
	memory = map(16 * PAGE);
	use(memory, 6 * PAGE);
	book.largest = 7 * PAGE;
	use(memory + 4 * PAGE, 6 * PAGE);
	assert_int_equal(book.nr_made, 2);
	assert_int_equal(stat_now().nr_added, 2);
	munmap(memory, 16 * PAGE);
	close_cache();
}

/* ---- Limits */

static void test_least_recently_used_goes(void **state)
{
	char *memory;

	(void)state;
	open_cache(1024 * KIB, 4, 1);
	memory = map(64 * PAGE);
	for (unsigned i = 0; i < 4; i++)
		use(memory + 2 * i * PAGE, PAGE);
	use(memory, PAGE);
	use(memory + 8 * PAGE, PAGE);
	assert_int_equal(stat_now().nr_evicted, 1);
	use(memory, PAGE); /* still there */
	assert_int_equal(book.nr_made, 5);
	use(memory + 2 * PAGE, PAGE); /* the one that went */
	assert_int_equal(book.nr_made, 6);
	munmap(memory, 64 * PAGE);
	close_cache();
}

static void test_bytes_are_bounded(void **state)
{
	for (unsigned batch = 1; batch <= 16; batch *= 4) {
		char *memory;

		(void)state;
		open_cache(32 * PAGE, 1000, batch);
		memory = map(512 * PAGE);
		for (unsigned i = 0; i < 4000; i++)
			use(memory + i * 7 % 256 * 2 * PAGE, PAGE);
		assert_true(stat_now().nr_evicted > 3000);
		munmap(memory, 512 * PAGE);
		close_cache();
		assert_true(book.bytes_most <= 32 * PAGE);
		/* Together: that is what batches are for. */
		if (batch > 1)
			assert_true(book.nr_batches < book.nr_made / 2);
	}
}

/* All that there may be is used: more is registered for one use. */
/* The kernel's mappings in `length` bytes from `start`: watching a page in the midst of others makes two more. */
static unsigned mappings_of(const char *start, size_t length)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long first;
	unsigned nr = 0;
	char *line = NULL;
	size_t size = 0;

	assert_non_null(maps);
	while (getline(&line, &size, maps) > 0) {
		first = strtoul(line, NULL, 16);
		nr += first >= (uintptr_t)start && first < (uintptr_t)start + length;
	}
	free(line);
	fclose(maps);
	return nr;
}

/* Memory that has gone stays watched, but not as much as one likes: a process may have so many
 * mappings. */
static void test_watched_are_bounded(void **state)
{
	const size_t few = 100, many = 6000, length = 2 * many * PAGE;
	char *memory;

	(void)state;
	open_cache(1024 * KIB, 4, 1);
	memory = map(length);
	for (size_t i = 0; i < few; i++)
		use(memory + 2 * i * PAGE, PAGE);
	await_there(4);
	assert_in_range(mappings_of(memory, length), 2 * few - 1, 2 * few + 1);
	for (size_t i = few; i < many; i++)
		use(memory + 2 * i * PAGE, PAGE);
	await_there(4);
	assert_in_range(mappings_of(memory, length), few, 2 * (4096 + 16));
	/* Memory that is unmapped is found anew, watched before or not. */
	munmap(memory, length);
	map_at(memory, length);
	use(memory, PAGE);
	assert_int_equal(book.nr_made, many + 1);
	munmap(memory, length);
	close_cache();
}

static void test_used_do_not_go(void **state)
{
	struct registration *used[5];
	char *memory;

	(void)state;
	open_cache(1024 * KIB, 4, 1);
	memory = map(64 * PAGE);
	for (unsigned i = 0; i < 5; i++)
		used[i] = take(memory + 2 * i * PAGE, PAGE);
	assert_int_equal(stat_now().nr_passing, 1);
	for (unsigned i = 0; i < 5; i++)
		registration_give(cache, used[i]);
	await_there(4);
	munmap(memory, 64 * PAGE);
	close_cache();
}

/* ---- Changes */

static void expect_anew(char *memory, size_t length, bool is_kept)
{
	size_t nr_made = book.nr_made;

	use(memory, length);
	assert_int_equal(book.nr_made, nr_made + 1);
	use(memory, length);
	assert_int_equal(book.nr_made, nr_made + (is_kept ? 1 : 2));
}

static void test_unmapped(void **state)
{
	char *memory;

	(void)state;
	open_cache(1024 * KIB, 64, 1);
	memory = map(16 * PAGE);
	use(memory, 8 * PAGE);
	munmap(memory, 8 * PAGE);
	map_at(memory, 8 * PAGE);
	expect_anew(memory, 8 * PAGE, true);
	map_at(memory, 8 * PAGE); /* over it */
	expect_anew(memory, 8 * PAGE, true);
	munmap(memory + 4 * PAGE, PAGE); /* in its middle */
	map_at(memory + 4 * PAGE, PAGE);
	expect_anew(memory, 8 * PAGE, true);
	munmap(memory, 16 * PAGE);
	close_cache();
}

static void test_moved(void **state)
{
	char *memory, *other;

	(void)state;
	open_cache(1024 * KIB, 64, 1);
	memory = map(8 * PAGE);
	other = map(8 * PAGE);
	use(memory, 8 * PAGE);
	use(other, 8 * PAGE);
	assert_ptr_equal(mremap(memory, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, other),
			 other);
	expect_anew(other, 8 * PAGE, true);
	map_at(memory, 8 * PAGE);
	expect_anew(memory, 8 * PAGE, true);
	munmap(memory, 8 * PAGE);
	munmap(other, 8 * PAGE);
	close_cache();
}

/* From then on it is registered for each use, until there is other memory. */
static void test_dropped(void **state)
{
	char *memory;

	(void)state;
	open_cache(1024 * KIB, 64, 1);
	memory = map(8 * PAGE);
	use(memory, 8 * PAGE);
	madvise(memory, 4 * PAGE, MADV_DONTNEED);
	expect_anew(memory, 8 * PAGE, false);
	expect_anew(memory + 4 * PAGE, 4 * PAGE, true);
	assert_int_equal(stat_now().nr_unwatchable, 1);
	munmap(memory, 8 * PAGE);
	map_at(memory, 8 * PAGE);
	expect_anew(memory, 8 * PAGE, true);
	assert_int_equal(stat_now().nr_unwatchable, 0);
	munmap(memory, 8 * PAGE);
	close_cache();
}

/* More places than it can remember: it takes more to be unwatchable, never less. */
static void test_dropped_everywhere(void **state)
{
	char *memory;

	(void)state;
	open_cache(1024 * KIB, 64, 1);
	memory = map(2048 * PAGE);
	for (size_t i = 0; i < 1024; i++) {
		char *page = memory + (i * 701 % 1024) * 2 * PAGE;

		use(page, PAGE);
		madvise(page, PAGE, MADV_DONTNEED);
	}
	for (size_t i = 0; i < 1024; i++) {
		uint64_t nr_passing = stat_now().nr_passing;

		use(memory + i * 2 * PAGE, PAGE);
		assert_int_equal(stat_now().nr_passing, nr_passing + 1);
	}
	munmap(memory, 2048 * PAGE);
	assert_int_equal(stat_now().nr_unwatchable, 0);
	close_cache();
}

/* malloc() gives memory back to the system by brk(), and gets it again. */
static void test_heap_shrinks(void **state)
{
	char *first, *second;

	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* their malloc() does not */
#endif
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 64 << 10);
	open_cache(4096 * KIB, 64, 1);
	first = malloc(1024 * KIB);
	memset(first, 1, 1024 * KIB);
	use(first, 1024 * KIB);
	free(first);
	second = malloc(1024 * KIB);
	assert_ptr_equal(second, first);
	expect_anew(second, 1024 * KIB, true);
	free(second);
	close_cache();
}

/* Freed while a transfer uses it: that goes on with what it has. */
static void test_unmapped_under_use(void **state)
{
	struct registration *used;
	char *memory;

	(void)state;
	open_cache(1024 * KIB, 64, 1);
	memory = map(8 * PAGE);
	used = take(memory, 8 * PAGE);
	munmap(memory, 8 * PAGE);
	map_at(memory, 8 * PAGE);
	expect_anew(memory, 8 * PAGE, true);
	assert_true(is_there(used));
	registration_give(cache, used);
	await_there(1);
	munmap(memory, 8 * PAGE);
	close_cache();
}

/* ---- What is never kept */

static void expect_passing(void *addr, size_t length)
{
	use(addr, length);
	use(addr, length);
	assert_int_equal(stat_now().nr_added, 0);
	assert_int_equal(stat_now().nr, 0);
}

static void expect_file_passing(int fd, int flags)
{
	char *memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	memset(memory, 1, 4 * PAGE);
	expect_passing(memory, 4 * PAGE);
	munmap(memory, 4 * PAGE);
}

static void test_unwatchable(void **state)
{
	int shared = memfd_create("shared", MFD_CLOEXEC);
	char path[] = "/tmp/afar-registration-XXXXXX";
	int file = mkstemp(path);

	(void)state;
	unlink(path);
	assert_int_equal(ftruncate(shared, 4 * (off_t)PAGE), 0);
	assert_int_equal(ftruncate(file, 4 * (off_t)PAGE), 0);
	open_cache(1024 * KIB, 64, 1);
	expect_file_passing(shared, MAP_SHARED);
	expect_file_passing(shared, MAP_PRIVATE);
	expect_file_passing(file, MAP_SHARED);
	expect_file_passing(file, MAP_PRIVATE);
	expect_file_passing(-1, MAP_SHARED | MAP_ANONYMOUS);
	close_cache();
	close(shared);
	close(file);
}

/* Private memory with a page of a file in it. */
static void test_mixed(void **state)
{
	int shared = memfd_create("shared", MFD_CLOEXEC);
	struct registration_cache_stat stat;
	char *memory;

	(void)state;
	assert_int_equal(ftruncate(shared, (off_t)PAGE), 0);
	open_cache(1024 * KIB, 64, 1);
	memory = map(8 * PAGE);
	assert_ptr_equal(mmap(memory + 4 * PAGE, PAGE, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_FIXED | MAP_POPULATE, shared, 0),
			 memory + 4 * PAGE);
	memory[4 * PAGE] = 1;
	use(memory, 8 * PAGE);
	stat = stat_now();
	assert_int_equal(stat.nr, 0);
	munmap(memory, 8 * PAGE);
	close_cache();
	close(shared);
}

static void test_bad_input(void **state)
{
	struct registration *registration;
	char *memory;

	(void)state;
	open_cache(1024 * KIB, 64, 1);
	memory = map(4 * PAGE);
	assert_int_equal(registration_take(cache, memory, 0, &registration), -EINVAL);
	assert_int_equal(registration_take(cache, memory, SIZE_MAX, &registration), -EINVAL);
	book.largest = PAGE;
	assert_int_equal(registration_take(cache, memory, 4 * PAGE, &registration), -ENOMEM);
	assert_int_equal(stat_now().bytes, 0);
	assert_int_equal(stat_now().nr, 0);
	munmap(memory, 4 * PAGE);
	close_cache();
}

/* Less can be registered than may be kept, as where the process may pin little. Registrations that are kept and not used
 * make way, for as much as is wanted. One that never fits costs no more than that. */
static void test_refused_for_want_of_memory(void **state)
{
	struct registration *registration, *used;
	char *memory;

	(void)state;
	open_cache(1024 * KIB, 64, 1);
	memory = map(64 * PAGE);
	book.most = 16 * PAGE;
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < 8; i++)
			use(memory + 8 * i * PAGE, 4 * PAGE);
	assert_true(book.nr_refused > 0);
	assert_int_equal(book.nr_there, 4);
	assert_int_equal(stat_now().nr_added, 24);
	assert_int_equal(stat_now().nr_passing, 0);

	assert_int_equal(registration_take(cache, memory, 4 * PAGE, &used), 0);
	assert_int_equal(registration_take(cache, memory + 8 * PAGE, 13 * PAGE, &registration),
			 -ENOMEM);
	assert_int_equal(book.nr_there, 1);
	assert_int_equal(stat_now().bytes, 4 * PAGE);
	assert_int_equal(registration_take(cache, memory + 8 * PAGE, 12 * PAGE, &registration), 0);
	assert_int_equal(registration_take(cache, memory + 40 * PAGE, 4 * PAGE,
					   &(struct registration *){NULL}),
			 -ENOMEM);
	registration_give(cache, registration);
	registration_give(cache, used);
	munmap(memory, 64 * PAGE);
	close_cache();
}

static void test_child(void **state)
{
	struct registration *registration;
	char *memory;
	int status;
	pid_t pid;

	(void)state;
	open_cache(1024 * KIB, 64, 1);
	memory = map(4 * PAGE);
	use(memory, 4 * PAGE);
	pid = fork_child();
	if (pid == 0) {
		status = registration_take(cache, memory, PAGE, &registration);
		munmap(memory, 4 * PAGE);
		registration_cache_close(cache);
		_exit(status == -AFAR_EFORKED ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	use(memory, 4 * PAGE);
	assert_int_equal(book.nr_made, 1);
	pid = fork_child();
	if (pid == 0) {
		pause();
		_exit(1);
	}
	close_cache(); /* nothing is watched afterwards, though the child has the descriptor */
	munmap(memory, 4 * PAGE);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

TEST_GROUP(registration_cache)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steady_state_registers_nothing),
		cmocka_unit_test(test_merges_what_overlaps),
		cmocka_unit_test(test_merges_under_use),
		cmocka_unit_test(test_merger_that_fails),
		cmocka_unit_test(test_least_recently_used_goes),
		cmocka_unit_test(test_bytes_are_bounded),
		cmocka_unit_test(test_watched_are_bounded),
		cmocka_unit_test(test_used_do_not_go),
		cmocka_unit_test(test_unmapped),
		cmocka_unit_test(test_moved),
		cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_dropped_everywhere),
		cmocka_unit_test(test_heap_shrinks),
		cmocka_unit_test(test_unmapped_under_use),
		cmocka_unit_test(test_unwatchable),
		cmocka_unit_test(test_mixed),
		cmocka_unit_test(test_bad_input),
		cmocka_unit_test(test_refused_for_want_of_memory),
		cmocka_unit_test(test_child),
	};

	return cmocka_run_group_tests(tests, choose_memory, NULL);
}
