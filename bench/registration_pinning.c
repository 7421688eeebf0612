/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `registration` on what a cache saves where registering is the kernel's own pinning: buffers that are
 * fixed in an io_uring. The experiment is that of Wu, Wyckoff and Panda (Fig. 13): operations of 1 MiB over 1000
 * buffers, of which 100 may be pinned, of which 20 or 80 in a hundred hit. An operation is a write of the buffer to
 * a file of memory, by its registration. The reference is the same with all buffers pinned ahead: what is lost is
 * registration's.
 */
#include <errno.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "registration.h"

#define BUFFER_BYTES  ((size_t)1 << 20)
#define NR_BUFFERS    1000U
#define NR_PINNED     100U
#define NR_OPERATIONS 1000U
#define NR_RECENT     50U /* of which one is taken for a hit: there whatever the policy */
#define BATCH	      16U
#define RING_ENTRIES  4U

/* ---- The kernel's pinning: an io_uring of fixed buffers, each with a slot */

struct ring {
	int fd, file;
	struct io_uring_params parameters;
	char *rings;
	size_t rings_bytes;
	struct io_uring_sqe *entries;
	pthread_mutex_t lock; /* of the slots */
	unsigned free_slots[NR_BUFFERS + NR_PINNED];
	unsigned nr_free;
};

#define NR_SLOTS (NR_BUFFERS + NR_PINNED)

static int update_slot(const struct ring *ring, unsigned slot, void *addr, size_t length)
{
	struct iovec iov = {addr, length};
	__u64 tag = 0;
	struct io_uring_rsrc_update2 update = {
		.offset = slot, .data = (uintptr_t)&iov, .tags = (uintptr_t)&tag, .nr = 1};

	return (int)syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_BUFFERS_UPDATE,
			    &update, sizeof(update));
}

static int pin(void *context, void *addr, size_t length, void **registration)
{
	struct ring *ring = context;
	unsigned slot;

	pthread_mutex_lock(&ring->lock);
	slot = ring->nr_free > 0 ? ring->free_slots[--ring->nr_free] : NR_SLOTS;
	pthread_mutex_unlock(&ring->lock);
	if (slot == NR_SLOTS || update_slot(ring, slot, addr, length) != 1)
		return -ENOMEM;
	*registration = (void *)(uintptr_t)(slot + 1);
	return 0;
}

static void unpin(void *context, void *const *registrations, size_t nr)
{
	struct ring *ring = context;

	for (size_t i = 0; i < nr; i++) {
		unsigned slot = (unsigned)(uintptr_t)registrations[i] - 1;

		update_slot(ring, slot, NULL, 0);
		pthread_mutex_lock(&ring->lock);
		ring->free_slots[ring->nr_free++] = slot;
		pthread_mutex_unlock(&ring->lock);
	}
}

static unsigned *word(const struct ring *ring, unsigned offset)
{
	return (unsigned *)(void *)(ring->rings + offset);
}

/* One operation, to its end. */
static int write_fixed(const struct ring *ring, void *addr, unsigned slot)
{
	const struct io_sqring_offsets *sq = &ring->parameters.sq_off;
	const struct io_cqring_offsets *cq = &ring->parameters.cq_off;
	unsigned tail = *word(ring, sq->tail), mask = *word(ring, sq->ring_mask);
	unsigned head = *word(ring, cq->head);
	const struct io_uring_cqe *completions = (void *)(ring->rings + cq->cqes);
	int result;

	ring->entries[tail & mask] = (struct io_uring_sqe){
		.opcode = IORING_OP_WRITE_FIXED,
		.fd = ring->file,
		.addr = (uintptr_t)addr,
		.len = BUFFER_BYTES,
		.buf_index = (__u16)slot,
	};
	word(ring, sq->array)[tail & mask] = tail & mask;
	__atomic_store_n(word(ring, sq->tail), tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		return bench_fail(-errno, "io_uring: %s", strerror(errno));
	result = completions[head & *word(ring, cq->ring_mask)].res;
	__atomic_store_n(word(ring, cq->head), head + 1, __ATOMIC_RELEASE);
	return result == (int)BUFFER_BYTES ? 0 : bench_fail(-EIO, "io_uring: wrote %d", result);
}

static void close_ring(struct ring *ring)
{
	if (ring->entries)
		munmap(ring->entries, RING_ENTRIES * sizeof(*ring->entries));
	if (ring->rings)
		munmap(ring->rings, ring->rings_bytes);
	if (ring->file >= 0)
		close(ring->file);
	if (ring->fd >= 0)
		close(ring->fd);
}

static void *map_ring(const struct ring *ring, size_t bytes, off_t what)
{
	void *addr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd,
			  what);

	return addr == MAP_FAILED ? NULL : addr;
}

static int open_ring(struct ring *ring)
{
	struct io_uring_rsrc_register slots = {.nr = NR_SLOTS,
					       .flags = IORING_RSRC_REGISTER_SPARSE};

	pthread_mutex_init(&ring->lock, NULL);
	for (unsigned i = 0; i < NR_SLOTS; i++)
		ring->free_slots[ring->nr_free++] = i;
	ring->file = memfd_create("afar-bench", MFD_CLOEXEC);
	ring->fd = (int)syscall(SYS_io_uring_setup, RING_ENTRIES, &ring->parameters);
	if (ring->fd < 0 || ring->file < 0)
		return bench_fail(-errno, "io_uring: %s", strerror(errno));
	ring->rings_bytes = ring->parameters.cq_off.cqes +
			    ring->parameters.cq_entries * sizeof(struct io_uring_cqe);
	ring->rings = map_ring(ring, ring->rings_bytes, IORING_OFF_SQ_RING);
	ring->entries = map_ring(ring, RING_ENTRIES * sizeof(*ring->entries), IORING_OFF_SQES);
	if (!ring->rings || !ring->entries)
		return bench_fail(-ENOMEM, "io_uring: no memory");
	if (syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_BUFFERS2, &slots,
		    sizeof(slots)) != 0)
		return bench_fail(-errno, "fixed buffers of io_uring: %s", strerror(errno));
	return 0;
}

/* ---- The experiment */

struct pinning_stage {
	struct ring ring;
	char *buffers;		    /* NR_BUFFERS, a page apart: none touches another */
	unsigned order[NR_BUFFERS]; /* by last use, most recent last */
};

/* How registrations are made, and how many in a hundred operations hit. */
struct pinning {
	unsigned hits;
	unsigned batch; /* 0: none are kept */
};

static char *buffer_at(const struct pinning_stage *stage, unsigned i)
{
	return stage->buffers + i * (BUFFER_BYTES + 4096);
}

/* A recent one, or the one that was not used for longest. */
static unsigned next_buffer(struct pinning_stage *stage, unsigned operation, unsigned hits)
{
	bool is_hit = operation * 37 % 100 < hits;
	unsigned place = is_hit ? NR_BUFFERS - 1 - operation * 31 % NR_RECENT : 0;
	unsigned chosen = stage->order[place];

	memmove(&stage->order[place], &stage->order[place + 1],
		(NR_BUFFERS - 1 - place) * sizeof(stage->order[0]));
	stage->order[NR_BUFFERS - 1] = chosen;
	return chosen;
}

static int operate(struct pinning_stage *stage, struct registration_cache *cache, unsigned buffer)
{
	struct registration *registration;
	int status =
		registration_take(cache, buffer_at(stage, buffer), BUFFER_BYTES, &registration);

	if (status)
		return bench_fail(status, "%s", error_last_line());
	status = write_fixed(&stage->ring, buffer_at(stage, buffer),
			     (unsigned)(uintptr_t)registration_handle(registration) - 1);
	registration_give(cache, registration);
	return status;
}

static double megabytes_per_second(uint64_t began)
{
	return (double)(NR_OPERATIONS * BUFFER_BYTES) / 1e6 / ((double)(clock_ns() - began) / 1e9);
}

static int run_cached(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct pinning *pinning = row->parameters;
	struct pinning_stage *state = stage;
	const struct registration_cache_options options = {
		.registrar = {pin, unpin, &state->ring},
		.bytes_max = NR_PINNED * BUFFER_BYTES,
		.nr_max = NR_PINNED,
		.batch = pinning->batch,
	};
	struct registration_cache_stat stat, before;
	struct registration_cache *cache;
	uint64_t began;
	int status = registration_cache_open(&options, &cache);

	(void)repetition;
	if (status)
		return bench_fail(status, "%s", error_last_line());
	for (unsigned i = 0; i < 2 * NR_PINNED && !status; i++)
		status = operate(state, cache, next_buffer(state, i, pinning->hits));
	registration_cache_stat(cache, &before);
	began = clock_ns();
	for (unsigned i = 0; i < NR_OPERATIONS && !status; i++)
		status = operate(state, cache, next_buffer(state, i, pinning->hits));
	*value = megabytes_per_second(began);
	registration_cache_stat(cache, &stat);
	bench_note("%s: %.2f registered and %.2f batches deregistered on the path of an operation",
		   row->name,
		   (double)(stat.nr_added + stat.nr_passing - before.nr_added - before.nr_passing) /
			   NR_OPERATIONS,
		   (double)(stat.nr_removals_in_use - before.nr_removals_in_use) / NR_OPERATIONS);
	registration_cache_close(cache);
	return status;
}

/* Registered for the operation, and no longer. */
static int run_dynamic(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct pinning *pinning = row->parameters;
	struct pinning_stage *state = stage;
	uint64_t began = clock_ns();
	int status = 0;

	(void)repetition;
	for (unsigned i = 0; i < NR_OPERATIONS && !status; i++) {
		char *buffer = buffer_at(state, next_buffer(state, i, pinning->hits));
		void *registration;

		status = pin(&state->ring, buffer, BUFFER_BYTES, &registration);
		if (status)
			return bench_fail(status, "pin a buffer: raise the limit of locked memory");
		status = write_fixed(&state->ring, buffer, (unsigned)(uintptr_t)registration - 1);
		unpin(&state->ring, &registration, 1);
	}
	*value = megabytes_per_second(began);
	return status;
}

/* All are registered before. */
static int run_ahead(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct pinning *pinning = row->parameters;
	struct pinning_stage *state = stage;
	void *registrations[NR_BUFFERS];
	unsigned nr = 0;
	uint64_t began;
	int status = 0;

	(void)repetition;
	while (nr < NR_BUFFERS &&
	       pin(&state->ring, buffer_at(state, nr), BUFFER_BYTES, &registrations[nr]) == 0)
		nr++;
	if (nr < NR_BUFFERS)
		status = bench_fail(-ENOMEM, "pin %u MiB: raise the limit of locked memory",
				    NR_BUFFERS);
	began = clock_ns();
	for (unsigned i = 0; i < NR_OPERATIONS && !status; i++) {
		unsigned buffer = next_buffer(state, i, pinning->hits);

		status = write_fixed(&state->ring, buffer_at(state, buffer),
				     (unsigned)(uintptr_t)registrations[buffer] - 1);
	}
	*value = megabytes_per_second(began);
	unpin(&state->ring, registrations, nr);
	return status;
}

static void teardown(void *stage)
{
	struct pinning_stage *state = stage;

	close_ring(&state->ring);
	if (state->buffers)
		munmap(state->buffers, NR_BUFFERS * (BUFFER_BYTES + 4096));
	free(state);
}

static int setup(void **stage)
{
	struct pinning_stage *state = calloc(1, sizeof(*state));
	int status;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	state->ring.fd = state->ring.file = -1;
	for (unsigned i = 0; i < NR_BUFFERS; i++)
		state->order[i] = i;
	status = open_ring(&state->ring);
	if (!status) {
		state->buffers =
			mmap(NULL, NR_BUFFERS * (BUFFER_BYTES + 4096), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (state->buffers == MAP_FAILED) {
			state->buffers = NULL;
			status = bench_fail(-ENOMEM, "no %u MiB for buffers", NR_BUFFERS);
		}
	}
	if (status)
		teardown(state);
	else
		*stage = state;
	return status;
}

#define AHEAD		  "all pinned ahead"
#define HITS(hits, batch) (&(const struct pinning){hits, batch})

static const struct bench_row pinning_rows[] = {
	{"1 MiB, 20 % hits, pinned each time", "MB/s", BENCH_HIGHER, AHEAD, BENCH_REPORTED,
	 HITS(20, 0), run_dynamic, run_ahead},
	{"1 MiB, 20 % hits, 100 kept", "MB/s", BENCH_HIGHER, AHEAD, BENCH_REPORTED, HITS(20, 1),
	 run_cached, run_ahead},
	{"1 MiB, 20 % hits, 100 kept, batches", "MB/s", BENCH_HIGHER, AHEAD, BENCH_REPORTED,
	 HITS(20, BATCH), run_cached, run_ahead},
	{"1 MiB, 80 % hits, pinned each time", "MB/s", BENCH_HIGHER, AHEAD, BENCH_REPORTED,
	 HITS(80, 0), run_dynamic, run_ahead},
	{"1 MiB, 80 % hits, 100 kept", "MB/s", BENCH_HIGHER, AHEAD, BENCH_REPORTED, HITS(80, 1),
	 run_cached, run_ahead},
	{"1 MiB, 80 % hits, 100 kept, batches", "MB/s", BENCH_HIGHER, AHEAD, BENCH_REPORTED,
	 HITS(80, BATCH), run_cached, run_ahead},
};

const struct bench_stage registration_pinning_stage = {setup, teardown, pinning_rows,
						       NR_ROWS(pinning_rows)};
