/* SPDX-License-Identifier: BSD-3-Clause */
/* The file that suite `flash` measures on, in /var/tmp or where AFAR_BENCH_FLASH says: on the storage in question. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "flash.h"
#include "flash/uring.h"

#define FOLDER "/var/tmp"

static int make_folder(struct flash_file *file)
{
	const char *named = getenv("AFAR_BENCH_FLASH");
	int length = snprintf(file->folder, sizeof(file->folder), "%s/afar-bench-flash-XXXXXX",
			      named ? named : FOLDER);
	int ret;

	if (length >= (int)sizeof(file->folder) || !mkdtemp(file->folder)) {
		ret = bench_fail(-errno, "a folder in %s: %s", named ? named : FOLDER,
				 strerror(errno));
		file->folder[0] = '\0';
		return ret;
	}
	snprintf(file->path, sizeof(file->path), "%s/device", file->folder);
	return 0;
}

static int write_once(const char *path)
{
	void *opened;
	int ret = flash_target_device.open(path, &opened);

	if (ret)
		return ret;
	ret = flash_load_fill(&flash_target_device, opened, 1);
	flash_target_device.close(opened);
	return ret;
}

int flash_file_make(struct flash_file *file, uint64_t bytes)
{
	int ret = make_folder(file);

	if (ret)
		return ret;
	ret = flash_device_create_file(file->path, bytes);
	ret = ret ? bench_fail(ret, "%s", error_last_line()) : write_once(file->path);
	if (ret)
		flash_file_remove(file);
	return ret;
}

int flash_file_make_sparse(struct flash_file *file, uint64_t bytes)
{
	int ret = make_folder(file);
	int fd = ret ? -1 : open(file->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (ret)
		return ret;
	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		ret = bench_fail(-errno, "create %s: %s", file->path, strerror(errno));
	if (fd >= 0)
		close(fd);
	if (ret)
		flash_file_remove(file);
	return ret;
}

void flash_file_remove(struct flash_file *file)
{
	if (!file->folder[0])
		return;
	unlink(file->path);
	rmdir(file->folder);
	file->folder[0] = '\0';
}
