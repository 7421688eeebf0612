/* SPDX-License-Identifier: BSD-3-Clause */
/* Linked into an afard of tests: flushes of its devices fail once there is a file with the name that
 * AFARD_FAIL_FLUSHES has. A file of that name with ".reads" or ".writes" has an errno, with which these fail: 0 is none. Looks at
 * each write, flush and discard. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/flash_gate.h"

static void fail_as(const char *path, const char *kind, enum flash_io_opcode opcode)
{
	char name[PATH_MAX];
	int error;
	FILE *file;

	snprintf(name, sizeof(name), "%s.%s", path, kind);
	file = fopen(name, "re");
	if (!file)
		return;
	if (fscanf(file, "%d", &error) == 1)
		flash_gate_fail(opcode, -error);
	fclose(file);
}

static void look(void *path)
{
	if (access(path, F_OK) == 0)
		flash_gate_fail(FLASH_IO_FLUSH, -EIO);
	fail_as(path, "reads", FLASH_IO_READ);
	fail_as(path, "writes", FLASH_IO_WRITE);
}

__attribute__((constructor)) static void begin(void)
{
	char *path = getenv("AFARD_FAIL_FLUSHES");

	if (path)
		flash_gate_watch(look, path);
}
