/* SPDX-License-Identifier: BSD-3-Clause */
/* See device.h. Called by main() when it has mounted. Owns the socket, which is abstract: no file is left of it,
 * and the process's end closes it. */
#include "device.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define WAITING_MAX   16
#define READ_AHEAD_KB "1024\n"

/* Turns the \NNN that the kernel writes for blanks into bytes, in place. */
static void unescape(char *text)
{
	unsigned byte;
	char *to = text;

	for (; *text; text++) {
		if (*text == '\\' && sscanf(text + 1, "%3o", &byte) == 1) {
			*to++ = (char)byte;
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

/* Finds the device of what was mounted there last, without asking the mount, which nobody serves yet. */
static bool find_device(const char *place, unsigned *major, unsigned *minor)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	char *line = NULL, at[PATH_MAX];
	bool is_found = false;
	unsigned device[2];
	size_t size = 0;

	while (mounts && getline(&line, &size, mounts) > 0) {
		if (sscanf(line, "%*d %*d %u:%u %*s %4095s", &device[0], &device[1], at) != 3)
			continue;
		unescape(at);
		if (strcmp(at, place) != 0)
			continue;
		*major = device[0];
		*minor = device[1];
		is_found = true;
	}
	free(line);
	if (mounts)
		fclose(mounts);
	return is_found;
}

void device_listen(const char *place)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	unsigned major, minor;
	int fd, length;

	if (!find_device(place, &major, &minor))
		return;
	length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "afar-mount/%u:%u",
			  major, minor);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (bind(fd, (const struct sockaddr *)&address,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) ||
	    listen(fd, WAITING_MAX))
		close(fd);
}

void device_read_ahead(const char *place)
{
	char path[64];
	unsigned major, minor;
	ssize_t written;
	int fd;

	if (!find_device(place, &major, &minor))
		return;
	snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb", major, minor);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	written = write(fd, READ_AHEAD_KB, strlen(READ_AHEAD_KB));
	(void)written;
	close(fd);
}
