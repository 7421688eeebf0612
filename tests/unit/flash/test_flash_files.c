/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Things that can be wrong with a path that is to be a flash device, and with a file under one;
 * transfers that end short.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "flash/device/file.h"
#include "flash/device/uring.h"
#include "lib/flash/flash_io.h"
#include "unit/group.h"

#define PAGE ((uint64_t)4096)
#define MIB  ((uint64_t)1 << 20)

static char folder[] = "/var/tmp/afar-flash-XXXXXX";
static char path[64];

static int enter_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/var/tmp/afar-flash-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/device", folder);
	return 0;
}

static int leave_folder(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder);
}

static void assert_refused(const char *what, int code)
{
	struct flash_device *device = NULL;

	assert_int_equal(flash_device_open_path(what, 0, &device), code);
	assert_null(device);
	assert_non_null(strstr(error_last_line(), what));
}

static void make_sparse(uint64_t size)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	close(fd);
}

static void says_what_cannot_be_opened(void **state)
{
	(void)state;
	assert_refused(path, -ENOENT);
	assert_refused(folder, -ENOTSUP);
	assert_refused("/dev/null", -ENOTSUP);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_refused(path, -ENOTSUP);
	unlink(path);
	make_sparse(0);
	assert_refused(path, -EINVAL);
	make_sparse(511);
	assert_refused(path, -EINVAL);
	/* A file system without O_DIRECT. */
	assert_refused("/proc/self/maps", -ENOTSUP);
}

static void leaves_out_what_is_no_sector(void **state)
{
	struct flash_device *device;

	(void)state;
	make_sparse(MIB + 17);
	assert_int_equal(flash_device_open_path(path, 0, &device), 0);
	assert_int_equal(device->size, MIB);
	assert_int_equal(device->discard_unit, 0); /* it keeps its blocks */
	flash_device_close(device);
}

static void creates_files_with_their_blocks(void **state)
{
	struct stat stat_;

	(void)state;
	assert_int_equal(flash_file_create(path, 3 * MIB, NULL), 0);
	assert_int_equal(stat(path, &stat_), 0);
	assert_int_equal(stat_.st_size, 3 * MIB);
	assert_true((uint64_t)stat_.st_blocks * 512 >= 3 * MIB);
	assert_int_equal(stat_.st_mode & 0777, 0600);
	assert_int_equal(flash_file_create(path, MIB, NULL), -EEXIST);
	assert_int_equal(stat(path, &stat_), 0);
	assert_int_equal(stat_.st_size, 3 * MIB);
}

static void creates_nothing_odd_or_too_large(void **state)
{
	struct statvfs there;
	int ret;

	(void)state;
	assert_int_equal(flash_file_create(path, 0, NULL), -EINVAL);
	assert_int_equal(flash_file_create(path, PAGE + 512, NULL), -EINVAL);
	assert_int_equal(flash_file_create(path, UINT64_MAX - PAGE + 1, NULL), -EINVAL);
	/* More than there is, and less than a file may have. */
	assert_int_equal(statvfs(folder, &there), 0);
	ret = flash_file_create(
		path, (uint64_t)there.f_blocks * there.f_frsize / PAGE * PAGE + PAGE, NULL);
	assert_true(ret == -ENOSPC || ret == -EFBIG);
	assert_non_null(strstr(error_last_line(), path));
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(flash_file_create("/nowhere/at/all", MIB, NULL), -ENOENT);
}

static bool stop_at(void *context, uint64_t written)
{
	return written < *(const uint64_t *)context;
}

/* A creation that is stopped leaves nothing, wherever it was. */
static void stops_when_told(void **state)
{
	static const uint64_t places[] = {0, 4 * MIB, 8 * MIB};

	(void)state;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const struct flash_file_options options = {
			.progress = stop_at, .context = (void *)(uintptr_t)&places[i]};

		assert_int_equal(flash_file_create(path, 12 * MIB, &options), -ECANCELED);
		assert_int_equal(access(path, F_OK), -1);
	}
}

static void tells_when_the_file_became_shorter(void **state)
{
	struct flash_device *device;
	char *memory = flash_memory(4 * PAGE);

	(void)state;
	assert_int_equal(flash_file_create(path, MIB, NULL), 0);
	assert_int_equal(flash_device_open_path(path, 0, &device), 0);
	assert_int_equal(truncate(path, (off_t)(2 * PAGE)), 0);
	assert_int_equal(flash_read(device, 0, memory, 2 * PAGE), 0);
	assert_int_equal(flash_read(device, 0, memory, 4 * PAGE), -EIO);
	assert_int_equal(flash_read(device, 8 * PAGE, memory, PAGE), -EIO);
	flash_device_close(device);
	free(memory);
}

/*
 * Linux moves at most 2 GiB less a page at a time, which here ends within a vector, a page before
 * its end. All vectors but three are the same memory, of a hole.
 */
static void goes_on_where_the_kernel_stopped(void **state)
{
	const uint64_t part = 4 * MIB, border = ((uint64_t)1 << 31) - PAGE;
	const unsigned nr_iov = 520, at_border = (unsigned)(border / part);
	char *hole = flash_memory(part), *cut = flash_memory(part), *last = flash_memory(part);
	struct test_io test = {.io = {.opcode = FLASH_IO_READ, .done = test_io_ended}};
	struct iovec iov[520];
	struct flash_device *device;
	char *page = flash_memory(PAGE);

	(void)state;
	make_sparse(nr_iov * part);
	assert_int_equal(flash_device_open_path(path, 0, &device), 0);
	memset(page, 'b', PAGE);
	assert_int_equal(flash_write(device, 0, border, page, PAGE), 0);
	memset(page, 'c', PAGE);
	assert_int_equal(flash_write(device, 0, border - PAGE, page, PAGE), 0);
	memset(page, 'e', PAGE);
	assert_int_equal(flash_write(device, 0, nr_iov * part - PAGE, page, PAGE), 0);

	for (unsigned i = 0; i < nr_iov; i++)
		iov[i] = (struct iovec){hole, part};
	iov[at_border].iov_base = cut;
	iov[nr_iov - 1].iov_base = last;
	test.io.iov = iov;
	test.io.nr_iov = nr_iov;
	test.io.length = nr_iov * part;
	memset(hole, 'x', part);
	flash_device_submit(device, &test.io);
	assert_int_equal(test_io_wait(device, &test), 0);
	assert_int_equal(cut[part - 2 * PAGE], 'c');
	assert_int_equal(cut[part - PAGE], 'b');
	assert_int_equal(cut[part - 1], 'b');
	assert_int_equal(last[part - 1], 'e');
	assert_int_equal(last[part - PAGE - 1], 0);
	assert_int_equal(hole[0], 0);
	assert_int_equal(hole[part - 1], 0);
	flash_device_close(device);
	free(hole);
	free(cut);
	free(last);
	free(page);
}

static void tells_since_when_the_oldest_is_under_way(void **state)
{
	uint64_t before = clock_coarse_ns(), first;
	char *memory = flash_memory(MIB);
	struct flash_device *device;
	struct test_io older, newer;

	(void)state;
	make_sparse(2 * MIB);
	assert_int_equal(flash_device_open_path(path, 0, &device), 0);
	assert_int_equal(flash_write(device, 0, 0, memory, PAGE), 0);
	assert_int_equal(flash_device_oldest(device), 0);
	/* So large ones go to the kernel at once. */
	test_io_submit(device, &older, FLASH_IO_WRITE, 0, 0, memory, MIB);
	first = flash_device_oldest(device);
	assert_true(first >= before);
	while (clock_coarse_ns() == first)
		;
	test_io_submit(device, &newer, FLASH_IO_WRITE, 0, MIB, memory, MIB);
	assert_int_equal(flash_device_oldest(device), first);
	assert_int_equal(test_io_wait(device, &older), 0);
	assert_int_equal(test_io_wait(device, &newer), 0);
	assert_int_equal(flash_device_oldest(device), 0);
	assert_int_equal(flash_flush(device), 0);
	assert_int_equal(flash_device_oldest(device), 0);
	flash_device_close(device);
	free(memory);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)

TEST_GROUP(flash_files)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(says_what_cannot_be_opened),
		IN_FOLDER(leaves_out_what_is_no_sector),
		IN_FOLDER(creates_files_with_their_blocks),
		IN_FOLDER(creates_nothing_odd_or_too_large),
		IN_FOLDER(stops_when_told),
		IN_FOLDER(tells_when_the_file_became_shorter),
		IN_FOLDER(goes_on_where_the_kernel_stopped),
		IN_FOLDER(tells_since_when_the_oldest_is_under_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
