/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `registration` on what a cache saves where registering is the kernel's own pinning. The buffers are
 * fixed in an io_uring, each in a slot. An operation is a write of the buffer to a file of memory, by its slot.
 */
#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "registration.h"

#define NR_OPERATIONS 1000U
#define RING_ENTRIES  4U
#define NR_SLOTS      (PINNING_NR_BUFFERS + PINNING_NR_KEPT)

struct ring {
	struct io_uring ring;
	bool has_ring;
	int file;
	pthread_mutex_t lock; /* of the slots */
	unsigned free_slots[NR_SLOTS];
	unsigned nr_free;
};

/* Threads may, each for slots of its own, while another operates. */
static int update_slot(struct ring *ring, unsigned slot, void *addr, size_t length)
{
	const struct iovec iov = {addr, length};
	const __u64 tag = 0;

	return io_uring_register_buffers_update_tag(&ring->ring, slot, &iov, &tag, 1);
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

/* One operation, to its end. */
static int write_fixed(void *context, void *addr, void *registration)
{
	struct ring *ring = context;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->ring);
	struct io_uring_cqe *cqe;
	int ret;

	io_uring_prep_write_fixed(sqe, ring->file, addr, PINNING_BUFFER_BYTES, 0,
				  (int)slot_of(registration));
	ret = io_uring_submit_and_wait(&ring->ring, 1);
	if (ret == 1)
		ret = io_uring_wait_cqe(&ring->ring, &cqe);
	if (ret < 0)
		return bench_fail(ret, "io_uring: %s", strerror(-ret));
	ret = cqe->res;
	io_uring_cqe_seen(&ring->ring, cqe);
	return ret == (int)PINNING_BUFFER_BYTES ? 0 : bench_fail(-EIO, "io_uring: wrote %d", ret);
}

static void close_ring(struct ring *ring)
{
	if (ring->file >= 0)
		close(ring->file);
	if (ring->has_ring)
		io_uring_queue_exit(&ring->ring);
}

static int open_ring(struct ring *ring)
{
	int ret;

	pthread_mutex_init(&ring->lock, NULL);
	for (unsigned i = 0; i < NR_SLOTS; i++)
		ring->free_slots[ring->nr_free++] = i;
	ring->file = memfd_create("afar-bench", MFD_CLOEXEC);
	if (ring->file < 0)
		return bench_fail(-errno, "a file of memory: %s", strerror(errno));
	ret = io_uring_queue_init(RING_ENTRIES, &ring->ring, 0);
	ring->has_ring = ret == 0;
	if (ret)
		return bench_fail(ret, "io_uring: %s", strerror(-ret));
	ret = io_uring_register_buffers_sparse(&ring->ring, NR_SLOTS);
	return ret ? bench_fail(ret, "fixed buffers of io_uring: %s", strerror(-ret)) : 0;
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
	int ret;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	state->ring.file = -1;
	state->pinning.registrar = (struct registrar){pin, unpin, &state->ring};
	state->pinning.operate = write_fixed;
	state->pinning.nr_operations = NR_OPERATIONS;
	ret = open_ring(&state->ring);
	if (!ret)
		ret = pinning_open(&state->pinning);
	if (ret)
		teardown(state);
	else
		*stage = state;
	return ret;
}

static const struct bench_row rows[] = {PINNING_ROWS(20, ""), PINNING_ROWS(80, "")};

const struct bench_stage registration_ring_stage = {setup, teardown, rows, NR_ROWS(rows)};
