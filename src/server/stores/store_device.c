/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store's device: makes it, opens it and the layer in it, and says why neither can be. The sentences
 * are what a user reads who starts a server.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "flash/device/file.h"
#include "flash/device/superblock.h"
#include "flash/device/uring.h"
#include "memory/available.h"
#include "server/stores/store_private.h"

#define BUSY_MS	 5000
#define PAUSE_NS 50000000

/* Returns the last sentence without what it says was asked, because the caller says that better. */
static const char *last_reason(void)
{
	const char *line = error_last_line(), *reason = strstr(line, "flash layer: ");

	return reason ? reason + strlen("flash layer: ") : line;
}

static int fail_open(const struct store *store, int code)
{
	switch (code) {
	case -EBUSY:
		return error_fail(
			code,
			"open the store %s: it is mounted, or another process has it open "
			"for %u s now; end that first",
			store->path, BUSY_MS / 1000);
	case -EACCES:
	case -EPERM:
	case -EROFS:
		return error_fail(
			code,
			"open the store %s: it must be readable and writable: %s; let the "
			"server's user write it",
			store->path, afar_strerror(code));
	case -ENOENT:
		return error_fail(
			code,
			"open the store %s: it is not there; 'afar flash create %s --size "
			"SIZE' makes it",
			store->path, store->path);
	default:
		return code; /* with its sentence */
	}
}

/* Tries for a while, because the kernel may still hold the device of a killed process. */
static int open_device(struct store *store, const char *path)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	uint64_t deadline = clock_deadline_ms(BUSY_MS);
	int ret = flash_device_open_path(path, 0, &store->device);

	while (ret == -EBUSY && clock_ns() < deadline) {
		nanosleep(&pause, NULL);
		ret = flash_device_open_path(path, 0, &store->device);
	}
	return ret ? fail_open(store, ret) : 0;
}

/* Makes an empty layer in the file, and waits until its device is closed again. */
static int create_layer(const char *path)
{
	struct flash_device *device;
	int ret = flash_device_open_path(path, 0, &device);

	if (ret != 0)
		return ret;
	ret = ftl_create(device, NULL);
	flash_device_close(device);
	return ret;
}

/* Makes the file with an empty layer, beside its place: what is at the path is whole at any time.
 * A process that was killed here left the file beside it. */
static int create(const struct store *store)
{
	char beside[sizeof(store->path) + sizeof(".new")];
	int ret;

	snprintf(beside, sizeof(beside), "%s.new", store->path);
	if (unlink(beside) != 0 && errno != ENOENT)
		return error_fail(-errno, "make the store %s: remove %s: %s", store->path, beside,
				  strerror(errno));
	ret = flash_file_create(beside, store->options.create_bytes, NULL);
	if (ret != 0)
		return error_fail(ret, "make the store: %s", error_last_line());
	ret = create_layer(beside);
	if (ret == 0)
		ret = flash_file_rename(beside, store->path);
	if (ret == 0)
		return 0;
	unlink(beside);
	return error_fail(ret, "make the store %s: %s", store->path, last_reason());
}

int store_open_device(struct store *store)
{
	struct stat stat_of_path;
	int ret = 0;

	if (store->options.create_bytes != 0 && stat(store->path, &stat_of_path) != 0 &&
	    errno == ENOENT)
		ret = create(store);
	return ret == 0 ? open_device(store, store->path) : ret;
}

/* Refuses a device whose map would not fit into memory when all of it is in use. */
static int check_memory(const struct store *store, const struct format_superblock *superblock)
{
	uint64_t need = (uint64_t)superblock->nr_slots * FTL_BLOCK * 5 / 4;

	if (need <= memory_limit() / 2)
		return 0;
	return error_fail(-ENOMEM,
			  "open the store %s: its map can grow to %llu MiB, and this machine lets "
			  "us have %llu MiB for it; use a smaller device, or a machine with more "
			  "memory",
			  store->path, (unsigned long long)(need >> 20),
			  (unsigned long long)(memory_limit() / 2 >> 20));
}

static int fail_layer(const struct store *store, const struct format_superblock *found, int code)
{
	bool is_none = memcmp(found->magic, format_magic, sizeof(format_magic)) != 0;

	if (code == -EINVAL && is_none)
		return error_fail(code,
				  "open the store %s: it holds no flash layer; 'afar flash create "
				  "%s' makes it one",
				  store->path, store->path);
	if (code == -EBADMSG)
		return error_fail(
			code, "open the store %s: %s; 'afar flash repair %s' says what can be done",
			store->path, last_reason(), store->path);
	return error_fail(code, "open the store %s: %s", store->path, last_reason());
}

int store_open_layer(struct store *store)
{
	struct format_superblock superblock = {0};
	int ret = superblock_read(store->device, &superblock);

	if (ret != 0)
		return fail_layer(store, &superblock, ret);
	ret = check_memory(store, &superblock);
	if (ret != 0)
		return ret;
	ret = ftl_open(store->device, 0, &store->ftl);
	if (ret != 0)
		return fail_layer(store, &superblock, ret);
	memcpy(store->uuid, superblock.uuid, STORE_UUID_BYTES);
	memcpy(&store->number, superblock.uuid, sizeof(store->number));
	store->number = le64toh(store->number);
	return 0;
}
