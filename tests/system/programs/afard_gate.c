/* SPDX-License-Identifier: BSD-3-Clause */
/* Linked into an afard of tests: flushes of its devices fail once there is a file with the name that
 * AFARD_FAIL_FLUSHES has. A file of that name with ".reads" or ".writes" has an errno, with which these fail: 0 is none. Looks
 * before each operation, and at the start. While there is one with ".held", no operation ends. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "lib/server/flash_gate.h"

#define PAUSE_NS 20000000

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

/* Operations wait where nobody submits any, so somebody has to look. */
static void *hold(void *path)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s.held", (const char *)path);
	for (bool is_held = false;; nanosleep(&pause, NULL)) {
		if (is_held == (access(name, F_OK) == 0))
			continue;
		is_held = !is_held;
		for (int opcode = FLASH_IO_READ; opcode <= FLASH_IO_FLUSH && is_held; opcode++)
			flash_gate_hold((enum flash_io_opcode)opcode);
		if (!is_held)
			flash_gate_release();
	}
	return NULL;
}

__attribute__((constructor)) static void begin(void)
{
	char *path = getenv("AFARD_FAIL_FLUSHES");
	pthread_t thread;

	if (!path)
		return;
	look(path);
	flash_gate_watch_all(look, path);
	if (pthread_create(&thread, NULL, hold, path) == 0)
		pthread_detach(thread);
}
