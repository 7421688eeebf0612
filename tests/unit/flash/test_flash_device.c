/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every flash device keeps to these rules: the fake one, a regular file, and loop devices with
 * either sector. Those need root and are left out where there are none.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "flash/device/file.h"
#include "flash/device/uring.h"
#include "lib/flash/flash_fake.h"
#include "lib/flash/flash_io.h"
#include "unit/group.h"

#define SIZE	((uint64_t)8 << 20)
#define PAGE	((uint64_t)4096)
#define NR_MANY 500U /* more than a device has in flight at once */

/* ---- The worlds */

struct world {
	struct flash_device *device; /* NULL: there is none here */
	char path[64];		     /* of the file, or below the loop device; empty: none */
	char loop[32];
	int loop_fd;
};

static void open_fake(struct world *world, uint32_t sector)
{
	const struct flash_fake_options options = {.size = SIZE,
						   .sector = sector,
						   .discard_unit = 8192,
						   .seed = 7,
						   .latency_max = 3,
						   .can_lose_power = true};

	assert_int_equal(flash_fake_open(&options, &world->device), 0);
	assert_int_equal(world->device->sector, sector);
}

static void make_file(struct world *world)
{
	char folder[] = "/var/tmp/afar-flash-XXXXXX";

	assert_non_null(mkdtemp(folder));
	snprintf(world->path, sizeof(world->path), "%s/device", folder);
	assert_int_equal(flash_file_create(world->path, SIZE, NULL), 0);
}

static void remove_file(struct world *world)
{
	assert_int_equal(unlink(world->path), 0);
	*strrchr(world->path, '/') = '\0';
	assert_int_equal(rmdir(world->path), 0);
}

/* It detaches itself with its last user. 0, or an error. */
static int attach_loop(struct world *world, uint32_t sector)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	struct loop_config config = {.block_size = sector, .info.lo_flags = LO_FLAGS_AUTOCLEAR};
	int file = open(world->path, O_RDWR | O_CLOEXEC), ret = -EBUSY;

	if (control < 0) {
		close(file);
		return -errno;
	}
	/* Another may take the number that is free. */
	for (int tries = 0; ret == -EBUSY && tries < 16; tries++) {
		snprintf(world->loop, sizeof(world->loop), "/dev/loop%d",
			 ioctl(control, LOOP_CTL_GET_FREE));
		world->loop_fd = open(world->loop, O_RDWR | O_CLOEXEC);
		ret = world->loop_fd < 0 ? -errno : 0;
		config.fd = (unsigned)file;
		if (!ret && ioctl(world->loop_fd, LOOP_CONFIGURE, &config))
			ret = -errno;
		if (ret && world->loop_fd >= 0)
			close(world->loop_fd);
	}
	close(file);
	close(control);
	return ret;
}

static int enter_fake_512(void **state)
{
	static struct world world;

	open_fake(&world, 512);
	*state = &world;
	return 0;
}

static int enter_fake_4096(void **state)
{
	static struct world world;

	open_fake(&world, 4096);
	*state = &world;
	return 0;
}

static int enter_file(void **state)
{
	static struct world world;

	make_file(&world);
	assert_int_equal(flash_device_open_path(world.path, FLASH_DEVICE_THIN, &world.device), 0);
	*state = &world;
	return 0;
}

static int enter_loop(void **state, uint32_t sector)
{
	static struct world world;
	int ret;

	world = (struct world){.loop_fd = -1};
	*state = &world;
	make_file(&world);
	ret = attach_loop(&world, sector);
	if (ret) {
		print_message("no loop device here: %s\n", strerror(-ret));
		world.loop[0] = '\0';
		return 0;
	}
	assert_int_equal(flash_device_open_path(world.loop, 0, &world.device), 0);
	assert_int_equal(world.device->sector, sector);
	return 0;
}

static int enter_loop_512(void **state)
{
	return enter_loop(state, 512);
}

static int enter_loop_4096(void **state)
{
	return enter_loop(state, 4096);
}

static int leave(void **state)
{
	struct world *world = *state;

	if (world->device)
		flash_device_close(world->device);
	world->device = NULL;
	if (world->loop[0])
		close(world->loop_fd);
	if (world->path[0])
		remove_file(world);
	return 0;
}

static struct flash_device *device_of(void **state)
{
	const struct world *world = *state;

	if (!world->device)
		skip();
	return world->device;
}

/* ---- Tests */

static void says_what_it_is(void **state)
{
	const struct flash_device *device = device_of(state);

	assert_int_equal(device->size, SIZE);
	assert_true(device->sector == 512 || device->sector == 4096);
	assert_int_equal(device->discard_unit % device->sector, 0);
	assert_true(device->depth > 0);
}

static void reads_what_was_written(void **state)
{
	struct flash_device *device = device_of(state);
	size_t length = 2 * device->sector;
	char *from = flash_memory(length), *to = flash_memory(length);

	memset(from, 'a', length);
	memset(from + device->sector, 'b', device->sector);
	assert_int_equal(flash_write(device, 0, SIZE - length, from, length), 0);
	assert_int_equal(flash_read(device, SIZE - length, to, length), 0);
	assert_memory_equal(from, to, length);
	assert_int_equal(flash_read(device, SIZE - device->sector, to, device->sector), 0);
	assert_memory_equal(from + device->sector, to, device->sector);
	free(from);
	free(to);
}

/*
 * The memory of an operation in the order of its vectors, of which there may be many, of different
 * lengths.
 */
static void gathers_and_scatters(void **state)
{
	struct flash_device *device = device_of(state);
	size_t sector = device->sector, length = (FLASH_IOV_MAX + 1) * sector;
	char *memory = flash_memory(length), *to = flash_memory(length);
	struct iovec iov[FLASH_IOV_MAX];
	struct test_io test = {.io = {.opcode = FLASH_IO_WRITE,
				      .offset = sector,
				      .length = length,
				      .iov = iov,
				      .nr_iov = FLASH_IOV_MAX,
				      .done = test_io_ended}};

	for (size_t i = 0; i <= FLASH_IOV_MAX; i++)
		memset(memory + i * sector, (int)i % 251, sector);
	/* Backwards, but for the last vector, which has two sectors. */
	for (size_t i = 0; i < FLASH_IOV_MAX; i++)
		iov[i] = (struct iovec){memory + (FLASH_IOV_MAX - 1 - i) * sector, sector};
	iov[FLASH_IOV_MAX - 1] = (struct iovec){memory + (FLASH_IOV_MAX - 1) * sector, 2 * sector};
	flash_device_submit(device, &test.io);
	assert_int_equal(test_io_wait(device, &test), 0);
	assert_int_equal(flash_read(device, sector, to, length), 0);
	for (size_t i = 0; i < FLASH_IOV_MAX - 1; i++)
		assert_memory_equal(to + i * sector, iov[i].iov_base, sector);
	assert_memory_equal(to + (FLASH_IOV_MAX - 1) * sector, iov[FLASH_IOV_MAX - 1].iov_base,
			    2 * sector);

	test = (struct test_io){.io = test.io};
	test.io.opcode = FLASH_IO_READ;
	memset(memory, 0, length);
	flash_device_submit(device, &test.io);
	assert_int_equal(test_io_wait(device, &test), 0);
	for (size_t i = 0; i < FLASH_IOV_MAX - 1; i++)
		assert_memory_equal(to + i * sector, iov[i].iov_base, sector);
	free(memory);
	free(to);
}

static void wait_all(struct flash_device *device, const struct test_io *tests, unsigned nr)
{
	int nr_ended = 0;

	while (nr_ended < (int)nr) {
		int ret = flash_device_poll(device, -1);

		assert_true(ret > 0);
		nr_ended += ret;
	}
	for (unsigned i = 0; i < nr; i++) {
		assert_int_equal(tests[i].nr_ended, 1);
		assert_int_equal(tests[i].io.result, 0);
	}
	assert_int_equal(flash_device_poll(device, 0), 0);
}

static void does_many_at_once(void **state)
{
	struct flash_device *device = device_of(state);
	struct test_io *tests = calloc(NR_MANY, sizeof(*tests));
	char *memory = flash_memory(NR_MANY * PAGE);

	assert_non_null(tests);
	for (unsigned i = 0; i < NR_MANY; i++) {
		memset(memory + i * PAGE, (int)(i % 251), PAGE);
		test_io_submit(device, &tests[i], FLASH_IO_WRITE, i % 3 ? 0 : FLASH_IO_DURABLE,
			       i * PAGE, memory + i * PAGE, PAGE);
	}
	wait_all(device, tests, NR_MANY);
	memset(memory, 0, NR_MANY * PAGE);
	for (unsigned i = 0; i < NR_MANY; i++)
		test_io_submit(device, &tests[i], FLASH_IO_READ, 0, i * PAGE, memory + i * PAGE,
			       PAGE);
	wait_all(device, tests, NR_MANY);
	for (unsigned i = 0; i < NR_MANY; i++) {
		for (unsigned at = 0; at < PAGE; at += 511)
			assert_int_equal((unsigned char)memory[i * PAGE + at], i % 251);
	}
	free(tests);
	free(memory);
}

struct chain {
	struct flash_io io;
	struct iovec iov;
	struct flash_device *device;
	unsigned *nr_left;
};

/* A request that ended is gone before the next one is given. */
static void go_on(struct flash_io *io)
{
	struct chain *chain = caa_container_of(io, struct chain, io), *next;

	assert_int_equal(io->result, 0);
	if (--*chain->nr_left > 0) {
		next = malloc(sizeof(*next));
		assert_non_null(next);
		*next = *chain;
		next->io.iov = &next->iov;
		flash_device_submit(chain->device, &next->io);
	}
	memset(chain, 0xa5, sizeof(*chain));
	free(chain);
}

static void submits_from_what_ended(void **state)
{
	struct flash_device *device = device_of(state);
	char *memory = flash_memory(PAGE);
	struct chain *first = malloc(sizeof(*first));
	unsigned nr_left = 200;

	assert_non_null(first);
	*first = (struct chain){
		.io = {.opcode = FLASH_IO_READ, .length = PAGE, .nr_iov = 1, .done = go_on},
		.iov = {memory, PAGE},
		.device = device,
		.nr_left = &nr_left};
	first->io.iov = &first->iov;
	flash_device_submit(device, &first->io);
	while (nr_left > 0)
		assert_true(flash_device_poll(device, 1000) >= 0);
	assert_int_equal(flash_device_poll(device, -1), 0);
	free(memory);
}

static void has_nothing_to_wait_for(void **state)
{
	struct flash_device *device = device_of(state);

	assert_int_equal(flash_device_poll(device, 0), 0);
	assert_int_equal(flash_device_poll(device, -1), 0);
}

static int refusal(struct flash_device *device, enum flash_io_opcode opcode, uint64_t offset,
		   void *memory, uint64_t length)
{
	struct test_io test;

	test_io_submit(device, &test, opcode, 0, offset, memory, length);
	assert_int_equal(test.nr_ended, 0); /* only a poll tells */
	assert_int_equal(flash_device_poll(device, -1), 1);
	assert_int_equal(test.nr_ended, 1);
	return test.io.result;
}

static void refuses_what_does_not_fit(void **state)
{
	struct flash_device *device = device_of(state);
	uint32_t sector = device->sector, unit = device->discard_unit;
	char *memory = flash_memory(4 * PAGE);
	struct test_io test = {
		.io = {.length = sector, .iov = &test.iov, .nr_iov = 1, .done = test_io_ended},
		.iov = {memory, 2 * sector}};

	assert_int_equal(refusal(device, FLASH_IO_READ, SIZE, memory, sector), -EINVAL);
	assert_int_equal(refusal(device, FLASH_IO_WRITE, SIZE - sector, memory, 2 * sector),
			 -EINVAL);
	assert_int_equal(refusal(device, FLASH_IO_READ, UINT64_MAX - sector + 1, memory, sector),
			 -EINVAL);
	assert_int_equal(refusal(device, FLASH_IO_READ, sector / 2, memory, sector), -EINVAL);
	assert_int_equal(refusal(device, FLASH_IO_WRITE, 0, memory, sector / 2), -EINVAL);
	assert_int_equal(refusal(device, FLASH_IO_WRITE, 0, memory + 1, sector), -EINVAL);
	assert_int_equal(refusal(device, FLASH_IO_READ, 0, memory, 0), -EINVAL);
	assert_int_equal(refusal(device, FLASH_IO_READ, 0, NULL, sector), -EINVAL);
	if (unit > 0) {
		assert_int_equal(refusal(device, FLASH_IO_DISCARD, 0, NULL, unit / 2), -EINVAL);
		assert_int_equal(refusal(device, FLASH_IO_DISCARD, SIZE, NULL, unit), -EINVAL);
	}
	/* Its vectors hold more than it says. */
	flash_device_submit(device, &test.io);
	assert_int_equal(test_io_wait(device, &test), -EINVAL);
	assert_int_equal(flash_read(device, 0, memory, sector), 0);
	free(memory);
}

static void flushes(void **state)
{
	struct flash_device *device = device_of(state);
	char *memory = flash_memory(PAGE);

	assert_int_equal(flash_flush(device), 0);
	assert_int_equal(flash_write(device, FLASH_IO_DURABLE, 0, memory, PAGE), 0);
	assert_int_equal(flash_write(device, 0, 0, memory, PAGE), 0);
	assert_int_equal(flash_flush(device), 0);
	free(memory);
}

/* How often the kernel flushed the loop device. */
static unsigned long long flushes_of(const struct world *world)
{
	char path[64];
	unsigned long long nr = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/block/%s/stat", strrchr(world->loop, '/') + 1);
	file = fopen(path, "re");
	assert_non_null(file);
	/* The sixteenth, as Documentation/block/stat.rst counts. */
	assert_int_equal(fscanf(file,
				"%*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u "
				"%*u %llu",
				&nr),
			 1);
	fclose(file);
	return nr;
}

static void flushes_when_it_must(void **state)
{
	struct flash_device *device = device_of(state);
	const struct world *world = *state;
	char *memory = flash_memory(PAGE);
	unsigned long long before;
	struct test_io read;

	/* It is the kernel that says. */
	if (world->loop[0] && access("/sys/block", R_OK) == 0) {
		before = flushes_of(world);
		assert_int_equal(flash_write(device, 0, 0, memory, PAGE), 0);
		assert_int_equal(flushes_of(world), before);
		assert_int_equal(flash_write(device, FLASH_IO_DURABLE, 0, memory, PAGE), 0);
		assert_true(flushes_of(world) > before);
		before = flushes_of(world);
		assert_int_equal(flash_flush(device), 0);
		assert_true(flushes_of(world) > before);
		/* With others beside it, too. */
		before = flushes_of(world);
		test_io_submit(device, &read, FLASH_IO_READ, 0, 0, memory, PAGE);
		assert_int_equal(flash_flush(device), 0);
		assert_int_equal(test_io_wait(device, &read), 0);
		assert_true(flushes_of(world) > before);
	}
	free(memory);
}

static void discards_nothing_else(void **state)
{
	struct flash_device *device = device_of(state);
	size_t unit = device->discard_unit, length = 4 * unit;
	char *memory, *to;

	if (unit == 0) {
		assert_int_equal(flash_discard(device, 0, PAGE), -EOPNOTSUPP);
		return;
	}
	memory = flash_memory(length);
	to = flash_memory(length);
	memset(memory, 'x', length);
	assert_int_equal(flash_write(device, 0, 0, memory, length), 0);
	assert_int_equal(flash_discard(device, unit, 2 * unit), 0);
	assert_int_equal(flash_read(device, 0, to, length), 0);
	assert_memory_equal(to, memory, unit);
	assert_memory_equal(to + 3 * unit, memory, unit);
	assert_int_equal(flash_write(device, 0, 2 * unit, memory, unit), 0);
	assert_int_equal(flash_read(device, 2 * unit, to, unit), 0);
	assert_memory_equal(to, memory, unit);
	free(memory);
	free(to);
}

/* Sleeps on the descriptor, for edges. Returns whether there was one. */
static int sleep_on(struct flash_device *device, int epoll_fd, int timeout_ms)
{
	struct epoll_event event;

	flash_device_fd(device);
	return epoll_wait(epoll_fd, &event, 1, timeout_ms);
}

static void tells_when_to_poll(void **state)
{
	struct flash_device *device = device_of(state);
	struct epoll_event edges = {.events = EPOLLIN | EPOLLET};
	const int fd = flash_device_fd(device), epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	char *memory = flash_memory(PAGE);
	struct test_io test;

	assert_true(fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &edges) == 0);
	for (unsigned i = 0; i < 50 && fd >= 0; i++) {
		test_io_submit(device, &test, FLASH_IO_READ, 0, i * PAGE, memory, PAGE);
		while (flash_device_poll(device, 0) == 0)
			assert_int_equal(sleep_on(device, epoll_fd, 10000), 1);
		assert_int_equal(test.nr_ended, 1);
		/* Polls in between, as of a caller that spins. */
		test_io_submit(device, &test, FLASH_IO_READ, 0, i * PAGE, memory, PAGE);
		while (flash_device_poll(device, 0) == 0)
			;
	}
	assert_int_equal(flash_device_poll(device, 0), 0);
	assert_int_equal(sleep_on(device, epoll_fd, 0), 0);
	/* A request that the device refuses ends as well. */
	test_io_submit(device, &test, FLASH_IO_READ, 0, SIZE, memory, PAGE);
	assert_int_equal(sleep_on(device, epoll_fd, 0), fd >= 0 ? 1 : 0);
	assert_int_equal(flash_device_poll(device, 0), 1);
	close(epoll_fd);
	free(memory);
}

static void second_opener_is_refused(void **state)
{
	struct world *world = *state;
	const char *path = world->loop[0] ? world->loop : world->path;
	char *memory, *to;
	struct flash_device *second;

	device_of(state);
	if (!*path)
		return;
	assert_int_equal(flash_device_open_path(path, 0, &second), -EBUSY);
	assert_non_null(strstr(error_last_line(), path));
	assert_int_equal(flash_device_open_path(path, FLASH_DEVICE_READ_ONLY, &second), -EBUSY);
	/* It has what was written, and is free at once, when the first has gone. */
	memory = flash_memory(PAGE);
	to = flash_memory(PAGE);
	for (unsigned i = 0; i < 20; i++) {
		memset(memory, (int)i, PAGE);
		assert_int_equal(flash_write(world->device, 0, PAGE, memory, PAGE), 0);
		flash_device_close(world->device);
		assert_int_equal(flash_device_open_path(path, 0, &world->device), 0);
		assert_int_equal(flash_read(world->device, PAGE, to, PAGE), 0);
		assert_memory_equal(memory, to, PAGE);
	}
	flash_device_close(world->device);
	assert_int_equal(flash_device_open_path(path, FLASH_DEVICE_READ_ONLY, &world->device), 0);
	assert_int_equal(flash_read(world->device, PAGE, to, PAGE), 0);
	assert_memory_equal(memory, to, PAGE);
	assert_int_not_equal(flash_write(world->device, 0, PAGE, memory, PAGE), 0);
	flash_device_close(world->device);
	/* Nor does one that never polled keep it. */
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(flash_device_open_path(path, 0, &world->device), 0);
		if (i < 19)
			flash_device_close(world->device);
	}
	free(memory);
	free(to);
}

TEST_GROUP(flash_device)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(says_what_it_is),
		cmocka_unit_test(reads_what_was_written),
		cmocka_unit_test(gathers_and_scatters),
		cmocka_unit_test(does_many_at_once),
		cmocka_unit_test(submits_from_what_ended),
		cmocka_unit_test(has_nothing_to_wait_for),
		cmocka_unit_test(refuses_what_does_not_fit),
		cmocka_unit_test(flushes),
		cmocka_unit_test(flushes_when_it_must),
		cmocka_unit_test(discards_nothing_else),
		cmocka_unit_test(tells_when_to_poll),
		cmocka_unit_test(second_opener_is_refused),
	};

	return cmocka_run_group_tests_name("fake, 512", tests, enter_fake_512, leave) +
	       cmocka_run_group_tests_name("fake, 4096", tests, enter_fake_4096, leave) +
	       cmocka_run_group_tests_name("file", tests, enter_file, leave) +
	       cmocka_run_group_tests_name("loop, 512", tests, enter_loop_512, leave) +
	       cmocka_run_group_tests_name("loop, 4096", tests, enter_loop_4096, leave);
}
