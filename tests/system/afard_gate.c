/* SPDX-License-Identifier: BSD-3-Clause */
/* Linked into an afard of tests: flushes of its devices fail once there is a file with the name that
 * AFARD_FAIL_FLUSHES has. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/flash_gate.h"

static void look(void *path)
{
	if (access(path, F_OK) == 0)
		flash_gate_fail(FLASH_IO_FLUSH, -EIO);
}

__attribute__((constructor)) static void begin(void)
{
	char *path = getenv("AFARD_FAIL_FLUSHES");

	if (path)
		flash_gate_watch(look, path);
}
