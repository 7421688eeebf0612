/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See device.h. Called by main() when it has mounted. Owns the socket, which is abstract: no file is left of it. A thread
 * takes connections and keeps them open until the process ends. It gives the socket's name up once the kernel has ended
 * the mount. The next mount may get the same device number while this process still syncs.
 */
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/mount_name.h"
#include "say.h"

#define WAITING_MAX   16
#define NAME_WAIT_MS  2000 /* for another process that has just lost the device */
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

/* ---- Who waits for the end of this process */

static struct {
	pthread_t thread;
	int listener;
	int connection; /* /dev/fuse; it has an error when the kernel has ended the mount */
	int stop;	/* an eventfd: device_leave() was called */
	int waiting[WAITING_MAX];
	unsigned nr_waiting;
} ends = {.stop = -1};

/* Forgets those who do not wait any more. */
static void drop_closed(void)
{
	for (unsigned i = 0; i < ends.nr_waiting;) {
		struct pollfd waiting = {.fd = ends.waiting[i], .events = POLLIN};

		if (poll(&waiting, 1, 0) > 0) {
			close(ends.waiting[i]);
			ends.waiting[i] = ends.waiting[--ends.nr_waiting];
		} else {
			i++;
		}
	}
}

static bool may_wait(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
	       (peer.uid == 0 || peer.uid == getuid());
}

static void take_connections(void)
{
	int fd;

	drop_closed();
	while ((fd = accept4(ends.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		if (ends.nr_waiting < WAITING_MAX && may_wait(fd))
			ends.waiting[ends.nr_waiting++] = fd;
		else
			close(fd);
	}
}

static void *watch(void *unused)
{
	struct pollfd events[] = {{.fd = ends.listener, .events = POLLIN},
				  {.fd = ends.connection},
				  {.fd = ends.stop, .events = POLLIN}};

	(void)unused;
	do {
		poll(events, sizeof(events) / sizeof(events[0]), -1);
		take_connections();
	} while (!events[1].revents && !events[2].revents);
	close(ends.listener);
	return NULL;
}

/* Binds to the name of the device and the place. Another process may have it for a moment longer than the device. */
static int bind_to(int fd, const char *place, unsigned major, unsigned minor)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	struct sockaddr_un address;
	const socklen_t length = mount_name(&address, major, minor, place);
	int ret;

	for (unsigned waited_ms = 0;; waited_ms += 10) {
		ret = bind(fd, (const struct sockaddr *)&address, length) ? -errno : 0;
		if (ret != -EADDRINUSE || waited_ms >= NAME_WAIT_MS)
			return ret;
		nanosleep(&pause, NULL);
	}
}

/* Signals are the main thread's matter. */
static int start_watching(void)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = -pthread_create(&ends.thread, NULL, watch, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return ret;
}

void device_listen(const char *place, int connection)
{
	unsigned major, minor;
	int ret = -ENODEV;

	ends.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	ends.stop = eventfd(0, EFD_CLOEXEC);
	ends.connection = connection;
	if (ends.listener < 0 || ends.stop < 0)
		ret = -errno;
	else if (find_device(place, &major, &minor))
		ret = bind_to(ends.listener, place, major, minor);
	if (!ret && listen(ends.listener, WAITING_MAX))
		ret = -errno;
	ret = ret ? ret : start_watching();
	if (!ret)
		return;
	if (ends.listener >= 0)
		close(ends.listener);
	if (ends.stop >= 0)
		close(ends.stop);
	ends.stop = -1;
	say_note("'afar umount %s' will not wait until all is synced: %s", place,
		 ret == -EADDRINUSE ? "another process has the name of its device"
				    : strerror(-ret));
}

void device_leave(void)
{
	if (ends.stop < 0)
		return;
	eventfd_write(ends.stop, 1);
	pthread_join(ends.thread, NULL);
	close(ends.stop);
	ends.stop = -1;
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
