/* SPDX-License-Identifier: BSD-3-Clause */
/* A trigger of the kernel's and the thread that waits for it. Owns both. */
#include "server/stores/pressure.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"

#define PSI "/proc/pressure/memory"
/* Some program waited for 0.2 of 2 s. Programs without privileges may ask for windows of 2 s alone. */
#define TRIGGER "some 200000 2000000"

struct pressure {
	int psi_fd, end_fd;
	pthread_t thread;
	void (*pressed)(void *context);
	void *context;
};

static void *run(void *argument)
{
	const struct pressure *pressure = argument;
	struct pollfd watched[] = {{.fd = pressure->psi_fd, .events = POLLPRI},
				   {.fd = pressure->end_fd, .events = POLLIN}};

	while (watched[1].revents == 0) {
		if (poll(watched, 2, -1) < 0)
			continue;
		if (watched[0].revents & POLLERR)
			watched[0].fd = -1; /* the kernel tells no more */
		else if (watched[0].revents & POLLPRI)
			pressure->pressed(pressure->context);
	}
	return NULL;
}

static int open_trigger(void)
{
	int fd = open(PSI, O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || write(fd, TRIGGER, sizeof(TRIGGER)) == sizeof(TRIGGER))
		return fd;
	close(fd);
	return -1;
}

/* Signals are for others. */
static int start_thread(struct pressure *pressure)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&pressure->thread, NULL, run, pressure);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -ret;
}

int pressure_watch(void (*pressed)(void *context), void *context, struct pressure **out)
{
	struct pressure *pressure;
	const int fd = open_trigger();
	int ret;

	*out = NULL;
	if (fd < 0)
		return 0;
	pressure = calloc(1, sizeof(*pressure));
	if (!pressure) {
		close(fd);
		return error_code(-ENOMEM);
	}
	*pressure = (struct pressure){.psi_fd = fd, .pressed = pressed, .context = context};
	pressure->end_fd = eventfd(0, EFD_CLOEXEC);
	ret = pressure->end_fd < 0 ? -errno : start_thread(pressure);
	if (ret == 0) {
		*out = pressure;
		return 0;
	}
	if (pressure->end_fd >= 0)
		close(pressure->end_fd);
	close(fd);
	free(pressure);
	return error_fail(ret, "watch for the machine's lack of memory: %s", strerror(-ret));
}

void pressure_end(struct pressure *pressure)
{
	if (!pressure)
		return;
	eventfd_write(pressure->end_fd, 1);
	pthread_join(pressure->thread, NULL);
	close(pressure->end_fd);
	close(pressure->psi_fd);
	free(pressure);
}
