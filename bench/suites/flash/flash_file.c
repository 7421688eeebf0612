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
#include "flash/device/file.h"

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

int flash_file_make(struct flash_file *file, uint64_t bytes)
{
	int ret = make_folder(file);

	if (ret)
		return ret;
	ret = flash_file_create(file->path, bytes, NULL);
	if (!ret)
		return 0;
	flash_file_remove(file);
	return bench_fail(ret, "%s", error_last_line());
}

int flash_file_make_sparse(struct flash_file *file, uint64_t bytes)
{
	const struct flash_file_options options = {.is_sparse = true};
	int ret = make_folder(file);

	if (ret)
		return ret;
	ret = flash_file_create(file->path, bytes, &options);
	if (!ret)
		return 0;
	flash_file_remove(file);
	return bench_fail(ret, "%s", error_last_line());
}

void flash_file_remove(struct flash_file *file)
{
	if (!file->folder[0])
		return;
	unlink(file->path);
	rmdir(file->folder);
	file->folder[0] = '\0';
}
