/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `registration` on what a cache saves where registering is the kernel's own pinning: buffers that are
 * fixed in an io_uring, each in a slot. An operation is a write of the buffer to a file of memory, by its slot.
 */
#include <errno.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "registration.h"

#define NR_OPERATIONS 1000U
#define RING_ENTRIES  4U
#define NR_SLOTS      (PINNING_NR_BUFFERS + PINNING_NR_KEPT)

struct ring {
	int fd, file;
	struct io_uring_params parameters;
	char *rings;
	size_t rings_bytes;
	struct io_uring_sqe *entries;
	pthread_mutex_t lock; /* of the slots */
	unsigned free_slots[NR_SLOTS];
	unsigned nr_free;
};

static int update_slot(const struct ring *ring, unsigned slot, void *addr, size_t length)
{
	struct iovec iov = {addr, length};
	__u64 tag = 0;
	struct io_uring_rsrc_update2 update = {
		.offset = slot, .data = (uintptr_t)&iov, .tags = (uintptr_t)&tag, .nr = 1};

	return (int)syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_BUFFERS_UPDATE,
			    &update, sizeof(update));
}

/* Registrations are slots, counted from 1: none is NULL. */
static unsigned slot_of(const void *registration)
{
	return (unsigned)(uintptr_t)registration - 1;
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
		unsigned slot = slot_of(registrations[i]);

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
static int write_fixed(void *context, void *addr, void *registration)
{
	const struct ring *ring = context;
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
		.len = PINNING_BUFFER_BYTES,
		.buf_index = (__u16)slot_of(registration),
	};
	word(ring, sq->array)[tail & mask] = tail & mask;
	__atomic_store_n(word(ring, sq->tail), tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		return bench_fail(-errno, "io_uring: %s", strerror(errno));
	result = completions[head & *word(ring, cq->ring_mask)].res;
	__atomic_store_n(word(ring, cq->head), head + 1, __ATOMIC_RELEASE);
	return result == (int)PINNING_BUFFER_BYTES ? 0
						   : bench_fail(-EIO, "io_uring: wrote %d", result);
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

/* ---- The stage */

struct ring_stage {
	struct pinning pinning;
	struct ring ring;
};

static void teardown(void *stage)
{
	struct ring_stage *state = stage;

	close_ring(&state->ring);
	pinning_close(&state->pinning);
	free(state);
}

static int setup(void **stage)
{
	struct ring_stage *state = calloc(1, sizeof(*state));
	int status;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	state->ring.fd = state->ring.file = -1;
	state->pinning.registrar = (struct registrar){pin, unpin, &state->ring};
	state->pinning.operate = write_fixed;
	state->pinning.nr_operations = NR_OPERATIONS;
	status = open_ring(&state->ring);
	if (!status)
		status = pinning_open(&state->pinning);
	if (status)
		teardown(state);
	else
		*stage = state;
	return status;
}

static const struct bench_row rows[] = {PINNING_ROWS(20, ""), PINNING_ROWS(80, "")};

const struct bench_stage registration_ring_stage = {setup, teardown, rows, NR_ROWS(rows)};
