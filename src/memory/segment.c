/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Maps, populates, scrubs and unmaps segments. Servers call it through their extents, clients through
 * the segment cache. Keeps nothing between calls but the count of bytes that are being populated.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

#include "base/error.h"
#include "base/shared.h"
#include "memory/available.h"
#include "memory/segment.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB (21 << MAP_HUGE_SHIFT)
#endif

/* The bytes that a thread populates at a time: enough to hide the cost of the system call, and few
 * enough that threads end together. */
#define SLICE_BYTES	((size_t)32 << 20)
#define NR_THREADS_MAX	64U
#define MEMORY_LEFT_MIN ((uint64_t)64 << 20) /* never taken: the machine must go on living */

/* Bytes promised to segments but not populated yet, by all threads: the kernel's estimate of available
 * memory does not know of them. */
static _Atomic uint64_t bytes_promised;

/* ---- Populating, by several threads that take slices in turn */

struct population {
	char *addr;
	size_t length;
	bool is_shared;
	_Atomic uint64_t *promised; /* counts down what is populated; NULL: nobody counts */
	atomic_size_t next;
	atomic_int status;
};

/* One write per page is what populating means; older kernels (before 5.14) have no call for it. */
static void touch(char *addr, size_t length)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), offset;

	for (offset = 0; offset < length; offset += page)
		*(volatile char *)(addr + offset) = 0;
}

/*
 * Shared memory gets huge pages of itself only where the machine's administrator has said so, which few have. But
 * the kernel may be asked to make some, once there is something of each. It costs no more than to populate it.
 * Without (before 6.1, and where there are none left) small pages do as well.
 */
static void ask_for_huge_pages(char *addr, size_t length)
{
	for (size_t offset = 0; offset < length; offset += SEGMENT_MIN)
		*(volatile char *)(addr + offset) = 0;
	madvise(addr, length, MADV_COLLAPSE);
}

static int populate_slice(char *addr, size_t length, bool is_shared)
{
	if (is_shared)
		ask_for_huge_pages(addr, length);
	while (madvise(addr, length, MADV_POPULATE_WRITE) != 0) {
		if (errno == EINVAL) {
			touch(addr, length);
			return 0;
		}
		if (errno != EAGAIN && errno != EINTR)
			return -ENOMEM;
	}
	return 0;
}

static void *populate_run(void *argument)
{
	struct population *population = argument;
	size_t offset, length;

	for (;;) {
		offset = atomic_fetch_add(&population->next, SLICE_BYTES);
		if (offset >= population->length)
			return NULL;
		length = population->length - offset;
		if (length > SLICE_BYTES)
			length = SLICE_BYTES;
		if (atomic_load(&population->status) == 0 &&
		    populate_slice(population->addr + offset, length, population->is_shared) != 0)
			atomic_store(&population->status, -ENOMEM);
		if (population->promised)
			atomic_fetch_sub(population->promised, length);
	}
}

static unsigned nr_cores(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	return (unsigned)CPU_COUNT(&set);
}

/* Populates with the calling thread and up to `nr_threads` - 1 helpers; takes `length` bytes off
 * `*promised`, also when it fails. */
static int populate(void *addr, size_t length, bool is_shared, unsigned nr_threads,
		    _Atomic uint64_t *promised)
{
	struct population population = {
		.addr = addr, .length = length, .is_shared = is_shared, .promised = promised};
	size_t nr_slices = (length + SLICE_BYTES - 1) / SLICE_BYTES;
	pthread_t threads[NR_THREADS_MAX];
	unsigned started = 0;
	sigset_t all, before;

	if (nr_threads == 0)
		nr_threads = nr_cores();
	if (nr_threads > NR_THREADS_MAX)
		nr_threads = NR_THREADS_MAX;
	if (nr_threads > nr_slices)
		nr_threads = (unsigned)nr_slices;

	/* The program's signals are for its own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (started + 1 < nr_threads &&
	       pthread_create(&threads[started], NULL, populate_run, &population) == 0)
		started++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);

	populate_run(&population);
	while (started > 0)
		pthread_join(threads[--started], NULL);
	return atomic_load(&population.status);
}

/* ---- Mapping */

/* Promises `length` bytes if there is so much left beside what is promised already. */
static int promise(uint64_t length)
{
	uint64_t available, promised;

	promised = atomic_fetch_add(&bytes_promised, length) + length;
	available = memory_available();
	if (available > MEMORY_LEFT_MIN && promised <= available - MEMORY_LEFT_MIN)
		return 0;
	atomic_fetch_sub(&bytes_promised, length);
	return error_fail(
		-ENOMEM,
		"populate %llu MiB: only %llu MiB of memory are left; ask for less, or end "
		"something else",
		(unsigned long long)length >> 20, (unsigned long long)available >> 20);
}

int segment_fits(uint64_t bytes)
{
	int ret = promise(bytes);

	if (ret == 0)
		atomic_fetch_sub(&bytes_promised, bytes);
	return ret;
}

/* From the pool of huge pages: mmap promises them, so that populating finds them. */
static int map_hugetlb(size_t length, unsigned nr_threads, void **addr)
{
	void *memory;

	if (memory_available_huge() < length)
		return -ENOMEM;
	memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	if (populate(memory, length, false, nr_threads, NULL) != 0) {
		munmap(memory, length);
		return -ENOMEM;
	}
	*addr = memory;
	return 0;
}

/* Address space aligned to SEGMENT_MIN: some more, of which the ends are cut off. */
static void *map_aligned(size_t length)
{
	size_t head, longer;
	char *memory;

	if (__builtin_add_overflow(length, SEGMENT_MIN, &longer))
		return NULL;
	memory = mmap(NULL, longer, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	head = (size_t)(-(uintptr_t)memory % SEGMENT_MIN);
	if (head > 0)
		munmap(memory, head);
	if (head < SEGMENT_MIN)
		munmap(memory + head + length, SEGMENT_MIN - head);
	return memory + head;
}

static int map_transparent(size_t length, unsigned nr_threads, void **addr)
{
	void *memory;
	int ret;

	ret = promise(length);
	if (ret != 0)
		return ret;
	memory = map_aligned(length);
	if (!memory) {
		atomic_fetch_sub(&bytes_promised, length);
		return error_fail(-ENOMEM,
				  "map %zu MiB: the kernel gives no address space; ask for less",
				  length >> 20);
	}
	madvise(memory, length, MADV_HUGEPAGE); /* a wish: small pages do as well */
	if (populate(memory, length, false, nr_threads, &bytes_promised) != 0) {
		munmap(memory, length);
		return error_fail(-ENOMEM, "populate %zu MiB: out of memory; ask for less",
				  length >> 20);
	}
	*addr = memory;
	return 0;
}

static int check_length(size_t length)
{
	if (length == 0 || length % SEGMENT_MIN != 0)
		return error_fail(-EINVAL, "map %zu bytes: not a multiple of %zu; round it up",
				  length, SEGMENT_MIN);
	return 0;
}

int segment_map(size_t length, unsigned nr_threads, void **addr, enum segment_backing *backing)
{
	int ret = check_length(length);

	if (ret != 0)
		return ret;
	*backing = SEGMENT_HUGETLB;
	if (map_hugetlb(length, nr_threads, addr) == 0)
		return 0;
	*backing = SEGMENT_TRANSPARENT;
	return map_transparent(length, nr_threads, addr);
}

int segment_map_shared(size_t length, unsigned nr_threads, void **addr)
{
	int ret = check_length(length);

	if (ret != 0)
		return ret;
	ret = promise(length);
	if (ret != 0)
		return ret;
	ret = shared_map(length, SEGMENT_MIN, addr);
	if (ret != 0) {
		atomic_fetch_sub(&bytes_promised, length);
		return ret;
	}
	madvise(*addr, length, MADV_HUGEPAGE);
	if (populate(*addr, length, true, nr_threads, &bytes_promised) != 0) {
		shared_unmap(*addr);
		return error_fail(-ENOMEM, "populate %zu MiB: out of memory; ask for less",
				  length >> 20);
	}
	return 0;
}

void segment_unmap(void *addr, size_t length)
{
	if (shared_descriptor(addr, length) >= 0)
		shared_unmap(addr);
	else
		munmap(addr, length);
}

/* ---- Scrubbing */

#ifdef __x86_64__
void segment_scrub(void *addr, size_t length)
{
	__m128i *line = addr, *end = (__m128i *)((char *)addr + length);
	const __m128i zero = _mm_setzero_si128();

	/* One cache line per turn: the write-combining buffers go out full. */
	for (; line < end; line += 4) {
		_mm_stream_si128(line, zero);
		_mm_stream_si128(line + 1, zero);
		_mm_stream_si128(line + 2, zero);
		_mm_stream_si128(line + 3, zero);
	}
	_mm_sfence(); /* streaming stores are unordered: others must not see older bytes */
}
#else
void segment_scrub(void *addr, size_t length)
{
	memset(addr, 0, length);
}
#endif
