/* SPDX-License-Identifier: BSD-3-Clause */
/* A gate before the device of a store; see flash_gate.h. */
#include "lib/server/flash_gate.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "flash/device/uring.h"

#define NR_OPCODES 4

struct gated {
	struct flash_device device;
	struct flash_device *inner;
	int fd; /* of `inner` */
	struct cds_list_head held, failed;
	uint64_t held_since; /* on clock_coarse_ns(): the oldest; 0: none is held */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_held[NR_OPCODES];
	int error[NR_OPCODES];
	int broken;
	unsigned nr_held[NR_OPCODES];
	void (*seen)(void *argument);
	void *argument;
	bool sees_reads;
	struct gated *gated; /* the device that was opened last; NULL: it is closed */
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static struct gated *gated_of(struct flash_device *device)
{
	return caa_container_of(device, struct gated, device);
}

/* ---- The device */

static void watch(const struct flash_io *io)
{
	void (*seen)(void *argument);

	pthread_mutex_lock(&gate.lock);
	seen = gate.sees_reads || io->opcode != FLASH_IO_READ ? gate.seen : NULL;
	pthread_mutex_unlock(&gate.lock);
	if (seen)
		seen(gate.argument);
}

static void gated_submit(struct flash_device *device, struct flash_io *io)
{
	struct gated *gated = gated_of(device);
	bool is_taken = true;

	watch(io);
	pthread_mutex_lock(&gate.lock);
	if (gate.is_held[io->opcode]) {
		if (cds_list_empty(&gated->held))
			gated->held_since = clock_coarse_ns();
		cds_list_add_tail(&io->node, &gated->held);
		gate.nr_held[io->opcode]++;
		pthread_cond_broadcast(&gate.changed);
	} else if (gate.error[io->opcode] != 0) {
		io->result = gate.error[io->opcode];
		cds_list_add_tail(&io->node, &gated->failed);
		eventfd_write(gated->fd, 1);
	} else {
		is_taken = false;
	}
	pthread_mutex_unlock(&gate.lock);
	if (!is_taken)
		flash_device_submit(gated->inner, io);
}

/* Lets those pass that need not wait any more. The caller holds the lock. */
static void let_pass(struct gated *gated)
{
	struct flash_io *io, *next;

	cds_list_for_each_entry_safe (io, next, &gated->held, node) {
		if (gate.is_held[io->opcode])
			continue;
		cds_list_del(&io->node);
		gate.nr_held[io->opcode]--;
		flash_device_submit(gated->inner, io);
	}
	if (cds_list_empty(&gated->held))
		gated->held_since = 0;
}

static int gated_poll(struct flash_device *device, int timeout_ms)
{
	struct gated *gated = gated_of(device);
	int broken, nr, ret;

	pthread_mutex_lock(&gate.lock);
	broken = gate.broken;
	if (broken == 0)
		let_pass(gated);
	pthread_mutex_unlock(&gate.lock);
	if (broken != 0)
		return broken;
	nr = flash_device_end_all(&gated->failed);
	ret = flash_device_poll(gated->inner, nr > 0 ? 0 : timeout_ms);
	return ret < 0 ? ret : nr + ret;
}

static int gated_fd(struct flash_device *device)
{
	return flash_device_fd(gated_of(device)->inner);
}

static void gated_close(struct flash_device *device)
{
	struct gated *gated = gated_of(device);

	pthread_mutex_lock(&gate.lock);
	if (gate.gated == gated)
		gate.gated = NULL;
	pthread_mutex_unlock(&gate.lock);
	flash_device_close(gated->inner);
	free(gated);
}

static int gated_foreign(struct flash_device *device, char *what, size_t size)
{
	return flash_device_foreign(gated_of(device)->inner, what, size);
}

static uint64_t gated_oldest(struct flash_device *device)
{
	struct gated *gated = gated_of(device);
	uint64_t oldest;

	pthread_mutex_lock(&gate.lock);
	oldest = gated->held_since;
	pthread_mutex_unlock(&gate.lock);
	return oldest ? oldest : flash_device_oldest(gated->inner);
}

static const struct flash_device_ops gated_ops = {gated_submit, gated_poll,    gated_fd,
						  gated_close,	gated_foreign, gated_oldest};

int __real_flash_device_open_path(const char *path, unsigned flags, struct flash_device **out);
int __wrap_flash_device_open_path(const char *path, unsigned flags, struct flash_device **out);

int __wrap_flash_device_open_path(const char *path, unsigned flags, struct flash_device **out)
{
	struct gated *gated;
	struct flash_device *inner;
	int ret = __real_flash_device_open_path(path, flags, &inner);

	if (ret != 0)
		return ret;
	gated = calloc(1, sizeof(*gated));
	assert_non_null(gated);
	gated->inner = inner;
	gated->device = *inner;
	gated->device.ops = &gated_ops;
	CDS_INIT_LIST_HEAD(&gated->held);
	CDS_INIT_LIST_HEAD(&gated->failed);
	/* Asked for at once: it is what wakes the store's thread. */
	gated->fd = flash_device_fd(inner);
	pthread_mutex_lock(&gate.lock);
	gate.gated = gated;
	pthread_mutex_unlock(&gate.lock);
	*out = &gated->device;
	return 0;
}

/* ---- The test's side */

/* The caller holds the lock. */
static void wake_device(void)
{
	if (gate.gated)
		eventfd_write(gate.gated->fd, 1);
}

void flash_gate_reset(void)
{
	pthread_mutex_lock(&gate.lock);
	for (int i = 0; i < NR_OPCODES; i++) {
		gate.is_held[i] = false;
		gate.error[i] = 0;
		gate.nr_held[i] = 0;
	}
	gate.broken = 0;
	gate.seen = NULL;
	pthread_mutex_unlock(&gate.lock);
}

void flash_gate_hold(enum flash_io_opcode opcode)
{
	pthread_mutex_lock(&gate.lock);
	gate.is_held[opcode] = true;
	pthread_mutex_unlock(&gate.lock);
}

void flash_gate_await(enum flash_io_opcode opcode, unsigned nr_held)
{
	pthread_mutex_lock(&gate.lock);
	while (gate.nr_held[opcode] < nr_held)
		pthread_cond_wait(&gate.changed, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
}

unsigned flash_gate_nr_held(enum flash_io_opcode opcode)
{
	unsigned nr;

	pthread_mutex_lock(&gate.lock);
	nr = gate.nr_held[opcode];
	pthread_mutex_unlock(&gate.lock);
	return nr;
}

void flash_gate_let(enum flash_io_opcode opcode)
{
	pthread_mutex_lock(&gate.lock);
	gate.is_held[opcode] = false;
	wake_device();
	pthread_mutex_unlock(&gate.lock);
}

void flash_gate_release(void)
{
	pthread_mutex_lock(&gate.lock);
	for (int i = 0; i < NR_OPCODES; i++)
		gate.is_held[i] = false;
	wake_device();
	pthread_mutex_unlock(&gate.lock);
}

bool flash_gate_is_holding(void)
{
	bool is_holding = false;

	pthread_mutex_lock(&gate.lock);
	for (int i = 0; i < NR_OPCODES; i++)
		is_holding |= gate.is_held[i];
	pthread_mutex_unlock(&gate.lock);
	return is_holding;
}

static bool share_memory(const struct flash_io *left, const struct flash_io *right)
{
	for (unsigned i = 0; i < left->nr_iov; i++) {
		for (unsigned j = 0; j < right->nr_iov; j++) {
			const char *a = left->iov[i].iov_base, *b = right->iov[j].iov_base;

			if (a < b + right->iov[j].iov_len && b < a + left->iov[i].iov_len)
				return true;
		}
	}
	return false;
}

bool flash_gate_has_shared_memory(void)
{
	const struct flash_io *left, *right;
	bool is_shared = false;

	pthread_mutex_lock(&gate.lock);
	cds_list_for_each_entry (left, &gate.gated->held, node) {
		cds_list_for_each_entry (right, &gate.gated->held, node)
			is_shared |= left != right && share_memory(left, right);
	}
	pthread_mutex_unlock(&gate.lock);
	return is_shared;
}

void flash_gate_fail(enum flash_io_opcode opcode, int error)
{
	pthread_mutex_lock(&gate.lock);
	gate.error[opcode] = error;
	pthread_mutex_unlock(&gate.lock);
}

void flash_gate_break(int error)
{
	pthread_mutex_lock(&gate.lock);
	gate.broken = error;
	wake_device();
	pthread_mutex_unlock(&gate.lock);
}

void flash_gate_watch(void (*seen)(void *argument), void *argument)
{
	pthread_mutex_lock(&gate.lock);
	gate.argument = argument;
	gate.seen = seen;
	gate.sees_reads = false;
	pthread_mutex_unlock(&gate.lock);
}

void flash_gate_watch_all(void (*seen)(void *argument), void *argument)
{
	flash_gate_watch(seen, argument);
	pthread_mutex_lock(&gate.lock);
	gate.sees_reads = true;
	pthread_mutex_unlock(&gate.lock);
}
