/* SPDX-License-Identifier: BSD-3-Clause */
/* The file that suite `flash` measures on, in /var/tmp or where AFAR_BENCH_FLASH says: on the storage in question. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "flash.h"
#include "flash/uring.h"

#define FOLDER "/var/tmp"

int flash_file_make(struct flash_file *file)
{
	const char *named = getenv("AFAR_BENCH_FLASH");
	int length = snprintf(file->folder, sizeof(file->folder), "%s/afar-bench-flash-XXXXXX",
			      named ? named : FOLDER);
	int status;

	if (length >= (int)sizeof(file->folder) || !mkdtemp(file->folder)) {
		status = bench_fail(-errno, "a folder in %s: %s", named ? named : FOLDER,
				    strerror(errno));
		file->folder[0] = '\0';
		return status;
	}
	snprintf(file->path, sizeof(file->path), "%s/device", file->folder);
	status = flash_device_create_file(file->path, FLASH_FILE_BYTES);
	if (!status)
		return 0;
	flash_file_remove(file);
	return bench_fail(status, "%s", error_last_line());
}

void flash_file_remove(struct flash_file *file)
{
	if (!file->folder[0])
		return;
	unlink(file->path);
	rmdir(file->folder);
	file->folder[0] = '\0';
}
