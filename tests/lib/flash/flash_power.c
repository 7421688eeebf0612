/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices that lose their power with their daemon; see flash_power.h. */
#include "lib/flash/flash_power.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "flash/device/uring.h"
#include "lib/flash/flash_fake.h"

#define PAGE	    4096U
#define SECTOR	    512U
#define LATENCY_MAX 4U

struct powered {
	struct flash_device device;
	struct flash_device *inner; /* the file, which nobody else may open meanwhile */
	struct flash_device *fake;
	uint8_t *file; /* mapped */
	int event_fd;  /* readable while something is in flight */
	uint64_t nr_in_flight;
	uint64_t nr_events; /* of the fake, that were counted */
};

static struct flash_power *power;

static struct powered *powered_of(struct flash_device *device)
{
	return caa_container_of(device, struct powered, device);
}

static _Noreturn void give_up(const char *what)
{
	perror(what);
	abort();
}

/* ---- The file */

static void save(const struct powered *powered, const struct flash_device *from)
{
	uint8_t page[PAGE];

	for (uint64_t at = 0; at < from->size; at += PAGE) {
		flash_fake_peek(from, at, page, PAGE);
		if (memcmp(powered->file + at, page, PAGE) != 0)
			memcpy(powered->file + at, page, PAGE);
	}
}

static void load(const struct powered *powered)
{
	static const uint8_t zeros[PAGE];

	for (uint64_t at = 0; at < powered->fake->size; at += PAGE) {
		if (memcmp(powered->file + at, zeros, PAGE) != 0 &&
		    flash_fake_poke(powered->fake, at, powered->file + at, PAGE) != 0)
			give_up("memory for a device");
	}
}

static uint8_t *map_file(const char *path, uint64_t size)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *file = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (file == MAP_FAILED)
		give_up(path);
	close(fd);
	return file;
}

/* ---- Power */

static _Noreturn void lose_power(struct powered *powered)
{
	struct flash_device *survivor;

	if (flash_fake_restart(powered->fake, power->seed + power->nr_events, &survivor) != 0)
		give_up("memory for what survives");
	save(powered, survivor);
	/* The kernel would hold the file for a while if it were open when this process ends. */
	flash_device_close(powered->inner);
	power->nr_cuts++;
	kill(getpid(), SIGKILL);
	abort();
}

/* Call it before the fake is used. */
static void tell_fake(struct powered *powered)
{
	const uint64_t cut_at = power->cut_at, nr = power->nr_events;

	flash_fake_cut_after(powered->fake, cut_at > nr ? cut_at - nr : 0);
}

/* Call it after the fake was used. */
static void heed_fake(struct powered *powered)
{
	const uint64_t nr = flash_fake_events(powered->fake);

	power->nr_events += nr - powered->nr_events;
	powered->nr_events = nr;
	if (flash_fake_is_cut(powered->fake))
		lose_power(powered);
}

/* ---- The device */

static void powered_submit(struct flash_device *device, struct flash_io *io)
{
	struct powered *powered = powered_of(device);

	powered->nr_in_flight++;
	tell_fake(powered);
	flash_device_submit(powered->fake, io);
	heed_fake(powered);
}

static int powered_poll(struct flash_device *device, int timeout_ms)
{
	struct powered *powered = powered_of(device);
	eventfd_t nr_woken;
	int nr;

	tell_fake(powered);
	nr = flash_device_poll(powered->fake, timeout_ms);
	heed_fake(powered);
	if (nr > 0)
		powered->nr_in_flight -= (uint64_t)nr;
	eventfd_read(powered->event_fd, &nr_woken);
	/* The fake's clock ticks when it is polled, and never by itself. */
	if (powered->nr_in_flight > 0)
		eventfd_write(powered->event_fd, 1);
	return nr;
}

static int powered_fd(struct flash_device *device)
{
	return powered_of(device)->event_fd;
}

static void powered_close(struct flash_device *device)
{
	struct powered *powered = powered_of(device);

	save(powered, powered->fake);
	munmap(powered->file, powered->device.size);
	flash_device_close(powered->fake);
	flash_device_close(powered->inner);
	close(powered->event_fd);
	free(powered);
}

static int powered_foreign(struct flash_device *device, char *what, size_t size)
{
	return flash_device_foreign(powered_of(device)->inner, what, size);
}

static const struct flash_device_ops powered_ops = {powered_submit, powered_poll, powered_fd,
						    powered_close, powered_foreign};

static struct flash_power *map_power(const char *path)
{
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *map =
		mmap(NULL, sizeof(struct flash_power), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		give_up(FLASH_POWER);
	close(fd);
	return map;
}

int __real_flash_device_open_path(const char *path, unsigned flags, struct flash_device **out);
int __wrap_flash_device_open_path(const char *path, unsigned flags, struct flash_device **out);

int __wrap_flash_device_open_path(const char *path, unsigned flags, struct flash_device **out)
{
	struct flash_fake_options options = {
		.sector = SECTOR,
		.discard_unit = PAGE,
		.latency_max = LATENCY_MAX,
		.can_lose_power = true,
	};
	struct powered *powered;
	struct flash_device *inner;
	int ret = __real_flash_device_open_path(path, flags, &inner);

	if (ret != 0)
		return ret;
	if (!power)
		power = map_power(getenv(FLASH_POWER));
	options.size = inner->size / PAGE * PAGE;
	options.seed = power->seed + power->nr_events;
	powered = calloc(1, sizeof(*powered));
	if (!powered || flash_fake_open(&options, &powered->fake) != 0)
		give_up("memory for a device");
	powered->inner = inner;
	powered->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	powered->file = map_file(path, options.size);
	load(powered);
	powered->device = *powered->fake;
	powered->device.ops = &powered_ops;
	*out = &powered->device;
	return 0;
}
